// Einsum, as far as it is a matrix product: "bij,bjk->bik", "ij,jk->ik", "bqhd,bkhd->bhqk" and the like.
#include "compiler/operators/einsum.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::compiler::operators {
namespace {

constexpr char kForms[] =
    "one matrix product of two operands, such as \"bij,bjk->bik\": "
    "exactly one letter is summed, and the equation has no \"...\"";

/// The letters of an Einsum's two operands and of its result.
struct Equation {
  std::string a, b, result;
};

bool has(std::string_view letters, char c) {
  return letters.find(c) != std::string_view::npos;
}

/// Reads "bij,bjk->bik". Returns nothing if the text has another form.
std::optional<Equation> read_equation(std::string text) {
  std::erase(text, ' ');
  const std::size_t comma = text.find(','), arrow = text.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || arrow < comma) return std::nullopt;
  Equation e{text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1), text.substr(arrow + 2)};
  for (std::string letters : {e.a, e.b, e.result}) {
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    std::sort(letters.begin(), letters.end());
    if (letters.empty() || !std::all_of(letters.begin(), letters.end(), is_letter) ||
        std::adjacent_find(letters.begin(), letters.end()) != letters.end())
      return std::nullopt;
  }
  return e;
}

/// The letters in the equation of a matrix product: those that number the matrices of a stack, those of the
/// left operand alone, those of the right operand alone, and the letter that is summed over.
struct EinsumProduct {
  std::string matrices, left, right, summed;
};

/// Returns the matrix product that the equation states. Returns nothing if it states another function.
std::optional<EinsumProduct> product_of(const Equation& e) {
  EinsumProduct p;
  for (const char c : e.result) {
    if (!has(e.a, c) && !has(e.b, c)) return std::nullopt;
    (has(e.a, c) && has(e.b, c) ? p.matrices : has(e.a, c) ? p.left : p.right) += c;
  }
  for (const char c : e.a + e.b) {
    if (has(e.result, c) || has(p.summed, c)) continue;
    if (!has(e.a, c) || !has(e.b, c)) return std::nullopt;
    p.summed += c;
  }
  // If no letters number the matrices of a stack, the left operand may have several letters for its rows:
  // MatMul treats it as a stack of matrices that share one right operand.
  const bool left_fits = p.matrices.empty() ? !p.left.empty() : p.left.size() == 1;
  if (p.summed.size() != 1 || p.right.size() != 1 || !left_fits) return std::nullopt;
  return p;
}

class Writer {
 public:
  Writer(Graph& graph, const Node& node, const OnnxOperator& op, graph::Names& names, std::vector<Node>& out)
      : graph_(graph), node_(node), opset_(op.opset), names_(names), out_(out) {}

  /// Appends a node that makes `output`.
  void add(const char* type, const char* suffix, std::map<std::string, graph::Attribute> attributes,
           std::vector<ValueId> inputs, ValueId output) {
    OnnxOperator made{kOnnx, type, opset_, std::move(attributes)};
    // Without a suffix, use the name of the Einsum node itself, which the importer has already reserved.
    const std::string name = *suffix == 0 ? node_.name : names_.unique(node_.name + suffix);
    out_.push_back(graph::make_node(name, std::move(made), std::move(inputs), output, node_.sources));
  }

  ValueId fresh(const char* suffix) {
    return graph_.add_value(graph_.value(node_.outputs[0]).name + suffix, Type::float32(), {});
  }

  /// Returns `v`, whose axes are `from`, with the axes `to`. Appends a Transpose if the two differ.
  ValueId turned(ValueId v, const std::string& from, const std::string& to, const char* suffix) {
    if (from == to) return v;
    const ValueId result = fresh(suffix);
    turn(v, from, to, suffix, result);
    return result;
  }

  void turn(ValueId v, const std::string& from, const std::string& to, const char* suffix, ValueId output) {
    std::vector<std::int64_t> perm;
    for (const char c : to) perm.push_back(static_cast<std::int64_t>(from.find(c)));
    add("Transpose", suffix, {{"perm", std::move(perm)}}, {v}, output);
  }

 private:
  Graph& graph_;
  const Node& node_;
  std::int64_t opset_;
  graph::Names& names_;
  std::vector<Node>& out_;
};

constexpr Operator kEinsums[] = {{.type = "Einsum", .limits = kForms}};

}  // namespace

std::string replace_einsum(graph::Graph& graph, const Node& node, const OnnxOperator& op, graph::Names& names,
                           std::vector<Node>& out) {
  const auto found = op.attributes.find("equation");
  const auto* text = found == op.attributes.end() ? nullptr : std::get_if<std::string>(&found->second);
  if (text == nullptr || node.inputs.size() != 2 || !has_input(node, 0) || !has_input(node, 1))
    return "is supported only with an equation and exactly two operands";
  const auto equation = read_equation(*text);
  const auto product = equation ? product_of(*equation) : std::nullopt;
  if (!product)
    return "has the equation '" + *text +
           "', which is not one matrix product; write it with MatMul, Mul and ReduceSum";
  const Equation& e = *equation;
  if (graph.value(node.inputs[0]).shape.size() != e.a.size() ||
      graph.value(node.inputs[1]).shape.size() != e.b.size())
    return "has operands whose ranks differ from its equation '" + *text + "'";
  Writer writer(graph, node, op, names, out);
  const std::string rows = product->matrices + product->left;
  const ValueId a = writer.turned(node.inputs[0], e.a, rows + product->summed, "_left");
  const ValueId b =
      writer.turned(node.inputs[1], e.b, product->matrices + product->summed + product->right, "_right");
  const std::string made = rows + product->right;
  if (made == e.result) {
    writer.add("MatMul", "", {}, {a, b}, node.outputs[0]);
    return {};
  }
  const ValueId result = writer.fresh("_product");
  writer.add("MatMul", "_product", {}, {a, b}, result);
  writer.turn(result, made, e.result, "_turned", node.outputs[0]);
  return {};
}

std::span<const Operator> einsums() {
  return kEinsums;
}

}  // namespace millrace::compiler::operators
