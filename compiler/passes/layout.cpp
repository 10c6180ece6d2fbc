#include "compiler/passes/blocks.hpp"

#include <algorithm>
#include <numeric>

namespace millrace::compiler::passes {

IndexMap identity_map(std::int64_t elements) {
  IndexMap map(static_cast<std::size_t>(elements));
  std::iota(map.begin(), map.end(), 0U);
  return map;
}

bool is_identity_map(const IndexMap& map) {
  return map == identity_map(static_cast<std::int64_t>(map.size()));
}

IndexMap inverse(const IndexMap& map) {
  IndexMap result(map.size());
  for (std::size_t i = 0; i < map.size(); ++i) result[map[i]] = static_cast<std::uint32_t>(i);
  return result;
}

IndexMap move_map(const graph::Move& move, const graph::Shape& input) {
  if (move.perm.empty()) return identity_map(graph::elements(input));
  const std::vector<std::int64_t> own = graph::strides_of(input);
  graph::Shape shape;
  std::vector<std::int64_t> strides;
  for (const std::int64_t axis : move.perm) {
    shape.push_back(input[static_cast<std::size_t>(axis)]);
    strides.push_back(own[static_cast<std::size_t>(axis)]);
  }
  const std::vector<std::size_t> indices = graph::strided_indices(shape, strides);
  return {indices.begin(), indices.end()};
}

bool is_plane(const graph::Shape& shape) {
  return shape.size() == 4 && shape[0] == 1;
}

graph::Shape dataflow_shape(const graph::Shape& shape) {
  if (is_plane(shape)) return {shape[2], shape[3], shape[1]};
  return {1, 1, graph::elements(shape)};
}

IndexMap dataflow_map(const graph::Shape& shape) {
  return is_plane(shape) ? move_map(graph::Move{{0, 2, 3, 1}}, shape) : identity_map(graph::elements(shape));
}

}  // namespace millrace::compiler::passes
