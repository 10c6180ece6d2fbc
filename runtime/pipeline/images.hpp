// The images of a deployment, read once and checked against the plan. They stay in memory, so that a lost
// card gets the same bytes even if the directory has changed.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"
#include "runtime/plan/image.hpp"

namespace millrace::runtime::pipeline {

struct Images {
  std::map<std::string, std::vector<std::byte>> bytes;  // by the image's name
  std::map<std::string, plan::ImageRecord> records;     // likewise
  // By the partition's name, for partitions with parameters outside their image; parameters.hpp.
  std::map<std::string, std::vector<std::byte>> parameters;
};

/// kNotFound and kEnvironment if a file cannot be read; kCorrupt if its sha256, container or record is not
/// the plan's, or if parameters do not belong to their image. Errors name the image or partition.
Result<Images> read_images(const plan::LoadedDeployment& deployment);

}  // namespace millrace::runtime::pipeline
