// `millrace inspect`: verifies the checksums of a deployment or an xclbin and prints its content.

#include <ostream>

#include "runtime/base/file.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/describe.hpp"

namespace millrace::cli {
namespace {

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{2} << 30U;

Status inspect_file(const InspectCommand& command, std::ostream& out) {
  MILLRACE_ASSIGN(const auto bytes, read_file(command.target, kMaxFileBytes));
  const auto description = describe_image(bytes);
  if (!description.ok()) return description.error().within(command.target.string());
  command.common.json ? print_json(*description, out) : print_table(*description, out);
  return {};
}

}  // namespace

Status run(const InspectCommand& command, std::ostream& out) {
  std::error_code ignored;
  if (!std::filesystem::exists(command.target, ignored))
    return Error(ErrorCode::kNotFound,
                 command.target.string() + ": no such file or directory; name a deployment or an .xclbin");
  if (!std::filesystem::is_directory(command.target, ignored)) return inspect_file(command, out);
  MILLRACE_ASSIGN(const auto deployment, runtime::plan::load_deployment(command.target));
  MILLRACE_ASSIGN(const auto description, describe(deployment));
  if (command.common.json) {
    print_json(description, "", out);
  } else {
    print_table(description, out);
    out << "\nall checksums hold; digest " << deployment.plan.digest << '\n';
  }
  return {};
}

}  // namespace millrace::cli
