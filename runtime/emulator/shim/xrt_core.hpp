// The parts of libxrt_coreutil the shim needs that no header of libxrt-dev declares. XRT 2.13 only.
#pragma once

#include <memory>
#include <mutex>

struct axlf;

namespace xrt_core {

class device {
 public:
  void register_axlf(const axlf* image);
};

std::shared_ptr<device> get_userpf_device(void* handle, unsigned index);

}  // namespace xrt_core

namespace millrace::runtime::emulator {

/// Puts our system object before the one of Debian's software emulation, so that enumerate_devices() and BDF
/// strings work. Idempotent.
void install_system();

/// Held while libxrt_coreutil opens a device: its table of devices is read without a lock.
std::recursive_mutex& open_mutex();

}  // namespace millrace::runtime::emulator
