#!/usr/bin/env python3
"""Synthesises whole designs of known nets and writes what their instances take: tests/golden/synthesis.csv, which
test_synthesis compares with the cost model.

  tools/calibrate/designs.py [--millrace PROGRAM] [--models FOLDER] [--jobs N] [--work FOLDER] [--only DESIGN,…]

Each net is compiled for one card at three budgets, which gives three foldings: a KU060 cut down to N DSP slices, 90 N + 2,500
LUTs and twice as many flip-flops (beside its shell). With them, shell and links included:
  ptt_512       PTTDNN as compile makes it for a whole KU060, the fastest that fits
  ptt_1046      PTTDNN for at most 1,046 cycles a frame: the `pttdnn` row of that interval in tests/rtl/nets.json
  lenet5_cards  LeNet-5 over three KU060 in a chain: every kind of link port
Needs yosys; about an hour of one core where the cache ($MILLRACE_CACHE) is empty. Results already in --work are taken as they are, and
with --only rows of other designs stay as they are. Exit code 0: written; 1: a design could not be made; 2: usage.
"""
import argparse
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGET = os.path.join(ROOT, "tests", "golden", "synthesis.csv")
NETS = [("tfc", "tfc_mnist/tfc", (24, 64, 150)), ("lenet5", "lenet5_mnist/lenet5", (64, 100, 150)),
        ("ptt", "pttdnn_cifar10/ptt", (64, 100, 150)), ("mpcnn", "mpcnn_gestures/mpcnn", (150, 175, 200))]
WHOLE = [("ptt_512", "pttdnn_cifar10/ptt", "one-ku060", []),
         ("ptt_1046", "pttdnn_cifar10/ptt", "one-ku060", ["--max-utilisation", "dsp=0.37", "--max-utilisation", "lut=0.19"]),
         ("lenet5_cards", "lenet5_mnist/lenet5", "three-ku060", ["--partitions", "3"])]
COUNTS = ["lut", "lutram", "ff", "dsp", "ramb18", "ramb36", "uram"]


def cut_down(work, dsp):
    """A cluster of one KU060 with so many DSP slices left; the file."""
    text = open(os.path.join(ROOT, "configs", "devices", "ku060.yaml")).read()
    shell = {key: int(value) for key, value in re.findall(r"(\w+): (\d+)", re.search(r"^shell: \{(.*)\}", text, re.M)[1])}
    lut = 90 * dsp + 2500
    resources = f"resources: {{lut: {lut + shell['lut']}, lutram: 56160, ff: {2 * lut + shell['ff']}, dsp: {dsp + shell['dsp']}, bram36: 160}}"
    folder = os.path.join(work, "configs")
    for part in ("devices", "clusters"):
        os.makedirs(os.path.join(folder, part), exist_ok=True)
    with open(os.path.join(folder, "devices", f"d{dsp}.yaml"), "w") as out:
        out.write(re.sub(r"^resources: .*$", resources, text, flags=re.M))
    cluster = os.path.join(folder, "clusters", f"one-d{dsp}.yaml")
    with open(cluster, "w") as out:
        out.write(f"schema: 1\nemulated: true\ncards:\n  - {{name: fpga0, device: d{dsp}}}\n")
    return cluster


def synthesise(options, design, model, cluster, told):
    """What `millrace synth --json` says of the model on this cluster."""
    result = os.path.join(options.work, f"{design}.json")
    if not os.path.exists(result):
        deployment = os.path.join(options.work, design)
        subprocess.run([options.millrace, "compile", model, "--cluster", cluster, "-o", deployment, "--quiet"] + told,
                       check=True, stdout=subprocess.DEVNULL)
        done = subprocess.run([options.millrace, "synth", deployment, "--jobs", str(options.jobs), "--json"], check=True,
                              stdout=subprocess.PIPE, text=True)
        with open(result + ".new", "w") as out:
            out.write(done.stdout)
        os.replace(result + ".new", result)
    return json.load(open(result))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default=os.path.join(ROOT, "build", "release", "bin", "millrace"))
    parser.add_argument("--models", default=os.environ.get("MILLRACE_MODELS", os.path.join(ROOT, "..", "shared", "models")))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "designs"))
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    clusters = os.path.join(ROOT, "configs", "clusters")
    designs = [(f"{name}_{dsp}", path, cut_down(options.work, dsp), [], False) for name, path, budgets in NETS for dsp in budgets]
    designs += [(name, path, os.path.join(clusters, cluster + ".yaml"), told, True) for name, path, cluster, told in WHOLE]
    only = options.only.split(",") if options.only else [design[0] for design in designs]
    for name in only:
        if name not in [design[0] for design in designs]:
            parser.error(f"'{name}' is unknown; known: {', '.join(design[0] for design in designs)}")
    kept, tool = {}, ""
    if os.path.exists(TARGET):
        for line in open(TARGET).read().splitlines()[2:]:
            kept.setdefault(line.split(",")[0], []).append(line)
    for name, path, cluster, told, shell in designs:
        if name not in only:
            continue
        print(name, file=sys.stderr)
        try:
            report = synthesise(options, name, os.path.join(options.models, path + "_qdq_s8_pow2.onnx"), cluster, told)
        except subprocess.CalledProcessError as failure:
            print(f"designs.py: {name}: {failure}", file=sys.stderr)
            return 1
        tool = report["tool"]
        kept[name] = []
        for partition in report["partitions"]:
            for instance in partition["instances"]:
                if instance["shell"] and not shell:
                    continue
                parameters = " ".join(f"{key}={value}" for key, value in instance["parameters"].items())
                counts = ",".join(str(instance["measured"][count]) for count in COUNTS)
                of = f"{partition['partition']}." if len(report["partitions"]) > 1 else ""
                kept[name].append(f"{name},{'shell' if instance['shell'] else 'dataflow'},{of}{instance['name']},{instance['module']},"
                                  f"{parameters},{counts}")
    with open(TARGET + ".new", "w") as out:
        out.write(f"# {tool}; written by tools/calibrate/designs.py\n")
        out.write("design,part,instance,module,parameters," + ",".join(COUNTS) + "\n")
        out.writelines(line + "\n" for design in designs for line in kept.get(design[0], []))
    os.replace(TARGET + ".new", TARGET)
    return 0


if __name__ == "__main__":
    sys.exit(main())
