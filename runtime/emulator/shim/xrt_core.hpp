// Declares parts of libxrt_coreutil that the shim needs and no header of libxrt-dev declares. For XRT 2.13 only.
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

/// Puts the shim's system object in front of Debian's object for software emulation, so that enumerate_devices() and
/// BDF strings work. May be called again.
void install_system();

/// Returns the mutex to lock while libxrt_coreutil opens a device, because XRT reads its device table without a lock.
std::recursive_mutex& open_mutex();

}  // namespace millrace::runtime::emulator
