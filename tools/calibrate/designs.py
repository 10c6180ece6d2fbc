#!/usr/bin/env python3
"""Synthesises whole designs of known nets and writes the resources of their instances to tests/golden/synthesis.csv, which
test_synthesis compares with the cost model.

  tools/calibrate/designs.py [--millrace PROGRAM] [--models FOLDER] [--jobs N] [--work FOLDER] [--only DESIGN,…] [--check] [--mark]

Each net is compiled for one card at three budgets, which give three foldings; tests/rtl/nets.json has their simulations. The card is a KU060 cut down to
N DSP slices, 90 N + 2,500 LUTs and twice as many flip-flops, beside its shell. These designs are added, with their shells and links:
  jet_1, tfc_32, lenet5_392, mpcnn_1033, ptt_512
                the fastest designs that compile makes for a whole KU060: the rows of interval 0 in tests/rtl/nets.json
  ptt_1046      PTTDNN for at most 1,046 cycles per frame: the `pttdnn` row of that interval in tests/rtl/nets.json
  lenet5_cards  LeNet-5 over three KU060 in a chain, which has every kind of link port
Needs yosys. If the cache ($MILLRACE_CACHE) is empty, a run takes about an hour on one core. Results that are already in --work are used again.
With --only, rows of other designs stay. --check writes nothing: it compiles the nets again, without Yosys and in a minute or two, and names the
designs whose rows have other instances or other SystemVerilog.
The column `fitted` is "yes" if kernels/catalog.csv has the same instance. The cost model was fitted to such an instance, so test_synthesis leaves the row out
of its errors. --mark rewrites this column and measures nothing. Exit code 0: written, or nothing is stale; 1: a design could not be made, or is stale;
2: wrong usage.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import sources  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGET = os.path.join(ROOT, "tests", "golden", "synthesis.csv")
MODELS = {"jet": "jet_hls4ml_16_64_32_32_5/jet_int8_qdq.onnx", "tfc": "tfc_mnist/tfc_qdq_s8_pow2.onnx",
          "lenet5": "lenet5_mnist/lenet5_qdq_s8_pow2.onnx", "ptt": "pttdnn_cifar10/ptt_qdq_s8_pow2.onnx",
          "mpcnn": "mpcnn_gestures/mpcnn_qdq_s8_pow2.onnx"}
NETS = [("tfc", (24, 64, 150)), ("lenet5", (64, 100, 150)), ("ptt", (64, 100, 150)), ("mpcnn", (150, 175, 200))]
WHOLE = [("jet_1", "one-ku060", []), ("tfc_32", "one-ku060", []), ("lenet5_392", "one-ku060", []), ("mpcnn_1033", "one-ku060", []), ("ptt_512", "one-ku060", []),
         ("ptt_1046", "one-ku060", ["--max-utilisation", "dsp=0.37", "--max-utilisation", "lut=0.19"]),
         ("lenet5_cards", "three-ku060", ["--partitions", "3"])]
COLUMNS = ["design", "part", "instance", "module", "parameters", "sources", "fitted"]
CATALOG = os.path.join(ROOT, "kernels", "catalog.csv")
COUNTS = ["lut", "lutram", "ff", "dsp", "ramb18", "ramb36", "uram"]


def cut_down(work, dsp):
    """Writes a cluster of one KU060 with this number of DSP slices, and returns the file."""
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


def compiled(options, deployment, model, cluster, told):
    subprocess.run([options.millrace, "compile", model, "--cluster", cluster, "-o", deployment, "--quiet"] + told,
                   check=True, stdout=subprocess.DEVNULL)
    return deployment


def text_of(parameters):
    return " ".join(f"{key}={value}" for key, value in parameters.items())


def problems(deployment, kept):
    """Compares the rows of a design with its SystemVerilog as it is today. Returns the differences: modules that have another digest, and instances that only the rows or only today's design have."""
    rows = [line.split(",") for line in kept]
    found = sorted({f"{row[3]} is other SystemVerilog" for row in rows if row[5] != source_of(row[3])})
    partitions = sorted(os.listdir(os.path.join(deployment, "rtl")))
    now = set()
    for partition in partitions:
        design = json.load(open(os.path.join(deployment, "rtl", partition, "design.json")))
        of = f"{design['partition']}." if len(partitions) > 1 else ""
        now |= {(of + i["name"], i["module"], " ".join(sorted(text_of(i["parameters"]).split()))) for i in design["instances"]}
    of_dataflow = [row for row in rows if row[1] == "dataflow"]
    then = {(row[2], row[3], " ".join(sorted(row[4].split()))) for row in of_dataflow}
    if now != then:
        names = sorted({name for name, _, _ in now ^ then})
        found.append("other instances: " + " ".join(names[:6]) + (" …" if len(names) > 6 else ""))
    return found


