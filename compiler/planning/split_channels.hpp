// Builds one convolution or fully connected block as several, each with a part of the output channels, so
// that several cards can share a layer that is too large or too slow for one.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// The index of the block of that name; the number of blocks if there is none.
std::uint32_t find_block(const kernels::Program& program, const std::string& name);

/// Whether that block can be split: it is an ungrouped convolution with a number of output channels that
/// `parts` divides.
bool can_split(const kernels::Program& program, std::uint32_t block, std::uint32_t parts);

/// The program with "<block>_part0", "<block>_part1", … in the block's place, joined in order along the
/// channels by "<block>_join…" into the tensor that the block made: the same bytes. can_split() must hold.
kernels::Program split_channels(const kernels::Program& program, std::uint32_t block, std::uint32_t parts);

}  // namespace millrace::compiler
