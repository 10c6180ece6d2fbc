// Private to runtime/plan: reads the key `transceivers` of a device file (configs/README.md).
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/yaml.hpp"

namespace millrace::runtime::plan {

/// Reads and checks the transceivers of a device with these regions. Returns an empty description if the key is absent.
Result<Transceivers> read_transceivers(const yaml::Mapping& device, const std::string& file,
                                       const std::vector<Region>& regions);

}  // namespace millrace::runtime::plan
