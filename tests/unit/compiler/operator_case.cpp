#include "operator_case.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "compiler/graph/graph.hpp"
#include "compiler/passes/passes.hpp"
#include "interpret.hpp"
#include "kernels/reference/reference.hpp"

namespace millrace::tests {

using kernels::Program;

std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& v : values) v = std::uniform_real_distribution<float>(-40, 40)(random);
  return values;
}

std::vector<float> run(const Program& program, const std::vector<float>& input) {
  kernels::reference::Buffer in(input.size() * sizeof(float));
  std::memcpy(in.data(), input.data(), in.size());
  const auto out = kernels::reference::run(program, {in});
  std::vector<float> values(out[0].size() / sizeof(float));
  std::memcpy(values.data(), out[0].data(), out[0].size());
  return values;
}

std::vector<std::int64_t> random_integers(std::size_t count, std::int64_t lowest, std::int64_t highest,
                                          unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int64_t> values(count);
  for (std::int64_t& v : values) v = std::uniform_int_distribution<std::int64_t>(lowest, highest)(random);
  return values;
}

Result<Compiled> compile(const OnnxModel& model) {
  Compiled c;
  MILLRACE_ASSIGN(c.imported, import_model(model));
  MILLRACE_ASSIGN(c.lowered, compiler::passes::run_standard_passes(c.imported));
  MILLRACE_ASSIGN(c.program, compiler::passes::build_program(c.lowered));
  return c;
}

Program expect_meaning(const OnnxModel& model, double tolerance) {
  const auto c = compile(model);
  EXPECT_TRUE(c.ok()) << c.error().message();
  if (!c.ok()) return {};
  const auto elements =
      static_cast<std::size_t>(compiler::graph::elements(c->imported.input_signatures[0].shape));
  double largest = 0, smallest = 0;
  for (unsigned seed = 1; seed <= 4; ++seed) {
    const std::vector<float> input = random_floats(elements, seed);
    const std::vector<float> got = run(c->program, input);
    const std::vector<double> wanted = interpret(c->imported, input);
    EXPECT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < std::min(got.size(), wanted.size()); ++i) {
      largest = std::max(largest, wanted[i]);
      smallest = std::min(smallest, wanted[i]);
      if (std::abs(static_cast<double>(got[i]) - wanted[i]) <= tolerance) continue;
      ADD_FAILURE() << "seed " << seed << ", element " << i << ": " << got[i] << ", wanted " << wanted[i]
                    << "\n"
                    << compiler::graph::print(c->lowered);
      return c->program;
    }
  }
  EXPECT_GT(largest - smallest, 0.0) << "a test in which nothing changes shows nothing";
  return c->program;
}

std::size_t count_blocks(const Program& program, const char* name) {
  std::size_t n = 0;
  for (const kernels::Block& b : program.blocks)
    n += std::string(kernels::operation_name(b.operation)) == name ? 1U : 0U;
  return n;
}

void expect_refused(const OnnxModel& model, const std::vector<std::string>& says) {
  const auto c = compile(model);
  ASSERT_FALSE(c.ok());
  EXPECT_EQ(c.error().code(), ErrorCode::kUnsupported) << c.error().message();
  for (const std::string& part : says)
    EXPECT_NE(c.error().message().find(part), std::string::npos) << c.error().message();
}

OnnxModel with_image(std::int64_t channels, int type, std::int64_t zero) {
  OnnxModel m;
  m.input("x", {1, channels, 8, 7});
  m.pair("x", 0.5F, zero, "xq", type);
  return m;
}

std::string conv_weights(OnnxModel& m, std::int64_t out, std::int64_t in, std::int64_t kernel,
                         const std::vector<float>& scale) {
  return m.weights("w", {out, in, kernel, kernel},
                   random_integers(static_cast<std::size_t>(out * in * kernel * kernel), -128, 127, 5),
                   scale);
}

}  // namespace millrace::tests
