// Functions about Rearrange: making, simplifying and finding its loops, and listing the source of each output element.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/program/program.hpp"

namespace millrace::kernels {

/// The maximum number of loops of a Rearrange.
inline constexpr std::uint32_t kMostLoops = 8;

/// Returns the transposition of a tensor with the axes `dims`: axis i of the output is axis perm[i] of the input, as in
/// ONNX Transpose. `perm` names every axis once, and the product of `dims` is below 2^31.
Rearrange transposition(const std::vector<std::uint32_t>& dims, const std::vector<std::uint32_t>& perm);

/// Returns an equal Rearrange with as few loops as possible: no loop has only one turn, and neighbouring loops that
/// advance evenly are one loop. A Rearrange that copies the first elements of its input in their order has one loop,
/// with stride 1. `elements` is the number of elements of the output; the result has loops even if `r` has none.
Rearrange simplified(const Rearrange& r, std::uint64_t elements);

/// Whether all elements of an input with `in` elements keep their order.
bool keeps_order(const Rearrange& r, std::uint64_t in, std::uint64_t out);

/// Returns as few nested loops as possible that visit these sources in their order. Returns nothing if nested loops
/// cannot visit the sources in this order, or if more than kMostLoops would be necessary.
std::optional<Rearrange> find_loops(const std::vector<std::uint32_t>& sources);

/// Returns the source of each element of the output. `r.loops` must not be empty.
std::vector<std::uint32_t> sources_of(const Rearrange& r);

}  // namespace millrace::kernels
