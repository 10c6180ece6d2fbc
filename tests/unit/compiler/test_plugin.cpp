// Tests plugins, which are external generators. Candidates of plugins are compared and built like those of Millrace's
// generators. If a plugin misbehaves, there must soon be one clear error, and no process may remain.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>

#include "compiler/generators/design.hpp"
#include "compiler/generators/plugins.hpp"
#include "compiler/generators/timing.hpp"
#include "runtime/base/file.hpp"
#include "tests/support/wait.hpp"

namespace millrace::compiler::generators::test_plugin {
namespace {

namespace fs = std::filesystem;
using kernels::ElementType;
using kernels::Program;

constexpr ElementType kInt8{ElementType::Kind::kSigned, 8};

/// Returns a program with one layer 'fc' that has 4 inputs and 2 outputs. The outputs are sums without requantisation.
Program one_layer(bool wide = false) {
  kernels::Convolution layer;
  layer.out_channels = 2;
  layer.weight_type = wide ? ElementType{ElementType::Kind::kSigned, 16} : kInt8;
  layer.weights = {1, 2, 3, 4, -1, -2, -3, -4};
  layer.accumulator = {ElementType::Kind::kSigned, 24};
  Program program;
  program.name = "part0";
  program.tensors = {{"in", kInt8, {1, 1, 4}, {}, 0}, {"out", layer.accumulator, {1, 1, 2}, {}, 0}};
  program.inputs = {0};
  program.outputs = {1};
  kernels::Block block;
  block.name = "fc";
  block.inputs = {0};
  block.outputs = {1};
  block.operation = layer;
  program.blocks = {block};
  EXPECT_EQ(kernels::validate(program), "");
  return program;
}

const std::string kOffer =
    R"({"id":"own","interval_cycles":4,"latency_cycles":3,"lead":1.0,"input_lanes":2,"output_lanes":1,)"
    R"("resources":{"lut":7,"ff":9,"dsp":1}})";

std::string answer(const std::string& candidates, const std::string& builds = "true") {
  return R"({"schema":1,"builds":)" + builds + R"(,"blocks":{"fc":[)" + candidates + "]}}";
}

class GeneratorPlugin : public testing::Test {
 protected:
  /// Returns a plugin that is the shell script `body`.
  std::shared_ptr<Plugins> plugin(const std::string& body, int milliseconds = 20000) {
    const fs::path path = directory_.path() / "plugin";
    std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
    ::chmod(path.c_str(), 0755);
    auto opened = Plugins::open({path}, std::chrono::milliseconds(milliseconds));
    EXPECT_TRUE(opened.ok());
    return opened.ok() ? *opened : nullptr;
  }
  /// Returns a plugin that reads the request and always writes `text` as its answer.
  std::shared_ptr<Plugins> saying(const std::string& text) {
    std::ofstream(directory_.path() / "said") << text;
    return plugin("cat > " + (directory_.path() / "asked").string() + "; cat " +
                  (directory_.path() / "said").string());
  }
  void expect_refused(const std::string& text, const std::string& why) {
    const auto status = saying(text)->prepare(one_layer());
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_EQ(status.error().code(), ErrorCode::kInvalidInput);
    EXPECT_NE(status.error().message().find(why), std::string::npos) << status.error().message();
    EXPECT_NE(status.error().message().find("plugin '"), std::string::npos);
  }

