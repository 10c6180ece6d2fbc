#include "compiler/operators/activation_products.hpp"

#include <algorithm>
#include <cstdlib>

#include "compiler/operators/qdq.hpp"

namespace millrace::compiler::operators {
namespace {

int bits_of(const Site& site, const Dequantised& x) {
  return site.graph.value(x.q).type.bits;
}

/// Whether float32 represents every sum of `count` products of the two operands' integers less their zero points.
bool sums_are_exact(const Site& site, const Dequantised& a, const Dequantised& b, std::int64_t count) {
  const auto largest = [&site](const Dequantised& x) {
    const Type type = site.graph.value(x.q).type;
    return std::max(std::abs(type.lowest() - x.zero[0]), std::abs(type.highest() - x.zero[0]));
  };
  return bits_of(site, a) <= 16 && bits_of(site, b) <= 16 && count <= 1 << 24 &&
         count * largest(a) * largest(b) <= 1 << 24;
}

}  // namespace

Outcome lower_product_of_activations(Site& site) {
  std::string why;
  const auto a = activation(site, 0, why), b = activation(site, 1, why);
  if (!a || !b) return why;
  const Shape x = site.in(0).shape, y = site.in(1).shape, shape = site.result().shape;
  if (!sums_are_exact(site, *a, *b, x.back()))
    return "it multiplies two activations, and the sums of these products are too large for float32";
  const std::string name = site.result().name;
  std::vector<ValueId> whole;
  for (const Dequantised* operand : {&*a, &*b}) {
    const Value from = site.graph.value(operand->q);
    whole.push_back(site.graph.add_value(from.name + ".whole", Type::float32(), from.shape));
    site.emit(Elementwise{{{Step::dequantise({1.0F}, operand->zero[0])}}, -1}, {operand->q}, whole.back(),
              ".whole");
  }
  kernels::FloatOperator product;
  product.type = "MatMul";
  product.shape = shape;
  for (const Shape& operand : {x, y})
    product.operands.push_back({kernels::FloatOperand::Kind::kTensor, operand, {}, {}});
  if (why = kernels::host::check(product); !why.empty()) return why;
  site.graph.diagnostics.push_back(
      {site.node.name, "MatMul runs on the host: no hardware multiplies two activations", site.node.sources});
  const ValueId sums = site.graph.add_value(name + ".sums", Type::float32(), shape);
  site.emit(graph::HostOperator{std::move(product)}, std::move(whole), sums);
  float factor = a->scale[0] * b->scale[0];
  const auto& readers = site.uses.readers[site.node.outputs[0]];
  const bool has_one = readers.size() == 1 && !site.uses.is_output[site.node.outputs[0]];
  const Node* reader = has_one ? &site.graph.nodes[readers[0]] : nullptr;
  const Step* quantise = only_step(reader, Step::Kind::kQuantise);
  if (quantise == nullptr || quantise->written) {
    site.emit(Elementwise{{{Step::multiply({factor})}}, -1}, {sums}, site.node.outputs[0], ".scale");
    return {};
  }
  factor /= quantise->floats[0];
  const Chain chain{{Step::multiply({factor}),
                     Step::quantise({1.0F}, quantise->integers[0], quantise->lowest, quantise->highest)}};
  site.emit(Elementwise{chain, -1}, {sums}, reader->outputs[0], ".scale");
  site.absorbed[readers[0]] = true;
  return {};
}

}  // namespace millrace::compiler::operators
