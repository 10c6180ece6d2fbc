// Compiles models with random changes, which are made to the parsed model or to the bytes of the file. The result must
// be an error or a program, never a crash.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "compiler/coverage/coverage.hpp"
#include "compiler/front/import.hpp"
#include "compiler/passes/passes.hpp"
#include "import_models.hpp"
#include "runtime/base/file.hpp"

namespace millrace::tests {
namespace {

/// Makes one random change to a parsed model, such as faulty exporters or attackers might make.
class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  void change(onnx::GraphProto& g) {
    switch (below(10)) {
      case 0:
        return set_dims(tensor(g));
      case 1:
      case 2:
        return resize_tensor(tensor(g));
      case 3:
        return set_data(tensor(g));
      case 4:
        return tensor(g).set_data_type(
            static_cast<int>(pick({1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 16, 21, 22})));
      case 5:
        return set_attribute(node(g));
      case 6:
        return add_attribute(node(g));
      case 7:
        return set_input(g, node(g));
      case 8:
        return node(g).set_op_type(text({"Conv",
                                         "MatMul",
                                         "Gemm",
                                         "Relu",
                                         "LeakyRelu",
                                         "HardSwish",
                                         "Add",
                                         "Mul",
                                         "MaxPool",
                                         "AveragePool",
                                         "Flatten",
                                         "Transpose",
                                         "Softmax",
                                         "Clip",
                                         "QuantizeLinear",
                                         "DequantizeLinear",
                                         "ConvInteger",
                                         "MatMulInteger",
                                         "Cast",
                                         "Squeeze",
                                         "Concat"}));
      default:
        return set_graph_input(g);
    }
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  std::int64_t pick(std::vector<std::int64_t> values) { return values[below(values.size())]; }
  std::string text(std::vector<std::string> values) { return values[below(values.size())]; }
  std::int64_t number() {
    return pick({0, 1, 2, 3, 4, 5, 7, -1, -2, 127, 128, 255, -128, 65536, std::int64_t{1} << 40, INT64_MIN,
                 INT64_MAX});
  }
  float real() {
    return std::vector<float>{0, -0.0F, -1, 1, 0.5F, 1e-40F, 1e30F, -1e30F, INFINITY, NAN}[below(10)];
  }

  onnx::TensorProto& tensor(onnx::GraphProto& g) {
    return *g.mutable_initializer(static_cast<int>(below(static_cast<std::size_t>(g.initializer_size()))));
  }
  onnx::NodeProto& node(onnx::GraphProto& g) {
    return *g.mutable_node(static_cast<int>(below(static_cast<std::size_t>(g.node_size()))));
  }

  void set_dims(onnx::TensorProto& t) {
    if (t.dims_size() == 0 || below(4) == 0) return t.add_dims(pick({0, 1, 1, 2}));
    if (below(4) == 0) return t.mutable_dims()->RemoveLast();
    t.set_dims(static_cast<int>(below(static_cast<std::size_t>(t.dims_size()))), number());
  }

  /// Changes the tensor's dimensions and its data together, so that the tensor itself stays valid.
  void resize_tensor(onnx::TensorProto& t) {
    t.clear_dims();
    std::size_t count = 1;
    for (std::size_t rank = below(4); rank > 0; --rank) {
      t.add_dims(pick({0, 1, 1, 2, 3, 4, 5, 8}));
      count *= static_cast<std::size_t>(t.dims(t.dims_size() - 1));
    }
    const std::string raw = t.raw_data();
    const std::vector<std::int32_t> small(t.int32_data().begin(), t.int32_data().end());
    const std::vector<std::int64_t> large(t.int64_data().begin(), t.int64_data().end());
    t.clear_raw_data();
    t.clear_int32_data();
    t.clear_int64_data();
    for (std::size_t i = 0; i < count; ++i) {
      if (!small.empty()) t.add_int32_data(small[i % small.size()]);
      if (!large.empty()) t.add_int64_data(large[i % large.size()]);
      if (raw.size() >= 4) t.mutable_raw_data()->append(raw, i % (raw.size() / 4) * 4, 4);
    }
  }

