// Tests the command line as users see it: exit codes, and error messages that name the wrong field and the remedy.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/json.hpp>

#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/http.hpp"
#include "tests/support/process.hpp"

namespace millrace::tests::test_command_line {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = tests::source_dir();
const fs::path kModel = kSource / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx";
const fs::path kThreeCards = kSource / "configs/clusters/three-ku060.yaml";

Outcome millrace(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), millrace_binary());
  return run_program(arguments);
}

Outcome compile(const fs::path& model, const fs::path& cluster, const fs::path& output,
                std::vector<std::string> more = {}) {
  std::vector<std::string> arguments{"compile", model.string(),  "--cluster", cluster.string(),
                                     "-o",      output.string(), "--quiet"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return millrace(arguments);
}

void write(const fs::path& path, const std::string& text) {
  const Status written = write_file_atomically(path, text);
  ASSERT_TRUE(written.ok()) << written.error().message();
}

/// Expects the exit code and exactly one error on standard error, which contains every one of `words`.
void expect_error(const Outcome& outcome, int exit_code, const std::vector<std::string>& words) {
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.out << outcome.err;
  const auto at = outcome.err.find("error: ");
  ASSERT_NE(at, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("error: ", at + 1), std::string::npos) << "more than one error: " << outcome.err;
  for (const auto& word : words)
    EXPECT_NE(outcome.err.find(word), std::string::npos) << "'" << word << "' not in: " << outcome.err;
}

class CommandLine : public ::testing::Test {
 protected:
  fs::path file(const char* name) const { return dir_.path() / name; }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(dir_.path()), fs::directory_iterator()));
  }
  TemporaryDirectory dir_{"millrace-cli"};
};

TEST_F(CommandLine, CoverageExitCodeDistinguishesAnUnsupportedNodeFromABadFile) {
  const Outcome good = millrace({"coverage", kModel.string()});
  EXPECT_EQ(good.exit_code, 0) << good.err;
  EXPECT_NE(good.out.find("416,520  100.0 %"), std::string::npos) << good.out;

  const auto bytes = read_file(kModel, 1U << 24U);
  ASSERT_TRUE(bytes.ok());
  std::string text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  const auto at = text.find("Flatten");
  ASSERT_NE(at, std::string::npos);
  write(file("unknown.onnx"), text.replace(at, 7, "Flattex"));
  const Outcome bad = millrace({"coverage", file("unknown.onnx").string()});
  expect_error(bad, 1, {"nowhere", "the table says what to change"});
  EXPECT_NE(bad.out.find("Flattex"), std::string::npos) << bad.out;
  expect_error(compile(file("unknown.onnx"), kThreeCards, file("out")), 2,
               {"Flattex", "`millrace coverage MODEL` shows every node"});

  write(file("empty.onnx"), "");
  expect_error(millrace({"coverage", file("empty.onnx").string()}), 2, {"empty.onnx", "is empty"});
}

TEST_F(CommandLine, HelpAndVersionExitWith0AndWrongUsageWith2) {
  EXPECT_EQ(millrace({"--help"}).exit_code, 0);
  EXPECT_EQ(millrace({"compile", "--help"}).exit_code, 0);
  EXPECT_NE(millrace({"--version"}).out.find("millrace "), std::string::npos);
  EXPECT_EQ(millrace({}).exit_code, 2);
  EXPECT_EQ(millrace({"compile"}).exit_code, 2);
  EXPECT_EQ(millrace({"compose"}).exit_code, 2);
  expect_error(millrace({"bogus", "--help"}), 2,
               {"'bogus' is not a command or an option of millrace", "plan, quantize, compile"});
  EXPECT_EQ(millrace({"serve", "--slots", "0", "--deployment", "x"}).exit_code, 2);
}

