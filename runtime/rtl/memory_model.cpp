#include "runtime/rtl/memory_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace millrace::runtime::rtl {

namespace {

constexpr std::uint64_t kWordBytes = 64;
constexpr std::size_t kMostBursts = 8;  // that a port may have under way
constexpr std::uint8_t kOkay = 0, kDecodeError = 3;

}  // namespace

void MemoryModel::stall(double probability, std::uint64_t seed) {
  threshold_ = static_cast<std::uint64_t>(std::ldexp(std::clamp(probability, 0.0, 1.0), 53)) << 11U;
  random_.seed(seed);
}

void MemoryModel::drive() {
  for (Port& port : ports_) {
    const abi::ReadPort& s = port.signals;
    *s.arready = port.bursts.size() < kMostBursts && !port.hold_address ? 1 : 0;
    if (!port.offered)
      port.offered = !port.bursts.empty() && now_ >= port.bursts.front().due && !port.hold_word;
    *s.rvalid = port.offered ? 1 : 0;
    if (!port.offered) continue;
    const Burst& burst = port.bursts.front();
    const std::uint64_t at = burst.address - kBase;
    const bool inside = burst.address >= kBase && at + kWordBytes <= content_.size();
    if (inside) std::memcpy(s.rdata, content_.data() + at, kWordBytes);
    *s.rresp = inside ? kOkay : kDecodeError;
    *s.rlast = burst.words == 1 ? 1 : 0;
  }
}

void MemoryModel::sample() {
  for (Port& port : ports_) {
    const abi::ReadPort& s = port.signals;
    if (port.offered && *s.rready != 0) {
      port.offered = false;
      Burst& burst = port.bursts.front();
      burst.address += kWordBytes;
      if (--burst.words == 0) port.bursts.pop_front();
    }
    if (*s.arvalid != 0 && *s.arready != 0)
      port.bursts.push_back({*s.araddr, std::uint64_t{*s.arlen} + 1, now_ + latency_});
    port.hold_address = chance();
    port.hold_word = chance();
  }
  ++now_;
}

void MemoryModel::reset() {
  for (Port& port : ports_) {
    port.bursts.clear();
    port.offered = port.hold_address = port.hold_word = false;
  }
}

}  // namespace millrace::runtime::rtl
