// Private to this folder: the parts of Card::reset() for which XRT's C++ API has no function.
#pragma once

#include <cstddef>
#include <span>

#include <xrt/xrt_device.h>

#include "runtime/base/result.hpp"

namespace millrace::runtime::card {

/// Whether a kernel of the image (xclbin bytes) declares swReset="true": bit 8 of the control word (ap_sw_reset) resets a
/// unit. XRT's driver resets a unit only if its kernel declares this. If the driver aborts a run of another unit, it takes
/// the whole card out of use until the device is reset.
bool has_unit_reset(std::span<const std::byte> image);

/// Resets the whole device, as `xbutil reset` does. All buffers and contexts of this process on the device are lost.
/// Blocks for seconds. Returns kUnsupported if this XRT or driver cannot reset the device, and kUnavailable if the driver
/// fails to.
Status reset_device(const xrt::device& device);

}  // namespace millrace::runtime::card
