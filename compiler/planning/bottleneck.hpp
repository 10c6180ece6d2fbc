// The bottleneck of a plan: the block to split so that the model fits its cards, or is faster.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/planning/predict.hpp"

namespace millrace::compiler {

/// The block that limits the rate of a plan.
std::optional<std::uint32_t> slowest_block(const Predicted& plan);

/// Of the blocks that can be split, the one that fills most of a region if a frame may take it `seconds`.
std::optional<std::uint32_t> largest_block(const Lowered& lowered, double seconds);

/// A lower bound on the fraction of a region that a block fills, over all cards; infinite if the block is
/// nowhere fast enough for `seconds` a frame.
double least_load(const explore::Problem& problem, std::uint32_t block, double seconds);

}  // namespace millrace::compiler
