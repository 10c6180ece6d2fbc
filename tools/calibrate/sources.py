"""Computes digests of SystemVerilog files, as tools/calibrate/digests.hpp does. The committed measurements contain these digests."""
import functools
import hashlib
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def without_comments(text):
    lines = (line.split("//")[0].rstrip(" \t\r") for line in text.split("\n"))
    return "".join(line + "\n" for line in lines if line)


@functools.cache
def library():
    """A map from file name to text without comments."""
    found = {}
    for folder in ("rtl/stream", "rtl/nn", "rtl/shell", "rtl/link", "tb/assemblies"):
        base = os.path.join(ROOT, "kernels", folder)
        for name in os.listdir(base):
            if name.endswith(".sv"):
                with open(os.path.join(base, name)) as file:
                    found[name] = without_comments(file.read())
    return found


def digest_of_text(text):
    return hashlib.sha256(without_comments(text).encode()).hexdigest()[:8]


@functools.cache
def digest_of(module):
    """The digest of the module and all modules below it; None if the library does not have the module."""
    found, open_ = {}, [module]
    while open_:
        name = open_.pop() + ".sv"
        if name in found:
            continue
        if name not in library():
            return None
        found[name] = library()[name]
        open_ += [word for word in re.findall(r"mr_\w*", found[name]) if word + ".sv" in library() and word != "mr_handshake_check"]
    digest = hashlib.sha256()
    for name in sorted(found):
        digest.update(f"{name}\n{found[name]}".encode())
    return digest.hexdigest()[:8]
