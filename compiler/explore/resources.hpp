// Resources as a vector of plain numbers: what a block takes, what a region offers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/plan/cluster.hpp"

namespace millrace::compiler::explore {

/// Kinds of resources. Block memory is counted in halves of 18 Kb, as Yosys places it. The last is no
/// resource of the fabric but weighed like one: bytes a frame from the card's memory.
enum Kind : std::size_t { kLut, kLutram, kFf, kDsp, kBram18, kUram, kMemoryBytes, kKinds };

/// "LUT", "LUTRAM", "FF", "DSP", "BRAM18", "URAM", "memory bandwidth".
const char* kind_name(std::size_t kind);

using Amounts = std::array<std::uint64_t, kKinds>;

Amounts operator+(const Amounts& a, const Amounts& b);
Amounts& operator+=(Amounts& a, const Amounts& b);
Amounts& operator-=(Amounts& a, const Amounts& b);

/// a - b, never below 0.
Amounts less(const Amounts& a, const Amounts& b);

/// Every component of a at most that of b.
bool within(const Amounts& a, const Amounts& b);

/// The fabric's resources of a device file; no memory bytes.
Amounts amounts(const runtime::plan::Resources& resources);
/// Half a BRAM36 counts as a whole one.
runtime::plan::Resources resources(const Amounts& amounts);

}  // namespace millrace::compiler::explore
