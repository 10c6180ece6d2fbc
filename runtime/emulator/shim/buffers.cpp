// XRT's C functions for buffers and for commands, which are stored in separate buffers (xrt.h).
#include <ert.h>
#include <experimental/xrt-next.h>
#include <xrt.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "runtime/emulator/shim/costs.hpp"
#include "runtime/emulator/shim/handle.hpp"

namespace millrace::runtime::emulator {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint32_t kPacketHandles = 0x40000000u;  // handles of execution buffers are this bit | slot

bool is_packet(std::uint32_t buffer) {
  return (buffer & kPacketHandles) != 0 && (buffer & ~kPacketHandles) < kPacketSlots;
}

void release(EmulatedCard& card, std::uint32_t handle, const Buffer& buffer) {
  if (is_packet(handle)) return card.free_packet(handle & ~kPacketHandles);
  card.memory().free(buffer.address);
  if (buffer.owned) std::free(buffer.host);
}

/// Returns the buffer if it has a copy on the card and contains the requested part, or nothing if not.
std::optional<Buffer> find_part(const Handle& device, std::uint32_t buffer, std::uint64_t bytes,
                                std::uint64_t offset) {
  const auto found = device.find(buffer);
  const bool holds = found.has_value() && found->device != nullptr && offset <= found->bytes &&
                     bytes <= found->bytes - offset;
  return holds ? found : std::nullopt;
}

/// Copies between two buffers on the card. The shim does it directly, as it has mapped the card's memory.
int copy(const Handle& device, std::uint32_t to, std::uint64_t to_offset, std::uint32_t from,
         std::uint64_t from_offset, std::uint64_t bytes) {
  const auto target = find_part(device, to, bytes, to_offset);
  const auto source = find_part(device, from, bytes, from_offset);
  if (!target.has_value() || !source.has_value()) return -EINVAL;
  std::memmove(target->device + to_offset, source->device + from_offset, bytes);
  return 0;
}

int copy_by_command(const Handle& device, const std::byte* packet) {
  if (const int refused = device.card.refusal(); refused != 0) return refused;
  ert_start_copybo_cmd command;
  std::memcpy(&command, packet, sizeof command);
  const auto wide = [](std::uint32_t low, std::uint32_t high) { return std::uint64_t{high} << 32 | low; };
  return copy(device, command.dst_bo_hdl, wide(command.dst_addr_lo, command.dst_addr_hi), command.src_bo_hdl,
              wide(command.src_addr_lo, command.src_addr_hi), wide(command.size, command.size_hi));
}

int abort_by_command(Handle& device, const std::byte* packet) {
  const auto* const command = reinterpret_cast<const ert_abort_cmd*>(packet);
  const auto aborted = static_cast<std::uint32_t>(command->exec_bo_handle);
  if (!is_packet(aborted) || !device.find(aborted).has_value()) return -EINVAL;
  return device.card.abort_run(aborted & ~kPacketHandles);
}

std::uint32_t allocate_packet(Handle& device, std::size_t bytes, std::uint32_t flags) {
  const auto slot = bytes <= kPacketBytes ? device.card.allocate_packet() : std::nullopt;
  if (!slot.has_value()) return XRT_NULL_BO;
  const std::lock_guard lock(device.mutex);
  device.buffers.emplace(kPacketHandles | *slot,
                         Buffer{bytes, flags, 0, device.card.packet(*slot), nullptr, false});
  return kPacketHandles | *slot;
}

}  // namespace

Handle::~Handle() {
  for (const auto unit : contexts) card.close_context(unit);
  for (const auto& [handle, buffer] : buffers) release(card, handle, buffer);
  card.closed();
}

std::optional<Buffer> Handle::find(std::uint32_t buffer) const {
  const std::lock_guard lock(mutex);
  const auto entry = buffers.find(buffer);
  return entry == buffers.end() ? std::nullopt : std::optional(entry->second);
}

