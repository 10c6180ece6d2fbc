#!/usr/bin/env python3
"""Checks those rules of CONTRIBUTING.md about the form of the code that no compiler checks. Prints each violation as file:line: message.

A function has at most 80 lines. A file has at most 500 lines, or a comment with "500 lines" at its top that says why it has more. No comment is
a banner. A test's name is a statement in CamelCase. The namespace of a test file ends with the file's name, because test files are compiled
together. Tests wait for conditions instead of sleeping, or say on the sleep's line why they sleep.
"""

import re
import subprocess
import sys

FUNCTION, FILE = 80, 500
BANNER = re.compile(r"//\s*[-=*#─]{4,}|//.*[-=─]{8,}\s*$")
TEST = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\((\w+), *$|^(?:TYPED_)?TEST(?:_F|_P)?\((\w+), *(\w+)")


def functions(lines):
    """Yields (first line, number of lines) of each function that begins at the left margin."""
    start = None
    for number, line in enumerate(lines, 1):
        line = re.sub(r"\s+//.*", "", line)
        if start is None and re.match(r"[A-Za-z_~].*[^;]$", line) and not re.match(r"(namespace|class|struct|enum|union|extern|using|template|#)|.*= {$", line):
            start = number
        elif line == "}" and start is not None:
            yield start, number - start + 1
            start = None
        elif line == "" or line.endswith(";") and not line.startswith(" "):
            if start is not None and number - start < 3:
                start = None


def findings(path, text):
    lines = text.split("\n")
    is_test = path.startswith("tests/")
    top = [line for line in lines[:12] if line.startswith("//")]
    if len(lines) - 1 > FILE and not any("500 lines" in line for line in top):
        yield 1, f"{len(lines) - 1} lines; a file above 500 lines needs a comment at the top that says why"
    for number, line in enumerate(lines, 1):
        if BANNER.search(line):
            yield number, "a banner"
        if is_test and "sleep_for" in line and "//" not in line and not path.startswith(("tests/bench", "tests/support/wait.hpp")):
            yield number, "a sleep: wait for a condition (tests/support/wait.hpp), or say on this line why the test must pause"
        test = TEST.match(line)
        name = test and test.group(3)
        if name and ("_" in name or not name[0].isupper()):
            yield number, f"test name '{name}' is not a statement in CamelCase"
    stem = path.split("/")[-1].removesuffix(".cpp")
    if is_test and any(TEST.match(line) for line in lines) and stem.startswith("test_"):
        if not any(re.match(r"namespace millrace(::\w+)*::" + stem + " {$", line) for line in lines):
            yield 1, f"the tests are in no namespace '…::{stem}'; other test files are compiled together with this one (tests/README.md)"
    for number, length in functions(lines):
        if length > FUNCTION and not is_test:
            yield number, f"a function of {length} lines"


def main():
    listed = subprocess.run(["git", "ls-files", "*.cpp", "*.hpp", "*.sv"], check=True, capture_output=True, text=True).stdout
    found = 0
    for path in listed.split():
        with open(path, encoding="utf-8") as file:
            for number, what in findings(path, file.read()):
                print(f"{path}:{number}: {what}")
                found += 1
    sys.exit(1 if found else 0)


main()
