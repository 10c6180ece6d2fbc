"""Builds the wheel of millrace_client for pip (PEP 517) from pyproject.toml.

setuptools would write into this folder, which in an installed prefix is read-only, and a machine without
a network may lack setuptools.
"""

import base64
import hashlib
import pathlib
import re
import tomllib
import zipfile

_HERE = pathlib.Path(__file__).resolve().parent


class UnsupportedOperation(Exception):
    pass


def build_sdist(sdist_directory, config_settings=None):
    raise UnsupportedOperation("only wheels are built; the sources are in Millrace's repository")


def _digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _version():
    """The version of Millrace, read from a file of its own in an installed prefix, or from CMakeLists.txt in a checkout."""
    installed = _HERE / "version.txt"
    if installed.exists():
        return installed.read_text(encoding="utf-8").strip()
    project = (_HERE.parents[2] / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(millrace VERSION ([0-9.]+)", project).group(1)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    project = tomllib.loads((_HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name = project["name"].replace("-", "_")
    version = _version()
    info = f"{name}-{version}.dist-info"
    files = {
        path.relative_to(_HERE).as_posix(): path.read_bytes()
        for path in sorted((_HERE / name).iterdir())
        if path.suffix == ".py" or path.name == "py.typed"
    }
    files[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}\n"
        f"Summary: {project['description']}\nRequires-Python: {project['requires-python']}\n"
    ).encode()
    files[
        f"{info}/WHEEL"
    ] = b"Wheel-Version: 1.0\nGenerator: millrace\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    scripts = "".join(f"{command} = {target}\n" for command, target in project["scripts"].items())
    files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{scripts}".encode()
    record = "".join(f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel = f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / wheel, "w") as archive:
        for path, data in files.items():
            # Use a fixed date, so that the same sources give the same wheel.
            archive.writestr(zipfile.ZipInfo(path), data, zipfile.ZIP_DEFLATED)
    return wheel
