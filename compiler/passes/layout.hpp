// The order of elements: index maps of moves, and the permutations that such maps are. Private to
// compiler/passes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/graph/graph.hpp"

namespace millrace::compiler::passes {

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

}  // namespace millrace::compiler::passes
