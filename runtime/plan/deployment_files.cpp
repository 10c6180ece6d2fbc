// Reads and writes a deployment's directory. CHECKSUMS is written last, in the format of sha256sum, so that
// `sha256sum -c CHECKSUMS` finds the same damage as load_deployment().
#include <algorithm>
#include <map>

#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/plan/deployment.hpp"
#include "runtime/plan/image.hpp"
#include "runtime/plan/parameters.hpp"

namespace millrace::runtime::plan {
namespace {

namespace fs = std::filesystem;

constexpr char kPlanFile[] = "deployment.json";
constexpr char kChecksumFile[] = "CHECKSUMS";
constexpr char kImageFolder[] = "images";
constexpr char kRtlFolder[] = "rtl";
constexpr char kWeightsFolder[] = "weights";
constexpr char kPluginsFolder[] = "plugins";
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{2} << 30U;
constexpr std::uint64_t kMaxPlanBytes = 256U << 20U;

using Checksums = std::map<std::string, std::string>;         // path -> sha256
using Files = std::map<std::string, std::vector<std::byte>>;  // path -> content

Error bad(const std::string& why) {
  return Error(ErrorCode::kCorrupt, why);
}

Result<Checksums> parse_checksums(const std::string& text) {
  Checksums sums;
  std::size_t start = 0;
  for (int line = 1; start < text.size(); ++line) {
    const std::size_t end = text.find('\n', start);
    const std::string row = text.substr(start, end - start);
    const auto hex = row.substr(0, 64);
    const std::string path = row.size() > 66 ? row.substr(66) : "";
    const fs::path parsed(path);
    const bool inside = !path.empty() && !parsed.is_absolute() && parsed.lexically_normal() == parsed &&
                        *parsed.begin() != "..";
    if (end == std::string::npos || row.size() <= 66 || row.substr(64, 2) != "  " || !inside ||
        hex.find_first_not_of("0123456789abcdef") != std::string::npos || !sums.emplace(path, hex).second)
      return bad("CHECKSUMS:" + std::to_string(line) + ": malformed");
    start = end + 1;
  }
  return sums;
}

/// Reads every file that CHECKSUMS lists, and checks its digest. Does not return the files of kRtlFolder.
Result<Files> read_files(const fs::path& directory, const Checksums& sums) {
  Files files;
  for (const auto& [path, expected] : sums) {
    std::error_code ignored;
    const auto type = fs::symlink_status(directory / path, ignored).type();
    if (type != fs::file_type::regular && type != fs::file_type::not_found)
      return bad(path + ": is not a plain file");
    auto bytes = read_file(directory / path, path == kPlanFile ? kMaxPlanBytes : kMaxFileBytes);
    if (!bytes.ok() && bytes.error().code() == ErrorCode::kNotFound)
      return bad(path + ": listed in CHECKSUMS, but missing");
    if (!bytes.ok()) return bytes.error();
    if (sha256_hex(*bytes) != expected)
      return bad(
          path +
          ": truncated or altered: its checksum is not the one in CHECKSUMS; copy the deployment again");
    if (*fs::path(path).begin() != kRtlFolder) files.emplace(path, std::move(*bytes));
  }
  return files;
}

/// Returns the content of a file that the plan names. `files` has all files that were read.
Result<std::vector<std::byte>*> find(Files& files, const Checksums& sums, const std::string& file,
                                     const std::string& sha256, const std::string& owner) {
  const auto found = files.find(file);
  if (found == files.end()) return bad(owner + ": CHECKSUMS does not list " + file);
  if (sums.at(file) != sha256) return bad(file + ": not the file the plan was made with");
  return &found->second;
}

/// Checks an FPGA image's container and its record (the description of its partitions) against the plan. Returns the
/// record.
Result<ImageRecord> check_image(std::span<const std::byte> bytes, const Deployment& plan,
                                const Image& image) {
  MILLRACE_ASSIGN(const XclbinView view, parse_xclbin(bytes));
  if (view.uuid != image.uuid) return bad("its uuid is " + view.uuid + ", the plan says " + image.uuid);
  const XclbinSection* section = view.find(kSectionUserMetadata);
  if (section == nullptr) return bad("has no record (USER_METADATA)");
  MILLRACE_ASSIGN(
      ImageRecord record,
      parse_image_record({reinterpret_cast<const char*>(section->bytes.data()), section->bytes.size()}));
  if (record.content_digest != image.content_digest || record.device != image.device ||
      record.partitions.size() != image.partitions.size())
    return bad("the record in the image (USER_METADATA) does not match the image that the plan describes");
  for (std::size_t i = 0; i < image.partitions.size(); ++i) {
    const Partition* partition = plan.find_partition(image.partitions[i]);
    if (record.partitions[i].name != partition->name ||
        record.partitions[i].program_digest != partition->program_digest)
      return bad("contains a partition other than '" + partition->name + "' of the plan");
    if (record.partitions[i].parameters_unit.empty() == partition->parameters.has_value())
      return bad("partition '" + partition->name +
                 (partition->parameters
                      ? "' takes no parameters, but the plan has parameters for this partition"
                      : "' takes parameters, but the plan has none for this partition"));
  }
  return record;
}

/// Moves images and parameters from `files` to the deployment, and checks them against the plan.
Status add_files(Files files, const Checksums& sums, LoadedDeployment& loaded) {
  for (const Image& image : loaded.plan.images) {
    MILLRACE_ASSIGN(auto* const bytes,
                    find(files, sums, image.file, image.file_sha256, "image '" + image.name + "'"));
    auto record = check_image(*bytes, loaded.plan, image);
    if (!record.ok()) return record.error().within(image.file);
    loaded.images[image.name] = std::move(*bytes);
    loaded.records[image.name] = std::move(*record);
  }
  for (const Partition& partition : loaded.plan.partitions) {
    if (!partition.parameters) continue;
    const ParameterFile& wanted = *partition.parameters;
    MILLRACE_ASSIGN(const auto* const bytes,
                    find(files, sums, wanted.file, wanted.sha256, "partition '" + partition.name + "'"));
    if (bytes->size() != wanted.bytes)
      return bad(wanted.file + ": has " + std::to_string(bytes->size()) + " bytes, the plan says " +
                 std::to_string(wanted.bytes));
    const auto program = decode_parameters(*bytes, partition.program_digest);
    if (!program.ok()) return program.error().within(wanted.file);
    loaded.parameters[partition.name] = *bytes;  // copied, because partitions may share a file
  }
  for (auto& [path, bytes] : files) {
    const fs::path file(path);
    if (file.parent_path() != kPluginsFolder || file.extension() != ".so") continue;
    if (file.stem() != sums.at(path)) return bad(path + ": its name is not its SHA-256");
    loaded.plugins[sums.at(path)] = std::move(bytes);
  }
  return {};
}

/// Returns the absolute path, with existing links resolved, and without a trailing separator.
fs::path resolved(const fs::path& path) {
  std::error_code code;
  fs::path out = fs::weakly_canonical(fs::absolute(path, code), code);
  if (code || out.empty()) out = fs::absolute(path, code).lexically_normal();
  return out.has_filename() ? out : out.parent_path();
}

bool is_or_holds(const fs::path& directory, const fs::path& path) {
  return std::mismatch(directory.begin(), directory.end(), path.begin(), path.end()).first == directory.end();
}

/// Returns the first file below `directory` that belongs to no deployment, or an empty text if there is none. The
/// deployment is `directory` itself or, with `variants`, each of its subfolders.
Result<std::string> foreign_file(const fs::path& directory, bool variants) {
  std::map<fs::path, Checksums> sums;  // key: the deployment's folder; the value is empty if unreadable
  std::error_code code;
  for (auto it = fs::recursive_directory_iterator(directory, code);
       !code && it != fs::recursive_directory_iterator(); it.increment(code)) {
    std::error_code ignored;
    if (it->symlink_status(ignored).type() == fs::file_type::directory) continue;
    const fs::path path = it->path().lexically_relative(directory);
    if (variants && (path == kVariantsFile || path == "Makefile")) continue;
    const fs::path folder = variants ? *path.begin() : fs::path();
    const fs::path inside = variants ? path.lexically_relative(folder) : path;
    const auto [listed, fresh] = sums.try_emplace(folder);
    if (fresh) {
      const auto text = read_text_file(directory / folder / kChecksumFile);
      auto parsed = text.ok() ? parse_checksums(*text) : Result<Checksums>(text.error());
      if (parsed.ok()) listed->second = std::move(*parsed);
    }
    const bool made = inside == kPlanFile || inside == kChecksumFile ||
                      (inside.has_parent_path() && *inside.begin() == kRtlFolder) ||
                      (inside.parent_path() == kImageFolder && inside.extension() == ".xclbin") ||
                      (inside.parent_path() == kWeightsFolder && inside.extension() == ".bin") ||
                      (inside.parent_path() == kPluginsFolder && inside.extension() == ".so");
    if (!made && !listed->second.contains(inside.generic_string())) return path.generic_string();
  }
  if (code) return Error(ErrorCode::kEnvironment, directory.string() + ": cannot list: " + code.message());
  return std::string();
}

}  // namespace

Status check_replaceable(const fs::path& directory, const std::vector<fs::path>& inputs, bool variants) {
  const auto refused = [&](const std::string& why) {
    return Error(ErrorCode::kInvalidInput, directory.string() + ": " + why + "; give a new directory");
  };
  const fs::path target = resolved(directory);
  std::error_code code;
  if (is_or_holds(target, resolved(".")))
    return refused("this directory would be replaced as a whole, but is or contains the current directory");
  for (const auto& input : inputs)
    for (const auto& place : {resolved(input), resolved(input.parent_path()) / input.filename()})
      if (is_or_holds(target, place))
        return refused("this directory would be replaced as a whole, but contains the input " +
                       input.string());
  const auto type = fs::status(target, code).type();
  if (type == fs::file_type::not_found) return {};
  if (type == fs::file_type::none)
    return Error(ErrorCode::kEnvironment, directory.string() + ": cannot look at it: " + code.message());
  if (type != fs::file_type::directory) return refused("exists and is not a directory");
  const bool empty = fs::is_empty(target, code);
  if (code) return Error(ErrorCode::kEnvironment, directory.string() + ": cannot list: " + code.message());
  if (empty) return {};
  const bool ours = variants
                        ? fs::exists(target / kVariantsFile, code)
                        : fs::exists(target / kPlanFile, code) && fs::exists(target / kChecksumFile, code);
  if (!ours)
    return refused(std::string("contains files that are not part of ") +
                   (variants ? "variants of a deployment" : "a deployment"));
  MILLRACE_ASSIGN(const std::string foreign, foreign_file(target, variants));
  if (!foreign.empty())
    return refused("holds '" + foreign + "' beside its " + (variants ? "variants" : "deployment"));
  return {};
}

Status check_no_variants(const fs::path& directory) {
  std::error_code ignored;
  if (!fs::exists(directory / kVariantsFile, ignored)) return {};
  return Error(ErrorCode::kInvalidInput,
               directory.string() +
                   ": this directory holds variants of a deployment; name one of the variants: " +
                   (directory / "variant1").string());
}

Result<LoadedDeployment> load_deployment(const fs::path& directory) {
  std::error_code ignored;
  if (!fs::exists(directory, ignored))
    return Error(ErrorCode::kNotFound,
                 directory.string() + ": no such directory; 'millrace compile -o' makes a deployment");
  const auto within = [&](const Error& error) { return error.within(directory.string()); };
  const auto text = read_text_file(directory / kChecksumFile);
  if (!text.ok() && text.error().code() == ErrorCode::kNotFound) {
    MILLRACE_TRY(check_no_variants(directory));
    return Error(
        ErrorCode::kNotFound,
        directory.string() +
            ": not a deployment, or an incomplete one: it has no file CHECKSUMS; compile the model again");
  }
  if (!text.ok()) return text.error();
  const auto sums = parse_checksums(*text);
  if (!sums.ok()) return within(sums.error());
  if (!sums->contains(kPlanFile)) return within(bad("CHECKSUMS does not list deployment.json"));
  auto files = read_files(directory, *sums);
  if (!files.ok()) return within(files.error());

  const auto& json = files->at(kPlanFile);
  auto plan = parse_deployment({reinterpret_cast<const char*>(json.data()), json.size()});
  if (!plan.ok()) return within(plan.error());
  LoadedDeployment loaded{directory, std::move(plan).value(), {}, {}, {}, {}};
  if (const auto status = validate(loaded.plan); !status.ok()) return within(status.error());
  if (const auto status = add_files(std::move(*files), *sums, loaded); !status.ok())
    return within(status.error());
  return loaded;
}

Status write_deployment(const Deployment& deployment, const fs::path& directory,
                        const std::function<Status(const fs::path&)>& fill) {
  MILLRACE_TRY(validate(deployment));
  MILLRACE_TRY(check_replaceable(directory, {}));
  return write_directory_atomically(directory, [&](const fs::path& temporary) -> Status {
    MILLRACE_TRY(write_new_file(temporary / kPlanFile, to_json(deployment)));
    MILLRACE_TRY(fill(temporary));
    MILLRACE_ASSIGN(const std::string sums, sha256_sums(temporary));
    const auto check = [&](const std::string& file, const std::string& sha256) -> Status {
      if (sums.find(sha256 + "  " + file + "\n") != std::string::npos) return {};
      return Error(ErrorCode::kInternal, file + ": written with other bytes than planned");
    };
    for (const auto& image : deployment.images) MILLRACE_TRY(check(image.file, image.file_sha256));
    for (const auto& partition : deployment.partitions)
      if (partition.parameters) MILLRACE_TRY(check(partition.parameters->file, partition.parameters->sha256));
    return write_new_file(temporary / kChecksumFile, sums);
  });
}

}  // namespace millrace::runtime::plan
