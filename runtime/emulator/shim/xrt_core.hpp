// Parts of libxrt_coreutil that the shim needs and that no header of libxrt-dev declares. XRT 2.13 only.
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

/// Installs our system object in front of Debian's software emulation's, so that enumerate_devices() and BDF
/// strings work. Idempotent.
void install_system();

/// Hold this while libxrt_coreutil opens a device, because it reads its table of devices without a lock.
std::recursive_mutex& open_mutex();

}  // namespace millrace::runtime::emulator