def synthesise(options, design, model, cluster, told):
    """Returns the output of `millrace synth --json` for the model on this cluster."""
    result = os.path.join(options.work, f"{design}.json")
    if not os.path.exists(result):
        deployment = compiled(options, os.path.join(options.work, design), model, cluster, told)
        done = subprocess.run([options.millrace, "synth", deployment, "--jobs", str(options.jobs), "--json"], stdout=subprocess.PIPE, text=True)
        # Exit code 1 with a report is accepted: it means that the design needs more than the device has. A shell with wide ports hardly fits into a cut-down KU060, and only the
        # figures matter here.
        if done.returncode != 0 and not (done.returncode == 1 and done.stdout):
            done.check_returncode()
        with open(result + ".new", "w") as out:
            out.write(done.stdout)
        os.replace(result + ".new", result)
    return json.load(open(result))


def model_of(options, design):
    return os.path.join(options.models, MODELS[design.split("_")[0]])


def source_of(module):
    """Returns the digest of a module, or a hyphen if the module was generated for one partition and its parameters identify it."""
    return sources.digest_of(module) or "-"


def instance_of(module, parameters):
    return module, tuple(sorted(parameters.split()))


def marked(rows):
    """Yields the rows with the column `fitted`, which says whether kernels/catalog.csv contains the row's module with the row's parameters."""
    with open(CATALOG) as file:
        fitted = {instance_of(*line.split(",")[:2]) for line in file.read().splitlines()[2:]}
    at = COLUMNS.index("fitted")
    for row in rows:
        fields = row.split(",")
        is_fitted = instance_of(*fields[3:5]) in fitted
        fields[at] = "yes" if is_fitted else "no"
        yield ",".join(fields)


def write(first_line, rows):
    with open(TARGET + ".new", "w") as out:
        out.write(first_line + "\n" + ",".join(COLUMNS + COUNTS) + "\n")
        out.writelines(row + "\n" for row in marked(rows))
    os.replace(TARGET + ".new", TARGET)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default=os.path.join(ROOT, "build", "release", "bin", "millrace"))
    parser.add_argument("--models", default=os.environ.get("MILLRACE_MODELS", os.path.join(ROOT, "..", "shared", "models")))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "designs"))
    parser.add_argument("--only", default="")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--mark", action="store_true")
    options = parser.parse_args()
    if options.mark:
        with open(TARGET) as file:
            first_line, _, *rows = file.read().splitlines()
        write(first_line, rows)
        return 0
    os.makedirs(options.work, exist_ok=True)
    clusters = os.path.join(ROOT, "configs", "clusters")
    designs = [(f"{name}_{dsp}", cut_down(options.work, dsp), [], False) for name, budgets in NETS for dsp in budgets]
    designs += [(name, os.path.join(clusters, cluster + ".yaml"), told, True) for name, cluster, told in WHOLE]
    only = options.only.split(",") if options.only else [design[0] for design in designs]
    for name in only:
        if name not in [design[0] for design in designs]:
            parser.error(f"'{name}' is unknown; known: {', '.join(design[0] for design in designs)}")
    kept, tool, stale = {}, "", []
    if os.path.exists(TARGET):
        for line in open(TARGET).read().splitlines()[2:]:
            kept.setdefault(line.split(",")[0], []).append(line)
    for name, cluster, told, shell in designs:
        if name not in only:
            continue
        print(name, file=sys.stderr)
        try:
            if options.check:
                with tempfile.TemporaryDirectory() as folder:
                    deployment = compiled(options, os.path.join(folder, name), model_of(options, name), cluster, told)
                    wrong = problems(deployment, kept.get(name, []))
                stale += [name] if wrong else []
                print("".join(f"{name}: stale: {what}\n" for what in wrong) or f"{name}: current\n", end="")
                continue
            report = synthesise(options, name, model_of(options, name), cluster, told)
        except subprocess.CalledProcessError as failure:
            print(f"designs.py: {name}: {failure}", file=sys.stderr)
            return 1
        tool = report["tool"]
        kept[name] = []
        for partition in report["partitions"]:
            for instance in partition["instances"]:
                if instance["shell"] and not shell:
                    continue
                parameters = text_of(instance["parameters"])
                counts = ",".join(str(instance["measured"][count]) for count in COUNTS)
                of = f"{partition['partition']}." if len(report["partitions"]) > 1 else ""
                kept[name].append(f"{name},{'shell' if instance['shell'] else 'dataflow'},{of}{instance['name']},{instance['module']},"
                                  f"{parameters},{source_of(instance['module'])},,{counts}")
    if options.check:
        if stale:
            print("renew them: tools/calibrate/designs.py --only " + ",".join(stale))
        return 1 if stale else 0
    write(f"# {tool}; written by tools/calibrate/designs.py", [line for design in designs for line in kept.get(design[0], [])])
    return 0


if __name__ == "__main__":
    sys.exit(main())
