#include "compiler/generators/plugin_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "runtime/base/file.hpp"
#include "runtime/base/text.hpp"

namespace millrace::compiler::generators {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kAnswerBytes = std::size_t{16} << 20U;
/// Maximum number of bytes of the program's standard error that an error message quotes.
constexpr std::streamoff kErrorBytes = 1000;
constexpr int kNotStarted = 127;

/// The program's standard streams are files and not pipes, because a child of the program could keep a pipe open.
struct Streams {
  explicit Streams(const fs::path& folder)
      : question((folder / "question").string()),
        answer((folder / "answer").string()),
        error((folder / "error").string()) {}
  std::string question, answer, error;
};

/// Replaces the forked process by the program. Until exec, only functions that are safe in signal handlers are called.
[[noreturn]] void become(char* const* arguments, const Streams& streams) {
  for (const int number : {SIGPIPE, SIGXFSZ, SIGTERM}) ::signal(number, SIG_DFL);
  ::syscall(SYS_close_range, 0U, ~0U, 0U);  // so that the next descriptors opened are 0, 1 and 2
  const bool open = ::open(streams.question.c_str(), O_RDONLY) == 0 &&
                    ::open(streams.answer.c_str(), O_WRONLY | O_APPEND) == 1 &&
                    ::open(streams.error.c_str(), O_WRONLY | O_APPEND) == 2;
  if (open) ::execv(arguments[0], arguments);
  const char* const why = ::strerrordesc_np(errno);
  [[maybe_unused]] const auto written = ::write(2, why, std::strlen(why));
  ::_exit(kNotStarted);
}

/// Runs in a forked process as a guard: starts the program as a child, ends with the child's status, and kills the
/// whole process group if Millrace's process dies.
[[noreturn]] void guard(pid_t parent, char* const* arguments, const Streams& streams) {
  ::setpgid(0, 0);
  ::signal(SIGTERM, [](int) { ::kill(0, SIGKILL); });
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (::getppid() != parent) ::_exit(kNotStarted);  // the parent ended before prctl()
  const pid_t child = ::fork();
  if (child == 0) become(arguments, streams);
  ::syscall(SYS_close_range, 0U, ~0U, 0U);
  int status = kNotStarted << 8;  // used if fork() failed
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) ::_exit(WEXITSTATUS(status));
  ::signal(WTERMSIG(status), SIG_DFL);
  ::raise(WTERMSIG(status));
  ::_exit(kNotStarted);
}

/// Waits until the program has ended or exceeded a limit. Returns a text that names the exceeded limit, or an empty
/// text if the program ended by itself.
std::string wait_for(pid_t group, const Streams& streams, std::chrono::milliseconds time_limit) {
  const auto deadline = std::chrono::steady_clock::now() + time_limit;
  const auto too_long = [](const std::string& file) {
    std::error_code unknown;
    const auto size = fs::file_size(file, unknown);
    return !unknown && size > kAnswerBytes;
  };
  for (siginfo_t info{};; ::poll(nullptr, 0, 2)) {
    // Do not reap the guard process yet, because its process id must keep naming the process group.
    const bool ended = ::waitid(P_PID, static_cast<id_t>(group), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
                       info.si_pid == group;
    if (too_long(streams.answer))
      return "its answer is longer than " + std::to_string(kAnswerBytes) + " bytes";
    if (ended) return "";
    if (std::chrono::steady_clock::now() >= deadline)
      return "it did not end within " + std::to_string(time_limit.count()) + " ms and was killed";
    if (too_long(streams.error)) ::truncate(streams.error.c_str(), 0);  // errors quote only the end
  }
}

/// Returns the last kErrorBytes bytes of a file.
std::string end_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  file.seekg(-std::min<std::streamoff>(file.tellg(), kErrorBytes), std::ios::end);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

Result<std::string> ask_program(const std::vector<std::string>& command, const std::string& question,
                                std::chrono::milliseconds time_limit) {
  const TemporaryDirectory folder("millrace-plugin");
  const Streams streams(folder.path());
  MILLRACE_TRY(write_scratch_file(streams.question, question));
  for (const auto& file : {streams.answer, streams.error}) MILLRACE_TRY(write_scratch_file(file, ""));
  std::vector<char*> arguments;
  for (const std::string& one : command) arguments.push_back(const_cast<char*>(one.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid(), group = ::fork();
  if (group == 0) guard(parent, arguments.data(), streams);
  if (group < 0)
    return Error(ErrorCode::kResourceExhausted, std::string("it cannot be started: ") + std::strerror(errno));
  ::setpgid(group, group);  // parent and child both call setpgid(), because either may run first
  std::string wrong = wait_for(group, streams, time_limit);
  ::kill(-group, SIGKILL);
  int status = 0;
  while (::waitpid(group, &status, 0) < 0 && errno == EINTR) {
  }
  if (wrong.empty() && WIFSIGNALED(status))
    wrong = "it was ended by signal " + std::to_string(WTERMSIG(status));
  if (wrong.empty() && WEXITSTATUS(status) != 0)
    wrong = "it ended with code " + std::to_string(WEXITSTATUS(status));
  if (wrong.empty()) return read_text_file(streams.answer, kAnswerBytes);
  const std::string said = end_of(streams.error);
  return Error(ErrorCode::kInvalidInput, wrong + (said.empty() ? "" : "; it said: " + printable(said)));
}

}  // namespace millrace::compiler::generators