  TemporaryDirectory directory_{"plugin"};
};

TEST_F(GeneratorPlugin, FoldingsThatThePluginOffersAreListedWithBuiltInFoldings) {
  const auto offering = saying(answer(kOffer));
  const Program program = one_layer();
  ASSERT_TRUE(offering->prepare(program).ok());
  const auto generator = Generator::make(program, 0, offering.get());
  ASSERT_TRUE(generator.ok());
  const auto foldings = (*generator)->foldings(4);
  const auto own = Generator::make(program, 0);
  ASSERT_EQ(foldings.size(), (*own)->foldings(4).size() + 1);
  const auto candidate = (*generator)->candidate(*load_catalog(), foldings.back());
  ASSERT_TRUE(candidate.ok()) << candidate.error().message();
  EXPECT_EQ(candidate->interval_cycles, 4U);
  EXPECT_EQ(candidate->cost, (Cost{7, 0, 9, 1, 0, 0, 0}));
  EXPECT_EQ(to_string(foldings.back()), "plugin's own");
  EXPECT_TRUE((*generator)->foldings(3).size() ==
              (*own)->foldings(3).size());  // the plugin's candidate needs more than 3 cycles
  const auto asked = read_text_file(directory_.path() / "asked");
  ASSERT_TRUE(asked.ok());
  EXPECT_NE(asked->find(R"("ask":"candidates")"), std::string::npos) << *asked;
  EXPECT_EQ(asked->find("weights"), std::string::npos) << "candidates are asked for without constants";
}

TEST_F(GeneratorPlugin, PluginCanBuildABlockWithoutBuiltInHardware) {
  const Program program = one_layer(true);  // the weights have 16 bits
  ASSERT_FALSE(Generator::make(program, 0).ok());
  const auto offering = saying(answer(kOffer));
  ASSERT_TRUE(offering->prepare(program).ok());
  const auto generator = Generator::make(program, 0, offering.get());
  ASSERT_TRUE(generator.ok()) << generator.error().message();
  EXPECT_EQ((*generator)->intervals(), std::vector<std::uint64_t>{4});
  EXPECT_EQ((*generator)->build({}, false).error().code(), ErrorCode::kInvalidInput);
}

TEST_F(GeneratorPlugin, DesignHasTheIntervalAndCostThatThePluginStated) {
  const auto offering = saying(answer(kOffer));
  const Program program = one_layer();
  ASSERT_TRUE(offering->prepare(program).ok());
  Folding folding;
  folding.implementation = Implementation::kPlugin;
  folding.variant = "own";
  const auto design = assemble(*load_catalog(), program, {folding}, {false, offering.get()});
  ASSERT_TRUE(design.ok()) << design.error().message();
  EXPECT_EQ(design->interval_cycles, 4U);
  EXPECT_EQ(design->blocks[0].cost.lut, 7U);
  EXPECT_GE(design->latency_cycles, 4U + 1);
}

TEST_F(GeneratorPlugin, GeneratedModuleIsPartOfTheDesign) {
  std::ofstream(directory_.path() / "module")
      << R"({"schema":1,"files":{"fc_plugin.sv":"module fc_plugin ();endmodule","fc_plugin_w.hex":"00"}})";
  std::ofstream(directory_.path() / "said") << answer(kOffer);
  const std::string folder = directory_.path().string();
  const auto writing = plugin("cat > " + folder + "/asked; if grep -q '\"ask\":\"build\"' " + folder +
                              "/asked; then cat " + folder + "/module; else cat " + folder + "/said; fi");
  const Program program = one_layer();
  ASSERT_TRUE(writing->prepare(program).ok());
  Folding folding;
  folding.implementation = Implementation::kPlugin;
  folding.variant = "own";
  const auto design = assemble(*load_catalog(), program, {folding}, {true, writing.get()});
  ASSERT_TRUE(design.ok()) << design.error().message();
  ASSERT_EQ(design->netlist.sources.size(), 1U);
  EXPECT_EQ(design->netlist.sources[0].module, "fc_plugin");
  EXPECT_EQ(design->netlist.files.back().name, "fc_plugin_w.hex");
  const auto asked = read_text_file(directory_.path() / "asked");
  EXPECT_NE(asked->find(R"("weights":[1,2,3,4,-1,-2,-3,-4])"), std::string::npos) << *asked;
}

TEST_F(GeneratorPlugin, APluginThatIsForPlanningOnlyIsRefusedForABuild) {
  const auto planning = saying(answer(kOffer, "false"));
  const Program program = one_layer();
  ASSERT_TRUE(planning->prepare(program).ok());
  Folding folding;
  folding.implementation = Implementation::kPlugin;
  folding.variant = "own";
  EXPECT_TRUE(assemble(*load_catalog(), program, {folding}, {false, planning.get()}).ok());
  const auto built = assemble(*load_catalog(), program, {folding}, {true, planning.get()});
  ASSERT_FALSE(built.ok());
  EXPECT_EQ(built.error().code(), ErrorCode::kUnsupported);
  EXPECT_NE(built.error().message().find("can only be used for plans"), std::string::npos)
      << built.error().message();
}

TEST_F(GeneratorPlugin, MalformedAnswersAreRefusedWithTheNameOfTheField) {
  expect_refused("", "not JSON");
  expect_refused("hello\x01", "not JSON");
  expect_refused("[]", "answer: not an object");
  expect_refused(R"({"schema":2,"builds":true,"blocks":{}})", "'schema' is not 1");
  expect_refused(R"({"schema":1,"blocks":{}})", "'builds' is missing");
  expect_refused(R"({"schema":1,"builds":1,"blocks":{}})", "answer.builds");
  expect_refused(R"({"schema":1,"builds":true,"blocks":{},"more":0})", "unknown member 'more'");
  expect_refused(R"({"schema":1,"builds":true,"blocks":{"other":[]}})",
                 "the request does not contain this block");
  expect_refused(R"({"schema":1,"builds":true,"blocks":{"fc":7}})", "answer.blocks.fc");
  expect_refused(answer("{}"), "'id' is missing");
  expect_refused(answer(kOffer + "," + kOffer), "two candidates are called 'own'");
  const auto changed = [](const std::string& from, const std::string& to) {
    std::string text = kOffer;
    text.replace(text.find(from), from.size(), to);
    return answer(text);
  };
  expect_refused(changed("\"own\"", "\"../own\""), "a name must have 1 to 64");
  expect_refused(changed("\"interval_cycles\":4", "\"interval_cycles\":1"),
                 "interval_cycles: 1 is outside 2..");
  expect_refused(changed("\"interval_cycles\":4", "\"interval_cycles\":1e99"), "interval_cycles");
  expect_refused(changed("\"latency_cycles\":3", "\"latency_cycles\":-3"), "latency_cycles");
  expect_refused(changed("\"lead\":1.0", "\"lead\":0"), "lead");
  expect_refused(changed("\"input_lanes\":2", "\"input_lanes\":3"), "does not divide 4 elements");
  expect_refused(changed("\"dsp\":1", "\"dsp\":-1"), "answer.blocks.fc[0].resources.dsp");
  expect_refused(changed("\"dsp\":1", "\"bram\":1"), "unknown member 'bram'");
}

TEST_F(GeneratorPlugin, CrashesHangsAndEndlessOutputAreReported) {
  const auto expect = [&](const std::string& body, int milliseconds, const std::string& why) {
    const auto status = plugin(body, milliseconds)->prepare(one_layer());
    ASSERT_FALSE(status.ok()) << body;
    EXPECT_NE(status.error().message().find(why), std::string::npos) << status.error().message();
  };
  expect("kill -SEGV $$", 20000, "signal 11");
  expect("echo what is wrong >&2; exit 3", 20000, "ended with code 3; it said: what is wrong");
  expect("exec sleep 1000", 300, "did not end within 300 ms");
  expect("trap '' TERM; exec >&- 2>&-; sleep 1000", 300, "did not end within 300 ms");
  expect("yes", 20000, "longer than 16777216 bytes");
  expect("yes >&2", 300, "did not end within 300 ms");
  expect("exec <&-; exit 0", 20000, "not JSON");
}

TEST_F(GeneratorPlugin, ProcessesThatThePluginStartedAreKilled) {
  const std::string mark = (directory_.path() / "mark").string();
  std::ofstream(directory_.path() / "said") << answer(kOffer);
  // A child of the plugin keeps the plugin's output open. Nevertheless the answer must be accepted.
  const auto starting = plugin("cat > /dev/null; (sleep 1000 & echo $! > " + mark + "); cat " +
                               directory_.path().string() + "/said");
  const auto begin = std::chrono::steady_clock::now();
  const auto status = starting->prepare(one_layer());
  EXPECT_TRUE(status.ok()) << status.error().message();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
  const pid_t child = std::stoi(*read_text_file(mark));
  // A killed process either no longer exists, or is a zombie until its new parent reaps it.
  const auto gone = [&] {
    std::ifstream state("/proc/" + std::to_string(child) + "/stat");
    std::string text;
    std::getline(state, text);
    return text.empty() || text.find(") Z") != std::string::npos || text.find(") X") != std::string::npos;
  };
  EXPECT_TRUE(tests::wait_until(gone));
}

TEST_F(GeneratorPlugin, MissingAndUnexpectedFilesAreRefused) {
  const auto expect = [&](const std::string& files, const std::string& why) {
    std::ofstream(directory_.path() / "module") << R"({"schema":1,"files":)" << files << "}";
    std::ofstream(directory_.path() / "said") << answer(kOffer);
    const std::string folder = directory_.path().string();
    const auto writing = plugin("cat > " + folder + "/asked; if grep -q '\"ask\":\"build\"' " + folder +
                                "/asked; then cat " + folder + "/module; else cat " + folder + "/said; fi");
    const Program program = one_layer();
    ASSERT_TRUE(writing->prepare(program).ok());
    Folding folding;
    folding.implementation = Implementation::kPlugin;
    folding.variant = "own";
    const auto built = assemble(*load_catalog(), program, {folding}, {true, writing.get()});
    ASSERT_FALSE(built.ok()) << files;
    EXPECT_NE(built.error().message().find(why), std::string::npos) << built.error().message();
  };
  expect("{}", "'fc_plugin.sv' is missing");
  expect(R"({"../fc_plugin.sv":"module"})", "begins with 'fc_plugin'");
  expect(R"({"fc_plugin.sh":"module"})", "ends with .sv or .hex");
  expect(R"({"mr_mvu.sv":"module mr_mvu"})", "begins with 'fc_plugin'");
  expect(R"({"fc_plugin.sv":"nothing"})", "does not contain a module");
  expect(R"({"fc_plugin.sv":7})", "not a text");
}

TEST_F(GeneratorPlugin, ImplementationsOfSeveralPluginsAreListedInTheOrderOfTheOptionPlugins) {
  const auto file = [&](const std::string& name, const std::string& answered) {
    const fs::path path = directory_.path() / name;
    std::ofstream(path) << "#!/bin/sh\ncat > /dev/null; echo '" << answered << "'\n";
    ::chmod(path.c_str(), 0755);
    return path;
  };
  std::string second = kOffer;
  second.replace(second.find("\"own\""), 5, "\"other\"");
  const fs::path a = file("a", answer(kOffer)), b = file("b", answer(second + "," + kOffer));
  const auto both = Plugins::open({a, b});
  ASSERT_TRUE(both.ok()) << both.error().message();
  const Program program = one_layer();
  ASSERT_TRUE((*both)->prepare(program).ok());
  std::vector<std::string> names;
  for (const auto& candidate : (*both)->offered(program, program.blocks[0]))
    names.push_back(candidate.folding.variant);
  EXPECT_EQ(names, (std::vector<std::string>{"own", "other", "b.own"}));
  EXPECT_EQ((*both)->names(), "'a', 'b'");

  const auto twice = Plugins::open({a, a});
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.error().code(), ErrorCode::kInvalidInput);
  EXPECT_NE(twice.error().message().find("list each plugin only once"), std::string::npos);

  // Two plugins offer a candidate with the same name. The module must come from the plugin whose candidate was chosen.
  for (const char* plugin : {"a", "b"})
    file(plugin,
         std::string(R"({"schema":1,"files":{"fc_plugin.sv":"module fc_plugin (); // )") + plugin + "\"}}");
  for (const auto& [variant, text] : {std::pair("own", "// a"), std::pair("b.own", "// b")}) {
    Folding folding;
    folding.implementation = Implementation::kPlugin;
    folding.variant = variant;
    const auto design = assemble(*load_catalog(), program, {folding}, {true, both->get()});
    ASSERT_TRUE(design.ok()) << design.error().message();
    EXPECT_NE(design->netlist.sources[0].text.find(text), std::string::npos) << variant;
  }
}

TEST_F(GeneratorPlugin, AFileThatCannotBeExecutedIsRefused) {
  EXPECT_EQ(Plugin::open(directory_.path() / "none").error().code(), ErrorCode::kInvalidInput);
  std::ofstream(directory_.path() / "text") << "hello";
  EXPECT_EQ(Plugin::open(directory_.path() / "text").error().code(), ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace millrace::compiler::generators::test_plugin
