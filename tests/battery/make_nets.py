#!/usr/bin/env python3
"""Makes the nets of the battery and runs them with ONNX Runtime: make_nets.py DIRECTORY [NAME]...

For each net it writes NAME.onnx, NAME.INPUT.npy and NAME.OUTPUT.npy for each input and output (the first axis counts frames; the
outputs are those of ONNX Runtime, or of tests/dialects for QONNX and FINN), and a line in nets.csv: the name and, for each output, the step between two values.
The seeds are fixed, so the nets are the same in every run. With names, it makes only the nets whose names begin so.
"""

import pathlib
import subprocess
import sys
import tempfile

import numpy

import convolutions
import dialects
import elementwise
import ends
import exports
import forms
import functions
import mixtures
import moves
import networks
import pools
import products
from net import Net

HERE = pathlib.Path(__file__).resolve().parent
FAMILIES = [convolutions, products, pools, elementwise, moves, functions, ends, forms, exports, mixtures, networks, dialects]


def run_with_onnxruntime(directory):
    done = subprocess.run(["node", HERE.parent / "node" / "run_nets.js", directory], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"ONNX Runtime cannot run all nets in {directory}:\n{done.stderr}")


def write(net, directory):
    (directory / f"{net.name}.onnx").write_bytes(net.model.data())
    for name, frames in net.frames.items():
        numpy.save(directory / f"{net.name}.{name}.npy", frames)


def measured_ranges(recipes):
    """Runs the nets without the quantisers behind their operators. Returns, for each net, the least and the largest value of each
    tensor that is quantised later."""
    ranges = {}
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        for name, build, options in recipes:
            net = Net(name, **options)
            build(net)
            ranges[name] = [tensor for tensor, _ in net.model.outputs]
            if ranges[name]:
                write(net, directory)
        run_with_onnxruntime(directory)
        for name, tensors in ranges.items():
            found = {t: numpy.load(directory / f"{name}.{t}.npy") for t in tensors}
            ranges[name] = {t: (float(array.min()), float(array.max())) for t, array in found.items()}
    return ranges


def main():
    directory, wanted = pathlib.Path(sys.argv[1]), tuple(sys.argv[2:])
    recipes = [r for family in FAMILIES for r in family.recipes() if not wanted or r[0].startswith(wanted)]
    names = [name for name, _, _ in recipes]
    assert len(set(names)) == len(names), "two nets have the same name"
    ranges = measured_ranges(recipes)
    nets, lines = [], []
    for name, build, options in recipes:
        net = Net(name, ranges[name], **options)
        build(net)
        nets.append(net)
        if not net.is_evaluated:
            write(net, directory)
        lines.append(",".join([name] + [f"{o}={s:.9g}" for (o, _), s in zip(net.model.outputs, net.steps)]))
    run_with_onnxruntime(directory)
    for net in nets:
        if net.is_evaluated:
            write(net, directory)
            numpy.save(directory / f"{net.name}.{net.model.outputs[0][0]}.npy", net.evaluated())
    (directory / "nets.csv").write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
