// Faults that an emulated UDP cable injects, such as loss. The settings are in the memory that the host and the emulated
// cards share.
#pragma once

#include <bit>
#include <chrono>

#include "runtime/emulator/protocol.hpp"
#include "runtime/link/impairment.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::runtime::emulator {

/// Writes faults for the card at the sending end. One thread at a time may write.
inline void write_faults(const plan::CableFaults& from, CableFaults& to) {
  const auto version = to.version.load(std::memory_order_relaxed);
  to.version.store(version + 1, std::memory_order_seq_cst);
  to.loss.store(std::bit_cast<std::uint64_t>(from.loss));
  to.duplicate.store(std::bit_cast<std::uint64_t>(from.duplicate));
  to.reorder.store(std::bit_cast<std::uint64_t>(from.reorder));
  to.bit_errors.store(std::bit_cast<std::uint64_t>(from.bit_errors));
  to.gigabits_per_second.store(std::bit_cast<std::uint64_t>(from.gigabits_per_second));
  to.latency_nanoseconds.store(static_cast<std::uint64_t>(from.latency_ns));
  to.outage.store(from.outage ? 1 : 0);
  to.version.store(version + 2, std::memory_order_seq_cst);
}

/// Reads faults. If the host writes meanwhile, `version` is odd or changes, and the result must not be used.
inline link::Impairment read_faults(const CableFaults& from) {
  link::Impairment to;
  to.loss = std::bit_cast<double>(from.loss.load());
  to.duplicate = std::bit_cast<double>(from.duplicate.load());
  to.reorder = std::bit_cast<double>(from.reorder.load());
  to.bit_errors = std::bit_cast<double>(from.bit_errors.load());
  to.gigabits_per_second = std::bit_cast<double>(from.gigabits_per_second.load());
  to.latency = std::chrono::nanoseconds(from.latency_nanoseconds.load());
  to.outage = from.outage.load() != 0;
  return to;
}

}  // namespace millrace::runtime::emulator
