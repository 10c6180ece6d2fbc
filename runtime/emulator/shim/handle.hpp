// An open device (xclDeviceHandle): its buffers and contexts on an emulated card.
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
  std::byte* host =
      nullptr;  // the host's copy; of a host-only buffer, the one copy; none of a device-only one
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

  /// XRT_NULL_BO where there is no room; `host` null: memory of ours.
  std::uint32_t allocate(std::size_t bytes, std::uint32_t flags, void* host);
  void free(std::uint32_t buffer);
  bool find(std::uint32_t buffer, Buffer& found) const;
  /// The address of a mapping; null for a device-only buffer or an unknown one.
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
  std::vector<std::uint32_t> contexts_;  // compute units, once an opening
  std::uint32_t next_ = 1;
};

}  // namespace millrace::runtime::emulator
