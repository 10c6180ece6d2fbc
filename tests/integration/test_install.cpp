// Uses the files that `cmake --install` puts into a prefix as operators and authors of clients do: from
// another directory, without reading any file of this source tree.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "tests/integration/installed_prefix.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/support/python_client.hpp"
#include "tests/support/strace.hpp"
#include "tests/support/tools.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_install {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Words = std::vector<std::string>;

const fs::path kSource = tests::source_dir();
const fs::path kVectors = kSource / "tests/vectors/lenet5_mnist";
constexpr std::size_t kPixels = 784;
constexpr std::size_t kOutputBytes = 40;

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

Words words_of(const std::string& text) {
  std::istringstream in(text);
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::string text_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

/// Returns the lines of an strace log that name this checkout or its build directory.
std::string lines_into_the_tree(const fs::path& trace) {
  std::string found;
  std::istringstream in(text_of(trace));
  for (std::string line; std::getline(in, line);)
    for (const std::string& folder : {kSource.string(), std::string(tests::binary_dir())})
      if (line.find('"' + folder + '/') != std::string::npos ||
          line.find('"' + folder + '"') != std::string::npos) {
        found += line + "\n";
        break;
      }
  return found;
}

class Install : public testing::Test {
 protected:
  static void SetUpTestSuite() { installed_ = std::make_unique<InstalledPrefix>(); }
  static void TearDownTestSuite() { installed_.reset(); }

  static fs::path prefix() { return installed_->path(); }
  static fs::path library_folder() { return prefix() / MILLRACE_LIBDIR; }
  static fs::path elsewhere() { return installed_->elsewhere(); }
  static std::string program() { return installed_->program(); }
  static Words from_elsewhere(const Words& command) { return installed_->from_elsewhere(command); }
  /// Returns a command that runs `command` in elsewhere() under strace, which records every file that the
  /// command or its children open.
  static Words traced_from_elsewhere(const Words& options, const Words& command) {
    return from_elsewhere(traced(options + Words{"--seccomp-bpf", "-e", "trace=%file"}, command));
  }

  /// Builds the program `ask` against the installed prefix only and returns its path.
  static fs::path build_with_pkg_config() {
    const Outcome flags = run_program({"env", "PKG_CONFIG_PATH=" + (library_folder() / "pkgconfig").string(),
                                       "pkg-config", "--cflags", "--libs", "millrace-client"});
    EXPECT_EQ(flags.exit_code, 0) << flags.err;
    const fs::path out = elsewhere() / "ask";
    Words command = {MILLRACE_CXX, "-std=c++20", "-Wall",   "-Wextra", "-Wpedantic",
                     "-Wshadow",   "-Werror",    "ask.cpp", "-o",      out};
    const Outcome built =
        run_program(from_elsewhere(command + words_of(MILLRACE_SANITIZE_FLAGS) + words_of(flags.out)));
    EXPECT_EQ(built.exit_code, 0) << built.err;
    return out;
  }

  static fs::path build_with_cmake() {
    const fs::path out = elsewhere() / "build";
    const Outcome configured = run_program(
        from_elsewhere({MILLRACE_CMAKE, "-S", ".", "-B", out.string(), "-G", MILLRACE_GENERATOR,
                        "-DCMAKE_CXX_COMPILER=" MILLRACE_CXX, "-DCMAKE_CXX_FLAGS=" MILLRACE_SANITIZE_FLAGS,
                        "-DCMAKE_PREFIX_PATH=" + prefix().string()}));
    EXPECT_EQ(configured.exit_code, 0) << configured.err;
    const Outcome built = run_program({MILLRACE_CMAKE, "--build", out.string()});
    EXPECT_EQ(built.exit_code, 0) << built.out << built.err;
    return out / "ask";
  }

  static std::unique_ptr<InstalledPrefix> installed_;
};
std::unique_ptr<InstalledPrefix> Install::installed_;

TEST_F(Install, PrefixContainsTheProductButNoDevelopmentTools) {
  std::set<std::string> programs;
  for (const auto& entry : fs::directory_iterator(prefix() / "bin")) programs.insert(entry.path().filename());
  EXPECT_EQ(programs, (std::set<std::string>{"millrace", "millrace-card", "millrace-plugin"}));
  for (const char* file : {"lib/millrace/xrt/lib/libxrt_core.so.2", "include/millrace/client.hpp",
                           "include/millrace/millrace_plugin.hpp", "share/millrace/devices/ku060.yaml",
                           "share/millrace/clusters/three-ku060.yaml", "share/millrace/server.yaml",
                           "share/millrace/monitoring/alerts.yml", "share/millrace/plugins/dense_plugin.py",
                           "share/doc/millrace/README.md", "share/doc/millrace/LICENSE"})
    EXPECT_TRUE(fs::exists(prefix() / file)) << file;
  const Outcome settings =
      run_program(from_elsewhere({program(), "serve", "--config", prefix() / "share/millrace/server.yaml",
                                  "--repository", elsewhere().string(), "--cluster",
                                  prefix() / "share/millrace/clusters/three-ku060.yaml", "--check-config"}));
  EXPECT_EQ(settings.exit_code, 0) << settings.err;
}

std::set<std::string> readmes_named_in(const std::string& text) {
  constexpr std::string_view kName = "README.md";
  std::set<std::string> found;
  for (std::size_t at = text.find(kName); at != std::string::npos; at = text.find(kName, at + 1)) {
    std::size_t begin = at;
    const auto in_path = [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '/' || c == '_' || c == '.' || c == '-';
    };
    while (begin > 0 && in_path(static_cast<unsigned char>(text[begin - 1]))) --begin;
    found.insert(text.substr(begin, at - begin) + std::string(kName));
  }
  return found;
}

TEST_F(Install, ExampleOfAPluginBuildsFromTheInstalledHeaders) {
  const fs::path example = prefix() / "share/doc/millrace/runtime/plugins/example";
  const fs::path library = elsewhere() / "compare_exchange.so";
  const Words compiler = {MILLRACE_CXX, "-std=c++17", "-Wall",
                          "-Wextra",    "-Werror",    "-shared",
                          "-fPIC",      "-O2",        "-fvisibility=hidden"};
  const Outcome built = run_program(from_elsewhere(
      compiler + words_of(MILLRACE_SANITIZE_FLAGS) +
      Words{"-I", prefix() / "include/millrace", example / "compare_exchange.cpp", "-o", library}));
  ASSERT_EQ(built.exit_code, 0) << built.err;
  const Outcome covered = run_program(
      from_elsewhere({program(), "coverage", example / "model.onnx", "--plugins", library, "--json"}));
  EXPECT_EQ(covered.exit_code, 0) << covered.err;
  EXPECT_NE(covered.out.find("[\"plugin\"]"), std::string::npos) << covered.out;
}

TEST_F(Install, EveryReadmeThatAnInstalledFileRefersToIsInstalled) {
  const fs::path documents = prefix() / "share/doc/millrace";
  std::size_t named = 0;
  for (const auto& entry : fs::recursive_directory_iterator(prefix())) {
    if (!entry.is_regular_file() || entry.path().extension() == ".md") continue;
    for (const std::string& readme : readmes_named_in(text_of(entry.path()))) {
      if (readme == "README.md" || readme == "vitis/README.md") continue;  // deployments contain the latter
      const fs::path expected = readme.starts_with("../") ? entry.path().parent_path() / readme
                                : readme.starts_with("/") ? fs::path(readme)
                                                          : documents / readme;
      EXPECT_TRUE(fs::exists(expected)) << entry.path() << " names " << readme;
      ++named;
    }
  }
  EXPECT_GT(named, 10U) << "the test finds what is named";
}

TEST_F(Install, ShippedClusterFilesAreFoundByName) {
  fs::copy_file(kVectors / "lenet5_qdq_s8_pow2.onnx", elsewhere() / "named.onnx");
  const auto plan = [&](const std::string& cluster) {
    return run_program(
        from_elsewhere({program(), "plan", "named.onnx", "--cluster", cluster, "--quiet", "--json"}));
  };
  const Outcome by_path = plan(prefix() / "share/millrace/clusters/three-ku060.yaml");
  ASSERT_EQ(by_path.exit_code, 0) << by_path.err;
  const auto cards = [](const Outcome& planned) {
    const std::size_t at = planned.out.find("\"cluster\"");
    return planned.out.substr(at, planned.out.find(']', at) - at);
  };
  for (const char* name : {"three-ku060", "three-ku060.yaml"}) {
    const Outcome by_name = plan(name);
    ASSERT_EQ(by_name.exit_code, 0) << by_name.err;
    EXPECT_EQ(cards(by_name), cards(by_path));
  }
  const std::string folder = prefix() / "share/millrace/clusters";
  const std::string known = "no cluster in " + fs::canonical(folder).string() +
                            " has this name; the folder contains four-u280, mixed, nine-ku060, one-ku060, "
                            "one-u280, three-hosts-ku060, three-ku060, three-ku060-udp, two-ku060";
  const Outcome unknown = plan("three-ku61");
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("cluster 'three-ku61': there is no file with this path, and " + known),
            std::string::npos)
      << unknown.err;

  // A file in the current directory hides the shipped cluster of the same name, but a directory does not. A
  // name with a slash is always a path.
  fs::create_directory(elsewhere() / "three-ku060");
  const Outcome beside_a_directory = plan("three-ku060");
  ASSERT_EQ(beside_a_directory.exit_code, 0) << beside_a_directory.err;
  EXPECT_EQ(cards(beside_a_directory), cards(by_path));
  fs::remove(elsewhere() / "three-ku060");
  fs::create_directories(elsewhere() / "clusters");
  std::ofstream(elsewhere() / "one-u280") << "no cluster\n";
  EXPECT_NE(plan("one-u280").err.find("one-u280:1"), std::string::npos);
  fs::remove(elsewhere() / "one-u280");
  EXPECT_EQ(plan("clusters/one-u280").exit_code, 2);

  std::ofstream(elsewhere() / "server.yaml") << "schema: 1\ncluster: one-u280\nrepository: {root: .}\n";
  const auto check = [&](const Words& more) {
    return run_program(
        from_elsewhere(Words{program(), "serve", "--config", "server.yaml", "--check-config"} + more));
  };
  const Outcome in_file = check({});
  EXPECT_EQ(in_file.exit_code, 0) << in_file.err;
  EXPECT_NE(in_file.out.find("cluster: " + fs::canonical(folder).string() + "/one-u280.yaml"),
            std::string::npos)
      << in_file.out;
  const Outcome as_flag = check({"--cluster", "three-ku61"});
  EXPECT_EQ(as_flag.exit_code, 2);
  EXPECT_NE(as_flag.err.find(known), std::string::npos) << as_flag.err;
}

