#include "runtime/rtl/build.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <iterator>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>

#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/process.hpp"
#include "runtime/base/text.hpp"
#include "runtime/rtl/wrapper.hpp"

namespace millrace::runtime::rtl {

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr char kSimulationKind[] = "simulation";
constexpr char kRuntimeKind[] = "verilator";
constexpr char kHeader[] = "mr_simulation_print.h";
constexpr char kRemedy[] = "install it with 'tools/setup test' (Debian packages verilator and g++)";

Words split(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), std::istream_iterator<std::string>()};
}

/// Options for a quick build: higher optimisation levels take minutes on wide designs and gain little. -fno-gnu-unique
/// is needed because simulations must not share static variables.
const Words& compiler_options() {
  static const Words options = split(
      "-std=c++20 -O1 -fPIC -fvisibility=hidden -fno-gnu-unique -w -DVM_COVERAGE=0 -DVM_SC=0 -DVM_TRACE=0 "
      "-DVL_USER_STOP -DVL_USER_FINISH -DVL_USER_FATAL -DVL_USER_WARN -DVL_PRINTF=millrace_simulation_print "
      "-include " +
      std::string(kHeader));
  return options;
}

const Words& verilator_options() {
  static const Words options = split(
      "--cc -O3 --assert --no-timing --x-assign unique --x-initial unique --unroll-count 2048 "
      "--unroll-stmts 200000 --output-split 10000 -DSIM_FAST -Wno-fatal --top-module " +
      std::string(kWrapperModule) + " --prefix " + kModelClass + " -Mdir model -y library");
  return options;
}

std::string joined(const Words& words) {
  std::string out;
  for (const std::string& word : words) out += word + "\n";
  return out;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// Returns those few lines of a tool's output that explain an error.
std::string gist(const std::string& output) {
  constexpr std::size_t kLines = 8;
  std::string out, line, last;
  std::size_t kept = 0;
  for (std::istringstream lines(output); std::getline(lines, line); last = line) {
    const bool is_error = line.find("rror") != std::string::npos;
    if (is_error && kept++ < kLines) out += "\n  " + line;
  }
  return out.empty() && !last.empty() ? "\n  " + last : out;
}

/// Runs a build tool. The code of an error says whether the machine or Millrace caused the error.
Status run_tool(const Words& command, const fs::path& directory, const std::string& what) {
  MILLRACE_ASSIGN(const ChildOutcome outcome, run_child(command, directory));
  if (outcome.ok()) return {};
  const auto says = [&](const char* text) { return outcome.output.find(text) != std::string::npos; };
  const std::string tool = fs::path(command[0]).filename().string();
  if (says("No space left on device") || is_disk_full(directory))
    return Error(ErrorCode::kResourceExhausted,
                 what + ": the disk is full: free space in " + directory.parent_path().string());
  if (outcome.signal != 0 || says("Killed signal terminated") || says("virtual memory exhausted"))
    return Error(ErrorCode::kEnvironment,
                 what + ": " + tool + " was ended by " +
                     (outcome.signal != 0 ? "signal " + std::to_string(outcome.signal) : "the system") +
                     "; if memory ran out, close other programs; then try again");
  return Error(ErrorCode::kInternal, what + ": " + tool + " failed (exit code " +
                                         std::to_string(outcome.exit_code) + ")" + gist(outcome.output));
}

/// Returns the number of cores that this process may use.
unsigned cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1U, static_cast<unsigned>(CPU_COUNT(&set)));
}

/// Runs commands in parallel. Stops at the first error and returns it.
Status run_all(const std::vector<Words>& commands, const fs::path& directory, const std::string& what,
               const BuildOptions& options) {
  std::atomic<std::size_t> next{0}, done{0};
  std::mutex mutex;
  Status first;
  const auto work = [&] {
    for (std::size_t i = next++; i < commands.size(); i = next++) {
      Status status = run_tool(commands[i], directory, what);
      const std::lock_guard lock(mutex);
      if (!status.ok()) {
        if (first.ok()) first = std::move(status);
        next = commands.size();
        return;
      }
      ++done;
      if (options.progress && commands.size() > 1)
        options.progress(what + ": " + std::to_string(done) + " of " + std::to_string(commands.size()) +
                         " files compiled");
    }
  };
  const std::size_t jobs = std::min<std::size_t>(cores(), commands.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < jobs; ++i) threads.emplace_back(work);
  work();
  threads.clear();
  return first;
}

Words compile_command(const Toolchain& tools, const std::string& file, const std::string& object) {
  Words command = {tools.compiler.string()};
  command.insert(command.end(), compiler_options().begin(), compiler_options().end());
  for (const fs::path& folder : {fs::path("."), fs::path("model"), tools.include, tools.include / "vltstd"}) {
    command.emplace_back("-I");
    command.push_back(folder.string());
  }
  command.insert(command.end(), {"-c", file, "-o", object});
  return command;
}

std::string tool_key(const Toolchain& tools) {
  return "millrace simulation 1\n" + tools.verilator_version + "\n" + tools.compiler_version + "\n" +
         joined(compiler_options()) + wrapper_header();
}

