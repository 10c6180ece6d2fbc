// `millrace pack`: replaces an FPGA image of a deployment by the xclbin that the vendor's tools built for it.

#include <algorithm>
#include <cmath>
#include <ostream>

#include "compiler/emit/clocked_rate.hpp"
#include "compiler/emit/container.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/text.hpp"
#include "runtime/plan/deployment.hpp"
#include "runtime/plan/pace.hpp"
#include "tools/cli/commands.hpp"

namespace millrace::cli {
namespace {

namespace fs = std::filesystem;
namespace plan = runtime::plan;

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{2} << 30U;

/// What an image needs to be packed: its programs and the predicted times of its partitions.
struct Content {
  plan::EmulationData data;
  std::vector<plan::Pace> paces;
};

Result<Content> content_of(const std::vector<std::byte>& bytes) {
  MILLRACE_ASSIGN(const plan::XclbinView view, plan::parse_xclbin(bytes));
  const plan::XclbinSection* section = view.find(plan::kSectionEmulationData);
  if (section == nullptr) return Error(ErrorCode::kInvalidInput, "it has no EMULATION_DATA to keep");
  Content content;
  MILLRACE_ASSIGN(content.data, plan::decode_emulation_data(section->bytes));
  MILLRACE_ASSIGN(content.paces, plan::decode_paces(section->bytes));
  return content;
}

/// The frame rates that the clocks of all images allow, before and after packing. Nothing was predicted if empty.
struct Rates {
  std::optional<compiler::emit::ClockedRate> planned, packed;
};

/// Checks that a packed image is quick enough. The error names what limits the rate, and the clock that would be enough.
Result<Rates> check_clock(const plan::LoadedDeployment& deployment, const plan::ImageRecord& packed,
                          bool accept_slower) {
  const plan::ImageRecord& before = deployment.records.at(packed.name);
  const std::string achieved = "it achieves a clock of " + number_text(packed.clock_mhz) +
                               " MHz, and the plan has " + number_text(before.clock_mhz) + ". ";
  if (packed.clock_mhz < packed.least_clock_mhz)
    return Error(ErrorCode::kInvalidInput,
                 achieved + "Its cables deliver words at " + number_text(packed.least_clock_mhz) +
                     " MHz. "
                     "Cables cannot wait, so an image with a slower clock loses words. "
                     "Reach this clock in Vivado, or compile the model for fewer cards");
  std::map<std::string, plan::ImageRecord> records = deployment.records;
  records[packed.name] = packed;
  const Rates rates = {compiler::emit::clocked_rate(deployment.plan, deployment.records),
                       compiler::emit::clocked_rate(deployment.plan, records)};
  constexpr double kRounding = 1 - 1e-9;
  if (accept_slower || !rates.planned ||
      rates.packed->frames_per_second >= rates.planned->frames_per_second * kRounding)
    return rates;
  const double needed = packed.clock_mhz * rates.planned->frames_per_second / rates.packed->frames_per_second;
  return Error(ErrorCode::kInvalidInput,
               achieved + "This clock limits the deployment to " +
                   number_text(std::floor(rates.packed->frames_per_second)) + " frames/s by " +
                   rates.packed->limit + ", but the plan has " +
                   number_text(std::floor(rates.planned->frames_per_second)) + ". Reach " +
                   number_text(needed) +
                   " MHz in Vivado, compile the model for a device with a slower clock, "
                   "or accept the lower rate with --accept-slower");
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

void report(const PackCommand& command, const compiler::emit::PackedImage& made, const std::string& uuid,
            const std::string& digest, const Rates& rates, const fs::path& target, std::ostream& out) {
  const double rate = rates.packed ? rates.packed->frames_per_second : 0;
  if (command.common.json) {
    out << "{\"schema\":1,\"image\":\"" << command.image << "\",\"uuid\":\"" << uuid
        << "\",\"bytes\":" << made.bytes.size() << ",\"clock_mhz\":" << number_text(made.record.clock_mhz)
        << ",\"clocked_frames_per_second\":" << number_text(rate) << ",\"deployment_digest\":\"" << digest
        << "\"}\n";
    return;
  }
  out << "packed " << command.xclbin.string() << " into " << target.string() << ": image " << command.image
      << ", uuid " << uuid << ", clock " << number_text(made.record.clock_mhz) << " MHz\n";
  if (rates.packed)
    out << "clocks allow " << number_text(std::floor(rate)) << " frames/s, limited by " << rates.packed->limit
        << '\n';
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
  const auto content = content_of(deployment.images.at(image->name));
  if (!content.ok()) return content.error().within(image->file);
  MILLRACE_ASSIGN(const auto vendor, read_file(command.xclbin, kMaxFileBytes));
  const auto made = compiler::emit::pack_container(vendor, content->data, content->paces);
  if (!made.ok()) return made.error().within(command.xclbin.string());
  const auto rates = check_clock(deployment, made->record, command.accept_slower);
  if (!rates.ok()) return rates.error().within(command.xclbin.string());
  MILLRACE_ASSIGN(const plan::XclbinView view, plan::parse_xclbin(made->bytes));
  image->uuid = view.uuid;
  image->content_digest = made->record.content_digest;
  image->file_sha256 = sha256_hex(made->bytes);
  packed.digest = plan::compute_digest(packed);
  const std::string file = image->file;
  const fs::path target = command.output.empty() ? command.deployment : command.output;
  if (!command.output.empty()) MILLRACE_TRY(check_elsewhere(command));
  const auto fill = [&](const fs::path& temporary) -> Status {
    MILLRACE_TRY(copy_rest(command.deployment, temporary, file));
    MILLRACE_TRY(make_folders((temporary / file).parent_path()));
    return write_new_file(temporary / file, std::span<const std::byte>(made->bytes));
  };
  MILLRACE_TRY(plan::write_deployment(packed, target, fill));
  report(command, *made, view.uuid, packed.digest, *rates, target, out);
  return {};
}

}  // namespace millrace::cli
