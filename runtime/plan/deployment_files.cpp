// A deployment as a directory. CHECKSUMS is written last and has the format of sha256sum, so that
// `sha256sum -c CHECKSUMS` says the same as load_deployment().
#include <algorithm>
#include <map>

#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/plan/deployment.hpp"
#include "runtime/plan/image.hpp"
#include "runtime/plan/parameters.hpp"
#include "runtime/plan/variants.hpp"

namespace millrace::runtime::plan {
namespace {

namespace fs = std::filesystem;

constexpr char kPlanFile[] = "deployment.json";
constexpr char kChecksumFile[] = "CHECKSUMS";
constexpr char kImageFolder[] = "images";
constexpr char kRtlFolder[] = "rtl";
constexpr char kWeightsFolder[] = "weights";
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{2} << 30U;
constexpr std::uint64_t kMaxPlanBytes = 256U << 20U;

using Checksums = std::map<std::string, std::string>;  // path -> sha256

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

Status verify_checksums(const fs::path& directory, const Checksums& sums) {
  for (const auto& [path, expected] : sums) {
    std::error_code ignored;
    const auto type = fs::symlink_status(directory / path, ignored).type();
    if (type != fs::file_type::regular && type != fs::file_type::not_found)
      return bad(path + ": is not a plain file");
    auto bytes = read_file(directory / path, kMaxFileBytes);
    if (!bytes.ok() && bytes.error().code() == ErrorCode::kNotFound)
      return bad(path + ": listed in CHECKSUMS, but missing");
    if (!bytes.ok()) return bytes.error();
    if (sha256_hex(*bytes) != expected)
      return bad(
          path +
          ": truncated or altered: its checksum is not the one in CHECKSUMS; copy the deployment again");
  }
  return {};
}

/// Checks an image's container and record against the plan.
Status check_image(const fs::path& directory, const Deployment& plan, const Image& image,
                   const Checksums& sums) {
  const auto listed = sums.find(image.file);
  if (listed == sums.end()) return bad("image '" + image.name + "': CHECKSUMS does not list " + image.file);
  if (listed->second != image.file_sha256) return bad(image.file + ": not the file the plan was made with");
  MILLRACE_ASSIGN(const auto bytes, read_file(directory / image.file, kMaxFileBytes));
  const auto view = parse_xclbin(bytes);
  if (!view.ok()) return view.error().within(image.file);
  if (view->uuid != image.uuid)
    return bad(image.file + ": its uuid is " + view->uuid + ", the plan says " + image.uuid);
  const XclbinSection* section = view->find(kSectionUserMetadata);
  if (section == nullptr) return bad(image.file + ": has no record (USER_METADATA)");
  const auto record =
      parse_image_record({reinterpret_cast<const char*>(section->bytes.data()), section->bytes.size()});
  if (!record.ok()) return record.error().within(image.file);
  if (record->content_digest != image.content_digest || record->device != image.device ||
      record->partitions.size() != image.partitions.size())
    return bad(image.file + ": its record is not the one the plan was made with");
  for (std::size_t i = 0; i < image.partitions.size(); ++i) {
    const Partition* partition = plan.find_partition(image.partitions[i]);
    if (record->partitions[i].name != partition->name ||
        record->partitions[i].program_digest != partition->program_digest)
      return bad(image.file + ": holds another partition than '" + partition->name + "' of the plan");
    if (record->partitions[i].parameters_unit.empty() == partition->parameters.has_value())
      return bad(image.file + ": partition '" + partition->name +
                 (partition->parameters ? "' takes no parameters, but the plan has some"
                                        : "' takes parameters, but the plan has none"));
  }
  return {};
}

/// Checks a partition's parameters against the plan and against the topology that its image computes.
Status check_parameters(const fs::path& directory, const Partition& partition, const Checksums& sums) {
  const ParameterFile& parameters = *partition.parameters;
  const auto listed = sums.find(parameters.file);
  if (listed == sums.end())
    return bad("partition '" + partition.name + "': CHECKSUMS does not list " + parameters.file);
  if (listed->second != parameters.sha256)
    return bad(parameters.file + ": not the file the plan was made with");
  MILLRACE_ASSIGN(const auto bytes, read_file(directory / parameters.file, kMaxParameterBytes));
  if (bytes.size() != parameters.bytes)
    return bad(parameters.file + ": has " + std::to_string(bytes.size()) + " bytes, the plan says " +
               std::to_string(parameters.bytes));
  const auto program = decode_parameters(bytes, partition.program_digest);
  if (!program.ok()) return program.error().within(parameters.file);
  return {};
}

Result<std::string> make_checksums(const fs::path& directory) {
  std::vector<std::string> paths;
  std::error_code code;
  for (auto it = fs::recursive_directory_iterator(directory, code);
       !code && it != fs::recursive_directory_iterator(); it.increment(code))
    if (it->is_regular_file()) paths.push_back(it->path().lexically_relative(directory).generic_string());
  if (code) return Error(ErrorCode::kEnvironment, directory.string() + ": cannot list: " + code.message());
  std::sort(paths.begin(), paths.end());
  std::string text;
  for (const auto& path : paths) {
    MILLRACE_ASSIGN(const auto bytes, read_file(directory / path, kMaxFileBytes));
    text += sha256_hex(bytes) + "  " + path + "\n";
  }
  return text;
}

/// The absolute path, without links as far as it exists, and without a trailing separator.
fs::path resolved(const fs::path& path) {
  std::error_code code;
  fs::path out = fs::weakly_canonical(fs::absolute(path, code), code);
  if (code || out.empty()) out = fs::absolute(path, code).lexically_normal();
  return out.has_filename() ? out : out.parent_path();
}

bool is_or_holds(const fs::path& directory, const fs::path& path) {
  return std::mismatch(directory.begin(), directory.end(), path.begin(), path.end()).first == directory.end();
}

/// The first file below `directory` that is not part of a deployment and that CHECKSUMS does not list; empty
/// if there is none.
Result<std::string> foreign_file(const fs::path& directory) {
  std::error_code code;
  Checksums sums;  // empty if the file cannot be read
  if (const auto text = read_text_file(directory / kChecksumFile); text.ok())
    if (auto parsed = parse_checksums(*text); parsed.ok()) sums = std::move(*parsed);
  const auto listed = [&](const fs::path& inside, bool folder) {
    if (!folder) return sums.contains(inside.generic_string());
    const std::string prefix = inside.generic_string() + "/";
    const auto next = sums.lower_bound(prefix);
    return next != sums.end() && next->first.compare(0, prefix.size(), prefix) == 0;
  };
  for (auto it = fs::recursive_directory_iterator(directory, code);
       !code && it != fs::recursive_directory_iterator(); it.increment(code)) {
    const fs::path inside = it->path().lexically_relative(directory);
    std::error_code ignored;
    const bool folder = it->symlink_status(ignored).type() == fs::file_type::directory;
    if (*inside.begin() == kRtlFolder && (folder || inside.has_parent_path())) continue;
    if (listed(inside, folder)) continue;
    const bool image = (inside.parent_path() == kImageFolder && inside.extension() == ".xclbin") ||
                       (inside.parent_path() == kWeightsFolder && inside.extension() == ".bin");
    if (folder ? inside != kImageFolder && inside != kWeightsFolder
               : !image && inside != kPlanFile && inside != kChecksumFile)
      return inside.generic_string();
  }
  if (code) return Error(ErrorCode::kEnvironment, directory.string() + ": cannot list: " + code.message());
  return std::string();
}

/// As foreign_file(), for a directory of deployments with their index and perhaps a Makefile.
Result<std::string> foreign_beside_variants(const fs::path& directory) {
  std::error_code code;
  for (auto it = fs::directory_iterator(directory, code); !code && it != fs::directory_iterator();
       it.increment(code)) {
    const std::string name = it->path().filename().string();
    std::error_code ignored;
    if (it->symlink_status(ignored).type() != fs::file_type::directory) {
      if (name != kVariantsFile && name != "Makefile") return name;
      continue;
    }
    if (!fs::exists(it->path() / kPlanFile, ignored)) return name;
    MILLRACE_ASSIGN(const std::string foreign, foreign_file(it->path()));
    if (!foreign.empty()) return name + "/" + foreign;
  }
  if (code) return Error(ErrorCode::kEnvironment, directory.string() + ": cannot list: " + code.message());
  return std::string();
}

/// `foreign` says why a directory that is not empty must not be replaced; empty if it may be.
Status replaceable(const fs::path& directory, const std::vector<fs::path>& inputs,
                   const std::function<Result<std::string>(const fs::path&)>& foreign) {
  constexpr char kRemedy[] = "; give a new directory";
  const auto refused = [&](const std::string& why) {
    return Error(ErrorCode::kInvalidInput, directory.string() + ": " + why + kRemedy);
  };
  const fs::path target = resolved(directory);
  std::error_code code;
  if (is_or_holds(target, resolved(".")))
    return refused("is the current directory or holds it, and would be replaced as a whole");
  for (const auto& input : inputs)
    for (const auto& place : {resolved(input), resolved(input.parent_path()) / input.filename()})
      if (is_or_holds(target, place))
        return refused("would be replaced as a whole, but holds " + input.string());
  const auto type = fs::status(target, code).type();
  if (type == fs::file_type::not_found) return {};
  if (type == fs::file_type::none)
    return Error(ErrorCode::kEnvironment, directory.string() + ": cannot look at it: " + code.message());
  if (type != fs::file_type::directory) return refused("exists and is not a directory");
  const bool empty = fs::is_empty(target, code);
  if (code) return Error(ErrorCode::kEnvironment, directory.string() + ": cannot list: " + code.message());
  if (empty) return {};
  MILLRACE_ASSIGN(const std::string why, foreign(target));
  if (!why.empty()) return refused(why);
  return {};
}

}  // namespace

Status check_replaceable(const fs::path& directory, const std::vector<fs::path>& inputs) {
  return replaceable(directory, inputs, [](const fs::path& target) -> Result<std::string> {
    std::error_code code;
    if (!fs::exists(target / kPlanFile, code) || !fs::exists(target / kChecksumFile, code))
      return std::string("holds files that are no deployment");
    MILLRACE_ASSIGN(const std::string foreign, foreign_file(target));
    return foreign.empty() ? foreign : "holds '" + foreign + "' beside its deployment";
  });
}

Status check_variants_replaceable(const fs::path& directory, const std::vector<fs::path>& inputs) {
  return replaceable(directory, inputs, [](const fs::path& target) -> Result<std::string> {
    std::error_code code;
    if (!fs::exists(target / kVariantsFile, code))
      return std::string("holds files that are no variants of a deployment");
    MILLRACE_ASSIGN(const std::string foreign, foreign_beside_variants(target));
    return foreign.empty() ? foreign : "holds '" + foreign + "' beside its variants";
  });
}

Status check_no_variants(const fs::path& directory) {
  std::error_code ignored;
  if (!fs::exists(directory / kVariantsFile, ignored)) return {};
  return Error(ErrorCode::kInvalidInput, directory.string() + ": holds variants of a deployment; name one: " +
                                             (directory / "variant1").string());
}

Result<LoadedDeployment> load_deployment(const fs::path& directory) {
  std::error_code ignored;
  if (!fs::exists(directory, ignored))
    return Error(ErrorCode::kNotFound,
                 directory.string() + ": no such directory; 'millrace compile -o' makes one");
  const auto within = [&](const Error& error) { return error.within(directory.string()); };
  const auto text = read_text_file(directory / kChecksumFile);
  if (!text.ok() && text.error().code() == ErrorCode::kNotFound) {
    MILLRACE_TRY(check_no_variants(directory));
    return Error(ErrorCode::kNotFound,
                 directory.string() +
                     ": not a deployment, or not whole: it has no CHECKSUMS; compile the model again");
  }
  if (!text.ok()) return text.error();
  const auto sums = parse_checksums(*text);
  if (!sums.ok()) return within(sums.error());
  if (!sums->contains(kPlanFile)) return within(bad("CHECKSUMS does not list deployment.json"));
  if (const auto status = verify_checksums(directory, *sums); !status.ok()) return within(status.error());

  LoadedDeployment loaded;
  loaded.directory = directory;
  const auto json = read_text_file(directory / kPlanFile, kMaxPlanBytes);
  if (!json.ok()) return json.error();
  auto plan = parse_deployment(*json);
  if (!plan.ok()) return within(plan.error());
  loaded.plan = std::move(plan).value();
  if (const auto status = validate(loaded.plan); !status.ok()) return within(status.error());
  for (const auto& image : loaded.plan.images)
    if (const auto status = check_image(directory, loaded.plan, image, *sums); !status.ok())
      return within(status.error());
  for (const auto& partition : loaded.plan.partitions)
    if (partition.parameters)
      if (const auto status = check_parameters(directory, partition, *sums); !status.ok())
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
    for (const auto& image : deployment.images) {
      MILLRACE_ASSIGN(const auto bytes, read_file(temporary / image.file, kMaxFileBytes));
      if (sha256_hex(bytes) != image.file_sha256)
        return Error(ErrorCode::kInternal, image.file + ": written with other bytes than planned");
    }
    for (const auto& partition : deployment.partitions) {
      if (!partition.parameters) continue;
      MILLRACE_ASSIGN(const auto bytes,
                      read_file(temporary / partition.parameters->file, kMaxParameterBytes));
      if (sha256_hex(bytes) != partition.parameters->sha256)
        return Error(ErrorCode::kInternal,
                     partition.parameters->file + ": written with other bytes than planned");
    }
    MILLRACE_ASSIGN(const std::string sums, make_checksums(temporary));
    return write_new_file(temporary / kChecksumFile, sums);
  });
}

}  // namespace millrace::runtime::plan
