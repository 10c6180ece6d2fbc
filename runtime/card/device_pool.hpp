// Private to this folder: the xrt::device objects of this process, one a device, and who holds them.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include <xrt/xrt_device.h>

#include "runtime/base/result.hpp"

namespace millrace::runtime::card {

/// Device objects are kept to the process's end: XRT 2.13 keeps a thread for every device object it ever saw,
/// so one that is closed and opened again would leak a thread each time. And all devices are opened at the
/// first use of any: XRT looks devices up in a table without a lock whenever a run is started, and changes it
/// when it sees a device for the first time. Any thread.
class DevicePool {
 public:
  static DevicePool& instance();

  /// XRT index of a PCIe address. kNotFound.
  Result<unsigned> index_of(const std::string& bdf);

  /// kResourceExhausted where it is held, kNotFound, kEnvironment where XRT does not open it.
  Result<xrt::device> acquire(unsigned index);
  void release(unsigned index);
  bool is_held(unsigned index);

  /// Without holding it.
  Result<xrt::device> look_at(unsigned index);

  /// Number of devices XRT has.
  unsigned count();

 private:
  struct Known {
    xrt::device device;
    std::string bdf;      // empty where XRT does not tell
    std::string problem;  // why it did not open
    bool held = false;
  };

  Result<xrt::device> find(unsigned index);
  void open_all();

  std::mutex mutex_;
  // Protected by mutex_:
  bool opened_ = false;
  std::vector<Known> devices_;  // by index
  std::string why_none_;        // what XRT said to the first, where it has no device
};

/// What XRT can say, without a throw; empty where it cannot.
std::string bdf_of(const xrt::device& device);
std::string name_of(const xrt::device& device);
std::string image_uuid_of(const xrt::device& device);
std::string thermal_of(const xrt::device& device);     // JSON
std::string electrical_of(const xrt::device& device);  // JSON

}  // namespace millrace::runtime::card
