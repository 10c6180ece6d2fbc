#include "runtime/base/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "runtime/base/file.hpp"

namespace millrace {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxOutput = 1U << 20;
constexpr int kStopPollMs = 20;

struct Pipe {
  Descriptor read{-1}, write{-1};
  bool open() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    read.reset(ends[0]);
    write.reset(ends[1]);
    return true;
  }
};

/// Runs in the forked child and executes the program. Before exec, calls only async-signal-safe functions.
[[noreturn]] void become(char* const* arguments, const char* directory, int output, int failure, pid_t parent,
                         int niceness) {
  int code = 0;
  if (niceness != 0) [[maybe_unused]]
    const int lower = ::nice(niceness);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);  // the parent ended before prctl()
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGPIPE, SIGXFSZ}) ::signal(number, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0 || ::dup2(null, STDIN_FILENO) < 0 || ::dup2(output, STDOUT_FILENO) < 0 ||
      ::dup2(output, STDERR_FILENO) < 0 || (*directory != '\0' && ::chdir(directory) != 0)) {
    code = errno;
  } else {
    ::syscall(SYS_close_range, 3U, ~0U, 4U);  // 4: CLOSE_RANGE_CLOEXEC; `failure` stays open until exec
    ::execv(arguments[0], arguments);
    code = errno;
  }
  [[maybe_unused]] const auto written = ::write(failure, &code, sizeof code);
  ::_exit(127);
}

/// Reads the child's output until the pipe ends or a stop is requested.
void read_all(int from, std::string& output, const ChildWatch& watch = {}) {
  std::array<char, 65536> part;
  while (!watch.stop.stop_requested()) {
    pollfd readable{from, POLLIN, 0};
    if (watch.stop.stop_possible() && ::poll(&readable, 1, kStopPollMs) == 0) continue;
    const ssize_t got = ::read(from, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    output.append(part.data(), static_cast<std::size_t>(got));
    if (watch.on_output) watch.on_output({part.data(), static_cast<std::size_t>(got)});
    if (output.size() > 2 * kMaxOutput) output.erase(0, output.size() - kMaxOutput);
  }
}

Error cannot_start(const std::string& program, int code) {
  const bool passes = code == EAGAIN || code == ENOMEM || code == EMFILE || code == ENFILE;
  return Error(passes ? ErrorCode::kResourceExhausted : ErrorCode::kEnvironment,
               program + ": cannot be started: " + std::strerror(code));
}

}  // namespace

std::optional<fs::path> find_program(std::string_view name) {
  const auto runs = [](const fs::path& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string_view::npos)
    return runs(fs::path(name)) ? std::optional<fs::path>(name) : std::nullopt;
  const char* given = std::getenv("PATH");
  std::string_view folders = given == nullptr ? "/usr/local/bin:/usr/bin:/bin" : given;
  while (!folders.empty()) {
    const std::size_t end = std::min(folders.find(':'), folders.size());
    const fs::path candidate = fs::path(folders.substr(0, end)) / name;
    if (end > 0 && runs(candidate)) return candidate;
    folders.remove_prefix(std::min(end + 1, folders.size()));
  }
  return std::nullopt;
}

Result<ChildOutcome> run_child(const std::vector<std::string>& command, const fs::path& directory,
                               const ChildWatch& watch) {
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const std::string folder = directory.string();

  Pipe output, failure;
  if (!output.open() || !failure.open()) return cannot_start(command[0], errno);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return cannot_start(command[0], errno);
  if (child == 0)
    become(arguments.data(), folder.c_str(), output.write.get(), failure.write.get(), parent, watch.niceness);
  output.write.close();
  failure.write.close();

  ChildOutcome outcome;
  read_all(output.read.get(), outcome.output, watch);
  if (watch.stop.stop_requested()) ::kill(child, SIGKILL);
  std::string failed;
  read_all(failure.read.get(), failed);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (failed.size() == sizeof(int)) {
    int code = 0;
    std::memcpy(&code, failed.data(), sizeof code);
    return cannot_start(command[0], code);
  }
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  if (outcome.output.size() > kMaxOutput) outcome.output.erase(0, outcome.output.size() - kMaxOutput);
  return outcome;
}

}  // namespace millrace
