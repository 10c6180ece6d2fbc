// Private to this folder: the xrt::device objects of this process, one a device, and who holds them.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>

#include <xrt/xrt_device.h>

#include "runtime/base/result.hpp"

namespace millrace::runtime::card {

/// Device objects are kept to the process's end: XRT 2.13 keeps a thread for every device object it ever saw, so one
/// that is closed and opened again would leak a thread each time. And all devices are opened at the first use of any:
/// XRT looks devices up in a table without a lock whenever a run is started, and changes it when it sees a device for
/// the first time. Any thread.
class DevicePool {
 public:
  static DevicePool& instance();

  /// `key`: an XRT index ("0") or a PCIe address. kResourceExhausted where it is held, kNotFound, kEnvironment.
  Result<xrt::device> acquire(const std::string& key);
  void release(const std::string& key);
  bool is_held(const std::string& key);

  /// Without holding it.
  Result<xrt::device> look_at(const std::string& key);

  /// Number of devices XRT has.
  unsigned count();

 private:
  Result<xrt::device> find(const std::string& key);
  void open_all();

  std::mutex mutex_;
  // Protected by mutex_:
  bool opened_ = false;
  unsigned count_ = 0;
  std::map<std::string, xrt::device> devices_;
  std::set<std::string> held_;
};

/// What XRT can say, without a throw; empty where it cannot.
std::string bdf_of(const xrt::device& device);
std::string name_of(const xrt::device& device);
std::string image_uuid_of(const xrt::device& device);

}  // namespace millrace::runtime::card
