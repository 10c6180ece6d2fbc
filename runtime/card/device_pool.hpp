// Private to this folder: the process's xrt::device objects, one per device, and which of them are held.
#pragma once

#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include <xrt/xrt_device.h>

#include "runtime/base/result.hpp"
#include "runtime/card/card.hpp"

namespace millrace::runtime::card {

/// Keeps device objects until the process ends. XRT 2.13 keeps a thread for every device object it ever saw,
/// so closing and reopening a device would leak a thread each time. Opens all devices when the first one is
/// used: XRT looks devices up in an unlocked table whenever a run starts, and changes the table when it sees
/// a new device. Any thread.
class DevicePool {
 public:
  static DevicePool& instance();

  /// XRT's index for an address. kInvalidInput: it is no PCIe address. kNotFound: XRT lists no such device.
  Result<unsigned> index_of(const Address& address);

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
    void open(unsigned index);

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

/// A fact that XRT reports about a device; an empty string if XRT cannot tell.
template <xrt::info::device fact>
std::string info_of(const xrt::device& device) {
  try {
    return device.get_info<fact>();
  } catch (const std::exception&) {
    return "";
  }
}
/// The UUID of the device's image, likewise.
std::string image_uuid_of(const xrt::device& device);
/// All that XRT reports about a device.
CardInfo info_of(unsigned index, const xrt::device& device);

}  // namespace millrace::runtime::card
