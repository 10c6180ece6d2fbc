// What a machine with Vivado and Vitis needs to build an image: for each image on a device with a platform a
// folder vitis/<image>/, and a Makefile above them. Text only. README.md says what the files are; none of it
// has ever met the vendor's tools.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/emit/rtl/interfaces.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::compiler::emit {

/// Instances of a dataflow module that stand in one region.
struct PlacedInstances {
  std::string region;  // of the device: "SLR1"
  std::vector<std::string> instances;
};

struct VitisImage {
  std::string image;      // "image0"
  std::string partition;  // the one it holds: rtl/<partition>/
  std::string region;     // of the device, "all" where there are none
  const runtime::plan::Device* device = nullptr;
  std::optional<TopInterface> top;           // of module <partition>_top; none: no hardware was generated
  std::vector<PlacedInstances> placed = {};  // where it spans regions; empty: it is in `region` only
};

/// Files below the deployment ("vitis/image0/link.cfg" …). An image with link ports is joined to a kernel
/// around the vendor's Aurora core, "vitis/aurora_<device>/". What is not handed over `vitis/README.md`
/// names, with the reason. Empty where no device has a platform.
Result<std::map<std::string, std::string>> emit_vitis(const std::vector<VitisImage>& images);

}  // namespace millrace::compiler::emit
