// Turns one integer operation with its float32 reference into one block of kernels/program, whose requantisation is
// proved, and finds the order in which elements are stored. Private to compiler/passes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::passes {

// Order of elements (layout.cpp).

/// source[i]: which element of the input is element i of the output.
using IndexMap = std::vector<std::uint32_t>;

IndexMap identity_map(std::int64_t elements);
bool is_identity_map(const IndexMap& map);
IndexMap inverse(const IndexMap& map);

/// The map of a Move on `input` (row-major).
IndexMap move_map(const graph::Move& move, const graph::Shape& input);

/// Whether the shape is [1, C, H, W]. Its dataflow shape is [H, W, C]; all other shapes become [1, 1, N].
bool is_plane(const graph::Shape& shape);
graph::Shape dataflow_shape(const graph::Shape& shape);

/// For position i of the dataflow's layout: the element (row-major in the ONNX shape) that is there.
IndexMap dataflow_map(const graph::Shape& shape);

/// Empty if the map is no transposition.
std::optional<kernels::Permute> find_permutation(const IndexMap& source);

// Blocks (blocks.cpp, add_block.cpp).

/// Folds zero points into weights and bias. Weight i of an output channel is weight `order[i]` of that channel in
/// `a`. The accumulator is as narrow as the weights allow.
Result<kernels::Convolution> make_convolution(const graph::Accumulate& a, const kernels::Window& window,
                                              const IndexMap& order, kernels::ElementType input,
                                              graph::Type output);

Result<kernels::SumPool> make_sum_pool(const graph::SumPool& s, kernels::ElementType input,
                                       graph::Type output);

/// Rescale, or Lookup if the chain (from integer to integer) is no step function.
Result<kernels::Operation> make_rescale(const graph::Chain& chain, kernels::ElementType input,
                                        graph::Type output);

/// Uses multipliers if they give the right result for all pairs of operands, otherwise a table of all pairs.
Result<kernels::Add> make_add(const graph::Combine& c, kernels::ElementType a, kernels::ElementType b,
                              graph::Type output);

}  // namespace millrace::compiler::passes
