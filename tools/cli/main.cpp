// `millrace`: one binary with sub-commands. Exit codes: 0 success; 1 a check failed or something does not
// fit; 2 wrong usage or bad input; 3 the environment lacks something; 70 a bug in millrace. If a signal
// interrupts a command that writes files, the process dies of that signal: a shell shows 130, 143 or 129. If
// nobody reads standard output any more, the process dies of SIGPIPE (a shell shows 141).

#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <optional>

#include "runtime/base/interruption.hpp"
#include "runtime/base/log.hpp"
#include "runtime/plan/installed.hpp"
#include "tools/cli/error_report.hpp"
#include "tools/cli/parse.hpp"

namespace {

using namespace millrace::cli;

constexpr int kExitInternal = 70;
constexpr int kExitBySignal = 128;  // a shell adds the signal's number

/// Whether the command's result is a file.
bool writes(const Command& command) {
  return std::holds_alternative<CompileCommand>(command) || std::holds_alternative<PackCommand>(command) ||
         std::holds_alternative<PlanCommand>(command) || std::holds_alternative<QuantizeCommand>(command);
}

void say_interrupted(const Parsed& parsed, int signal, const std::vector<std::filesystem::path>& written) {
  std::string message = "interrupted; ";
  if (written.empty()) message += "nothing written";
  for (std::size_t i = 0; i < written.size(); ++i) message += (i == 0 ? "" : ", ") + written[i].string();
  if (!written.empty()) message += written.size() == 1 ? " is whole" : " are whole";
  report_failure({parsed.name, message, kExitBySignal + signal}, parsed.json);
}

template <class T>
concept TakesCluster = requires(T& command) {
  command.cluster;
};
template <class T>
concept TakesPlanWhat = requires(T& command) {
  command.what.cluster;
};

/// Replaces the name of a cluster by the path of its file. For `serve`, the code that reads its settings does that.
millrace::Status find_cluster_of(Command& command) {
  return std::visit(
      [](auto& one) -> millrace::Status {
        using T = std::decay_t<decltype(one)>;
        std::filesystem::path* cluster = nullptr;
        if constexpr (TakesCluster<T>) cluster = &one.cluster;
        if constexpr (TakesPlanWhat<T>) cluster = &one.what.cluster;
        if (cluster == nullptr || cluster->empty()) return {};
        MILLRACE_ASSIGN(*cluster, millrace::runtime::plan::find_cluster(*cluster));
        return {};
      },
      command);
}

/// Whether standard output is a pipe or socket whose reader (for example `head`) has closed its end. A pipe
/// then reports POLLERR, and a socket POLLHUP.
bool reader_went() {
  pollfd output{STDOUT_FILENO, 0, 0};
  return ::poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

/// Kills this process with SIGPIPE (a shell shows 141), as usual for a program whose output nobody reads any more.
[[noreturn]] void end_by_sigpipe() {
  std::signal(SIGPIPE, SIG_DFL);
  std::raise(SIGPIPE);
  std::_Exit(kExitBySignal + SIGPIPE);  // reached only if the parent process has blocked SIGPIPE
}

int run(Parsed& parsed) {
  if (!parsed.command) {
    if (parsed.exit_code == 0)
      std::cout << parsed.message;
    else
      report_failure({parsed.name, parsed.message, parsed.exit_code}, parsed.json);
    if (parsed.exit_code != 0 && !parsed.json)
      std::cerr << "Run 'millrace" << (parsed.name.empty() ? "" : " ") << parsed.name
                << " --help' for usage.\n";
    return parsed.exit_code;
  }

  const Common& common = common_of(*parsed.command);
  auto level = millrace::log::Level::kInfo;
  millrace::log::parse_level(common.quiet ? "warning" : common.log_level, level);
  millrace::log::configure(level, false);

  std::optional<millrace::InterruptionHandler> interruption;
  if (writes(*parsed.command))
    interruption.emplace([&](int signal, const auto& written) { say_interrupted(parsed, signal, written); });
  millrace::Status status = find_cluster_of(*parsed.command);
  if (status.ok())
    status = std::visit([](const auto& command) { return millrace::cli::run(command, std::cout); },
                        *parsed.command);
  interruption.reset();  // an interruption must print its message before this function prints another
  std::cout.flush();
  if (!status.ok()) {
    const int exit_code = millrace::exit_code(status.error().code());
    report_failure({parsed.name, status.error().message(), exit_code}, parsed.json);
    return exit_code;
  }
  if (!std::cout) {
    if (reader_went()) end_by_sigpipe();
    const int exit_code = millrace::exit_code(millrace::ErrorCode::kEnvironment);
    report_failure({parsed.name, "standard output could not be written", exit_code}, parsed.json);
    return exit_code;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // makes a file over the size limit a write error, not the process's end
  Parsed parsed;
  try {
    parsed = parse(argc, argv);
    return run(parsed);
  } catch (const std::bad_alloc&) {
    report_failure({parsed.name, "out of memory", 1}, parsed.json);
    return 1;
  } catch (const std::exception& error) {
    report_failure({parsed.name,
                    std::string("internal error: ") + error.what() +
                        "; this is a bug in millrace: please report it with the command line",
                    kExitInternal},
                   parsed.json);
    return kExitInternal;
  }
}