TEST_F(CommandLine, RefusesAPipeInPlaceOfAFileWithoutBlocking) {
  const fs::path fifo = file("fifo"), folder = file("folder");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  fs::create_directories(folder);
  for (const char* part : {"CHECKSUMS", "deployment.json"})
    ASSERT_EQ(::mkfifo((folder / part).c_str(), 0600), 0);
  fs::create_directories(file("with_yaml"));
  fs::copy_file(kModel, file("with_yaml") / "model.onnx");
  ASSERT_EQ(::mkfifo((file("with_yaml") / "millrace.yaml").c_str(), 0600), 0);
  const std::string model = kModel.string(), cluster = kThreeCards.string(), pipe = fifo.string();
  const std::vector<std::string> tls = {"serve", "--check-config", "--http", "tls:127.0.0.1:0"};
  const auto with = [](std::vector<std::string> command, const std::vector<std::string>& more) {
    command.insert(command.end(), more.begin(), more.end());
    return command;
  };
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"compile", pipe, "--cluster", cluster, "-o", file("out").string()},
           {"compile", model, "--cluster", pipe, "-o", file("out").string()},
           {"compile", (file("with_yaml") / "model.onnx").string(), "--cluster", cluster, "-o",
            file("out").string()},
           {"plan", pipe, "--cluster", cluster},
           {"plan", model, "--cluster", pipe},
           {"inspect", pipe},
           {"inspect", folder.string()},
           {"verify", folder.string()},
           {"serve", "--check-config", "--config", pipe},
           {"serve", "--check-config", "--deployment", folder.string()},
           {"serve", "--check-config", "--cluster", pipe},
           {"serve", "--check-config", "--tokens", pipe},
           {"serve", "--check-config", "--udp", "127.0.0.1:0", "--udp-keys", pipe},
           with(tls, {"--tls-certificate", pipe, "--tls-key", model}),
           {"infer", "--url", "http://127.0.0.1:1", "--input", "x.png", "--token-file", pipe},
           {"infer", "--url", "https://127.0.0.1:1", "--input", "x.png", "--ca-file", pipe}}) {
    std::vector<std::string> whole = command;
    whole.insert(whole.begin(), millrace_binary());
    const Outcome outcome = run_program(whole, {}, std::chrono::seconds(20));
    SCOPED_TRACE(command[0] + " " + command[1] + " " + command.back());
    expect_error(outcome, 2, {"is a pipe, device or socket"});
  }
  EXPECT_FALSE(fs::exists(file("out")));
}

TEST_F(CommandLine, NamesTheWrongArgumentAndListsTheValidArguments) {
  expect_error(millrace({"frobnicate"}), 2, {"'frobnicate'", "plan, quantize, compile, verify", "devices"});
  expect_error(millrace({}), 2, {"a command is missing", "plan, quantize, compile, verify", "devices"});
  expect_error(millrace({"--frobnicate"}), 2, {"'--frobnicate'"});
  const Outcome partitions = compile(kModel, kThreeCards, file("d"), {"--partitions", "0"});
  expect_error(partitions, 2, {"--partitions", "1", "1024"});
  EXPECT_LT(partitions.err.size(), 200U) << partitions.err;
  expect_error(millrace({"verify", "d", "--frames", "0"}), 2, {"--frames", "1"});
  for (const auto& arguments :
       {std::vector<std::string>{"infer", "--input", "x", "--top", "0"},
        std::vector<std::string>{"serve", "--deployment", "x", "--max-body-bytes", "0"}}) {
    const Outcome outcome = millrace(arguments);
    expect_error(outcome, 2, {arguments[3]});
    EXPECT_LT(outcome.err.size(), 200U) << outcome.err;
  }
}

TEST_F(CommandLine, ReportsAnUnknownOptionBeforeAMissingRequiredOption) {
  expect_error(millrace({"plan", kModel, "--clutser", kThreeCards}), 2,
               {"'--clutser' is not an option of 'millrace plan'"});
  expect_error(millrace({"compile", kModel, "--frobnicate"}), 2,
               {"'--frobnicate' is not an option of 'millrace compile'"});
  expect_error(millrace({"infer", "-x"}), 2, {"'-x' is not an option of 'millrace infer'"});
  // If all given options are known, the message names the missing option.
  expect_error(millrace({"plan", kModel}), 2, {"--cluster is required"});
}

