// Writes files with which Vivado and Vitis can build FPGA images (never tried): a folder vitis/<image>/ for each image
// whose device has a platform, and a Makefile above the folders. README.md describes the files.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/emit/rtl/interfaces.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::compiler::emit {

/// The instances of a partition's dataflow module that are in one region of the device.
struct PlacedInstances {
  std::string region;  // of the device: "SLR1"
  std::vector<std::string> instances;
};

struct VitisImage {
  std::string image;      // the image's name: "image0"
  std::string partition;  // the partition that the image contains: rtl/<partition>/
  std::string region;     // the device's region of the image; "all" if the device has no regions
  const runtime::plan::Device* device = nullptr;
  std::optional<TopInterface> top;  // the ports of module <partition>_top; none: no hardware was generated
  std::vector<PlacedInstances> placed = {};  // by region, if the partition spans several
  std::uint32_t udp_ports = 0;               // number of the partition's link ports over UDP
  std::uint32_t udp_credits =
      0;  // the most credits of a channel over UDP; 0: no channel of the partition uses UDP
};

/// Returns the files by their paths below the deployment ("vitis/image0/link.cfg" …), or no files if no device has a
/// platform. An image with link ports is linked with a kernel around the vendor's Aurora core,
/// "vitis/aurora_<device>/", or with the UDP network layers of AMD's VNx example, which the user builds. The file `vitis/README.md` names the images that get no folder, with the reason.
Result<std::map<std::string, std::string>> emit_vitis(const std::vector<VitisImage>& images);

}  // namespace millrace::compiler::emit
