#!/usr/bin/env python3
"""Follows the recipes of CONTRIBUTING.md in a scratch copy of the checkout: adds a toy route, metric, operator and hardware module, builds them,
checks that each works, and fails if a recipe needs more files than CONTRIBUTING.md says.

    tests/recipes/check.py [--keep]     --keep: keeps the scratch copy and prints its path

The copy is built with ccache, so the build is quick after a release build of the checkout.
"""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.request

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass
class New:
    """A step of a recipe: adds a file."""

    path: str
    text: str

    def apply(self, root):
        file = root / self.path
        assert not file.exists(), f"{self.path} exists already"
        file.write_text(self.text)


@dataclasses.dataclass
class After:
    """A step of a recipe: inserts text after the only line of a file that contains `anchor`."""

    path: str
    anchor: str
    text: str

    def apply(self, root):
        file = root / self.path
        lines = file.read_text().splitlines(keepends=True)
        at = [i for i, line in enumerate(lines) if self.anchor in line]
        assert len(at) == 1, f"{self.path}: {len(at)} lines contain {self.anchor!r}: adapt tests/recipes/check.py"
        lines.insert(at[0] + 1, self.text)
        file.write_text("".join(lines))


ROUTE = [
    After(
        "server/http/routes/table.cpp", "return json_response(recent_errors(", '}\n\nOutcome toy(const Call&) {\n  return json_response(R"({"toy":true})");\n'
    ),
    After("server/http/routes/table.cpp", '"/v2/millrace/errors", Scope::kRead', '      {kGet, "/v2/millrace/toy", Scope::kRead, toy},\n'),
    After("server/http/README.md", "| `/v2/millrace/errors` | GET |", "| `/v2/millrace/toy` | GET | read | `{toy}` |\n"),
    After(
        "tests/unit/server/test_http_scopes.cpp",
        '{"/v2/millrace/errors", Scope::kRead',
        '    {"/v2/millrace/toy", Scope::kRead, false, {"/v2/millrace/toy"}},\n',
    ),
]

METRIC = [
    After(
        "server/http/routes/table.cpp",
        "Outcome metadata_of_server(",
        '  call.api.metrics().count("millrace_toys_total", "Times that the server named itself.", {});\n',
    ),
    After("server/metrics/README.md", "| `millrace_reloads_total` |", "| `millrace_toys_total` | counter | | times that the server named itself |\n"),
]

OPERATOR = [
    After(
        "compiler/operators/activations.cpp",
        "constexpr Activation kActivations[] = {",
        """    {.function = {"softsign", "Softsign", 0, [](float x, float, float) { return x / (1.0F + std::abs(x)); }, rising}},
""",
    ),
    After(
        "tests/unit/compiler/interpret.cpp",
        'if (t == "Sigmoid")',
        '    if (t == "Softsign") return map(in(0), [](double x) { return x / (1 + std::abs(x)); });\n',
    ),
    After(
        "tests/unit/compiler/test_operators.cpp",
        'expect_meaning(with_products("LeakyRelu", 0.25F));',
        """}

TEST(Operators, ToyOperatorOfTheRecipeEqualsTheOnnxDefinition) {
  OnnxModel m;
  m.input("x", {1, 256});
  m.pair("x", 0.0625F, 3, "xq");
  m.node("Softsign", {"xq"}, "bent");
  m.pair("bent", 0.0078125F, 0, "y");
  m.output("y");
  const auto c = compile(m);
  ASSERT_TRUE(c.ok()) << c.error().message();
  std::vector<float> all;
  for (int q = -128; q < 128; ++q) all.push_back(0.0625F * static_cast<float>(q - 3));
  const std::vector<float> got = run(c->program, all);
  const std::vector<double> wanted = interpret(c->imported, all);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_NEAR(static_cast<double>(got[i]), wanted[i], 0.008) << all[i];
""",
    ),
]

