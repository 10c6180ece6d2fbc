#!/usr/bin/env python3
"""An example of a plugin: builds fully connected layers with one expression per sum, at one frame per cycle.

  millrace plan MODEL --cluster C --plugins configs/plugins/dense_plugin.py

Millrace starts the plugin once for candidates and once for every module that is built. The plugin reads one question from standard input and
writes one answer to standard output, as compiler/generators/README.md specifies. It supports layers of up to 4,096 weights whose sums are
multiplied and shifted, or are passed on unchanged.
"""
import json
import sys

FORMS = (None, "multiply_shift", "multiply_shift_half_even")
PORTS = """(
  input  logic clk,
  input  logic rst,
  input  logic s_valid,
  output logic s_ready,
  input  logic [{inputs}:0] s_data,
  output logic m_valid,
  input  logic m_ready,
  output logic [{outputs}:0] m_data
);
  assign s_ready = !m_valid || m_ready;
  always_ff @(posedge clk)
    if (rst) m_valid <= 1'b0;
    else if (s_ready) m_valid <= s_valid;
"""


def elements(tensor):
    count = 1
    for n in tensor["shape"]:
        count *= n
    return count


def takes(block):
    """Whether the layer's window is its whole input, or the input is a single pixel."""
    if block["operation"] != "convolution" or block["groups"] != 1 or block["form"] not in FORMS:
        return False
    if block["input"]["kind"] == "bipolar" or block["output"]["kind"] == "bipolar":
        return False
    return elements(block["output"]) == block["out_channels"] and block["multiply_accumulates"] <= 4096


def candidate(block):
    products = block["multiply_accumulates"]
    sums = block["out_channels"] * (block["accumulator_bits"] + 60)
    return {"id": "expression", "interval_cycles": 1, "latency_cycles": 1, "lead": 1.0,
            "input_lanes": elements(block["input"]), "output_lanes": elements(block["output"]),
            # A plugin may estimate its cost; `millrace synth` shows the real resources.
            "resources": {"lut": 40 * products + sums, "ff": elements(block["output"]) * block["output"]["bits"] + 1}}


def number(n, bits):
    return f"-{bits}'sd{-n}" if n < 0 else f"{bits}'sd{n}"


def channel(values, i, otherwise=0):
    return values[i if len(values) > 1 else 0] if values else otherwise


def module(name, block):
    inputs, outputs = elements(block["input"]), elements(block["output"])
    bits, wide = block["input"]["bits"], block["output"]["bits"]
    text = f"// {name}: written by the example plugin, dense_plugin.py.\n"
    text += f"`default_nettype none\nmodule {name} "
    text += PORTS.format(inputs=inputs * bits - 1, outputs=outputs * wide - 1)
    extend = "$signed" if block["input"]["kind"] == "signed" else ""
    for i in range(inputs):
        text += f"  logic signed [63:0] x{i};\n"
        text += f"  assign x{i} = 64'({extend}(s_data[{i * bits}+:{bits}]));\n"
    for o in range(outputs):
        terms = [number(channel(block["bias"], o) if len(block["bias"]) > o else 0, 64)]
        terms += [f"x{i} * {number(w, 64)}" for i, w in enumerate(block["weights"][o * inputs:(o + 1) * inputs]) if w]
        text += f"  logic signed [63:0] sum{o}, result{o};\n  assign sum{o} = " + "\n      + ".join(terms) + ";\n"
        text += result(block.get("requantise"), o)
        text += f"  always_ff @(posedge clk) if (s_ready) m_data[{o * wide}+:{wide}] <= {wide}'(result{o});\n"
    idle = [f"x{i}" for i in range(inputs)] + [f"result{o}" for o in range(outputs)]
    text += "  logic unused;\n  assign unused = &{1'b0, " + ", ".join(idle) + "};\n"
    return text + "endmodule\n`default_nettype wire\n"


def result(step, o):
    if not step:
        return f"  assign result{o} = sum{o};\n"
    shift = channel(step["shift"], o)
    factor, offset = number(channel(step["multiplier"], o, 1), 64), number(channel(step["offset"], o), 64)
    text = f"  logic signed [63:0] scaled{o}, whole{o};\n"
    text += f"  assign scaled{o} = sum{o} * {factor} + {offset};\n"
    if step["form"] == "multiply_shift_half_even" and shift > 0:
        half = number((1 << (shift - 1)) - 1, 64)
        text += f"  assign whole{o} = (scaled{o} + {half} + $signed({{63'd0, scaled{o}[{shift}]}})) >>> {shift};\n"
    else:
        text += f"  assign whole{o} = scaled{o} >>> {shift};\n"
    moved = f"(whole{o} + {number(step['zero_point'], 64)})"
    low, high = number(step["lowest"], 64), number(step["highest"], 64)
    return text + f"  assign result{o} = {moved} < {low} ? {low} : {moved} > {high} ? {high} : {moved};\n"


def main():
    question = json.load(sys.stdin)
    if question["ask"] == "candidates":
        blocks = {block["name"]: [candidate(block)] for block in question["blocks"] if takes(block)}
        answer = {"schema": 1, "builds": True, "blocks": blocks}
    else:
        name = question["module"]
        answer = {"schema": 1, "files": {name + ".sv": module(name, question["block"])}}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
