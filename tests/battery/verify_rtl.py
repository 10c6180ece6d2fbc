#!/usr/bin/env python3
"""Compiles nets of the battery for one card and simulates their hardware: verify_rtl.py [--every N] [--frames N] [--build DIR] [NAME]...

Without names it takes every tenth net, with names the nets whose names begin so. For each net it runs `millrace compile` and
`millrace verify --fidelity rtl`, which compares every output byte with kernels/reference, and prints what happened. Nets that
exceptions.csv lists as refused are left out; layers without a hardware module are reported, not counted as failures.
Needs verilator, g++, NumPy and ONNX Runtime (tools/setup test). Exit code 1: a simulation failed.
"""

import argparse
import csv
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def run(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True)


def line_of(text, word=""):
    """The last line of a text that contains the word."""
    lines = [line for line in text.splitlines() if word in line]
    return lines[-1] if lines else ""


def verify(millrace, net, directory, frames):
    """Returns what happened to a net: "equal", "not compiled", "no hardware" or "failed", with a line that explains it."""
    deployment = directory / "deployment" / net.stem
    compiled = run(millrace, "compile", net, "--cluster", ROOT / "configs/clusters/one-u280.yaml", "-o", deployment)
    if compiled.returncode != 0:
        return "not compiled", line_of(compiled.stderr, "error:")
    verified = run(millrace, "verify", deployment, "--fidelity", "rtl", "--frames", frames, "--stall", "0.2")
    if verified.returncode == 0:
        return "equal", line_of(verified.stdout, "differ")
    why = line_of(verified.stderr, "error:") or line_of(verified.stdout, "differ")
    return ("no hardware" if "SystemVerilog" in why else "failed"), why


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--frames", type=int, default=2)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    with open(HERE / "exceptions.csv", encoding="utf-8") as file:
        refused = {row["net"] for row in csv.DictReader(file) if row["outcome"] == "refused"}
    counts = {}
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        made = run(sys.executable, "-B", HERE / "make_nets.py", directory, *options.names)
        if made.returncode != 0:
            sys.exit(made.stderr)
        names = [line.split(",")[0] for line in (directory / "nets.csv").read_text().splitlines()]
        names = [name for name in names if name not in refused]
        for name in names if options.names else names[:: options.every]:
            what, why = verify(options.build / "bin" / "millrace", directory / f"{name}.onnx", directory, options.frames)
            counts[what] = counts.get(what, 0) + 1
            print(f"{name}: {what}: {why}", flush=True)
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    sys.exit(1 if counts.get("failed") else 0)


if __name__ == "__main__":
    main()
