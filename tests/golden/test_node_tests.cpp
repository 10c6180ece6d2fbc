// Runs ONNX's own node tests, each of which has one operator. Every test runs twice: unchanged, and with every input
// but the first as a constant, as in most models. A model that compiles must give the output that the test states.
// Prints the reason for each model that is refused.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "compiler/front/import.hpp"
#include "compiler/graph/graph.hpp"
#include "compiler/passes/passes.hpp"
#include "kernels/reference/reference.hpp"
#include "tests/golden/models.hpp"
#include "tests/support/readme.hpp"

namespace millrace::golden::test_node_tests {
namespace {

namespace fs = std::filesystem;

struct NodeTest {
  std::string name;
  onnx::ModelProto model;
  std::vector<onnx::TensorProto> inputs, outputs;
};

std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<onnx::TensorProto> tensors(const fs::path& directory, const std::string& kind) {
  std::vector<onnx::TensorProto> found;
  for (int i = 0;; ++i) {
    const fs::path file = directory / (kind + "_" + std::to_string(i) + ".pb");
    if (!fs::exists(file)) return found;
    onnx::TensorProto tensor;
    if (!tensor.ParseFromString(contents(file))) return found;
    found.push_back(std::move(tensor));
  }
}

std::vector<NodeTest> node_tests() {
  std::vector<NodeTest> tests;
  for (const char* folder : {"onnx_node_tests_deb1.12", "onnx_node_tests_quant_new"})
    for (const auto& entry : fs::directory_iterator(models_directory() / folder)) {
      NodeTest t{entry.path().filename().string(), {}, {}, {}};
      if (!t.model.ParseFromString(contents(entry.path() / "model.onnx"))) continue;
      t.inputs = tensors(entry.path() / "test_data_set_0", "input");
      t.outputs = tensors(entry.path() / "test_data_set_0", "output");
      tests.push_back(std::move(t));
    }
  std::sort(tests.begin(), tests.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return tests;
}

/// Makes every input but the first a constant, with the test's data.
onnx::ModelProto with_constants(const NodeTest& test) {
  onnx::ModelProto model = test.model;
  auto* graph = model.mutable_graph();
  while (graph->input_size() > 1) {
    const auto i = static_cast<std::size_t>(graph->input_size() - 1);
    if (i < test.inputs.size()) {
      *graph->add_initializer() = test.inputs[i];
      graph->mutable_initializer(graph->initializer_size() - 1)
          ->set_name(graph->input(static_cast<int>(i)).name());
    }
    graph->mutable_input()->RemoveLast();
  }
  return model;
}

/// The elements of a tensor whose data are raw bytes or typed fields of 1, 4 or 8 bytes.
std::vector<double> numbers(const onnx::TensorProto& t) {
  compiler::graph::Value value;
  std::vector<double> result;
  const auto read = [&]<class T>(T) {
    for (std::size_t i = 0; i + sizeof(T) <= t.raw_data().size(); i += sizeof(T)) {
      T x{};
      std::memcpy(&x, t.raw_data().data() + i, sizeof(T));
      result.push_back(static_cast<double>(x));
    }
  };
  switch (t.data_type()) {
    case onnx::TensorProto::FLOAT:
      read(float{});
      break;
    case onnx::TensorProto::UINT8:
      read(std::uint8_t{});
      break;
    case onnx::TensorProto::INT8:
      read(std::int8_t{});
      break;
    case onnx::TensorProto::UINT16:
      read(std::uint16_t{});
      break;
    case onnx::TensorProto::INT16:
      read(std::int16_t{});
      break;
    case onnx::TensorProto::INT32:
      read(std::int32_t{});
      break;
    default:
      break;
  }
  return result;
}

/// Returns the bytes of a program's input or output whose elements are these numbers.
std::vector<std::byte> stored(const std::vector<double>& values, kernels::ElementType type) {
  std::vector<std::byte> bytes;
  for (const double v : values) {
    std::byte raw[4];
    if (type.is_integer()) {
      const auto integer = static_cast<std::int64_t>(v);
      std::memcpy(raw, &integer, 4);
    } else {
      const auto real = static_cast<float>(v);
      std::memcpy(raw, &real, 4);
    }
    bytes.insert(bytes.end(), raw, raw + type.storage_bytes());
  }
  return bytes;
}

std::vector<double> loaded(const std::vector<std::byte>& bytes, kernels::ElementType type) {
  std::vector<double> values;
  for (std::size_t i = 0; i < bytes.size(); i += type.storage_bytes()) {
    std::uint32_t raw = 0;
    std::memcpy(&raw, bytes.data() + i, type.storage_bytes());
    float real = 0;
    std::memcpy(&real, &raw, 4);
    const int spare = 32 - static_cast<int>(type.storage_bytes()) * 8;
    const bool is_signed = type.kind == kernels::ElementType::Kind::kSigned;
    if (!type.is_integer())
      values.push_back(static_cast<double>(real));
    else
      values.push_back(is_signed ? static_cast<double>(static_cast<std::int32_t>(raw << spare) >> spare)
                                 : static_cast<double>(raw));
  }
  return values;
}

Result<compiler::graph::Graph> import(const onnx::ModelProto& model, compiler::FloatModel kind) {
  const std::string bytes = model.SerializeAsString();
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  return compiler::import_onnx({first, first + bytes.size()}, "test", {}, kind);
}

Result<kernels::Program> compile(const onnx::ModelProto& model) {
  MILLRACE_ASSIGN(auto graph, import(model, compiler::FloatModel::kRefused));
  MILLRACE_ASSIGN(graph, compiler::passes::run_standard_passes(std::move(graph)));
  return compiler::passes::build_program(std::move(graph));
}

/// What became of a model: "compiled", "float" (imported, but not quantised), or the reason for which it was refused.
std::string outcome(const onnx::ModelProto& model, std::optional<kernels::Program>& program) {
  auto compiled = compile(model);
  if (compiled.ok()) {
    program = std::move(*compiled);
    return "compiled";
  }
  EXPECT_NE(compiled.error().code(), ErrorCode::kInternal) << compiled.error().message();
  std::string why = compiled.error().message();
  EXPECT_FALSE(why.empty());
  if (why.find("is a float model") == std::string::npos) return why;
  const auto imported = import(model, compiler::FloatModel::kRequired);
  if (imported.ok()) return "float";
  EXPECT_NE(imported.error().code(), ErrorCode::kInternal) << imported.error().message();
  return imported.error().message();
}

/// Compares the program's output for the test's input with the output that the test states.
void expect_stated_output(const NodeTest& test, const kernels::Program& program) {
  const auto& in = program.tensors[program.inputs.at(0)];
  const auto& out = program.tensors[program.outputs.at(0)];
  const auto bytes = kernels::reference::run(program, {stored(numbers(test.inputs.at(0)), in.type)});
  const std::vector<double> got = loaded(bytes.at(0), out.type), wanted = numbers(test.outputs.at(0));
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i], out.type.is_integer() ? 0 : 1e-5 * std::max(1.0, std::abs(wanted[i])))
        << "element " << i;
}

/// Maps a part of a refusal's message to the reason for the refusal. The first pair whose part the message contains
/// counts.
constexpr std::pair<const char*, const char*> kReasons[] = {
    {"its first axis must be the batch",
     "refused: an input's first axis, which Millrace takes for the batch, is not 1"},
    {"is too old", "refused: an operator set older than 7"},
    {"known at compile time", "refused: the shape, axes or indices are an input"}};
// Two node tests are refused for other reasons: one has blockwise quantisation, the other a dimension of 0.
constexpr char kOther[] = "refused: quantisation in blocks, or a dimension of 0";

/// Returns how many node tests are refused for each reason. `refused` has the messages by the names of the tests.
std::map<std::string, int> count_reasons(const std::multimap<std::string, std::string>& refused) {
  std::map<std::string, int> counts;
  for (const auto& [name, why] : refused) {
    const auto* known =
        std::find_if(std::begin(kReasons), std::end(kReasons),
                     [&, &why = why](const auto& r) { return why.find(r.first) != std::string::npos; });
    ++counts[known == std::end(kReasons) ? kOther : known->second];
  }
  return counts;
}

/// What became of all node tests in one form.
struct Tally {
  std::size_t tests = 0, compiled = 0, floats = 0;
  std::multimap<std::string, std::string> refused;  // messages; two folders have tests of the same name
};

/// Compiles all node tests. If `constants`, makes every input but the first a constant.
Tally compile_all(bool constants) {
  Tally tally;
  for (const NodeTest& test : node_tests()) {
    SCOPED_TRACE(test.name);
    std::optional<kernels::Program> program;
    const std::string what = outcome(constants ? with_constants(test) : test.model, program);
    ++tally.tests;
    tally.compiled += what == "compiled" ? 1U : 0U;
    tally.floats += what == "float" ? 1U : 0U;
    if (what != "compiled" && what != "float") tally.refused.emplace(test.name, what);
    if (program && program->inputs.size() == 1) expect_stated_output(test, *program);
  }
  return tally;
}

TEST(OnnxNodeTests, EachPassesOrIsRefusedAndTheReadmeHasTheNumbers) {
  if (models_directory().empty())
    GTEST_SKIP() << "MILLRACE_MODELS does not name the directory of shared models";
  std::map<std::string, std::array<int, 2>> counts;  // unchanged, with constants
  for (const bool constants : {false, true}) {
    const Tally tally = compile_all(constants);
    EXPECT_EQ(tally.tests, 200U);
    counts["compiles, and gives the expected output"][constants] = static_cast<int>(tally.compiled);
    counts["refused: a float operator without quantisers"][constants] = static_cast<int>(tally.floats);
    for (const auto& [reason, count] : count_reasons(tally.refused)) counts[reason][constants] = count;
    std::printf("%s\n", constants ? "with constants" : "unchanged");
    for (const auto& [name, why] : tally.refused) {
      const std::size_t end = std::min(why.rfind("\nSupported operators"), why.size());
      std::printf("  %s: %s\n", name.c_str(), why.substr(0, end).c_str());
    }
    EXPECT_LE(counts[kOther][constants], 2) << "a node test is refused for a new reason";
  }
  for (const auto& [what, count] : counts) {
    const std::string line = tests::table_row({what, std::to_string(count[0]), std::to_string(count[1])});
    EXPECT_TRUE(tests::has_line("tests/golden/README.md", line)) << "tests/golden/README.md lacks the line\n"
                                                                 << line;
  }
}

}  // namespace
}  // namespace millrace::golden::test_node_tests