/// Returns the cache entry of Verilator's compiled runtime, and builds it if it is missing.
Result<fs::path> build_runtime(const Cache& cache, const Toolchain& tools, const BuildOptions& options) {
  const auto make = [&](const fs::path& entry, const fs::path& scratch) -> Status {
    if (options.progress) options.progress("compiling Verilator's runtime, once");
    MILLRACE_TRY(write_scratch_file(scratch / kHeader, wrapper_header()));
    std::vector<Words> commands;
    for (const std::string name : {"verilated", "verilated_threads"})
      commands.push_back(compile_command(tools, (tools.include / (name + ".cpp")).string(),
                                         (entry / (name + ".o")).string()));
    return run_all(commands, scratch, "Verilator's runtime", options);
  };
  return cache.get(kRuntimeKind, sha256_hex(tool_key(tools)), make);
}

/// Writes the folder's files and the wrapper around them to `scratch`. Returns the names of the folder's memory files.
Result<Words> lay_out(const Source& source, const fs::path& scratch) {
  Words memories;
  for (const auto& [path, content] : source.files) {
    std::error_code code;
    fs::create_directories((scratch / path).parent_path(), code);
    MILLRACE_TRY(write_scratch_file(scratch / path, content));
    if (!path.ends_with(".sv") && !path.ends_with(".f")) memories.push_back(path);
  }
  MILLRACE_TRY(write_scratch_file(scratch / kHeader, wrapper_header()));
  MILLRACE_TRY(
      write_scratch_file(scratch / (std::string(kWrapperModule) + ".sv"), wrapper_module(source.design)));
  MILLRACE_TRY(write_scratch_file(scratch / "wrapper.cpp", wrapper_source(source.design, memories)));
  return memories;
}

/// Combines Verilator's many small C++ files, which all include the same headers, into a few files of similar
/// size. Returns them, the largest first.
Result<Words> compilation_units(const fs::path& scratch) {
  constexpr std::uintmax_t kUnitBytes = 400'000;
  std::vector<std::pair<std::uintmax_t, std::string>> files;
  std::error_code code;
  for (const auto& made : fs::directory_iterator(scratch / "model", code))
    if (made.path().extension() == ".cpp")
      files.emplace_back(made.file_size(code), "model/" + made.path().filename().string());
  if (code) return Error(ErrorCode::kEnvironment, scratch.string() + ": cannot be listed: " + code.message());
  std::sort(files.begin(), files.end(), std::greater<>());
  Words units;
  std::string text = "#include \"wrapper.cpp\"\n";
  std::uintmax_t bytes = 0;
  const auto write_unit = [&]() -> Status {
    units.push_back("unit" + std::to_string(units.size()) + ".cpp");
    return write_scratch_file(scratch / units.back(), std::exchange(text, ""));
  };
  for (const auto& [size, file] : files) {
    if (bytes != 0 && bytes + size > kUnitBytes) {
      MILLRACE_TRY(write_unit());
      bytes = 0;
    }
    bytes += size;
    text += "#include \"" + file + "\"\n";
  }
  MILLRACE_TRY(write_unit());
  return units;
}

Status make_simulation(const Toolchain& tools, const Source& source, const fs::path& runtime,
                       const BuildOptions& options, const fs::path& entry, const fs::path& scratch) {
  const std::string what = "partition '" + source.design.partition + "'";
  const auto say = [&](const std::string& line) {
    if (options.progress) options.progress(what + ": " + line);
  };
  MILLRACE_ASSIGN(const Words memories, lay_out(source, scratch));
  say("verilating");
  Words verilate = {tools.verilator.string()};
  verilate.insert(verilate.end(), verilator_options().begin(), verilator_options().end());
  verilate.insert(verilate.end(), {std::string(kWrapperModule) + ".sv", source.design.dataflow + ".sv"});
  MILLRACE_TRY(run_tool(verilate, scratch, what));

  MILLRACE_ASSIGN(const Words units, compilation_units(scratch));
  std::vector<Words> commands;
  Words link = {tools.compiler.string(), "-shared", "-o", (entry / "simulation.so").string()};
  for (const std::string& unit : units) {
    const std::string object = "object" + std::to_string(commands.size()) + ".o";
    commands.push_back(compile_command(tools, unit, object));
    link.push_back(object);
  }
  say("compiling");
  MILLRACE_TRY(run_all(commands, scratch, what, options));
  for (const char* name : {"verilated.o", "verilated_threads.o"}) link.push_back((runtime / name).string());
  link.insert(link.end(),
              {"-Wl,--wrap=fopen", "-Wl,-Bsymbolic", "-Wl,-z,defs", "-Wl,-z,now", "-s", "-lpthread"});
  return run_tool(link, scratch, what);
}

}  // namespace