TEST_F(CommandLine, PrintsErrorsAsJsonWithTheJsonOption) {
  const struct {
    std::vector<std::string> arguments;
    std::string command, word;
    int exit_code;
  } cases[] = {
      {{"plan", kModel, "--json", "--frobnicate"}, "plan", "--frobnicate", 2},
      {{"--json", "bogus"}, "", "is not a command", 2},
      {{"bogus", "--json"}, "", "'bogus' is not a command", 2},
      {{"inspect", file("nothing"), "--json"}, "inspect", "nothing", 2},
      {{"infer", "--json", "--url", "ftp://x", "--input", kModel}, "infer", "ftp://x", 2},
      {{"infer", "--json", "--url", "http://127.0.0.1:1", "--input", kModel}, "infer", "127.0.0.1:1", 1},
      {{"plan", kModel, "--cluster", kThreeCards, "--partitions", "9", "--json"}, "plan", "9", 1},
  };
  for (const auto& one : cases) {
    const Outcome outcome = millrace(one.arguments);
    SCOPED_TRACE(outcome.err);
    EXPECT_EQ(outcome.exit_code, one.exit_code);
    EXPECT_EQ(outcome.out, "");
    boost::json::error_code code;
    const boost::json::value said = boost::json::parse(outcome.err, code);
    ASSERT_FALSE(code) << "standard error is one JSON document";
    EXPECT_EQ(said.at("schema").as_int64(), 1);
    EXPECT_EQ(said.at("command").as_string(), one.command);
    EXPECT_EQ(said.at("exit_code").as_int64(), one.exit_code);
    EXPECT_NE(std::string(said.at("error").as_string()).find(one.word), std::string::npos);
  }
}

TEST_F(CommandLine, RefusesEmptyAndOutOfRangeOptionValues) {
  const std::string url = "http://127.0.0.1:1";
  const struct {
    std::vector<std::string> arguments;
    std::string option;
    std::vector<std::string> values;
  } cases[] = {
      {{"plan", kModel, "--cluster", kThreeCards},
       "--target-fps",
       {"nan", "inf", "-inf", "-1", "0", "1e999", "x"}},
      {{"plan", kModel, "--cluster", kThreeCards},
       "--max-latency",
       {"nan", "inf", "-1us", "0us", "us", "1e999s"}},
      {{"plan", kModel, "--cluster", kThreeCards},
       "--max-utilisation",
       {"nan", "0", "1.1", "dsp=nan", "cow=0.5"}},
      {{"plan", kModel, "--cluster", kThreeCards},
       "--partitions",
       {"nan", "-1", "0", "1025", "1.5", "99999999999999999999"}},
      {{"plan", kModel, "--cluster", kThreeCards},
       "--split",
       {"conv_5=nan", "conv_5=-1", "conv_5=99999999999"}},
      {{"verify", file("d")}, "--frames", {"nan", "-1", "0", "1.5", "4294967296"}},
      {{"verify", file("d")}, "--seed", {"nan", "-1", "1.5", "18446744073709551616"}},
      {{"verify", file("d"), "--fidelity", "rtl"}, "--stall", {"nan", "inf", "-0.1", "1", "x"}},
      {{"verify", file("d"), "--inputs", "x", "--expect", "y"}, "--tolerance", {"nan", "-1"}},
      {{"synth", file("d")}, "--jobs", {"nan", "-1", "0", "1025"}},
      {{"infer", "--url", url, "--input", "x"}, "--top", {"nan", "-1", "0"}},
      {{"infer", "--url", url, "--input", "x"}, "--timeout-ms", {"nan", "-1", "0"}},
      {{"reload", "--url", url, "--model", "m"}, "--timeout-ms", {"nan", "-1", "0"}},
      {{"bench", "--url", url, "--model", "m"}, "--rate", {"nan", "inf", "-1", "0", "1e308"}},
      {{"bench", "--url", url, "--model", "m"}, "--duration", {"nan", "inf", "-1", "0", "1e308"}},
      {{"bench", "--url", url, "--model", "m"}, "--warmup", {"nan", "inf", "-1", "1e308"}},
      {{"bench", "--url", url, "--model", "m"}, "--concurrency", {"nan", "-1", "0", "1,0", "4294967296"}},
      {{"bench", "--url", url, "--model", "m", "--rate", "1"}, "--connections", {"nan", "-1", "0"}},
  };
  for (const auto& c : cases)
    for (const auto& value : c.values) {
      SCOPED_TRACE(c.arguments.front() + " " + c.option + "=" + value);
      auto arguments = c.arguments;
      arguments.push_back(c.option + "=" + value);
      const Outcome outcome = millrace(arguments);
      expect_error(outcome, 2, {c.option});
      EXPECT_LT(outcome.err.size(), 250U) << outcome.err;
    }
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"verify", file("d"), "--inputs", ""},
        {"verify", file("d"), "--cluster", ""},
        {"plan", kModel, "--cluster", kThreeCards, "--plan", ""},
        {"infer", "--url", url, "--input", "x", "--model", ""}})
    expect_error(millrace(arguments), 2, {arguments[arguments.size() - 2], "empty"});
}