  void set_data(onnx::TensorProto& t) {
    if (t.int32_data_size() > 0)
      t.set_int32_data(
          static_cast<int>(below(static_cast<std::size_t>(t.int32_data_size()))),
          static_cast<std::int32_t>(pick({0, 1, -1, 127, -128, 128, 255, 256, INT32_MAX, INT32_MIN})));
    else if (t.int64_data_size() > 0)
      t.set_int64_data(static_cast<int>(below(static_cast<std::size_t>(t.int64_data_size()))), number());
    else if (t.raw_data().size() >= 4) {
      const float value = real();
      t.mutable_raw_data()->replace(below(t.raw_data().size() / 4) * 4, 4,
                                    std::string(reinterpret_cast<const char*>(&value), 4));
    }
  }

  void set_attribute(onnx::NodeProto& n) {
    if (n.attribute_size() == 0) return add_attribute(n);
    auto& a = *n.mutable_attribute(static_cast<int>(below(static_cast<std::size_t>(n.attribute_size()))));
    if (below(8) == 0)
      return a.set_type(static_cast<onnx::AttributeProto::AttributeType>(pick({1, 2, 3, 6, 7})));
    if (below(8) == 0) return n.mutable_attribute()->RemoveLast();
    a.set_i(number());
    a.set_f(real());
    if (a.ints_size() > 0) {
      if (below(4) == 0)
        a.add_ints(number());
      else if (below(4) == 0)
        a.mutable_ints()->RemoveLast();
      else
        a.set_ints(static_cast<int>(below(static_cast<std::size_t>(a.ints_size()))), number());
    }
  }

  void add_attribute(onnx::NodeProto& n) {
    auto& a = *n.add_attribute();
    a.set_name(text({"axis", "axis", "group", "transA", "transB", "alpha", "beta", "pads", "strides",
                     "dilations", "kernel_shape", "perm", "to", "ceil_mode", "block_size", "output_dtype",
                     "auto_pad", "count_include_pad", "allowzero"}));
    a.set_type(static_cast<onnx::AttributeProto::AttributeType>(pick({1, 2, 2, 2, 7})));
    a.set_i(number());
    a.set_f(real());
    for (std::size_t i = below(5); i > 0; --i) a.add_ints(pick({0, 1, 2, 3, -1}));
  }

  void set_input(onnx::GraphProto& g, onnx::NodeProto& n) {
    if (n.input_size() == 0) return;
    const int at = static_cast<int>(below(static_cast<std::size_t>(n.input_size())));
    switch (below(4)) {
      case 0:
        return n.set_input(at, "");
      case 1:
        return n.mutable_input()->RemoveLast();
      case 2:
        return n.mutable_input()->SwapElements(at, 0);
      default:
        return n.set_input(at, below(2) == 0 ? tensor(g).name() : node(g).output(0));
    }
  }

  void set_graph_input(onnx::GraphProto& g) {
    auto& type = *g.mutable_input(0)->mutable_type()->mutable_tensor_type();
    if (below(3) == 0) return type.set_elem_type(static_cast<int>(pick({1, 2, 3, 5, 6, 7, 10})));
    auto& shape = *type.mutable_shape();
    if (below(3) == 0) return shape.add_dim()->set_dim_value(1);
    if (below(3) == 0) return shape.mutable_dim()->RemoveLast();
    shape.mutable_dim(static_cast<int>(below(static_cast<std::size_t>(shape.dim_size()))))
        ->set_dim_value(pick({0, 1, 2, 5, 9, -1, 1 << 12, INT64_MAX}));
  }

