// One convolution or fully connected block as several, each with a part of the output channels: how a layer
// that is too large for a card, or too slow on one, is spread over several.
#pragma once

#include <cstdint>

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// Whether that block can be: an ungrouped convolution with a number of output channels that `parts` divides.
bool can_split(const kernels::Program& program, std::uint32_t block, std::uint32_t parts);

/// The program with "<block>_part0", "<block>_part1", … in the block's place, joined in order along the
/// channels by "<block>_join…" into the tensor that the block made: the same bytes. can_split() must hold.
kernels::Program split_channels(const kernels::Program& program, std::uint32_t block, std::uint32_t parts);

}  // namespace millrace::compiler
