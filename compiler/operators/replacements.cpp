// Replaces nodes that the operator table cannot take as they are: nodes with several outputs, Einsum, ArgMax and ArgMin of
// integers, and sums and means of a single tensor.
#include <algorithm>
#include <set>

#include "compiler/operators/choices.hpp"
#include "compiler/operators/einsum.hpp"
#include "compiler/operators/rules.hpp"

namespace millrace::compiler::operators {
namespace {

/// Determines the sizes of the parts of a Split. Returns what is wrong with the node, or an empty text.
std::string split_sizes(const graph::Graph& graph, const Node& node, const OnnxOperator& op,
                        std::int64_t extent, std::vector<std::int64_t>& sizes) {
  if (has_input(node, 1)) {
    const Constant* given = constant_input(graph, node, 1);
    if (given == nullptr) return "has sizes that are not known at compile time";
    sizes = given->integers;
  } else {
    sizes = op.integers("split", {});
  }
  const auto parts = static_cast<std::int64_t>(node.outputs.size());
  const std::int64_t each = (extent + parts - 1) / parts;
  if (sizes.empty())
    for (std::int64_t left = extent; static_cast<std::int64_t>(sizes.size()) < parts; left -= each)
      sizes.push_back(std::min(each, left));
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) {
    if (size < 1 || size > extent) return "has a part of " + std::to_string(size) + " elements";
    sum += size;
  }
  if (sum != extent || static_cast<std::int64_t>(sizes.size()) != parts)
    return "has parts that do not make up the " + std::to_string(extent) + " elements of its axis";
  return {};
}

/// Replaces a Split by one Slice for each output that is used.
std::string replace_split(graph::Graph& graph, const Node& node, const OnnxOperator& op, graph::Names& names,
                          std::vector<Node>& out) {
  if (!has_input(node, 0) || node.outputs.empty()) return "lacks its input or an output";
  const Shape shape = graph.value(node.inputs[0]).shape;
  const auto axis = axis_in(op.integer("axis", 0), shape.size());
  if (!axis) return "has an axis outside its input";
  std::vector<std::int64_t> sizes;
  if (std::string why = split_sizes(graph, node, op, shape[*axis], sizes); !why.empty()) return why;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t end = start + sizes[i];
    if (node.outputs[i] != graph::kNoValue) {
      const auto constant = [&](const char* what, std::int64_t value) {
        return graph.add_constant(node.name + "." + what, Type::integer(64), {1}, Constant{{}, {value}});
      };
      Node slice = node;
      slice.name = names.unique(node.name + "_" + std::to_string(i));
      slice.operation = OnnxOperator{kOnnx, "Slice", std::max<std::int64_t>(op.opset, 10), {}};
      slice.inputs = {node.inputs[0], constant("start", start), constant("end", end),
                      constant("axis", static_cast<std::int64_t>(*axis))};
      slice.outputs = {node.outputs[i]};
      out.push_back(std::move(slice));
    }
    start = end;
  }
  return {};
}

/// Whether the node computes a sum, mean or extreme of a single tensor, which is that tensor.
bool is_of_one_tensor(const Node& node, const OnnxOperator& op) {
  static const std::set<std::string> kOfAnyNumber = {"Max", "Mean", "Min", "Sum"};
  return kOfAnyNumber.contains(op.type) && node.inputs.size() == 1 && has_input(node, 0);
}

}  // namespace

std::string separate_outputs(graph::Graph& graph, const Node& node, graph::Names& names,
                             std::vector<Node>& out) {
  const auto* op = graph::onnx_of(node);
  const bool is_ours = op != nullptr && op->domain == kOnnx;
  if (is_ours && op->type == "TopK") return separate_top(node, *op, names, out);
  if (is_ours && op->type == "Einsum") return replace_einsum(graph, node, *op, names, out);
  if (is_ours && (op->type == "ArgMax" || op->type == "ArgMin")) {
    convert_data_of_extreme(graph, node, names, out);
    return {};
  }
  if (is_ours && op->type == "Split") return replace_split(graph, node, *op, names, out);
  out.push_back(node);
  if (is_ours && is_of_one_tensor(node, *op))
    out.back().operation = OnnxOperator{kOnnx, "Identity", op->opset, {}};
  return {};
}

}  // namespace millrace::compiler::operators
