// `millrace quantize`: writes a float model as a QDQ model, and reports how much accuracy that costs.

#include <ostream>

#include "compiler/quantize/report.hpp"
#include "runtime/base/file.hpp"
#include "tools/cli/calibrate.hpp"
#include "tools/cli/commands.hpp"

namespace millrace::cli {
namespace {

Status check_place(const char* option, const std::filesystem::path& path,
                   const std::filesystem::path& model) {
  if (path.empty()) return {};
  std::error_code ignored;
  if (std::filesystem::equivalent(path, model, ignored))
    return Error(ErrorCode::kInvalidInput,
                 std::string(option) + " " + path.string() +
                     ": is the model itself, which would be overwritten; name another file");
  const Status status = check_file_place(path);
  return status.ok() ? status : Status(status.error().within(option));
}

}  // namespace

Status run(const QuantizeCommand& command, std::ostream& out) {
  MILLRACE_TRY(check_place("--output", command.output, command.model));
  MILLRACE_TRY(check_place("--report", command.report, command.model));
  MILLRACE_ASSIGN(const Calibrated made, calibrate(command.model, command.what, command.common.quiet));
  MILLRACE_TRY(write_file_atomically(command.output, made.onnx));
  if (!command.report.empty())
    MILLRACE_TRY(write_file_atomically(command.report, compiler::quantize::html(made.summary)));
  if (command.common.json) {
    out << compiler::quantize::json(made.summary, command.output.string()) << '\n';
    return {};
  }
  if (!command.common.quiet) out << compiler::quantize::text(made.summary) << '\n';
  out << "wrote " << command.output.string() << '\n';
  return {};
}

}  // namespace millrace::cli