  std::mt19937 random_;
};

/// Compiles a model from bytes to a program. Returns whether the compiler accepts the model. Internal errors fail the
/// test.
bool goes_the_whole_way(const std::string& bytes, int which) {
  auto g = import_bytes(bytes);
  if (g.ok()) g = compiler::passes::run_standard_passes(std::move(*g));
  const auto program = g.ok() ? compiler::passes::build_program(*g) : Result<kernels::Program>(g.error());
  if (program.ok()) {
    EXPECT_EQ(kernels::validate(*program), "") << "mutant " << which;
    return true;
  }
  EXPECT_NE(program.error().code(), ErrorCode::kInternal)
      << "mutant " << which << ": " << program.error().message();
  EXPECT_FALSE(program.error().message().empty());
  return false;
}

/// Returns the number of mutants. The environment variable MILLRACE_FUZZ_MUTANTS can set it for a long run.
int mutants(int otherwise) {
  const char* asked = std::getenv("MILLRACE_FUZZ_MUTANTS");
  return asked == nullptr ? otherwise : std::atoi(asked);
}

TEST(ImportMutants, MutatedModelsNeverCrashTheImporter) {
  const unsigned seed = 4712;
  const int count = mutants(2000);
  std::printf("seed %u, %d mutants\n", seed, count);
  const onnx::ModelProto wholes[] = {small_model().proto(), larger_model().proto(), operator_model().proto(),
                                     function_model().proto()};
  for (const auto& whole : wholes) EXPECT_TRUE(goes_the_whole_way(whole.SerializeAsString(), -1));
  int taken = 0;
  for (int i = 0; i < count; ++i) {
    Mutator mutator(seed + static_cast<unsigned>(i));
    onnx::ModelProto m = wholes[i % 4];
    for (int k = 0; k <= i / 4 % 3; ++k) mutator.change(*m.mutable_graph());
    if (goes_the_whole_way(m.SerializeAsString(), i)) ++taken;
  }
  std::printf("%d are still models\n", taken);
  EXPECT_GT(taken, count / 10) << "mutants that are all refused at the door test nothing behind it";
}

/// Compares what `millrace coverage` says of a model with what the compiler does. Returns whether it lists nodes that run
/// nowhere.
bool coverage_agrees(const std::filesystem::path& file, const std::string& bytes, int which) {
  EXPECT_TRUE(write_file_atomically(file, bytes).ok());
  compiler::coverage::Options options;
  options.model = file;
  const auto coverage = compiler::coverage::cover(options);
  if (!coverage.ok()) {
    EXPECT_NE(coverage.error().code(), ErrorCode::kInternal)
        << "mutant " << which << ": " << coverage.error().message();
    EXPECT_FALSE(import_bytes(bytes).ok()) << "mutant " << which << ": " << coverage.error().message();
    return false;
  }
  const bool runs = coverage->missing() == 0 && coverage->problems.empty();
  if (coverage->assumed.empty()) {
    EXPECT_EQ(runs, goes_the_whole_way(bytes, which)) << "mutant " << which << "\n"
                                                      << compiler::coverage::terminal(*coverage, true);
  }
  return !runs;
}

TEST(ImportMutants, CoverageFindsAFaultIfAndOnlyIfTheCompilerRefusesTheModel) {
  const unsigned seed = 4713;
  const int count = mutants(1000);
  std::printf("seed %u, %d mutants\n", seed, count);
  const TemporaryDirectory folder("millrace-coverage-mutants");
  const onnx::ModelProto wholes[] = {small_model().proto(), larger_model().proto(), operator_model().proto(),
                                     function_model().proto()};
  int faulty = 0;
  for (int i = 0; i < count; ++i) {
    Mutator mutator(seed + static_cast<unsigned>(i));
    onnx::ModelProto m = wholes[i % 4];
    for (int k = 0; k <= i / 4 % 3; ++k) mutator.change(*m.mutable_graph());
    if (coverage_agrees(folder.path() / "net.onnx", m.SerializeAsString(), i)) ++faulty;
  }
  std::printf("%d have nodes that run nowhere\n", faulty);
  EXPECT_GT(faulty, count / 20);
}

TEST(ImportMutants, DamagedFilesNeverCrashTheImporter) {
  const unsigned seed = 4711;
  const int count = mutants(3000);
  std::printf("seed %u, %d mutants\n", seed, count);
  std::mt19937 random(seed);
  const std::string wholes[] = {small_model().bytes(), larger_model().bytes()};
  int taken = 0;
  for (int i = 0; i < count; ++i) {
    std::string bytes = wholes[i % 2];
    for (unsigned k = 0; k < 1 + random() % 4; ++k)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (goes_the_whole_way(bytes, i)) ++taken;
  }
  std::printf("%d are still models\n", taken);
  EXPECT_GT(taken, count / 50);
}

}  // namespace
}  // namespace millrace::tests
