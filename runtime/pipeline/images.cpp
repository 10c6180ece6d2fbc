#include "runtime/pipeline/images.hpp"

#include <algorithm>
#include <string_view>

#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/plan/image_abi.hpp"
#include "runtime/plan/parameters.hpp"

namespace millrace::runtime::pipeline {

namespace {

constexpr std::uint64_t kLargestImage = 1ULL << 30U;

Error altered(const std::string& what) {
  return Error(ErrorCode::kCorrupt, what + "; compile or copy the deployment again");
}

Status read_image(const plan::LoadedDeployment& deployment, const plan::Image& image, Images& images) {
  MILLRACE_ASSIGN(std::vector<std::byte> bytes, read_file(deployment.image_path(image), kLargestImage));
  if (sha256_hex(bytes) != image.file_sha256)
    return altered(image.file + " is not the file the plan was made with (sha256)");
  MILLRACE_ASSIGN(const plan::XclbinView view, plan::parse_xclbin(bytes));
  const plan::XclbinSection* const section = view.find(plan::kSectionUserMetadata);
  if (section == nullptr) return altered(image.file + " has no USER_METADATA section");
  const auto* const text = reinterpret_cast<const char*>(section->bytes.data());
  MILLRACE_ASSIGN(plan::ImageRecord record,
                  plan::parse_image_record(std::string_view(text, section->bytes.size())));
  if (record.abi_version != plan::abi::kAbiVersion) {
    return altered(image.file + " has ABI version " + std::to_string(record.abi_version) +
                   ", this program needs " + std::to_string(plan::abi::kAbiVersion));
  }
  if (record.content_digest != image.content_digest)
    return altered(image.file + ": content_digest is not the plan's");
  if (record.device != image.device) {
    return altered(image.file + " was built for device '" + record.device + "', the plan says '" +
                   image.device + "'");
  }
  images.bytes[image.name] = std::move(bytes);
  images.records[image.name] = std::move(record);
  return {};
}

Status read_parameters(const plan::LoadedDeployment& deployment, const plan::Partition& partition,
                       Images& images) {
  const auto& image = images.records.at(partition.image).partitions;
  const auto held = std::find_if(image.begin(), image.end(),
                                 [&](const plan::ImagePartition& p) { return p.name == partition.name; });
  const bool takes = held != image.end() && !held->parameters_unit.empty();
  if (takes != partition.parameters.has_value())
    return altered(takes ? "its image takes parameters, but the plan names none"
                         : "the plan names parameters, but its image takes none");
  if (!takes) return {};
  const plan::ParameterFile& wanted = *partition.parameters;
  MILLRACE_ASSIGN(std::vector<std::byte> bytes,
                  read_file(deployment.directory / wanted.file, plan::kMaxParameterBytes));
  if (sha256_hex(bytes) != wanted.sha256)
    return altered(wanted.file + " is not the file the plan was made with (sha256)");
  MILLRACE_ASSIGN(const plan::ParameterHeader header, plan::read_parameter_header(bytes));
  if (header.topology != held->program_digest)
    return altered(wanted.file + " is for another topology than " + partition.image + " computes");
  images.parameters[partition.name] = std::move(bytes);
  return {};
}

}  // namespace

Result<Images> read_images(const plan::LoadedDeployment& deployment) {
  Images images;
  for (const plan::Image& image : deployment.plan.images) {
    if (Status read = read_image(deployment, image, images); !read.ok()) {
      return read.error().within("image '" + image.name + "'");
    }
  }
  for (const plan::Partition& partition : deployment.plan.partitions) {
    if (partition.kind == plan::PartitionKind::kHost) continue;
    if (Status read = read_parameters(deployment, partition, images); !read.ok()) {
      return read.error().within("partition '" + partition.name + "'");
    }
  }
  return images;
}

}  // namespace millrace::runtime::pipeline
