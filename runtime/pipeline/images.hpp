// The images of a deployment, read once and checked against the plan: kept in memory, so that a card can be
// brought back with the same bytes whatever has happened to the directory since.
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
  // By the partition's name, of those with parameters outside of their image; parameters.hpp.
  std::map<std::string, std::vector<std::byte>> parameters;
};

/// kNotFound and kEnvironment as reading fails; kCorrupt where a file's sha256, its container or its record
/// is not what the plan says, or parameters are not for their image. Names the image or partition.
Result<Images> read_images(const plan::LoadedDeployment& deployment);

}  // namespace millrace::runtime::pipeline
