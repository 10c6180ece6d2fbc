// Nets of one operator, made by make_nets.py. Every output byte is compared with that of ONNX Runtime. Nets that differ,
// run on the host or are refused must be in exceptions.csv, and no other net may be.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <set>
#include <sstream>

#include "exceptions.hpp"
#include "kernels/fast/executor.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "tests/golden/models.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/support/python_client.hpp"

namespace millrace::tests::test_battery {
namespace {

namespace fs = std::filesystem;
using kernels::reference::Buffer;

/// An output of a net, for all frames.
struct Output {
  std::string name;
  double step = 0;             // between two neighbouring values
  std::vector<double> values;  // what ONNX Runtime computes
};

struct Net {
  std::string name;
  std::vector<Output> outputs;
};

/// Returns the elements as numbers. `descr` is NumPy's name of their type.
std::vector<double> numbers(const std::byte* data, std::size_t bytes, const std::string& descr) {
  std::vector<double> result;
  const auto read = [&]<class T>(T) {
    for (std::size_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
      T x{};
      std::memcpy(&x, data + i, sizeof(T));
      result.push_back(static_cast<double>(x));
    }
  };
  if (descr == "<f4") read(float{});
  if (descr == "|i1") read(std::int8_t{});
  if (descr == "|u1") read(std::uint8_t{});
  if (descr == "<i4") read(std::int32_t{});
  if (descr == "<i8") read(std::int64_t{});
  return result;
}

std::string descr_of(kernels::ElementType type) {
  if (!type.is_integer()) return "<f4";
  const bool is_unsigned = type.kind == kernels::ElementType::Kind::kUnsigned;
  if (type.storage_bytes() == 1) return is_unsigned ? "|u1" : "|i1";
  if (is_unsigned) return "";
  return type.storage_bytes() == 8 ? "<i8" : type.storage_bytes() == 4 ? "<i4" : "";
}

/// Makes all nets once for all tests, and reads their list.
class Battery : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<TemporaryDirectory>("millrace-battery");
    const Status installed = golden::onnxruntime_is_installed();
    ASSERT_TRUE(installed.ok()) << installed.error().message();
    std::string python;
    ASSERT_TRUE(find_python_with("numpy", python));
    const Outcome made = run_program({python, "-B", folder() + "/make_nets.py", directory_->path().string()},
                                     {}, std::chrono::minutes(15));
    ASSERT_EQ(made.exit_code, 0) << made.err;
    std::ifstream list(directory_->path() / "nets.csv");
    for (std::string line; std::getline(list, line);) nets_.push_back(read_net(line));
  }
  static void TearDownTestSuite() { directory_.reset(); }

  static std::string folder() { return std::string(source_dir()) + "/tests/battery"; }
  static fs::path file(const std::string& net, const std::string& suffix) {
    return directory_->path() / (net + "." + suffix);
  }

  static Net read_net(const std::string& line) {
    std::istringstream cells(line);
    Net net;
    std::getline(cells, net.name, ',');
    for (std::string cell; std::getline(cells, cell, ',');) {
      const std::size_t equals = cell.find('=');
      Output output{cell.substr(0, equals), std::stod(cell.substr(equals + 1)), {}};
      const auto array = read_npy(file(net.name, output.name + ".npy"));
      EXPECT_TRUE(array.ok()) << array.error().message();
      if (array.ok()) output.values = numbers(array->data.data(), array->data.size(), array->descr);
      net.outputs.push_back(std::move(output));
    }
    return net;
  }

  static std::unique_ptr<TemporaryDirectory> directory_;
  static std::vector<Net> nets_;
};

std::unique_ptr<TemporaryDirectory> Battery::directory_;
std::vector<Net> Battery::nets_;

/// What became of a net, with the largest difference and the share of outputs that differ, or with the error message.
struct Found {
  Kind kind = Kind::kAgrees;
  double steps = 0;
  std::size_t outputs = 0, differing = 0;
  std::string message;
  double per_cent() const { return 100.0 * static_cast<double>(differing) / static_cast<double>(outputs); }
};

/// Computes one frame with kernels/fast.
std::vector<Buffer> run_fast(kernels::fast::Executor& executor, const std::vector<Buffer>& inputs,
                             const std::vector<Buffer>& like) {
  std::vector<Buffer> outputs = like;
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  for (const Buffer& b : inputs) in.push_back(b.data());
  for (Buffer& b : outputs) {
    std::fill(b.begin(), b.end(), std::byte{0x5A});
    out.push_back(b.data());
  }
  executor.run(in, out);
  return outputs;
}

/// Adds the differences of one output of one frame to `found`.
void compare(const Output& wanted, std::size_t frame, const std::vector<double>& got, Found& found) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double expected = wanted.values.at(frame * got.size() + i);
    ++found.outputs;
    if (got[i] == expected) continue;
    ++found.differing;
    found.steps = std::max(found.steps, std::abs(got[i] - expected) / wanted.step);
  }
}

/// Whether the host computes more than quantisers and changes of layout.
bool computes_on_host(const kernels::Program& program) {
  return std::any_of(program.blocks.begin(), program.blocks.end(), [](const kernels::Block& block) {
    return std::holds_alternative<kernels::FloatOperator>(block.operation) ||
           std::holds_alternative<kernels::Softmax>(block.operation);
  });
}

