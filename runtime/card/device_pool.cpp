#include "runtime/card/device_pool.hpp"

#include <exception>

#include <experimental/xrt_system.h>
#include <xrt/xrt_kernel.h>

#include "runtime/card/card.hpp"

namespace millrace::runtime::card {

namespace {

constexpr unsigned kMostDevices = 64;

// Makes XRT enter the device into its table of command queues; the kernel itself does not exist.
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
std::string image_uuid_of(const xrt::device& device) {
  return ask([&] {
    const xrt::uuid uuid = device.get_xclbin_uuid();
    return uuid ? uuid.to_string() : std::string();
  });
}

DevicePool& DevicePool::instance() {
  static auto* const pool = new DevicePool();  // never destroyed: XRT's own statics may go first
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
  // Where XRT reports none, those that open are counted: some system classes do not implement the report.
  for (unsigned index = 0; index < kMostDevices && (reported == 0 || index < reported); ++index) {
    try {
      xrt::device device(index);
      enter(device);
      devices_.emplace(std::to_string(index), device);
      if (const std::string bdf = bdf_of(device); !bdf.empty()) devices_.emplace(bdf, device);
      count_ = index + 1;
    } catch (const std::exception&) {
      if (reported == 0) break;
      count_ = index + 1;
    }
  }
}

Result<xrt::device> DevicePool::find(const std::string& key) {
  open_all();
  if (const auto known = devices_.find(key); known != devices_.end()) return known->second;
  const bool is_bdf = key.find(':') != std::string::npos;
  if (!is_bdf && std::stoul(key) >= count_) {
    return Error(ErrorCode::kNotFound, "XRT has no device " + key + " (it has " + std::to_string(count_) +
                                           "); see 'millrace devices'");
  }
  try {
    xrt::device device = is_bdf ? xrt::device(key) : xrt::device(static_cast<unsigned>(std::stoul(key)));
    enter(device);
    devices_.emplace(key, device);
    return device;
  } catch (const std::exception& problem) {
    return Error(is_bdf ? ErrorCode::kNotFound : ErrorCode::kEnvironment,
                 "XRT does not open device " + key + ": " + problem.what());
  }
}

Result<xrt::device> DevicePool::acquire(const std::string& key) {
  const std::lock_guard lock(mutex_);
  if (held_.contains(key)) {
    return Error(ErrorCode::kResourceExhausted,
                 "device " + key + " is in use by another pipeline of this process; unload that model first");
  }
  MILLRACE_ASSIGN(xrt::device device, find(key));
  held_.insert(key);
  return device;
}

void DevicePool::release(const std::string& key) {
  const std::lock_guard lock(mutex_);
  held_.erase(key);
}

bool DevicePool::is_held(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return held_.contains(key);
}

Result<xrt::device> DevicePool::look_at(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return find(key);
}

unsigned DevicePool::count() {
  const std::lock_guard lock(mutex_);
  open_all();
  return count_;
}

bool is_open(std::uint32_t index) { return DevicePool::instance().is_held(std::to_string(index)); }
bool is_open(const std::string& bdf) { return DevicePool::instance().is_held(bdf); }

Result<std::vector<CardInfo>> enumerate() {
  DevicePool& pool = DevicePool::instance();
  std::vector<CardInfo> cards;
  const unsigned count = pool.count();
  for (unsigned index = 0; index < count; ++index) {
    CardInfo info;
    info.index = index;
    if (const auto device = pool.look_at(std::to_string(index)); device.ok()) {
      info.bdf = bdf_of(*device);
      info.name = name_of(*device);
      info.image_uuid = image_uuid_of(*device);
    }
    cards.push_back(std::move(info));
  }
  return cards;
}

}  // namespace millrace::runtime::card
