// `millrace pack`: replaces an FPGA image of a deployment by the xclbin that the vendor's tools built for it.

#include <algorithm>
#include <ostream>

#include "compiler/emit/container.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/plan/deployment.hpp"
#include "tools/cli/commands.hpp"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;
namespace plan = runtime::plan;

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{2} << 30U;

Result<plan::EmulationData> emulation_data_of(const std::vector<std::byte>& bytes) {
  MILLRACE_ASSIGN(const plan::XclbinView view, plan::parse_xclbin(bytes));
  const plan::XclbinSection* section = view.find(plan::kSectionEmulationData);
  if (section == nullptr) return Error(ErrorCode::kInvalidInput, "it has no EMULATION_DATA to keep");
  return plan::decode_emulation_data(section->bytes);
}

/// Copies those files of a deployment that `pack` does not rewrite.
Status copy_rest(const fs::path& from, const fs::path& to, const std::string& image) {
  std::error_code code;
  for (auto it = fs::recursive_directory_iterator(from, code);
       !code && it != fs::recursive_directory_iterator(); it.increment(code)) {
    const fs::path path = it->path().lexically_relative(from);
    if (path == image || path == "deployment.json" || path == "CHECKSUMS") continue;
    if (it->is_directory(code)) {
      MILLRACE_TRY(make_folders(to / path));
    } else if (!code) {
      MILLRACE_TRY(copy_new_file(it->path(), to / path));
    }
  }
  if (!code) return {};
  return Error(ErrorCode::kEnvironment, from.string() + ": cannot be copied: " + code.message());
}

/// Refuses an output directory inside the deployment, because the deployment would be copied into itself.
Status check_elsewhere(const PackCommand& command) {
  std::error_code code;
  const fs::path from = fs::weakly_canonical(command.deployment, code);
  const fs::path to = fs::weakly_canonical(fs::absolute(command.output, code), code);
  const bool inside = std::mismatch(from.begin(), from.end(), to.begin(), to.end()).first == from.end();
  if (!inside || from == to) return {};
  return Error(
      ErrorCode::kInvalidInput,
      command.output.string() + ": lies inside the deployment that is packed; give another directory");
}

}  // namespace

Status run(const PackCommand& command, std::ostream& out) {
  MILLRACE_ASSIGN(const plan::LoadedDeployment deployment, plan::load_deployment(command.deployment));
  plan::Deployment packed = deployment.plan;
  const auto image = std::find_if(packed.images.begin(), packed.images.end(),
                                  [&](const plan::Image& one) { return one.name == command.image; });
  if (image == packed.images.end()) {
    std::string known;
    for (const plan::Image& one : packed.images) known += (known.empty() ? "" : ", ") + one.name;
    return Error(ErrorCode::kNotFound,
                 "--image: the deployment has no '" + command.image + "'; it has " + known);
  }
  const auto data = emulation_data_of(deployment.images.at(image->name));
  if (!data.ok()) return data.error().within(image->file);
  MILLRACE_ASSIGN(const auto vendor, read_file(command.xclbin, kMaxFileBytes));
  const auto made = compiler::emit::pack_container(vendor, *data);
  if (!made.ok()) return made.error().within(command.xclbin.string());
  MILLRACE_ASSIGN(const plan::XclbinView view, plan::parse_xclbin(*made));
  image->uuid = view.uuid;
  image->file_sha256 = sha256_hex(*made);
  packed.digest = plan::compute_digest(packed);
  const std::string file = image->file;
  const fs::path target = command.output.empty() ? command.deployment : command.output;
  if (!command.output.empty()) MILLRACE_TRY(check_elsewhere(command));
  const auto fill = [&](const fs::path& temporary) -> Status {
    MILLRACE_TRY(copy_rest(command.deployment, temporary, file));
    MILLRACE_TRY(make_folders((temporary / file).parent_path()));
    return write_new_file(temporary / file, *made);
  };
  MILLRACE_TRY(plan::write_deployment(packed, target, fill));
  if (command.common.json) {
    out << "{\"schema\":1,\"image\":\"" << command.image << "\",\"uuid\":\"" << view.uuid
        << "\",\"bytes\":" << made->size() << ",\"deployment_digest\":\"" << packed.digest << "\"}\n";
  } else {
    out << "packed " << command.xclbin.string() << " into " << target.string() << ": image " << command.image
        << ", uuid " << view.uuid << '\n';
  }
  return {};
}

}  // namespace millrace::cli
