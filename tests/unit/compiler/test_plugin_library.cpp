// Tests plugins that are shared libraries: which nodes they take, what happens if a library misbehaves, and the models
// with which emulated cards compute.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "compiler/front/import.hpp"
#include "compiler/generators/catalog.hpp"
#include "compiler/generators/design.hpp"
#include "compiler/generators/plugins.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/planning/claims.hpp"
#include "kernels/fast/executor.hpp"
#include "kernels/reference/reference.hpp"
#include "onnx_model.hpp"
#include "runtime/base/cache.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/plan/image.hpp"
#include "runtime/plugins/library.hpp"
#include "runtime/plugins/models.hpp"

namespace millrace::compiler::test_plugin_library {
namespace {

namespace fs = std::filesystem;
using generators::Plugins;
using kernels::Program;
using tests::OnnxModel;

const fs::path kExample = EXAMPLE_PLUGIN, kFaulty = FAULTY_PLUGIN, kFactoryless = FACTORYLESS_PLUGIN;

/// Sets an environment variable for the lifetime of this object. Plugins run in child processes, which inherit the
/// variable.
class Variable {
 public:
  Variable(std::string name, const std::string& value) : name_(std::move(name)) {
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  ~Variable() { ::unsetenv(name_.c_str()); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  std::string name_;
};

std::vector<std::byte> bytes_of(const OnnxModel& model) {
  const std::string text = model.bytes();
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

/// Returns the graph of a model whose nodes the plugins may take.
Result<graph::Graph> imported(const OnnxModel& model, const std::shared_ptr<Plugins>& plugins) {
  return import_onnx(bytes_of(model), "model", {}, FloatModel::kRefused, claimer_of(plugins));
}

/// Returns a model with a Relu on 8 numbers between two quantisers.
OnnxModel relu_model() {
  OnnxModel m;
  m.input("x", {1, 8});
  const std::string x = m.pair("x", 0.5F, 0, "xq");
  m.node("Relu", {x}, "r");
  m.pair("r", 0.5F, 0, "y");
  m.output(m.last().output(0));
  return m;
}

/// Returns a model that computes low, high = CompareExchange(a, b) on vectors of 6 numbers. The scale of a, b and low
/// is `scale`, and the scale of high is `last`.
OnnxModel exchange_model(float scale = 0.5F, float last = 0.5F, bool declared = true) {
  OnnxModel m;
  m.input("a", {1, 6});
  m.input("b", {1, 6});
  const std::string a = m.pair("a", scale, 0, "aq"), b = m.pair("b", scale, 0, "bq");
  m.node("CompareExchange", {a, b}, "low", "org.example");
  m.last().set_name("exchange");
  m.last().add_output("high");
  auto& opset = *m.proto().add_opset_import();
  opset.set_domain("org.example");
  opset.set_version(1);
  for (const char* name : {"low", "high"}) {
    if (!declared) continue;
    auto& value = *m.proto().mutable_graph()->add_value_info();
    value.set_name(name);
    auto& type = *value.mutable_type()->mutable_tensor_type();
    type.set_elem_type(onnx::TensorProto::FLOAT);
    for (const int extent : {1, 6}) type.mutable_shape()->add_dim()->set_dim_value(extent);
  }
  m.output(m.pair("low", scale, 0, "lq"));
  m.output(m.pair("high", last, 0, "hq"));
  return m;
}

class PluginLibrary : public testing::Test {
 protected:
  static std::shared_ptr<Plugins> opened(const std::vector<fs::path>& files, int milliseconds = 20000) {
    auto plugins = Plugins::open(files, std::chrono::milliseconds(milliseconds));
    EXPECT_TRUE(plugins.ok()) << (plugins.ok() ? "" : plugins.error().message());
    return plugins.ok() ? *plugins : nullptr;
  }

  /// Expects that the faulty plugin makes the import fail, or prepare(), which asks the plugin for hardware. The
  /// message must have `words`.
  static void expect_fault(const std::string& fault, const std::vector<std::string>& words,
                           int milliseconds = 20000) {
    const Variable set("MILLRACE_FAULT", fault);
    const auto plugins = opened({kFaulty}, milliseconds);
    ASSERT_NE(plugins, nullptr);
    auto graph = imported(relu_model(), plugins);
    Status status = graph.ok() ? Status() : Status(graph.error());
    if (graph.ok()) {
      const auto program = lowered(std::move(*graph));
      ASSERT_TRUE(program.ok()) << fault << ": " << program.error().message();
      status = plugins->prepare(*program);
    }
    ASSERT_FALSE(status.ok()) << fault;
    EXPECT_EQ(status.error().code(), ErrorCode::kInvalidInput) << fault;
    for (const std::string& word : words)
      EXPECT_NE(status.error().message().find(word), std::string::npos)
          << fault << ": " << status.error().message();
    EXPECT_NE(status.error().message().find("faulty"), std::string::npos) << status.error().message();
  }

  static Result<Program> lowered(graph::Graph graph) {
    MILLRACE_ASSIGN(graph, passes::run_standard_passes(std::move(graph)));
    return passes::build_program(std::move(graph));
  }

  /// Puts a library into a cache that only this test uses.
  void install(const fs::path& library) {
    runtime::plan::LoadedDeployment deployment;
    const auto bytes = read_file(library, 1U << 28U);
    ASSERT_TRUE(bytes.ok());
    deployment.plugins[sha256_hex(*bytes)] = *bytes;
    const Status allowed = runtime::plugins::allow_plugins(deployment, true);
    ASSERT_TRUE(allowed.ok()) << allowed.error().message();
  }

  TemporaryDirectory directory_{"plugin-library"};
  Variable cache_{"MILLRACE_CACHE", (directory_.path() / "cache").string()};
};

TEST_F(PluginLibrary, ExampleTakesItsOperatorWithTheQuantisersAroundIt) {
  const auto graph = imported(exchange_model(), opened({kExample}));
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  std::size_t taken = 0;
  for (const graph::Node& node : graph->nodes) {
    const auto* own = std::get_if<graph::PluginOperator>(&node.operation);
    if (own == nullptr) continue;
    ++taken;
    EXPECT_EQ(node.name, "exchange");
    EXPECT_EQ(own->op.plugin, "compare_exchange");
    EXPECT_EQ(node.inputs.size(), 2U);
    EXPECT_EQ(node.outputs.size(), 2U);
    EXPECT_EQ(node.sources.size(), 5U);  // the operator, two dequantisers and two quantisers
  }
  EXPECT_EQ(taken, 1U);
  EXPECT_EQ(graph->nodes.size(), 5U);  // with two quantisers of inputs and two dequantisers of outputs
}

TEST_F(PluginLibrary, UnknownOperatorIsRefusedIfNoPluginTakesIt) {
  const auto without = imported(exchange_model(), nullptr);
  ASSERT_FALSE(without.ok());
  EXPECT_NE(without.error().message().find("org.example"), std::string::npos);
  const auto other = imported(exchange_model(), opened({kFaulty}));
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code(), ErrorCode::kUnsupported);
  EXPECT_NE(other.error().message().find("no plugin computes it"), std::string::npos)
      << other.error().message();
  const auto undeclared = imported(exchange_model(0.5F, 0.5F, false), opened({kExample}));
  ASSERT_FALSE(undeclared.ok());
  EXPECT_NE(undeclared.error().message().find("declares the type and shape of its output 'low'"),
            std::string::npos)
      << undeclared.error().message();
  const auto scales = imported(exchange_model(0.5F, 0.25F), opened({kExample}));
  ASSERT_FALSE(scales.ok());
  EXPECT_NE(
      scales.error().message().find("node 'exchange': the node's inputs and outputs must share one scale"),
      std::string::npos)
      << scales.error().message();
}

TEST_F(PluginLibrary, FirstOfTwoPluginsTakesTheNode) {
  const fs::path copy = directory_.path() / "copy.so";
  fs::copy_file(kExample, copy);
  std::ofstream(copy, std::ios::app | std::ios::binary) << "another digest";
  const auto graph = imported(exchange_model(), opened({copy, kExample}));
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  const auto bytes = read_file(copy, 1U << 28U);
  for (const graph::Node& node : graph->nodes)
    if (const auto* own = std::get_if<graph::PluginOperator>(&node.operation)) {
      EXPECT_EQ(own->op.library, sha256_hex(*bytes));
    }
}

TEST_F(PluginLibrary, ReferenceAndFastExecutorCallTheCodeOfThePlugin) {
  auto graph = imported(exchange_model(), opened({kExample}));
  ASSERT_TRUE(graph.ok());
  auto whole = lowered(std::move(*graph));
  ASSERT_TRUE(whole.ok()) << whole.error().message();
  // A program that is encoded and decoded again is unchanged, except that it lacks the plugin's model (code): a file
  // must not bring code with it.
  auto program = runtime::plan::decode_program(runtime::plan::encode_program(*whole));
  ASSERT_TRUE(program.ok()) << program.error().message();
  EXPECT_EQ(*program, *whole);
  const Status absent = runtime::plugins::load_models(*program);
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code(), ErrorCode::kNotFound);
  EXPECT_NE(absent.error().message().find("--allow-plugins"), std::string::npos) << absent.error().message();
  install(kExample);
  const Status loaded = runtime::plugins::load_models(*program);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message();

  const std::vector<float> a{-3, 0, 1, 7, -8, 2}, b{4, -1, 1, 6, -9, 3};
  const std::vector<float> low{-3, -1, 1, 6, -9, 2}, high{4, 0, 1, 7, -8, 3};
  const auto buffer = [](const std::vector<float>& floats) {
    const auto bytes = std::as_bytes(std::span(floats));
    return kernels::reference::Buffer(bytes.begin(), bytes.end());
  };
  const auto outputs = kernels::reference::run(*program, {buffer(a), buffer(b)});
  EXPECT_EQ(outputs, (std::vector{buffer(low), buffer(high)}));
  std::vector<float> fast_low(6), fast_high(6);
  const std::byte* from[] = {reinterpret_cast<const std::byte*>(a.data()),
                             reinterpret_cast<const std::byte*>(b.data())};
  std::byte* to[] = {reinterpret_cast<std::byte*>(fast_low.data()),
                     reinterpret_cast<std::byte*>(fast_high.data())};
  kernels::fast::Executor(*program).run(from, to);
  EXPECT_EQ(fast_low, low);
  EXPECT_EQ(fast_high, high);
}

TEST_F(PluginLibrary, DesignHasAStreamForEachInputAndOutput) {
  const auto plugins = opened({kExample});
  auto graph = imported(exchange_model(), plugins);
  ASSERT_TRUE(graph.ok());
  const auto whole = lowered(std::move(*graph));
  ASSERT_TRUE(whole.ok());
  for (std::uint32_t b = 0; b < whole->blocks.size(); ++b) {
    if (!std::holds_alternative<kernels::PluginOperator>(whole->blocks[b].operation)) continue;
    const Program alone = kernels::extract(*whole, {b}, "part0");
    ASSERT_TRUE(plugins->prepare(alone).ok());
    generators::Folding folding;
    folding.implementation = generators::Implementation::kPlugin;
    folding.variant = "lanes2";
    const auto design =
        generators::assemble(*generators::load_catalog(), alone, {folding}, {true, plugins.get()});
    ASSERT_TRUE(design.ok()) << design.error().message();
    EXPECT_EQ(design->interval_cycles, 3U);
    EXPECT_EQ(design->inputs.size(), 2U);
    EXPECT_EQ(design->outputs.size(), 2U);
    ASSERT_EQ(design->netlist.sources.size(), 1U);
    EXPECT_NE(design->netlist.sources[0].text.find("s1_ready"), std::string::npos);
    return;
  }
  FAIL() << "no block of the plugin";
}

TEST_F(PluginLibrary, FilesThatAreNoPluginsAreRefusedWithTheRemedy) {
  const auto refused = [](const fs::path& file, const std::string& fault) {
    const Variable set("MILLRACE_FAULT", fault);
    const auto library = runtime::plugins::Library::open(file);
    EXPECT_FALSE(library.ok()) << file << fault;
    if (library.ok()) return std::string();
    EXPECT_EQ(library.error().code(), ErrorCode::kInvalidInput);
    return library.error().message();
  };
  const fs::path text = directory_.path() / "text.so";
  std::ofstream(text) << "hello";
  EXPECT_NE(refused(text, "").find("not a shared library for 64-bit Linux (ELF)"), std::string::npos);
  EXPECT_NE(refused("/proc/self/exe", "").find("not load"), std::string::npos);
  EXPECT_NE(refused(kFactoryless, "").find("does not export the function get_plugin; define it with extern"),
            std::string::npos);
  EXPECT_NE(
      refused(kFaulty, "abi").find("version 99 of the plugin interface, but this Millrace has version 1"),
      std::string::npos);
  EXPECT_NE(refused(kFaulty, "null").find("get_plugin() returned NULL"), std::string::npos);
  EXPECT_NE(refused(kFaulty, "throw_factory").find("get_plugin() threw"), std::string::npos);
  EXPECT_NE(refused(kFaulty, "unnamed").find("the field 'name' of its millrace_plugin must have"),
            std::string::npos);
  EXPECT_NE(refused(kFaulty, "function").find("lacks a function"), std::string::npos);
  EXPECT_EQ(Plugins::open({text}).error().code(), ErrorCode::kInvalidInput);
  EXPECT_EQ(runtime::plugins::Library::open(kExample, std::string(64, '0')).error().code(),
            ErrorCode::kCorrupt);
}

TEST_F(PluginLibrary, ErrorNamesPluginAndNodeIfThePluginMisbehaves) {
  expect_fault("throw", {"partition() threw an exception: the disk is full of bees"});
  expect_fault("crash", {"asked for the nodes that it computes: ", "signal 6", "leave it out of --plugins"});
  expect_fault("hang", {"did not end within 1000 ms"}, 1000);
  expect_fault("fail", {"partition() returned 7: node 'r' is too large"});
  expect_fault("device", {"device 'gpu' of subgraph 'relu' does not exist", "'card'"});
  expect_fault("name", {"a name must have 1 to 64"});
  expect_fault("empty", {"at least one node"});
  expect_fault("float", {"subgraph 'relu' gives 'r' of Relu 'r'", "QuantizeLinear"});
  expect_fault("unknown", {"node number 999 does not exist"});
  expect_fault("overlap", {"is in subgraph 'relu', too"});
  expect_fault("many", {"node number 1009", "and 10 more"});
  expect_fault("abi", {"version 99"});
  expect_fault("throw_compile", {"compile() of block 'relu' threw an exception: no hardware today"});
  expect_fault("crash_compile", {"asked for hardware of block 'relu': it was ended by signal 6"});
  expect_fault("lanes", {"answer.blocks.relu[0].input_lanes: 3 does not divide 8 elements"});
  expect_fault("id", {"answer.blocks.relu[0]"});
  expect_fault("interval", {"interval_cycles: 1 is outside 8.."});
  expect_fault("lead", {"lead: not a number above 0, at most 1"});
  expect_fault("resources", {"resources.lut: -5 is outside 0.."});
}

TEST_F(PluginLibrary, TextThatTheLibraryPrintsDoesNotDisturbItsAnswer) {
  const Variable set("MILLRACE_FAULT", "print");
  EXPECT_TRUE(imported(relu_model(), opened({kFaulty})).ok());
}

TEST_F(PluginLibrary, ErrorOfAFailedPluginNamesPluginAndBlockAndTheNextFrameSucceeds) {
  install(kFaulty);
  auto graph = imported(relu_model(), opened({kFaulty}));
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  auto program = lowered(std::move(*graph));
  ASSERT_TRUE(program.ok());
  ASSERT_TRUE(runtime::plugins::load_models(*program).ok());
  const Variable set("MILLRACE_FAULT", "run");
  const auto floats_of = [](std::byte* out) {
    std::vector<float> floats(8);
    std::memcpy(floats.data(), out, 32);
    return floats;
  };
  kernels::fast::Executor fast(*program);
  // The first element of the frame, which is quantised with the scale 0.5, tells the faulty plugin what to do.
  const auto said = [&](float first, bool reference) {
    std::vector<float> frame{first, -1, 1, 0, 0, 0, 0, 0};
    const auto bytes = std::as_bytes(std::span(frame));
    std::vector<std::byte> out(32);
    const std::byte* from = bytes.data();
    std::byte* to = out.data();
    try {
      if (reference)
        out =
            kernels::reference::run(*program, {kernels::reference::Buffer(bytes.begin(), bytes.end())}).at(0);
      else
        fast.run(std::span(&from, 1), std::span(&to, 1));
    } catch (const kernels::PluginFailure& failure) {
      return std::string(failure.what());
    }
    frame[1] = 0;
    return std::string(floats_of(out.data()) == frame ? "relu" : "wrong");
  };
  for (const bool reference : {true, false}) {
    EXPECT_EQ(said(0.5F, reference),
              "plugin 'faulty', block 'relu': run() returned 1: this plugin cannot compute");
    EXPECT_EQ(said(4, reference), "relu");
    EXPECT_EQ(said(1, reference), "plugin 'faulty', block 'relu': run() threw an exception: out of cheese");
    EXPECT_EQ(said(4, reference), "relu");
  }
}

TEST_F(PluginLibrary, DeploymentWithLibrariesNeedsThePermissionOfTheUser) {
  runtime::plan::LoadedDeployment deployment;
  deployment.directory = "net";
  EXPECT_TRUE(runtime::plugins::allow_plugins(deployment, false).ok());
  deployment.plugins["abc"] = {};
  const Status refused = runtime::plugins::allow_plugins(deployment, false);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidInput);
  for (const char* word : {"net: ", "plugins/abc.so", "--allow-plugins"})
    EXPECT_NE(refused.error().message().find(word), std::string::npos) << refused.error().message();
}

}  // namespace
}  // namespace millrace::compiler::test_plugin_library
