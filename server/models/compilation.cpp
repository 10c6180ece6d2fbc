#include "server/models/compilation.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/process.hpp"

namespace millrace::server::models {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{4} << 30U;
constexpr int kNiceness = 10;  // serving requests takes precedence over compiling
constexpr char kStepLine[] = " compile: ";
constexpr char kDeployment[] = "deployment";
constexpr char kErrorWord[] = "error: ";

Error cancelled() {
  return Error(ErrorCode::kCancelled, "the compilation was cancelled");
}

/// Returns a digest of the compiler, the model's name, and all files in `source` except the folder verify/, which the
/// compiler does not read.
Result<std::string> digest_of(const fs::path& source, const Compiler& compiler, const std::string& name,
                              const std::stop_token& stop) {
  std::vector<std::string> files;
  std::error_code code;
  for (fs::recursive_directory_iterator it(source, code); !code && it != fs::recursive_directory_iterator();
       it.increment(code)) {
    const std::string inside = it->path().lexically_relative(source).generic_string();
    if (it->is_regular_file(code) && !inside.starts_with("verify/")) files.push_back(inside);
  }
  if (code) return Error(ErrorCode::kEnvironment, source.string() + ": cannot be listed: " + code.message());
  std::sort(files.begin(), files.end());
  std::string all = compiler.identity + '\n' + name + '\n';
  for (const auto& file : files) {
    if (stop.stop_requested()) return cancelled();
    MILLRACE_ASSIGN(const auto bytes, read_file(source / file, kMaxFileBytes));
    all += file + '\0' + sha256_hex(bytes) + '\n';
  }
  return sha256_hex(std::as_bytes(std::span(all)));
}

/// Removes complete lines from the front of `output`, and reports the step named in each line of the form "… compile:
/// <step>: <milliseconds> ms".
void report_steps(std::string& output, const CompileProgress& progress) {
  for (auto end = output.find('\n'); end != std::string::npos; end = output.find('\n')) {
    const std::string line = output.substr(0, end);
    output.erase(0, end + 1);
    const auto at = line.find(kStepLine);
    if (at == std::string::npos || !line.ends_with(" ms")) continue;
    const auto step = at + sizeof kStepLine - 1;
    progress(line.substr(step, line.find(':', step) - step));
  }
}

/// Returns the compiler's error message: the text after "error: " in its last line.
std::string error_message_of(const std::string& output) {
  std::string text = output.substr(0, output.find_last_not_of('\n') + 1);
  text = text.substr(text.rfind('\n') + 1);
  const auto at = text.find(kErrorWord);
  return at == std::string::npos ? text : text.substr(at + sizeof kErrorWord - 1);
}

ErrorCode code_of(int exit_code) {
  constexpr std::array kCodes = {ErrorCode::kDoesNotFit, ErrorCode::kInvalidInput, ErrorCode::kEnvironment};
  const auto index = static_cast<std::size_t>(exit_code - 1);
  return index < kCodes.size() ? kCodes[index] : ErrorCode::kInternal;
}

}  // namespace

Result<fs::path> compile_version(const Compiler& compiler, const Cache& cache, const std::string& name,
                                 const fs::path& source, const std::stop_token& stop,
                                 const CompileProgress& progress) {
  MILLRACE_ASSIGN(const std::string key, digest_of(source, compiler, name, stop));
  const auto make = [&](const fs::path& entry, const fs::path&) -> Status {
    std::vector<std::string> command = compiler.command;
    command.insert(command.end(),
                   {(source / "model.onnx").string(), "--cluster", compiler.cluster.string(), "--name", name,
                    "--log-level", "debug", "-o", (entry / kDeployment).string()});
    progress("");
    std::string unread;
    ChildWatch watch;
    watch.stop = stop;
    watch.on_output = [&](std::string_view part) { report_steps(unread.append(part), progress); };
    watch.niceness = kNiceness;
    MILLRACE_ASSIGN(const ChildOutcome outcome, run_child(command, {}, watch));
    if (stop.stop_requested()) return cancelled();
    if (outcome.ok()) return {};
    if (is_disk_full(entry))
      return Error(ErrorCode::kResourceExhausted,
                   "compiling: the disk is full: " + error_message_of(outcome.output) + "; free space in " +
                       cache.root().string());
    if (outcome.signal != 0)
      return Error(ErrorCode::kInternal,
                   "compiling: the compiler was ended by signal " + std::to_string(outcome.signal));
    return Error(code_of(outcome.exit_code), "compiling: " + error_message_of(outcome.output));
  };
  const auto kept = cache.get("deployments", key, make, {}, stop);
  if (!kept.ok()) return stop.stop_requested() ? cancelled() : kept.error();
  return *kept / kDeployment;
}

}  // namespace millrace::server::models
