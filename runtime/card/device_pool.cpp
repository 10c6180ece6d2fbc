#include "runtime/card/device_pool.hpp"

#include <exception>

#include <experimental/xrt_system.h>
#include <xrt/xrt_kernel.h>

#include "runtime/card/card.hpp"

namespace millrace::runtime::card {

namespace {

constexpr unsigned kMostDevices = 64;

// Makes XRT add the device to its table of command queues. The kernel named here does not exist.
void enter(const xrt::device& device) {
  try {
    const xrt::kernel none(device, xrt::uuid(), "none");
  } catch (const std::exception&) {
    return;
  }
}

template <class Query>
std::string ask(Query query) {
  try {
    return query();
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace

std::string bdf_of(const xrt::device& device) {
  return ask([&] { return device.get_info<xrt::info::device::bdf>(); });
}
std::string name_of(const xrt::device& device) {
  return ask([&] { return device.get_info<xrt::info::device::name>(); });
}
std::string thermal_of(const xrt::device& device) {
  return ask([&] { return device.get_info<xrt::info::device::thermal>(); });
}
std::string electrical_of(const xrt::device& device) {
  return ask([&] { return device.get_info<xrt::info::device::electrical>(); });
}
std::string image_uuid_of(const xrt::device& device) {
  return ask([&] {
    const xrt::uuid uuid = device.get_xclbin_uuid();
    return uuid ? uuid.to_string() : std::string();
  });
}

DevicePool& DevicePool::instance() {
  static auto* const pool = new DevicePool();  // never destroyed: XRT's own statics may be destroyed earlier
  return *pool;
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
  // Some system classes do not implement the report. If XRT reports no devices, count those that open.
  for (unsigned index = 0; index < kMostDevices && (reported == 0 || index < reported); ++index) {
    Known known;
    try {
      known.device = xrt::device(index);
      enter(known.device);
      known.bdf = bdf_of(known.device);
    } catch (const std::exception& problem) {
      if (reported == 0) {
        if (index == 0) why_none_ = problem.what();
        break;
      }
      known.problem = problem.what();
    }
    devices_.push_back(std::move(known));
  }
}

Result<xrt::device> DevicePool::find(unsigned index) {
  open_all();
  const std::string name = "device " + std::to_string(index);
  if (devices_.empty())
    return Error(ErrorCode::kEnvironment, "XRT opens no device: " + why_none_ + "; see 'millrace devices'");
  if (index >= devices_.size()) {
    return Error(ErrorCode::kNotFound, "XRT has no " + name + " (it has " + std::to_string(devices_.size()) +
                                           "); see 'millrace devices'");
  }
  Known& known = devices_[index];
  if (!known.problem.empty()) {
    try {
      known.device = xrt::device(index);
      enter(known.device);
      known.bdf = bdf_of(known.device);
      known.problem.clear();
    } catch (const std::exception& problem) {
      return Error(ErrorCode::kEnvironment, "XRT does not open " + name + ": " + problem.what());
    }
  }
  return known.device;
}

Result<unsigned> DevicePool::index_of(const std::string& bdf) {
  const std::lock_guard lock(mutex_);
  open_all();
  for (unsigned index = 0; index < devices_.size(); ++index) {
    if (devices_[index].bdf == bdf) return index;
  }
  return Error(ErrorCode::kNotFound,
               "XRT has no device with PCIe address " + bdf + "; see 'millrace devices'");
}

Result<xrt::device> DevicePool::acquire(unsigned index) {
  const std::lock_guard lock(mutex_);
  MILLRACE_ASSIGN(xrt::device device, find(index));
  if (devices_[index].held) {
    return Error(ErrorCode::kResourceExhausted,
                 "device " + std::to_string(index) +
                     " is in use by another pipeline of this process; unload that "
                     "model first");
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

bool is_open(std::uint32_t index) {
  return DevicePool::instance().is_held(index);
}
bool is_open(const std::string& bdf) {
  const auto index = DevicePool::instance().index_of(bdf);
  return index.ok() && DevicePool::instance().is_held(*index);
}

std::string image_uuid(std::uint32_t index) {
  const auto device = DevicePool::instance().peek(index);
  return device.ok() ? image_uuid_of(*device) : std::string();
}
std::string image_uuid(const std::string& bdf) {
  const auto index = DevicePool::instance().index_of(bdf);
  return index.ok() ? image_uuid(*index) : std::string();
}

Result<std::vector<CardInfo>> enumerate() {
  DevicePool& pool = DevicePool::instance();
  std::vector<CardInfo> cards;
  const unsigned count = pool.count();
  for (unsigned index = 0; index < count; ++index) {
    CardInfo info;
    info.index = index;
    if (const auto device = pool.peek(index); device.ok()) {
      info.bdf = bdf_of(*device);
      info.name = name_of(*device);
      info.image_uuid = image_uuid_of(*device);
    }
    cards.push_back(std::move(info));
  }
  return cards;
}

}  // namespace millrace::runtime::card
