#include "runtime/emulator/shim/handle.hpp"

#include <ert.h>
#include <xrt.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace millrace::runtime::emulator {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint32_t kPacketHandles = 0x40000000u;  // execution buffers: this | slot

bool is_packet(std::uint32_t buffer) {
  return (buffer & kPacketHandles) != 0 && (buffer & ~kPacketHandles) < kPacketSlots;
}

void finish(std::byte* packet, std::uint32_t state) {
  auto& header = *reinterpret_cast<Word*>(packet);
  header.store((header.load(std::memory_order_relaxed) & ~0xfu) | state, std::memory_order_release);
}

}  // namespace

Handle::~Handle() {
  for (const auto unit : contexts_) card_.close_context(unit);
  for (const auto& [handle, buffer] : buffers_) {
    if (is_packet(handle)) {
      card_.free_packet(handle & ~kPacketHandles);
      continue;
    }
    card_.free(buffer.address);
    if (buffer.owned) std::free(buffer.host);
  }
  card_.closed();
}

std::uint32_t Handle::allocate(std::size_t bytes, std::uint32_t flags, void* host) {
  Buffer buffer{bytes, flags, 0, static_cast<std::byte*>(host), nullptr, false};
  if ((flags & XCL_BO_FLAGS_EXECBUF) != 0) {
    const auto slot = bytes <= kPacketBytes ? card_.allocate_packet() : std::nullopt;
    if (!slot.has_value()) return XRT_NULL_BO;
    buffer.host = card_.packet(*slot);
    const std::lock_guard lock(mutex_);
    buffers_.emplace(kPacketHandles | *slot, buffer);
    return kPacketHandles | *slot;
  }
  const auto address = card_.allocate(flags & XRT_BO_FLAGS_MEMIDX_MASK, bytes);
  if (!address.has_value()) return XRT_NULL_BO;
  buffer.address = *address;
  buffer.device = card_.memory(*address);
  if ((flags & XCL_BO_FLAGS_HOST_ONLY) != 0 && host == nullptr) {
    buffer.host = buffer.device;
  } else if ((flags & XCL_BO_FLAGS_DEV_ONLY) == 0 && host == nullptr) {
    const auto size = (bytes + kPage - 1) / kPage * kPage;
    buffer.host = static_cast<std::byte*>(std::aligned_alloc(kPage, size));
    if (buffer.host == nullptr) {
      card_.free(*address);
      return XRT_NULL_BO;
    }
    std::memset(buffer.host, 0, size);
    buffer.owned = true;
  }
  const std::lock_guard lock(mutex_);
  while (buffers_.contains(next_) || next_ == 0) next_ = (next_ + 1) % kPacketHandles;
  buffers_.emplace(next_, buffer);
  return next_++;
}

void Handle::free(std::uint32_t handle) {
  Buffer buffer;
  {
    const std::lock_guard lock(mutex_);
    const auto found = buffers_.find(handle);
    if (found == buffers_.end()) return;
    buffer = found->second;
    buffers_.erase(found);
  }
  if (is_packet(handle)) return card_.free_packet(handle & ~kPacketHandles);
  card_.free(buffer.address);
  if (buffer.owned) std::free(buffer.host);
}

bool Handle::find(std::uint32_t handle, Buffer& found) const {
  const std::lock_guard lock(mutex_);
  const auto entry = buffers_.find(handle);
  if (entry == buffers_.end()) return false;
  found = entry->second;
  return true;
}

void* Handle::map(std::uint32_t handle) const {
  Buffer buffer;
  return find(handle, buffer) ? buffer.host : nullptr;
}

int Handle::submit(std::uint32_t handle) {
  Buffer buffer;
  if (!is_packet(handle) || !find(handle, buffer)) return -EINVAL;
  switch (reinterpret_cast<const ert_packet*>(buffer.host)->opcode) {
    case ERT_START_CU:
      return card_.submit(handle & ~kPacketHandles);
    case ERT_START_COPYBO:
      return copy(buffer.host);
    case ERT_ABORT:
      return abort(buffer.host);
    default:
      return -ENOTSUP;
  }
}

/// Copies at once, because the card's memory is mapped here.
int Handle::copy(std::byte* packet) {
  if (!card_.alive()) return -EIO;
  ert_start_copybo_cmd command;
  std::memcpy(&command, packet, sizeof command);
  const auto wide = [](std::uint32_t low, std::uint32_t high) { return std::uint64_t{high} << 32 | low; };
  const auto from = wide(command.src_addr_lo, command.src_addr_hi),
             to = wide(command.dst_addr_lo, command.dst_addr_hi);
  const auto bytes = wide(command.size, command.size_hi);
  Buffer source, target;
  if (!find(command.src_bo_hdl, source) || !find(command.dst_bo_hdl, target) || source.device == nullptr ||
      target.device == nullptr || from > source.bytes || bytes > source.bytes - from || to > target.bytes ||
      bytes > target.bytes - to)
    return -EINVAL;
  std::memmove(target.device + to, source.device + from, bytes);
  finish(packet, ERT_CMD_STATE_COMPLETED);
  return 0;
}

int Handle::abort(std::byte* packet) {
  const auto victim =
      static_cast<std::uint32_t>(reinterpret_cast<const ert_abort_cmd*>(packet)->exec_bo_handle);
  Buffer buffer;
  if (!is_packet(victim) || !find(victim, buffer)) return -EINVAL;
  const int status = card_.abort(victim & ~kPacketHandles);
  if (status == 0) finish(packet, ERT_CMD_STATE_COMPLETED);
  return status;
}

int Handle::open_context(const Uuid& uuid, std::uint32_t unit, bool shared) {
  const int status = card_.open_context(uuid, unit, shared);
  if (status != 0) return status;
  const std::lock_guard lock(mutex_);
  contexts_.push_back(unit);
  return 0;
}

int Handle::close_context(std::uint32_t unit) {
  {
    const std::lock_guard lock(mutex_);
    const auto open = std::find(contexts_.begin(), contexts_.end(), unit);
    if (open == contexts_.end()) return -EINVAL;
    contexts_.erase(open);
  }
  card_.close_context(unit);
  return 0;
}

}  // namespace millrace::runtime::emulator
