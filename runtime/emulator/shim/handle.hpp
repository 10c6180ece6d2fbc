// A device that a program opened (xclDeviceHandle), with the buffers and contexts that belong to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/shim/emulated_card.hpp"

namespace xrt_core {
class device;
}

namespace millrace::runtime::emulator {

struct Buffer {
  std::size_t bytes = 0;
  std::uint32_t flags = 0;
  std::uint64_t address = 0;  // the buffer's address on the card
  // The buffer's copy in host memory. A host-only buffer has only this copy; a device-only buffer has no such copy.
  std::byte* host = nullptr;
  std::byte* device = nullptr;  // the copy in the card's memory
  bool owned = false;           // whether the shim must free `host`
};

/// An open device. Usable from any thread.
struct Handle {
  explicit Handle(EmulatedCard& emulated_card) : card(emulated_card) { card.opened(); }
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  std::optional<Buffer> find(std::uint32_t buffer) const;

  EmulatedCard& card;
  std::shared_ptr<xrt_core::device> core;  // xclOpen sets it once

  mutable std::mutex mutex;
  // `mutex` protects the members below.
  std::unordered_map<std::uint32_t, Buffer> buffers;
  std::vector<std::uint32_t> contexts;  // compute units; a unit is listed once for each time it was opened
  std::uint32_t next_buffer = 1;
};

inline Handle& open_device(void* handle) {
  return *static_cast<Handle*>(handle);
}

}  // namespace millrace::runtime::emulator