TEST_F(CommandLine, VerifyRefusesTooManyRandomFramesAndNamesTheMaximum) {
  ASSERT_EQ(compile(kModel, kThreeCards, file("d")).exit_code, 0);
  expect_error(millrace({"verify", file("d"), "--frames", "4294967295"}), 2, {"--frames", "at most 342392"});
}

/// Runs millrace. Its standard output is a pipe or a Unix socket (`kind`) whose other end is closed. Prints
/// the exit status, which is -13 if SIGPIPE ended millrace.
Outcome without_a_reader(const char* kind, std::vector<std::string> arguments) {
  constexpr const char* kRun = R"(import os, socket, subprocess, sys
if sys.argv[1] == "pipe":
    reader, writer = os.pipe()
    os.close(reader)
else:
    writer, reader = socket.socketpair()
    reader.close()
print(subprocess.run(sys.argv[2:], stdout=writer, timeout=120).returncode)
)";
  arguments.insert(arguments.begin(), {"python3", "-B", "-c", kRun, kind, millrace_binary()});
  return run_program(arguments);
}

TEST_F(CommandLine, EndsWithSigpipeWhenTheOutputIsClosedAndStillReportsErrors) {
  ASSERT_EQ(compile(kModel, kThreeCards, file("d")).exit_code, 0);
  const std::vector<std::byte> input(28 * 28 * sizeof(float)), wrong(10 * sizeof(float), std::byte{0x44});
  ASSERT_TRUE(write_npy(file("in.npy"), {"<f4", {1, 1, 28, 28}, input}).ok());
  ASSERT_TRUE(write_npy(file("out.npy"), {"<f4", {1, 10}, wrong}).ok());
  for (const char* kind : {"pipe", "socket"}) {
    SCOPED_TRACE(kind);
    const Outcome done = without_a_reader(kind, {"devices", "--cluster", kThreeCards});
    EXPECT_EQ(done.out, "-13\n");
    EXPECT_EQ(done.err, "");
    const Outcome failed = without_a_reader(
        kind, {"verify", file("d"), "--inputs", file("in.npy"), "--expect", file("out.npy"), "--quiet"});
    EXPECT_EQ(failed.out, "1\n");
    EXPECT_NE(failed.err.find("millrace verify: error: "), std::string::npos) << failed.err;
  }
}

TEST_F(CommandLine, VerifyRefusesAnUnwritableDumpDirectoryBeforeItRunsFrames) {
  ASSERT_EQ(compile(kModel, kThreeCards, file("d")).exit_code, 0);
  // The cluster file is also invalid, but the error about --dump-tensors must come first.
  expect_error(millrace({"verify", file("d"), "--cluster", kModel, "--dump-tensors", "/proc/zz"}), 3,
               {"/proc/zz", "give --dump-tensors a directory"});
  expect_error(millrace({"verify", file("d"), "--cluster", kModel, "--dump-tensors", kModel}), 3,
               {kModel, "give --dump-tensors a directory"});
}

TEST_F(CommandLine, LackOfMemoryForEmulatedCardsIsReportedAsAnErrorOfTheEnvironment) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own map needs more address space than this test leaves";
#endif
  ASSERT_EQ(compile(kModel, kThreeCards, file("d")).exit_code, 0);
  const Outcome outcome = run_program({"bash", "-c",
                                       "ulimit -v 4000000 && exec '" + millrace_binary() + "' verify '" +
                                           file("d").string() + "' --frames 1 --quiet"});
  expect_error(outcome, 3, {"shared memory for emulated cards: mmap"});
}

TEST_F(CommandLine, CompileRefusesFilesThatAreNotModels) {
  write(file("empty.onnx"), "");
  write(file("text.onnx"), "this is not a model at all, it is a line of text\n");
  expect_error(compile(file("absent.onnx"), kThreeCards, file("d")), 2, {"absent.onnx"});
  expect_error(compile(file("empty.onnx"), kThreeCards, file("d")), 2, {"empty.onnx"});
  expect_error(compile(file("text.onnx"), kThreeCards, file("d")), 2, {"text.onnx", "ONNX"});
  expect_error(compile(dir_.path(), kThreeCards, file("d")), 2, {"directory"});
  const auto whole = read_text_file(kModel);
  ASSERT_TRUE(whole.ok());
  for (const double part : {0.1, 0.5, 0.9, 0.999}) {
    write(file("cut.onnx"),
          whole->substr(0, static_cast<std::size_t>(part * static_cast<double>(whole->size()))));
    expect_error(compile(file("cut.onnx"), kThreeCards, file("d")), 2, {"cut.onnx"});
  }
  EXPECT_FALSE(fs::exists(file("d")));
}

