// `millrace`: one binary, sub-commands. Exit codes: 0 done; 1 does not hold or fit; 2 usage or bad input;
// 3 something missing in the environment; 70 our bug.

#include <csignal>
#include <exception>
#include <iostream>

#include "runtime/base/log.hpp"
#include "runtime/base/text.hpp"
#include "tools/cli/parse.hpp"

namespace {

constexpr int kExitInternal = 70;

int run(int argc, char** argv) {
  const millrace::cli::Parsed parsed = millrace::cli::parse(argc, argv);
  if (!parsed.command) {
    (parsed.exit_code == 0 ? std::cout : std::cerr) << parsed.message;
    return parsed.exit_code;
  }

  const millrace::cli::Common& common = millrace::cli::common_of(*parsed.command);
  auto level = millrace::log::Level::kInfo;
  millrace::log::parse_level(common.quiet ? "warning" : common.log_level, level);
  millrace::log::configure(level, false);

  const millrace::Status status =
      std::visit([](const auto& command) { return millrace::cli::run(command, std::cout); }, *parsed.command);
  std::cout.flush();
  if (!status.ok()) {
    std::cerr << "millrace " << parsed.name
              << ": error: " << millrace::printable(status.error().message(), true) << '\n';
    return millrace::exit_code(status.error().code());
  }
  if (!std::cout) {
    std::cerr << "millrace " << parsed.name << ": error: standard output could not be written\n";
    return millrace::exit_code(millrace::ErrorCode::kEnvironment);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file over the limit is an error to report, not a death
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::cerr << "millrace: error: out of memory\n";
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "millrace: internal error: " << error.what()
              << "\nThis is a bug in millrace; please report it with the command line.\n";
    return kExitInternal;
  }
}