extern "C" {

xclBufferHandle xclAllocUserPtrBO(xclDeviceHandle handle, void* host, size_t bytes, unsigned flags) {
  Handle& device = open_device(handle);
  if ((flags & XCL_BO_FLAGS_EXECBUF) != 0) return allocate_packet(device, bytes, flags);
  const auto address = device.card.memory().allocate(flags & XRT_BO_FLAGS_MEMIDX_MASK, bytes);
  if (!address.has_value()) return XRT_NULL_BO;
  Buffer buffer{bytes, flags, *address, static_cast<std::byte*>(host), device.card.memory().at(*address),
                false};
  if ((flags & XCL_BO_FLAGS_HOST_ONLY) != 0 && host == nullptr) {
    buffer.host = buffer.device;
  } else if ((flags & XCL_BO_FLAGS_DEV_ONLY) == 0 && host == nullptr) {
    const auto size = (bytes + kPage - 1) / kPage * kPage;
    buffer.host = static_cast<std::byte*>(std::aligned_alloc(kPage, size));
    if (buffer.host == nullptr) {
      device.card.memory().free(*address);
      return XRT_NULL_BO;
    }
    std::memset(buffer.host, 0, size);
    buffer.owned = true;
  }
  const std::lock_guard lock(device.mutex);
  auto& next = device.next_buffer;
  while (device.buffers.contains(next) || next == 0) next = (next + 1) % kPacketHandles;
  device.buffers.emplace(next, buffer);
  return next++;
}

xclBufferHandle xclAllocBO(xclDeviceHandle handle, size_t bytes, int, unsigned flags) {
  return xclAllocUserPtrBO(handle, nullptr, bytes, flags);
}

void xclFreeBO(xclDeviceHandle handle, xclBufferHandle buffer) {
  Handle& device = open_device(handle);
  decltype(device.buffers)::node_type freed;
  {
    const std::lock_guard lock(device.mutex);
    freed = device.buffers.extract(buffer);
  }
  if (!freed.empty()) release(device.card, buffer, freed.mapped());
}

void* xclMapBO(xclDeviceHandle handle, xclBufferHandle buffer, bool) {
  const auto found = open_device(handle).find(buffer);
  return found.has_value() ? found->host : nullptr;
}

int xclSyncBO(xclDeviceHandle handle, xclBufferHandle buffer, xclBOSyncDirection direction, size_t bytes,
              size_t offset) {
  const auto found = find_part(open_device(handle), buffer, bytes, offset);
  if (!found.has_value()) return -EINVAL;
  const EmulatedCard& card = open_device(handle).card;
  if (!card.alive() && !card.reads_all_ones()) return -EIO;
  if (found->host == nullptr || found->host == found->device) return 0;
  spend(card.options().sync_cost);
  if (card.reads_all_ones()) {
    if (direction == XCL_BO_SYNC_BO_FROM_DEVICE) std::memset(found->host + offset, 0xff, bytes);
    return 0;
  }
  if (direction == XCL_BO_SYNC_BO_TO_DEVICE)
    std::memcpy(found->device + offset, found->host + offset, bytes);
  else if (direction == XCL_BO_SYNC_BO_FROM_DEVICE)
    std::memcpy(found->host + offset, found->device + offset, bytes);
  else
    return -ENOTSUP;
  return 0;
}

int xclCopyBO(xclDeviceHandle handle, xclBufferHandle to, xclBufferHandle from, size_t bytes,
              size_t to_offset, size_t from_offset) {
  return copy(open_device(handle), to, to_offset, from, from_offset, bytes);
}

int xclGetBOProperties(xclDeviceHandle handle, xclBufferHandle buffer, xclBOProperties* properties) {
  const auto found = open_device(handle).find(buffer);
  if (!found.has_value()) return -ENOENT;
  *properties = {buffer, found->flags, found->bytes, found->address, 0};
  return 0;
}

int xclExecBuf(xclDeviceHandle handle, xclBufferHandle command) {
  Handle& device = open_device(handle);
  const auto buffer = is_packet(command) ? device.find(command) : std::nullopt;
  if (!buffer.has_value()) return -EINVAL;
  const auto opcode = reinterpret_cast<const ert_packet*>(buffer->host)->opcode;
  if (opcode == ERT_START_CU) return device.card.submit(command & ~kPacketHandles);
  if (opcode != ERT_START_COPYBO && opcode != ERT_ABORT) return -ENOTSUP;
  const int status =
      opcode == ERT_ABORT ? abort_by_command(device, buffer->host) : copy_by_command(device, buffer->host);
  if (status != 0) return status;
  auto& header = *reinterpret_cast<Word*>(buffer->host);
  header.store((header.load(std::memory_order_relaxed) & ~0xfu) | ERT_CMD_STATE_COMPLETED,
               std::memory_order_release);
  return 0;
}

}  // extern "C"

}  // namespace millrace::runtime::emulator
