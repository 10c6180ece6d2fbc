// Private to this folder: the process's xrt::device objects, one per device, and which of them are held.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include <xrt/xrt_device.h>

#include "runtime/base/result.hpp"

namespace millrace::runtime::card {

/// Keeps device objects until the process ends. XRT 2.13 keeps a thread for every device object it ever saw,
/// so closing and reopening a device would leak a thread each time. Opens all devices when the first one is
/// used: XRT looks devices up in an unlocked table whenever a run starts, and changes the table when it sees
/// a new device. Any thread.
class DevicePool {
 public:
  static DevicePool& instance();

  /// XRT's index for a PCIe address. kNotFound: XRT lists no such device.
  Result<unsigned> index_of(const std::string& bdf);

  /// kResourceExhausted: the device is held. kNotFound: XRT has no such device. kEnvironment: XRT cannot open
  /// it.
  Result<xrt::device> acquire(unsigned index);
  void release(unsigned index);
  bool is_held(unsigned index);

  /// Returns the device without holding it.
  Result<xrt::device> peek(unsigned index);

  /// The number of devices that XRT has.
  unsigned count();

 private:
  struct Known {
    xrt::device device;
    std::string bdf;      // empty if XRT does not report it
    std::string problem;  // why XRT could not open it
    bool held = false;
  };

  Result<xrt::device> find(unsigned index);
  void open_all();

  std::mutex mutex_;
  // Protected by mutex_:
  bool opened_ = false;
  std::vector<Known> devices_;  // by index
  std::string why_none_;        // if XRT has no device: its error for the first one
};

/// Facts that XRT reports about a device. These do not throw; they return an empty string if XRT cannot tell.
std::string bdf_of(const xrt::device& device);
std::string name_of(const xrt::device& device);
std::string image_uuid_of(const xrt::device& device);
std::string thermal_of(const xrt::device& device);     // JSON
std::string electrical_of(const xrt::device& device);  // JSON

}  // namespace millrace::runtime::card
