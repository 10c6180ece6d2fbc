#include "runtime/card/device_pool.hpp"

#include <exception>

#include <experimental/xrt_system.h>
#include <xrt/xrt_kernel.h>

#include "runtime/card/loaded_image.hpp"

namespace millrace::runtime::card {

namespace {

constexpr unsigned kMostDevices = 64;

#ifdef MILLRACE_XRT_HAS_CONTEXTS
// Newer versions of XRT can open a kernel only after an image was loaded.
void enter(const xrt::device&) {}
#else
// Makes XRT add the device to its table of command queues. XRT does so even when it cannot open the kernel,
// so the name of a kernel that does not exist is enough.
void enter(const xrt::device& device) {
  try {
    const xrt::kernel none(device, xrt::uuid(), "none");
  } catch (const std::exception&) {
    return;
  }
}
#endif

}  // namespace

std::string image_uuid_of(const xrt::device& device) {
  try {
    const xrt::uuid uuid = device.get_xclbin_uuid();
    return uuid ? uuid.to_string() : std::string();
  } catch (const std::exception&) {
    return "";
  }
}

CardInfo info_of(unsigned index, const xrt::device& device) {
  return {index, info_of<xrt::info::device::bdf>(device), info_of<xrt::info::device::name>(device),
          image_uuid_of(device)};
}

DevicePool& DevicePool::instance() {
  static auto* const pool = new DevicePool();  // never destroyed: XRT's own statics may be destroyed earlier
  return *pool;
}

/// Opens the device. If that fails, `problem` says why.
void DevicePool::Known::open(unsigned index) {
  try {
    device = xrt::device(index);
    enter(device);
    bdf = info_of<xrt::info::device::bdf>(device);
    problem.clear();
  } catch (const std::exception& error) {
    problem = error.what();
  }
}

void DevicePool::open_all() {
  if (opened_) return;
  opened_ = true;
  unsigned reported = 0;
  try {
    reported = xrt::system::enumerate_devices();
  } catch (const std::exception&) {
    reported = 0;
  }
  // Some XRT systems do not report the number of devices. If XRT reports none, counts the devices that open.
  for (unsigned index = 0; index < kMostDevices && (reported == 0 || index < reported); ++index) {
    Known known;
    known.open(index);
    if (reported == 0 && !known.problem.empty()) {
      if (index == 0) why_none_ = known.problem;
      break;
    }
    devices_.push_back(std::move(known));
  }
}

Result<xrt::device> DevicePool::find(unsigned index) {
  open_all();
  const std::string name = "device " + std::to_string(index);
  if (devices_.empty())
    return Error(ErrorCode::kEnvironment, "XRT opens no device: " + why_none_ + "; see 'millrace devices'");
  if (index >= devices_.size())
    return Error(ErrorCode::kNotFound, "XRT has no " + name + " (it has " + std::to_string(devices_.size()) +
                                           "); see 'millrace devices'");
  Known& known = devices_[index];
  if (!known.problem.empty()) known.open(index);
  if (!known.problem.empty())
    return Error(ErrorCode::kEnvironment, "XRT does not open " + name + ": " + known.problem);
  return known.device;
}

Result<unsigned> DevicePool::index_of(const Address& address) {
  if (address.bdf.empty()) return address.index;
  if (address.bdf.find(':') == std::string::npos)
    return Error(ErrorCode::kInvalidInput,
                 "'" + address.bdf + "' is not a PCIe address such as 0000:03:00.1");
  const std::lock_guard lock(mutex_);
  open_all();
  for (unsigned index = 0; index < devices_.size(); ++index)
    if (devices_[index].bdf == address.bdf) return index;
  return Error(ErrorCode::kNotFound,
               "XRT has no device with PCIe address " + address.bdf + "; see 'millrace devices'");
}

Result<xrt::device> DevicePool::acquire(unsigned index) {
  const std::lock_guard lock(mutex_);
  MILLRACE_ASSIGN(xrt::device device, find(index));
  if (devices_[index].held) {
    return Error(ErrorCode::kResourceExhausted, "device " + std::to_string(index) +
                                                    " is in use by another pipeline of this process; "
                                                    "unload the model of that pipeline first");
  }
  devices_[index].held = true;
  return device;
}

void DevicePool::release(unsigned index) {
  const std::lock_guard lock(mutex_);
  devices_[index].held = false;
}

bool DevicePool::is_held(unsigned index) {
  const std::lock_guard lock(mutex_);
  return index < devices_.size() && devices_[index].held;
}

Result<xrt::device> DevicePool::peek(unsigned index) {
  const std::lock_guard lock(mutex_);
  return find(index);
}

unsigned DevicePool::count() {
  const std::lock_guard lock(mutex_);
  open_all();
  return static_cast<unsigned>(devices_.size());
}

bool is_open(const Address& address) {
  const auto index = DevicePool::instance().index_of(address);
  return index.ok() && DevicePool::instance().is_held(*index);
}

std::string image_uuid(const Address& address) {
  const auto index = DevicePool::instance().index_of(address);
  if (!index.ok()) return "";
  const auto device = DevicePool::instance().peek(*index);
  return device.ok() ? image_uuid_of(*device) : std::string();
}

Result<std::vector<CardInfo>> enumerate() {
  DevicePool& pool = DevicePool::instance();
  std::vector<CardInfo> cards;
  const unsigned count = pool.count();
  for (unsigned index = 0; index < count; ++index) {
    const auto device = pool.peek(index);
    cards.push_back(device.ok() ? info_of(index, *device) : CardInfo{index, "", "", ""});
  }
  return cards;
}

}  // namespace millrace::runtime::card