TEST_F(CommandLine, CompileRefusesAFloatModelAndAdvisesToQuantizeIt) {
  const char* models = std::getenv("MILLRACE_MODELS");
  const fs::path model = fs::path(models == nullptr ? "" : models) / "lenet5_mnist/lenet5_float.onnx";
  if (!fs::exists(model)) GTEST_SKIP() << "MILLRACE_MODELS does not hold " << model.filename();
  expect_error(compile(model, kThreeCards, file("d")), 2, {"quantize"});
}

TEST_F(CommandLine, CompileRefusesABadClusterFileAndNamesTheMistake) {
  const std::string card = "  - {name: fpga0, device: ku060}\n";
  const struct {
    std::string yaml;
    std::vector<std::string> words;
  } cases[] = {
      {"", {"c.yaml"}},
      {"schema: 1\nname: c\nemulated: true\ncards:\n" + card + "cabels: []\n", {"cabels", "6"}},
      {"schema: 1\nname: c\nemulated: true\ncards:\n" + card +
           "cables:\n  - {a: {card: fpga0, connector: 0}, b: {card: fpga9, connector: 0}, "
           "gigabits_per_second: 10}\n",
       {"fpga9"}},
      {"schema: 1\nname: c\nemulated: true\ncards:\n  - {name: fpga0, device: ku999}\n", {"ku999"}},
      {"name: [c\n", {"c.yaml"}},
  };
  fs::create_directories(file("clusters"));
  fs::copy(kSource / "configs/devices", file("devices"));
  for (const auto& c : cases) {
    write(file("clusters/c.yaml"), c.yaml);
    expect_error(compile(kModel, file("clusters/c.yaml"), file("d")), 2, c.words);
  }
  expect_error(compile(kModel, file("absent.yaml"), file("d")), 2, {"absent.yaml"});
}

TEST_F(CommandLine, CompileRefusesMorePartitionsThanLayersOrCards) {
  expect_error(compile(kModel, kThreeCards, file("d"), {"--partitions", "100"}), 1, {"100"});
  expect_error(compile(kModel, kThreeCards, file("d"), {"--partitions", "4"}), 1, {"4", "3"});
}

TEST_F(CommandLine, InspectFindsAnyDamageToADeployment) {
  const fs::path good = file("good");
  ASSERT_EQ(compile(kModel, kThreeCards, good).exit_code, 0);
  const Outcome shown = millrace({"inspect", good.string()});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_NE(shown.out.find("ku060"), std::string::npos);

  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(good))
    if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), good));
  ASSERT_GE(files.size(), 5U);
  for (const auto& damaged : files) {
    for (const bool truncate : {true, false}) {
      const fs::path copy = file("copy");
      fs::remove_all(copy);
      fs::copy(good, copy, fs::copy_options::recursive);
      auto bytes = *read_text_file(copy / damaged);
      if (truncate)
        bytes.resize(bytes.size() / 2);
      else
        bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
      write(copy / damaged, bytes);
      const Outcome outcome = millrace({"inspect", copy.string()});
      EXPECT_EQ(outcome.exit_code, 2) << damaged << (truncate ? " truncated: " : " altered: ") << outcome.err;
      if (damaged.extension() == ".xclbin") {
        expect_error(millrace({"inspect", (copy / damaged).string()}), 2, {damaged.filename().string()});
      }
    }
    const fs::path copy = file("copy");
    fs::remove_all(copy);
    fs::copy(good, copy, fs::copy_options::recursive);
    fs::remove(copy / damaged);
    EXPECT_EQ(millrace({"inspect", copy.string()}).exit_code, 2) << damaged << " absent";
  }
  expect_error(millrace({"inspect", file("absent").string()}), 2, {"absent"});
  expect_error(millrace({"verify", file("absent").string()}), 2, {"absent"});
  expect_error(millrace({"serve", "--deployment", file("absent").string(), "--http", "127.0.0.1:0"}), 2,
               {"absent"});
}