TEST_F(Install, HelpNamesOnlyInstalledPaths) {
  std::size_t named = 0;
  for (const char* command : {"plan", "compile", "verify", "synth", "pack", "launch", "inspect", "serve",
                              "infer", "reload", "bench", "devices"}) {
    const Outcome help = run_program(from_elsewhere({program(), command, "--help"}));
    ASSERT_EQ(help.exit_code, 0) << help.err;
    for (std::string word : words_of(help.out)) {
      while (!word.empty() && std::strchr("(),;:.", word.front()) != nullptr) word.erase(0, 1);
      while (!word.empty() && std::strchr("(),;:.", word.back()) != nullptr) word.pop_back();
      const bool route = word.starts_with("/v2/");  // a route of the server, not a file
      if (route || (!word.starts_with("/") && !word.ends_with("README.md"))) continue;
      EXPECT_TRUE(word.starts_with(fs::canonical(prefix()).string() + "/") && fs::exists(word))
          << command << " --help names " << word;
      ++named;
    }
  }
  EXPECT_GE(named, 7U) << "five commands take a cluster, and two name a README";
}

std::set<std::string> files_below(const fs::path& folder) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) files.insert(entry.path());
  return files;
}

TEST_F(Install, PipInstallsThePythonClientOfflineAndLeavesThePrefixUnchanged) {
  std::string python;
  ASSERT_TRUE(find_python_with("pip", python));
  const std::string source = prefix() / "share/millrace/python";
  const auto before = files_below(prefix());
  const fs::path target = elsewhere() / "site-packages";
  const Outcome pip = run_program(
      from_elsewhere({"PYTHONDONTWRITEBYTECODE=1", "PIP_CACHE_DIR=" + (elsewhere() / "pip").string(), python,
                      "-m", "pip", "install", "--no-index", "--target", target, source}));
  ASSERT_EQ(pip.exit_code, 0) << pip.out << pip.err;
  EXPECT_EQ(files_below(prefix()), before);

  const std::string path = "PYTHONPATH=" + target.string();
  const Outcome help =
      run_program(from_elsewhere({path, python, "-B", target / "bin/millrace-client", "--help"}));
  EXPECT_EQ(help.exit_code, 0) << help.err;
  EXPECT_NE(help.out.find("usage: millrace-client"), std::string::npos) << help.out;
  const Outcome version = run_program(
      from_elsewhere({path, python, "-B", "-c",
                      "import importlib.metadata as m; print('millrace', m.version('millrace-client'))"}));
  EXPECT_EQ(version.out, run_program({program(), "--version"}).out) << version.err;
  const Outcome files = run_program(from_elsewhere({path, python, "-B", "-c",
                                                    "import importlib.metadata as m; print(any(f.name == "
                                                    "'py.typed' for f in m.files('millrace-client')))"}));
  EXPECT_EQ(files.out, "True\n") << files.err;
}

