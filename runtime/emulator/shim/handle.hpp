// An open device (xclDeviceHandle) with its buffers and contexts on an emulated card.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
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
  std::uint64_t address = 0;  // on the card
  // The host's copy. A host-only buffer has only this copy; a device-only buffer has none.
  std::byte* host = nullptr;
  std::byte* device = nullptr;  // the card's copy
  bool owned = false;           // `host` is ours to free
};

/// Any thread. int results are 0 or a negative errno.
class Handle {
 public:
  explicit Handle(EmulatedCard& card) : card_(card) { card_.opened(); }
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  EmulatedCard& card() { return card_; }
  std::shared_ptr<xrt_core::device> core;  // set once, by xclOpen

  /// Returns XRT_NULL_BO if there is no room. If `host` is null, the handle allocates host memory.
  std::uint32_t allocate(std::size_t bytes, std::uint32_t flags, void* host);
  void free(std::uint32_t buffer);
  bool find(std::uint32_t buffer, Buffer& found) const;
  /// The host address of a buffer; null for a device-only or unknown buffer.
  void* map(std::uint32_t buffer) const;

  int submit(std::uint32_t buffer);
  int open_context(const Uuid& uuid, std::uint32_t unit, bool shared);
  int close_context(std::uint32_t unit);

 private:
  int copy(std::byte* packet);
  int abort(std::byte* packet);

  EmulatedCard& card_;
  mutable std::mutex mutex_;
  std::unordered_map<std::uint32_t, Buffer> buffers_;
  std::vector<std::uint32_t> contexts_;  // compute units; a unit appears once for each time it was opened
  std::uint32_t next_ = 1;
};

}  // namespace millrace::runtime::emulator