TEST_F(CommandLine, CompileNeverReplacesADirectoryThatIsNotADeployment) {
  fs::create_directories(file("work/inner"));
  write(file("work/inner/thesis.txt"), "precious");
  expect_error(compile(kModel, kThreeCards, file("work")), 2,
               {"work", "not part of a deployment", "give a new directory"});
  EXPECT_EQ(*read_text_file(file("work/inner/thesis.txt")), "precious");

  fs::create_directories(file("empty"));
  EXPECT_EQ(compile(kModel, kThreeCards, file("empty")).exit_code, 0);
  EXPECT_EQ(compile(kModel, kThreeCards, file("empty")).exit_code, 0) << "a deployment is replaced";
  write(file("empty/notes.txt"), "precious");
  expect_error(compile(kModel, kThreeCards, file("empty")), 2, {"notes.txt", "give a new directory"});
  EXPECT_EQ(*read_text_file(file("empty/notes.txt")), "precious");
}

TEST_F(CommandLine, CompileRefusesAnOutputThatContainsItsInputsOrTheCurrentDirectory) {
  fs::create_directories(file("inputs/here"));
  fs::copy(kModel, file("inputs/net.onnx"));
  expect_error(compile(file("inputs/net.onnx"), kThreeCards, file("inputs")), 2,
               {"contains the input", "net.onnx", "give a new directory"});
  EXPECT_TRUE(fs::exists(file("inputs/net.onnx")));
  for (const char* output : {".", "./", "..", "../here", "../../inputs/here/"}) {
    const Outcome outcome = run_program(
        {"bash", "-c",
         "cd '" + file("inputs/here").string() + "' && exec '" + millrace_binary() + "' compile '" +
             kModel.string() + "' --cluster '" + kThreeCards.string() + "' -o '" + output + "' --quiet"});
    expect_error(outcome, 2, {output, "current directory", "give a new directory"});
  }
  EXPECT_TRUE(fs::exists(file("inputs/here")));
}

TEST_F(CommandLine, CompileIsDeterministic) {
  ASSERT_EQ(compile(kModel, kThreeCards, file("one")).exit_code, 0);
  ASSERT_EQ(compile(kModel, kThreeCards, file("two")).exit_code, 0);
  EXPECT_EQ(*read_text_file(file("one") / "CHECKSUMS"), *read_text_file(file("two") / "CHECKSUMS"));
}

TEST_F(CommandLine, CompileLeavesNothingBehindOnAFullDisk) {
  for (const int kilobytes : {1, 8, 24, 40}) {
    const std::string command = "ulimit -f " + std::to_string(kilobytes) + " && exec '" + millrace_binary() +
                                "' compile '" + kModel.string() + "' --cluster '" + kThreeCards.string() +
                                "' -o '" + file("d").string() + "' --quiet";
    const Outcome outcome = run_program({"bash", "-c", command});
    expect_error(outcome, 1, {"free space"});
    EXPECT_EQ(entries(), 0U) << "left behind with " << kilobytes << " KiB";
  }
}

TEST_F(CommandLine, ServeRefusesAPortInUseAndAMalformedAddress) {
  ASSERT_EQ(compile(kModel, kThreeCards, file("d")).exit_code, 0);
  BackgroundProgram first(
      {millrace_binary(), "serve", "--deployment", file("d").string(), "--http", "127.0.0.1:0"});
  const auto address = first.wait_for_line("listening http ", std::chrono::seconds(30));
  ASSERT_TRUE(address) << first.err();
  expect_error(
      millrace({"serve", "--deployment", file("d").string(), "--http", *address, "--log-level", "off"}), 3,
      {*address});
  for (const char* wrong : {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", ":x"})
    EXPECT_EQ(millrace({"serve", "--deployment", file("d").string(), "--http", wrong}).exit_code, 2) << wrong;
  EXPECT_EQ(first.stop(SIGTERM), 0) << first.err();
}

TEST_F(CommandLine, VerifyErrorNamesAnUnknownFidelity) {
  ASSERT_EQ(compile(kModel, kThreeCards, file("d")).exit_code, 0);
  expect_error(millrace({"verify", file("d").string(), "--fidelity", "exact"}), 2, {"exact"});
}

}  // namespace
}  // namespace millrace::tests::test_command_line
