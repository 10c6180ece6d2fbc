#!/usr/bin/env python3
"""Writes kernels/cycles.csv: the cycles that Verilator measured for each module of the hardware library. The timing model must predict them exactly.

  tools/calibrate/cycles.py [--report FILE] [MODULE...]

Runs `tools/rtl-sweep --steps sim` over these modules, by default those of the file; this takes some minutes. With --report, reads an earlier report
from FILE instead, for example kernels/tb/full_sweep.txt, if the SystemVerilog has not changed since. Rows of other modules stay.
Exit code 0: written; 1: a row is missing or its bench failed; 2: wrong usage.
"""
import argparse
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
import sources  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGET = os.path.join(ROOT, "kernels", "cycles.csv")


def table_of(module):
    """Reads the configurations in the module's .rows file: a map from each row's name to parameters in the form NAME=value."""
    for folder in ("stream", "nn", "shell"):
        path = os.path.join(ROOT, "kernels", "rtl", folder, module + ".rows")
        if os.path.exists(path):
            break
    else:
        sys.exit(f"cycles.py: '{module}' has no table in kernels/rtl")
    lines = open(path).read().splitlines()
    names = lines[0].split()[3:]
    rows = {}
    for line in lines[1:]:
        words = line.split()
        if words and not line.startswith("#"):
            rows[words[0]] = " ".join(f"{n}={v}" for n, v in zip(names, words[2:], strict=True))
    return rows


def measured(report):
    """Reads the report of the modules' benches: a map from (module, row) to (latency, interval) in cycles."""
    found, module = {}, None
    for line in report.splitlines():
        if start := re.match(r"(mr_\w+): seed ", line):
            module = start[1]
        elif row := re.match(r"\s\s(\w+)\s+ok: .* latency (-?\d+), interval (\d+)$", line):
            found.setdefault(module, {})[row[1]] = (int(row[2]), int(row[3]))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report")
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    options = parser.parse_args()
    kept = {}
    if os.path.exists(TARGET):
        for line in open(TARGET).read().splitlines()[2:]:
            kept.setdefault(line.split(",")[0], []).append(line)
    modules = options.modules or list(kept)
    if options.report:
        report = open(options.report).read()
    else:
        done = subprocess.run([os.path.join(ROOT, "tools", "rtl-sweep"), "--steps", "sim"] + modules, stdout=subprocess.PIPE, text=True)
        report = done.stdout
    found = measured(report)
    for module in modules:
        kept[module] = []
        for name, parameters in table_of(module).items():
            if name not in found.get(module, {}):
                print(f"cycles.py: {module}: the report has no result for row '{name}'", file=sys.stderr)
                return 1
            latency, interval = found[module][name]
            kept[module].append(f"{module},{name},{parameters},{sources.digest_of(module)},{latency},{interval}")
    tool = subprocess.run(["verilator", "--version"], stdout=subprocess.PIPE, text=True).stdout.split()
    with open(TARGET + ".new", "w") as out:
        out.write(f"# {' '.join(tool[:2])}; written by tools/calibrate/cycles.py\nmodule,row,parameters,sources,latency,interval\n")
        out.writelines(line + "\n" for module in sorted(kept) for line in kept[module])
    os.replace(TARGET + ".new", TARGET)
    return 0


if __name__ == "__main__":
    sys.exit(main())
