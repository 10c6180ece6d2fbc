#include "compiler/operators/elements.hpp"

#include <utility>

namespace millrace::compiler::operators {

std::vector<std::size_t> broadcast_indices(const Shape& operand, const Shape& shape) {
  const std::vector<std::int64_t> own = graph::strides_of(operand);
  std::vector<std::int64_t> strides(shape.size(), 0);
  const std::size_t lead = shape.size() - operand.size();
  for (std::size_t d = 0; d < operand.size(); ++d) strides[lead + d] = operand[d] == 1 ? 0 : own[d];
  return graph::strided_indices(shape, strides);
}

ValueId repeated(Site& site, ValueId x, const Shape& shape) {
  const Value from = site.graph.value(x);
  if (from.shape == shape) return x;
  const std::vector<std::int64_t> own = graph::strides_of(from.shape);
  const std::size_t lead = shape.size() - from.shape.size();
  kernels::Rearrange loops;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const bool moves = d >= lead && from.shape[d - lead] != 1;
    loops.extents.push_back(static_cast<std::uint32_t>(shape[d]));
    loops.strides.push_back(moves ? own[d - lead] : 0);
  }
  const ValueId all = site.graph.add_value(from.name + ".repeated", from.type, shape);
  copy_meaning(site.graph, x, all);
  site.emit(graph::Select{std::move(loops)}, {x}, all, ".repeated");
  return all;
}

Outcome give_each_element(Site& site, Chain chain, ValueId x) {
  const Shape shape = site.result().shape;
  const Type type = site.result().type;
  x = repeated(site, x, shape);
  const bool is_plane = shape.size() == 4 && shape[0] == 1;
  const Shape rows = is_plane ? Shape{1, shape[2], shape[3], shape[1]} : shape;
  if (is_plane) {
    const std::vector<std::int64_t> own = graph::strides_of(shape);
    const auto order = graph::strided_indices(rows, {own[0], own[2], own[3], own[1]});
    for (Step& step : chain.steps) {
      if (step.floats.size() <= 1) continue;
      const std::vector<float> given = std::exchange(step.floats, {});
      for (const std::size_t i : order) step.floats.push_back(given[i]);
    }
    x = site.move(x, {0, 2, 3, 1}, rows, ".rows");
  }
  const Shape flat = {1, elements(shape)};
  x = site.move(x, {}, flat, ".flat");
  const ValueId result = site.graph.add_value(site.result().name + ".each", type, flat);
  const std::int64_t axis = chain.channels() > 1 ? 1 : -1;
  site.emit(Elementwise{std::move(chain), axis}, {x}, result);
  if (!is_plane) return site.give(Move{}, {result});
  const ValueId back = site.move(result, {}, rows, ".back");
  return site.give(Move{{0, 3, 1, 2}}, {back});
}

}  // namespace millrace::compiler::operators
