// An FPGA image on an emulated card: compute units, link table and partitions, built from the shim's data.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/emulator/card/partition.hpp"
#include "runtime/plan/image.hpp"

namespace millrace::runtime::emulator {

enum class UnitKind { kIngress, kEgress, kParameters, kSupervisor, kControl, kEmpty };

struct Unit {
  std::string name;  // "kernel:cu"
  UnitKind kind;
  bool used = false;  // whether a port or partition uses the unit
  CommandQueue queue;
};

struct LoadedImage {
  std::vector<std::unique_ptr<Unit>> units;      // indexed by XRT's number of the unit
  std::vector<std::unique_ptr<LinkPort>> links;  // indexed by row of the link table; null if unused
  std::vector<Partition> partitions;
  Unit* supervisor = nullptr;
};

/// Builds an image. `data` is the section EMULATION_DATA and is untrusted. Errors name the unit, port or field.
Result<std::unique_ptr<LoadedImage>> build_image(const ImageHeader& header, std::span<const std::byte> data,
                                                 CardServices& services);

}  // namespace millrace::runtime::emulator
