#!/usr/bin/env python3
"""Prints the tests that `tools/test quick` runs, one per line: the tests that the last build changed.

    quick_tests.py BUILD_FOLDER SINCE

SINCE is a file; every file that is newer counts as changed. A test is changed if its own program is newer. A test that starts
`millrace` or an emulated card is also changed if one of those is newer. Tests whose own program is newer come first, and among
equals the shortest, until the tests fill 90 seconds on two cores. Standard error says how many tests are left out.
"""

import json
import os
import pathlib
import subprocess
import sys

BUDGET = 2 * 90.0  # seconds, summed over two cores


def main():
    build, since = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    last = since.stat().st_mtime if since.exists() else 0.0
    costs = build / "Testing/Temporary/CTestCostData.txt"
    seconds = {}
    for line in costs.read_text().splitlines() if costs.exists() else []:
        words = line.split()
        if len(words) == 3:
            seconds[words[0]] = float(words[2])

    def is_newer(file):
        return os.path.isfile(file) and os.path.getmtime(file) > last

    programs = any(is_newer(build / "bin" / name) for name in ("millrace", "millrace-card"))
    listed = subprocess.run(
        ["ctest", "--test-dir", build, "--show-only=json-v1", "-LE", "bench"], check=True, capture_output=True, text=True
    )
    changed = []
    for test in json.loads(listed.stdout)["tests"]:
        labels = next((p["value"] for p in test["properties"] if p["name"] == "LABELS"), [])
        own = any(is_newer(word) for word in test.get("command", [])[:1])
        if own or (programs and "integration" in labels):
            changed.append((not own, seconds.get(test["name"], 0.0), test["name"]))
    total = 0.0
    left = 0
    for _, cost, name in sorted(changed):
        if total + cost > BUDGET:
            left += 1
            continue
        total += cost
        print(name)
    if left:
        print(f"tools/test: {left} more tests may be affected by the change but would take too long here: run tools/test for them", file=sys.stderr)


main()