TEST_F(Install, TheSystemdUnitStartsTheInstalledProgram) {
  const std::string unit = text_of(prefix() / "lib/systemd/system/millrace.service");
  EXPECT_NE(unit.find("\nExecStart=" + program() + " serve "), std::string::npos) << unit;
  EXPECT_NE(unit.find("file:" + (prefix() / "share/doc/millrace/README.md").string() + "\n"),
            std::string::npos)
      << unit;
  EXPECT_EQ(unit.find("/usr/bin/millrace"), std::string::npos) << unit;
  EXPECT_EQ(text_of(prefix() / "lib/systemd/system/millrace.socket"),
            text_of(kSource / "configs/systemd/millrace.socket"));
}

TEST_F(Install, TheClientLibraryExportsOnlyItsHeaderAndNeedsNoBoost) {
  ASSERT_TRUE(installed({"nm", "readelf"}));
  const std::string library = library_folder() / "libmillrace_client.so";
  const Outcome symbols =
      run_program({"nm", "--dynamic", "--defined-only", "--demangle", "--format=posix", library});
  ASSERT_EQ(symbols.exit_code, 0) << symbols.err;
  std::set<std::string> shown;
  std::istringstream lines(symbols.out);
  for (std::string line; std::getline(lines, line);) shown.insert(line.substr(0, line.find_first_of("(@ ")));
  EXPECT_EQ(shown, (std::set<std::string>{"MILLRACE_CLIENT_0.1", "millrace::client::TensorInfo::bytes",
                                          "millrace::client::connect"}));

  const Outcome dynamic = run_program({"readelf", "--dynamic", "--wide", library});
  ASSERT_EQ(dynamic.exit_code, 0) << dynamic.err;
  EXPECT_NE(dynamic.out.find("soname: [libmillrace_client.so.0.1]"), std::string::npos) << dynamic.out;
  for (const char* ours : {"[libmillrace_runtime", "[libboost", "[libspdlog", "RPATH", "RUNPATH"})
    EXPECT_EQ(dynamic.out.find(ours), std::string::npos) << ours << "\n" << dynamic.out;
}

