// The sliding windows of timing_units.hpp. Private to compiler/generators.
#pragma once

#include <memory>

#include "compiler/generators/timing_units.hpp"

namespace millrace::compiler::generators {

std::unique_ptr<TimingUnit> make_folded_window(const Instance& instance, Wire& in, Wire& out);
std::unique_ptr<TimingUnit> make_parallel_window(const Instance& instance, Wire& in, Wire& out);

}  // namespace millrace::compiler::generators
