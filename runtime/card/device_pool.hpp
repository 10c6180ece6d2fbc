// Private to this folder: all xrt::device objects of the process, one for each device, and whether each is in use.
#pragma once

#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include <xrt/xrt_device.h>

#include "runtime/base/result.hpp"
#include "runtime/card/card.hpp"

namespace millrace::runtime::card {

/// Keeps device objects until the process ends. XRT 2.13 keeps a thread for every device object, so closing and
/// reopening a device would leak a thread each time. Opens all devices when the first one is used: whenever a run
/// starts, XRT looks devices up in a table without a lock, and XRT changes the table when it sees a new device. Any
/// thread may use the pool.
class DevicePool {
 public:
  static DevicePool& instance();

  /// Returns XRT's index of a device. Returns kInvalidInput if the address is not a PCIe address, and kNotFound if XRT
  /// lists no such device.
  Result<unsigned> index_of(const Address& address);

  /// Returns the device and marks it as held. Returns kResourceExhausted if the device is already held, kNotFound if
  /// XRT has no such device, and kEnvironment if XRT cannot open the device.
  Result<xrt::device> acquire(unsigned index);
  void release(unsigned index);
  bool is_held(unsigned index);

  /// Returns the device without marking it as held.
  Result<xrt::device> peek(unsigned index);

  /// Returns the number of devices that XRT has.
  unsigned count();

 private:
  struct Known {
    void open(unsigned index);

    xrt::device device;
    std::string bdf;      // empty if XRT does not report it
    std::string problem;  // why XRT could not open the device
    bool held = false;
  };

  Result<xrt::device> find(unsigned index);
  void open_all();

  std::mutex mutex_;
  // mutex_ protects the members below.
  bool opened_ = false;
  std::vector<Known> devices_;  // indexed by XRT's index
  std::string why_none_;        // XRT's error for the first device, if XRT has none
};

/// Returns a property that XRT reports about a device, or an empty string if XRT does not know it.
template <xrt::info::device fact>
std::string info_of(const xrt::device& device) {
  try {
    return device.get_info<fact>();
  } catch (const std::exception&) {
    return "";
  }
}
/// Returns the uuid of the FPGA image on the device, or an empty string if XRT does not know it.
std::string image_uuid_of(const xrt::device& device);
/// Returns everything that XRT reports about a device.
CardInfo info_of(unsigned index, const xrt::device& device);

}  // namespace millrace::runtime::card
