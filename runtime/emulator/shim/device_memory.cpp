#include "runtime/emulator/shim/device_memory.hpp"

#include <algorithm>

namespace millrace::runtime::emulator {

bool DeviceMemory::lay_out(std::span<const Bank> banks, std::vector<Group> groups) {
  const std::lock_guard lock(mutex_);
  if (!std::equal(banks.begin(), banks.end(), banks_.begin(), banks_.end()) && !blocks_.empty()) return false;
  banks_.assign(banks.begin(), banks.end());
  groups_ = std::move(groups);
  return true;
}

std::optional<std::uint64_t> DeviceMemory::allocate(std::uint32_t group, std::uint64_t bytes) {
  constexpr std::uint64_t kPage = 4096;
  const std::lock_guard lock(mutex_);
  if (group >= groups_.size() || bytes == 0 || bytes > memory_.bytes()) return std::nullopt;
  const auto wanted = (bytes + kPage - 1) / kPage * kPage;
  for (const auto& bank : banks_) {
    auto address = std::max(bank.address, groups_[group].address);
    address = std::max(address, kPage);  // no buffer has the address 0
    const auto end = std::min(bank.address + bank.bytes, groups_[group].address + groups_[group].bytes);
    for (auto next = blocks_.lower_bound(bank.address); address < end; ++next) {
      const auto gap_end = next == blocks_.end() ? end : std::min(end, next->first);
      if (gap_end > address && gap_end - address >= wanted) {
        blocks_.emplace(address, wanted);
        return address;
      }
      if (next == blocks_.end() || next->first >= end) break;
      address = std::max(address, next->first + next->second);
    }
  }
  return std::nullopt;
}

void DeviceMemory::free(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return;
  // Discard the content. Otherwise the next owner could read it and not notice that it forgot a sync.
  memory_.discard(static_cast<std::uint64_t>(locate(address) - memory_.data()), block->second);
  blocks_.erase(block);
}

std::byte* DeviceMemory::at(std::uint64_t address) const {
  const std::lock_guard lock(mutex_);
  return locate(address);
}

std::byte* DeviceMemory::locate(std::uint64_t address) const {
  for (const auto& bank : banks_)
    if (address >= bank.address && address - bank.address < bank.bytes)
      return memory_.data() + bank.offset + (address - bank.address);
  return nullptr;
}

}  // namespace millrace::runtime::emulator
