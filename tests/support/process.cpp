#include "tests/support/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "runtime/base/file.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/wait.hpp"

extern char** environ;

namespace millrace::tests {
namespace {

using std::chrono::steady_clock;

pid_t spawn(const std::vector<std::string>& command, const std::vector<std::string>& environment, int out,
            int err) {
  std::vector<std::string> variables = environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('=') + 1);
    bool replaced = false;
    for (const auto& added : environment) replaced = replaced || added.starts_with(name);
    if (!replaced) variables.push_back(text);
  }
  std::vector<char*> argv, envp;
  for (const auto& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  for (const auto& entry : variables) envp.push_back(const_cast<char*>(entry.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  pid_t pid = -1;
  const int code = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) throw std::runtime_error("cannot start " + command.front());
  return pid;
}

int decode(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Waits until the process ends and returns its exit code. Polls, because no portable call can wait with a limit.
std::optional<int> reap(pid_t pid, steady_clock::time_point until) {
  while (true) {
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid) return decode(status);
    if (steady_clock::now() > until) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the polling interval
  }
}

std::string text_of(const std::filesystem::path& path) {
  const auto text = read_text_file(path);
  return text.ok() ? *text : std::string();
}

}  // namespace

Outcome run_program(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                    std::chrono::seconds limit) {
  const TemporaryDirectory dir("millrace-run");
  const int out = ::open((dir.path() / "out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const int err = ::open((dir.path() / "err").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const pid_t pid = spawn(command, environment, out, err);
  ::close(out);
  ::close(err);

  Outcome outcome;
  if (const auto code = reap(pid, steady_clock::now() + limit)) {
    outcome.exit_code = *code;
  } else {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  outcome.out = text_of(dir.path() / "out");
  outcome.err = text_of(dir.path() / "err");
  return outcome;
}

BackgroundProgram::BackgroundProgram(const std::vector<std::string>& command,
                                     const std::vector<std::string>& environment) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
  err_path_ = (std::filesystem::temp_directory_path() / "millrace-err.XXXXXX").string();
  const int err = ::mkostemp(err_path_.data(), O_CLOEXEC);
  pid_ = spawn(command, environment, pipe[1], err);
  ::close(pipe[1]);
  ::close(err);
  out_ = pipe[0];
}

BackgroundProgram::~BackgroundProgram() {
  if (running()) stop(SIGKILL);
  ::close(out_);
  ::unlink(err_path_.c_str());
}

std::optional<std::string> BackgroundProgram::wait_for_line(const std::string& prefix,
                                                            std::chrono::seconds limit) {
  const auto until = steady_clock::now() + limit;
  while (true) {
    for (auto end = buffered_.find('\n'); end != std::string::npos; end = buffered_.find('\n')) {
      const std::string line = buffered_.substr(0, end);
      buffered_.erase(0, end + 1);
      if (line.starts_with(prefix)) return line.substr(prefix.size());
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - steady_clock::now()).count();
    pollfd ready{out_, POLLIN, 0};
    if (left <= 0 || ::poll(&ready, 1, static_cast<int>(left)) <= 0) return std::nullopt;
    char bytes[4096];
    const ssize_t n = ::read(out_, bytes, sizeof bytes);
    if (n <= 0) return std::nullopt;
    buffered_.append(bytes, static_cast<std::size_t>(n));
  }
}

int BackgroundProgram::wait_for_end(std::chrono::seconds limit) {
  if (!ended_) ended_ = reap(pid_, steady_clock::now() + limit);
  return ended_.value_or(-1);
}

int BackgroundProgram::stop(int signal, std::chrono::seconds limit) {
  if (!ended_) ::kill(pid_, signal);
  const int code = wait_for_end(limit);
  if (ended_) return code;
  ::kill(pid_, SIGKILL);
  wait_for_end(std::chrono::seconds(10));
  return -1;
}

bool BackgroundProgram::running() {
  wait_for_end(std::chrono::seconds(0));
  return !ended_;
}

std::string BackgroundProgram::err() const {
  return text_of(err_path_);
}

std::vector<pid_t> children_named(pid_t parent, const std::string& name) {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string directory = entry.path().filename().string();
    if (directory.find_first_not_of("0123456789") != std::string::npos) continue;
    // The file reads "pid (comm) state ppid …". The name comm may itself contain parentheses, so find the last one.
    std::ifstream file(entry.path() / "stat");
    std::string stat((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const auto open = stat.find('('), close = stat.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close + 4 > stat.size()) continue;
    if (stat.substr(open + 1, close - open - 1) != name.substr(0, 15) || stat[close + 2] == 'Z') continue;
    if (std::atoi(stat.c_str() + close + 4) == parent) found.push_back(std::atoi(directory.c_str()));
  }
  return found;
}

bool process_exists(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string stat((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto close = stat.rfind(')');
  return close != std::string::npos && close + 2 < stat.size() && stat[close + 2] != 'Z';
}

std::size_t open_descriptors(pid_t pid) {
  std::error_code ignored;
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", ignored))
    ++n;
  return n;
}

bool await_rest() {
  const std::string own = std::to_string(::gettid());
  const auto others_sleep = [&] {
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      if (task.path().filename() == own) continue;
      std::ifstream file(task.path() / "stat");
      const std::string stat((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
      const auto close = stat.rfind(')');
      if (close == std::string::npos || close + 2 >= stat.size() || stat[close + 2] != 'S') return false;
    }
    return true;
  };
  // Threads are inspected one after another. Meanwhile a thread may wake another that was already inspected, so require
  // several inspections in a row that find all threads asleep.
  int looks = 0;
  return wait_until([&] { return (looks = others_sleep() ? looks + 1 : 0) == 5; });
}

std::string millrace_binary() {
  return std::string(tests::binary_dir()) + "/bin/millrace";
}

}  // namespace millrace::tests