MODULE = [
    New(
        "kernels/rtl/stream/mr_toy.sv",
        """/// Register slice whose ready is combinational.
///
/// Output beat i = input beat i. Latency 1, initiation interval 1 beat per cycle. Registered: m_valid, m_data.
`default_nettype none
module mr_toy #(
  parameter integer WIDTH = 8
) (
  input  logic clk,
  input  logic rst,

  input  logic             s_valid,
  output logic             s_ready,
  input  logic [WIDTH-1:0] s_data,

  output logic             m_valid,
  input  logic             m_ready,
  output logic [WIDTH-1:0] m_data
);
  assign s_ready = !m_valid || m_ready;

  always_ff @(posedge clk) begin
    if (s_ready) m_data <= s_data;
    if (rst) m_valid <= 1'b0;
    else if (s_ready) m_valid <= s_valid;
  end

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(WIDTH)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
`endif
endmodule
`default_nettype wire
""",
    ),
    New(
        "compiler/generators/modules/mr_toy.cpp",
        """#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators::modules {

Module mr_toy() {
  Module m{.name = "mr_toy", .play = play_pipeline, .frame = passing_frame};
  m.cost = [](const Values& v, Features& f) {
    f.add_lut("one", 1);
    f.add_ff("width", v["WIDTH"] + 1);
  };
  m.latency = always<1>;
  return m;
}

}  // namespace millrace::compiler::generators::modules
""",
    ),
    New("kernels/rtl/stream/mr_toy.rows", "# row    quick  WIDTH\nbit      1      1\nbyte     1      8\n"),
    After(
        "kernels/tb/stream_cases.cpp",
        'cases["mr_skid"]',
        '  cases["mr_toy"] = [](const Parameters& p, Rng&) { return std::make_unique<Passing>(p, 1); };\n',
    ),
]


def ctest(build, name):
    subprocess.run(["ctest", "--test-dir", build, "-R", f"^{name}$", "--output-on-failure", "--no-tests=error"], check=True, stdout=subprocess.DEVNULL)


def serve(build, scratch):
    """Starts a server and checks the toy route and the toy metric over HTTP."""
    repository = scratch / "repository"
    repository.mkdir()
    server = subprocess.Popen(
        [build / "bin/millrace", "serve", "--repository", repository, "--cluster", "one-ku060", "--http", "127.0.0.1:0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        address = next((line.split("listening http ")[1].split()[0] for line in server.stderr if "listening http " in line), None)
        assert address, "millrace serve ended before it listened"

        def get(path):
            with urllib.request.urlopen(f"http://{address}{path}", timeout=30) as answer:
                return answer.read().decode()

        assert json.loads(get("/v2/millrace/toy")) == {"toy": True}
        get("/v2")
        assert "\nmillrace_toys_total 1\n" in get("/metrics")
    finally:
        server.terminate()
        server.wait(60)


# For each recipe: its steps, the most files that CONTRIBUTING.md lets the recipe change, and the tests that
# must pass after the recipe's steps.
RECIPES = {
    "route": (ROUTE, 3, ["test_http_access", "test_infer_protocol"]),
    "metric": (METRIC, 2, ["test_models_and_metrics"]),
    "operator": (OPERATOR, 3, ["test_compiler_operators"]),
    "module": (MODULE, 4, ["test_compiler_cost", "rtl_mr_toy"]),
}


def main():
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="millrace-recipes."))
    try:
        copy = scratch / "checkout"
        build = copy / "build/release"  # as in the checkout, because ccache compares paths below the source folder
        subprocess.run(["git", "checkout-index", "--all", f"--prefix={copy}/"], cwd=CHECKOUT, check=True)
        for name, (steps, most, _) in RECIPES.items():
            for step in steps:
                step.apply(copy)
            files = {step.path for step in steps}
            assert len(files) <= most, f"recipe '{name}' touches {len(files)} files; CONTRIBUTING.md says {most}"
        models = os.environ.get("MILLRACE_MODELS", str(CHECKOUT.parent / "shared/models"))
        environment = dict(os.environ, MILLRACE_MODELS=models)
        configure = ["cmake", "--preset", "release", "-DMILLRACE_TESTS=ON"]
        subprocess.run(configure, cwd=copy, check=True, stdout=subprocess.DEVNULL, env=environment)
        tests = [test for _, _, names in RECIPES.values() for test in names]
        programs = ["millrace", "millrace_kernels_tb"] + [test for test in tests if test.startswith("test_")]
        subprocess.run(["cmake", "--build", build, "--target", *programs], check=True, stdout=subprocess.DEVNULL, env=environment)
        serve(build, scratch)
        for test in tests:
            ctest(build, test)
        for name, (steps, most, names) in RECIPES.items():
            print(f"tests/recipes: {name}: {len({step.path for step in steps})} files of at most {most}; passed {' '.join(names)}")
    finally:
        if "--keep" in sys.argv[1:]:
            print(f"tests/recipes: kept {scratch}", file=sys.stderr)
        else:
            shutil.rmtree(scratch)


main()