Result<Toolchain> Toolchain::find() {
  Toolchain tools;
  const auto missing = [](const std::string& what) {
    return Error(ErrorCode::kEnvironment, "rtl fidelity: " + what + "; " + kRemedy);
  };
  // Prefer the binary to Debian's Perl script that calls it, because the binary ends immediately on a signal.
  auto verilator = find_program("verilator_bin");
  if (!verilator) verilator = find_program("verilator");
  if (!verilator) return missing("verilator is not installed");
  auto compiler = find_program("g++");
  if (!compiler) return missing("g++ is not installed");
  tools.verilator = *verilator;
  tools.compiler = *compiler;

  MILLRACE_ASSIGN(const ChildOutcome version, run_child({tools.verilator.string(), "--version"}));
  tools.verilator_version = first_line(version.output);
  int major = 0;
  constexpr std::string_view kName = "Verilator ";
  const std::string& line = tools.verilator_version;
  if (line.starts_with(kName)) std::from_chars(line.data() + kName.size(), line.data() + line.size(), major);
  if (!version.ok() || major < 5)
    return missing(tools.verilator.string() + " is '" + printable(line) +
                   "', Verilator 5 or later is needed");
  MILLRACE_ASSIGN(const ChildOutcome root,
                  run_child({tools.verilator.string(), "--getenv", "VERILATOR_ROOT"}));
  tools.include = fs::path(first_line(root.output)) / "include";
  std::error_code ignored;
  if (!root.ok() || !fs::exists(tools.include / "verilated.cpp", ignored))
    return missing("Verilator's runtime is not in " + tools.include.string());
  MILLRACE_ASSIGN(const ChildOutcome compiler_version, run_child({tools.compiler.string(), "--version"}));
  if (!compiler_version.ok()) return missing(tools.compiler.string() + " does not run");
  tools.compiler_version = first_line(compiler_version.output);
  return tools;
}

Result<fs::path> build_simulation(const Cache& cache, const Toolchain& tools, const Source& source,
                                  const BuildOptions& options) {
  const std::string key =
      sha256_hex(tool_key(tools) + joined(verilator_options()) + wrapper_module(source.design) +
                 wrapper_source(source.design, {}) + source.design.digest);
  if (auto found = cache.find(kSimulationKind, key)) return *std::move(found);
  MILLRACE_ASSIGN(const fs::path runtime, build_runtime(cache, tools, options));
  const auto make = [&](const fs::path& entry, const fs::path& scratch) -> Status {
    MILLRACE_TRY(make_simulation(tools, source, runtime, options, entry, scratch));
    return write_new_file(entry / "design.json", source.design_json);
  };
  return cache.get(kSimulationKind, key, make, [&] {
    if (options.progress)
      options.progress("partition '" + source.design.partition +
                       "': waiting, because another process is building the simulation");
  });
}

Result<std::vector<BuiltPartition>> build_simulations(const plan::LoadedDeployment& deployment,
                                                      const BuildOptions& options) {
  std::vector<Source> sources;
  for (const plan::Partition& partition : deployment.plan.partitions) {
    if (partition.kind == plan::PartitionKind::kHost) continue;
    MILLRACE_ASSIGN(Source source, read_source(deployment.directory, partition.name));
    sources.push_back(std::move(source));
  }
  MILLRACE_ASSIGN(const Cache cache, Cache::open());
  MILLRACE_ASSIGN(const Toolchain tools, Toolchain::find());
  std::vector<BuiltPartition> built;
  for (const Source& source : sources) {
    MILLRACE_ASSIGN(fs::path entry, build_simulation(cache, tools, source, options));
    built.push_back({source.design.partition, std::move(entry), source.design});
  }
  for (const plan::Image& image : deployment.plan.images) {
    std::vector<BuiltPartition> held;
    for (const BuiltPartition& partition : built)
      if (std::find(image.partitions.begin(), image.partitions.end(), partition.partition) !=
          image.partitions.end())
        held.push_back(partition);
    MILLRACE_TRY(list_simulations(cache, image.content_digest, held));
  }
  return built;
}

Status list_simulations(const Cache& cache, const std::string& content_digest,
                        const std::vector<BuiltPartition>& partitions) {
  std::string lines;
  for (const BuiltPartition& built : partitions)
    lines += built.entry.filename().string() + "  " + built.partition + "\n";
  std::error_code ignored;  // if this fails, writing the file reports the error
  fs::create_directories(cache.root() / "images", ignored);
  return write_file_atomically(cache.root() / "images" / content_digest, lines);
}

Result<fs::path> find_simulation(const Cache& cache, const std::string& content_digest,
                                 const std::string& partition) {
  const Error none(
      ErrorCode::kNotFound,
      "no simulation of partition '" + printable(partition) + "' is in the cache " + cache.root().string() +
          "; 'millrace verify DIR --fidelity rtl' and 'millrace serve --fidelity rtl' build the simulation");
  if (!is_name(content_digest)) return none;
  const auto list = read_text_file(cache.root() / "images" / content_digest);
  if (!list.ok()) return none;
  std::istringstream lines(*list);
  for (std::string key, name; lines >> key >> name;)
    if (name == partition && is_name(key))
      if (auto entry = cache.find(kSimulationKind, key)) return *std::move(entry);
  return none;
}

}  // namespace millrace::runtime::rtl