TEST_F(Install, TheInstalledProductCompilesAndServesWithoutTheSourceTree) {
  ASSERT_TRUE(installed({"strace", "pkg-config"}));
  for (const char* file : {"ask.cpp", "CMakeLists.txt"})
    fs::copy_file(kSource / "tests/integration/outside" / file, elsewhere() / file);
  for (const char* file : {"lenet5_qdq_s8_pow2.onnx", "millrace.yaml"})
    fs::copy_file(kVectors / file, elsewhere() / file);
  const auto images = read_npy(kVectors / "images_u8.npy");
  const auto golden = read_npy(kVectors / "golden_f32.npy");
  ASSERT_TRUE(images.ok() && golden.ok());
  std::vector<float> image(kPixels);
  std::transform(images->data.begin(), images->data.begin() + kPixels, image.begin(),
                 [](std::byte x) { return static_cast<float>(std::to_integer<unsigned>(x)) / 255.0F; });
  ASSERT_TRUE(write_file_atomically(elsewhere() / "image", std::as_bytes(std::span(image))).ok());

  const std::string cluster = prefix() / "share/millrace/clusters/three-ku060.yaml";
  const TemporaryDirectory traces("millrace-traces");
  const fs::path compiling = traces.path() / "compile", serving = traces.path() / "serve";
  const Outcome compiled = run_program(traced_from_elsewhere(
      {"-o", compiling}, {program(), "compile", "lenet5_qdq_s8_pow2.onnx", "--name", "lenet5", "--cluster",
                          cluster, "--partitions", "3", "-o", "lenet5"}));
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  ASSERT_NE(text_of(compiling).find("ku060.yaml"), std::string::npos) << "nothing was traced";
  EXPECT_EQ(lines_into_the_tree(compiling), "");

  BackgroundProgram server(traced_from_elsewhere(
      {"-D", "-o", serving}, {program(), "serve", "--deployment", "lenet5", "--cluster", cluster, "--http",
                              "127.0.0.1:0", "--udp", "127.0.0.1:0"}));
  const fs::path by_pkg_config = build_with_pkg_config(), by_cmake = build_with_cmake();
  const auto http = server.wait_for_line("listening http ", 120s);
  ASSERT_TRUE(http) << server.err();
  const auto udp = server.wait_for_line("listening udp ", 60s);
  ASSERT_TRUE(udp) << server.err();

  const std::string where = "LD_LIBRARY_PATH=" + library_folder().string();
  for (const Words& ask :
       {Words{where, by_pkg_config, "http://" + *http}, Words{where, by_pkg_config, "udp://" + *udp},
        Words{by_cmake, "http://" + *http}}) {
    const Outcome answer = run_program(from_elsewhere(ask + Words{"lenet5", "image"}));
    ASSERT_EQ(answer.exit_code, 0) << answer.err << server.err();
    ASSERT_EQ(answer.out.size(), kOutputBytes);
    EXPECT_EQ(std::memcmp(answer.out.data(), golden->data.data(), kOutputBytes), 0);
  }

  EXPECT_EQ(server.stop(SIGTERM), 0) << server.err();
  const std::regex end("(^|\n)" + std::to_string(server.pid()) + " +\\+\\+\\+ exited with 0 ");
  EXPECT_TRUE(wait_until([&] { return std::regex_search(text_of(serving), end); }));
  EXPECT_NE(text_of(serving).find("millrace-card"), std::string::npos) << "cards are traced too";
  EXPECT_EQ(lines_into_the_tree(serving), "");
}

}  // namespace
}  // namespace millrace::tests::test_install