/// Runs all frames of a compiled net with kernels/reference and kernels/fast, which must be equal.
Found run(const Net& net, const kernels::Program& program, const std::vector<NpyArray>& inputs) {
  Found found;
  kernels::fast::Executor fast(program);
  const std::size_t frames = inputs.at(0).shape.at(0);
  for (std::size_t frame = 0; frame < frames; ++frame) {
    std::vector<Buffer> in;
    for (const NpyArray& array : inputs) {
      const auto each = static_cast<std::ptrdiff_t>(array.data.size() / frames);
      const auto first = array.data.begin() + each * static_cast<std::ptrdiff_t>(frame);
      in.emplace_back(first, first + each);
    }
    const std::vector<Buffer> results = kernels::reference::run(program, in);
    EXPECT_TRUE(run_fast(fast, in, results) == results) << "kernels/fast differs from kernels/reference";
    for (std::size_t i = 0; i < net.outputs.size(); ++i) {
      const std::string descr = descr_of(program.tensors[program.outputs[i]].type);
      const std::vector<double> got = numbers(results[i].data(), results[i].size(), descr);
      EXPECT_EQ(got.size() * frames, net.outputs[i].values.size()) << "output " << i;
      if (got.size() * frames == net.outputs[i].values.size()) compare(net.outputs[i], frame, got, found);
    }
  }
  if (found.differing > 0)
    found.kind = Kind::kDiffers;
  else if (computes_on_host(program))
    found.kind = Kind::kHost;
  return found;
}

/// Checks that the exception describes what became of the net. With random numbers of another seed, a net may differ in
/// more or fewer outputs than the exception says, or in none.
void expect_described(const Found& found, const Exception& listed) {
  const bool other_seed = std::getenv("MILLRACE_SEED") != nullptr;
  if (other_seed && listed.kind == Kind::kDiffers && found.kind != Kind::kRefused) return;
  ASSERT_EQ(to_string(found.kind), to_string(listed.kind)) << found.message;
  if (found.kind == Kind::kRefused) {
    EXPECT_NE(found.message.find(listed.message), std::string::npos) << found.message;
  } else if (found.kind == Kind::kDiffers) {
    EXPECT_LE(found.steps, listed.steps * 1.001);
    EXPECT_LE(found.per_cent(), listed.per_cent);
  }
}

/// Returns the line of exceptions.csv that describes the net, without the reason.
std::string line_of(const std::string& net, const Found& found) {
  std::ostringstream line;
  line << net << ',' << to_string(found.kind) << ',';
  if (found.kind == Kind::kDiffers)
    line << std::setprecision(3) << found.steps << " steps " << found.per_cent() << " %";
  for (const char c : found.message) line << (c == '\n' ? ' ' : c);
  return line.str();
}

TEST_F(Battery, EveryNetGivesTheOutputsOfOnnxRuntimeOrIsListedWithAReason) {
  const auto exceptions = read_exceptions(folder() + "/exceptions.csv");
  std::map<Kind, std::size_t> count;
  std::set<std::string> names;
  for (const Net& net : nets_) {
    SCOPED_TRACE(net.name);
    names.insert(net.name);
    Found found;
    const auto model = golden::compile_model(file(net.name, "onnx"));
    if (model.ok()) {
      std::vector<NpyArray> inputs;
      for (const kernels::TensorIndex i : model->program.inputs) {
        auto array = read_npy(file(net.name, model->program.tensors[i].name + ".npy"));
        ASSERT_TRUE(array.ok()) << array.error().message();
        inputs.push_back(std::move(*array));
      }
      ASSERT_EQ(model->program.outputs.size(), net.outputs.size());
      found = run(net, model->program, inputs);
    } else {
      found.kind = Kind::kRefused;
      found.message = model.error().message();
      EXPECT_NE(model.error().code(), ErrorCode::kInternal);
    }
    ++count[found.kind];
    const auto listed = exceptions.find(net.name);
    expect_described(found, listed == exceptions.end() ? Exception{} : listed->second);
    if (found.kind != Kind::kAgrees) std::cout << line_of(net.name, found) << "\n";
  }
  for (const auto& [name, exception] : exceptions)
    EXPECT_TRUE(names.contains(name)) << "exceptions.csv has a net that make_nets.py does not make: " << name;
  std::printf("%zu nets: %zu agree in every byte, %zu differ, %zu agree and run on the host, %zu refused\n",
              nets_.size(), count[Kind::kAgrees], count[Kind::kDiffers], count[Kind::kHost],
              count[Kind::kRefused]);
}

// If nearly all outputs of a net have the same value, a wrong computation can give the same outputs as ONNX Runtime.
TEST_F(Battery, OutputsOfEveryNetHaveManyDifferentValues) {
  if (std::getenv("MILLRACE_SEED") != nullptr)
    GTEST_SKIP() << "the nets are checked with the usual seed only";
  for (const Net& net : nets_) {
    EXPECT_FALSE(net.outputs.empty()) << net.name;
    for (const Output& output : net.outputs) {
      std::map<double, std::size_t> count;
      for (const double value : output.values) ++count[value];
      std::size_t most = 0;
      for (const auto& [value, times] : count) most = std::max(most, times);
      EXPECT_LE(most * 20, output.values.size() * 19) << net.name << ", output " << output.name;
    }
  }
}

}  // namespace
}  // namespace millrace::tests::test_battery
