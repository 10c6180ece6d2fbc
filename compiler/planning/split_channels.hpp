// Replaces one convolution or fully connected block by several blocks, each with a part of the output channels, so
// that several cards can share a layer that is too large or too slow for one card.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// Returns the index of the block with this name, or the number of blocks if there is none.
std::uint32_t find_block(const kernels::Program& program, const std::string& name);

/// Whether the block is a convolution without groups, and `parts` divides the number of its output channels.
bool can_split(const kernels::Program& program, std::uint32_t block, std::uint32_t parts);

/// Returns the program with the block replaced by "<block>_part0", "<block>_part1", …. Blocks "<block>_join…" join the
/// parts' outputs along the channels into the same tensor, byte for byte. can_split() must be true.
kernels::Program split_channels(const kernels::Program& program, std::uint32_t block, std::uint32_t parts);

}  // namespace millrace::compiler
