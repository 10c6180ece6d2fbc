// Where elements lie: index maps of moves, and permutations found back in them. Private to compiler/passes.
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

/// Of a Move on `input` (row-major).
IndexMap move_map(const graph::Move& move, const graph::Shape& input);

/// [1, C, H, W]: what becomes [H, W, C]. Everything else lies flat, in [1, 1, N].
bool is_plane(const graph::Shape& shape);
graph::Shape dataflow_shape(const graph::Shape& shape);

/// Which element (row-major in the ONNX shape) lies at position i of the dataflow's layout.
IndexMap dataflow_map(const graph::Shape& shape);

/// A permutation as (dims, perm) of kernels::Permute; absent where it is not of that form.
struct Permutation {
  std::vector<std::uint32_t> dims, perm;
};
std::optional<Permutation> find_permutation(const IndexMap& source);

}  // namespace millrace::compiler::passes
