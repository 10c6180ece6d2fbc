// The xclbin container: what XRT loads. Bytes only, no decisions; the same input gives the same bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/image.hpp"

namespace millrace::compiler::emit {

/// "<kernel>:{<partition>_<port>}" as xrt::kernel takes it; `copy` 1 and more appends "_<copy + 1>": the
/// second channel of one port. An IP_LAYOUT entry holds 63 characters of "kernel:unit": a longer unit name
/// keeps its beginning and ends in "_" and 8 hexadecimal digits of the whole name's sha256.
std::string compute_unit(const std::string& kernel, const std::string& partition, const std::string& port,
                         std::size_t copy = 0);

/// An image as image_abi.hpp describes it, for `device`: uuid from the record's content digest, timestamps
/// zero, our checksum in the header. `bitstream` is the vendor's bits, empty for what runs emulated only. The
/// record's compute units and memory banks must be the device's; kDoesNotFit where there are more units than
/// an xclbin numbers (128).
Result<std::vector<std::byte>> write_container(const runtime::plan::EmulationData& data,
                                               const runtime::plan::Device& device,
                                               std::span<const std::byte> bitstream = {});

/// `vendor`, an xclbin that v++ linked from vitis/<image>/, as an image: its bits, memories, clocks, platform
/// and uuid; the image's compute units as register windows of the vendor's one; the record and EMULATION_DATA
/// of `data`. kInvalidInput (or kCorrupt) where it is no xclbin or another image's. Never met what the
/// vendor's tools make.
Result<std::vector<std::byte>> pack_container(std::span<const std::byte> vendor,
                                              const runtime::plan::EmulationData& data);

}  // namespace millrace::compiler::emit
