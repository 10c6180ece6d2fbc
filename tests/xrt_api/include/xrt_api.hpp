// Declarations of exactly those parts of XRT's C++ API that runtime/card uses, as XRT 2.15 has them. With
// XRT_API_NEWEST, the functions that newer versions of XRT have deprecated are marked so, which is an error in this
// project's builds. Nothing is defined: runtime/card is only compiled with these headers, never linked.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#ifdef XRT_API_NEWEST
#define XRT_API_DEPRECATED [[deprecated("use xrt::hw_context")]]
#else
#define XRT_API_DEPRECATED
#endif

using xclDeviceHandle = void*;

enum xclResetKind { XCL_RESET_KERNEL, XCL_RESET_FULL, XCL_USER_RESET };

enum axlf_section_kind { EMBEDDED_METADATA = 2 };

enum xclBOSyncDirection { XCL_BO_SYNC_BO_TO_DEVICE = 0, XCL_BO_SYNC_BO_FROM_DEVICE };

enum ert_cmd_state {
  ERT_CMD_STATE_NEW = 1,
  ERT_CMD_STATE_QUEUED = 2,
  ERT_CMD_STATE_RUNNING = 3,
  ERT_CMD_STATE_COMPLETED = 4,
  ERT_CMD_STATE_ERROR = 5,
  ERT_CMD_STATE_ABORT = 6,
  ERT_CMD_STATE_SUBMITTED = 7,
  ERT_CMD_STATE_TIMEOUT = 8,
  ERT_CMD_STATE_NORESPONSE = 9,
};

namespace xrt {

using memory_group = std::uint32_t;

class uuid {
 public:
  uuid() = default;
  std::string to_string() const;
  explicit operator bool() const;
};

class xclbin {
 public:
  xclbin() = default;
  explicit xclbin(const std::vector<char>& data);
  uuid get_uuid() const;
};

namespace info {
enum class device : unsigned { bdf, name, electrical, thermal, memory };
}  // namespace info

class device {
 public:
  device() = default;
  explicit device(unsigned index);
  template <info::device parameter>
  std::string get_info() const;
  uuid get_xclbin_uuid() const;
  uuid register_xclbin(const xclbin& image);
  XRT_API_DEPRECATED uuid load_xclbin(const xclbin& image);
  operator xclDeviceHandle() const;
};

class hw_context {
 public:
  hw_context() = default;
  hw_context(const device& on, const uuid& image);
};

class kernel {
 public:
  kernel() = default;
  kernel(const hw_context& context, const std::string& name);
  XRT_API_DEPRECATED kernel(const device& on, const uuid& image, const std::string& name);
  int group_id(int argument) const;
};

class ip {
 public:
  ip() = default;
  ip(const hw_context& context, const std::string& name);
  XRT_API_DEPRECATED ip(const device& on, const uuid& image, const std::string& name);
  void write_register(std::uint32_t offset, std::uint32_t value);
  std::uint32_t read_register(std::uint32_t offset) const;
};

class bo {
 public:
  bo() = default;
  bo(const device& on, std::size_t bytes, memory_group group);
  void write(const void* from, std::size_t bytes, std::size_t offset);
  void sync(xclBOSyncDirection direction, std::size_t bytes, std::size_t offset);
  void sync(xclBOSyncDirection direction);
  template <class Pointer>
  Pointer map();
};

class run {
 public:
  run() = default;
  explicit run(const kernel& of);
  template <class Argument>
  void set_arg(int index, Argument&& value);
  void start();
  ert_cmd_state abort();
  ert_cmd_state state() const;
  ert_cmd_state wait(const std::chrono::milliseconds& bound) const;
  explicit operator bool() const;
};

namespace system {
unsigned enumerate_devices();
}  // namespace system

}  // namespace xrt
