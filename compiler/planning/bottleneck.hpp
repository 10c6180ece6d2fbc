// Which layer to split: the one that keeps a model from fitting its cards, or from being quicker.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/planning/plan.hpp"

namespace millrace::compiler {

/// The block that is most in the way: where the plan `fits` what limits the rate, else what fills most of the
/// largest region when a frame may take it `seconds`.
std::optional<std::uint32_t> most_in_the_way(const Plan& plan, bool fits, double seconds);

/// The share of a region that a block takes at least, on the card where that is least; infinite where it is
/// nowhere quick enough.
double least_load(const explore::Problem& problem, std::uint32_t block, double seconds);

}  // namespace millrace::compiler
