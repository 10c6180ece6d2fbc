// Writes xclbin containers, the files that XRT loads onto a card. Equal inputs give equal bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/image.hpp"
#include "runtime/plan/pace.hpp"

namespace millrace::compiler::emit {

/// Returns a compute unit's name for xrt::kernel: "<kernel>:{<partition>_<port>}". Further units of the same port
/// (`copy` 1 and more) append "_<copy + 1>". An IP_LAYOUT entry holds 63 characters of "kernel:unit", so a longer unit
/// name is cut and ends in "_" and 8 hexadecimal digits of the whole name's sha256.
std::string compute_unit(const std::string& kernel, const std::string& partition, const std::string& port,
                         std::size_t copy = 0);

/// Writes an FPGA image for `device` in the format of image_abi.hpp. The image's uuid comes from the content digest in
/// the record (the description of its partitions), timestamps are zero, and the header has our checksum. `bitstream` is
/// the vendor's; it is empty for emulated cards. `paces` has the predicted times of each partition, or nothing. The
/// memory banks in `data.record` must be the device's. Returns kDoesNotFit if the image has more than 128 compute units,
/// the most that an xclbin can number.
Result<std::vector<std::byte>> write_container(const runtime::plan::EmulationData& data,
                                               const runtime::plan::Device& device,
                                               std::span<const std::byte> bitstream = {},
                                               const std::vector<runtime::plan::Pace>& paces = {});

/// An FPGA image made of a vendor's xclbin.
struct PackedImage {
  std::vector<std::byte> bytes;       // the container
  runtime::plan::ImageRecord record;  // as given, with the clock that the vendor's tools achieved
};

/// Makes an FPGA image of `vendor`, an xclbin that v++ linked from vitis/<image>/. The result has the vendor's
/// bitstream, memories, memory controllers, clocks and platform, and the record (description of the partitions) and
/// EMULATION_DATA of `data`. Its uuid comes from the digest of its content, so an image that differs in any byte has
/// another uuid. Its compute units are register windows of the vendor's only compute unit; its buffers are connected as
/// the arguments of that unit's kernel, which are found by name.
///
/// The record's clock becomes the frequency in the vendor's table of clocks, and the paces (one for each partition, or
/// none) are stretched to match. The table has whole MHz; a clock that only its rounding changes is kept.
///
/// If `vendor` is no xclbin, is signed, lacks clocks, or is not the xclbin for this image, returns kInvalidInput or
/// kCorrupt. The function was never tried with output of the vendor's tools.
Result<PackedImage> pack_container(std::span<const std::byte> vendor,
                                   const runtime::plan::EmulationData& data,
                                   const std::vector<runtime::plan::Pace>& paces = {});

}  // namespace millrace::compiler::emit
