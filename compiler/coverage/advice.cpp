// Advises how to change a model so that hardware can compute a node or, if nothing can compute the node yet, so that
// some device can.
#include <map>
#include <set>
#include <string_view>

#include "compiler/coverage/parts.hpp"
#include "compiler/operators/operators.hpp"

namespace millrace::compiler::coverage {
namespace {

constexpr char kQuantise[] = "millrace quantize MODEL --data SAMPLES";

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// Returns what to change in a model that contains an operator of this type, or null if no such advice is known.
const char* known_change(const std::string& type) {
  constexpr const char* kScores =
      "leave the softmax out if you only need the largest score: a softmax keeps the order of the scores";
  constexpr const char* kLoop = "unroll the loop when you export the model, or cut the model before the loop";
  static const std::map<std::string_view, const char*> kChanges = {
      {"Softmax", kScores},
      {"LogSoftmax", kScores},
      {"LayerNormalization",
       "train with BatchNormalization instead, which the compiler merges into the preceding layer"},
      {"InstanceNormalization",
       "train with BatchNormalization instead, which the compiler merges into the preceding layer"},
      {"GroupNormalization",
       "train with BatchNormalization instead, which the compiler merges into the preceding layer"},
      {"DynamicQuantizeLinear",
       "quantise the float model statically: millrace quantize MODEL --data SAMPLES"},
      {"FloatQuant", "quantise with Quant, to integers"},
      {"If", "export the branch that is taken"},
      {"Loop", kLoop},
      {"Scan", kLoop},
      {"LSTM", kLoop},
      {"GRU", kLoop},
      {"RNN", kLoop}};
  const auto it = kChanges.find(type);
  return it == kChanges.end() ? nullptr : it->second;
}

std::string for_nobody(const NodeCoverage& node) {
  if (const char* change = known_change(node.type)) return change;
  if (contains(node.missing, "domain") && contains(node.missing, "not known"))
    return "export the model with operators of ONNX (domain ai.onnx), or replace the node by such operators";
  if (node.missing == "not supported")
    return "replace the node by operators that compiler/operators/README.md lists, "
           "or cut the model before the node";
  if (contains(node.missing, "computes in float32, as every layer")) return std::string("run: ") + kQuantise;
  if (contains(node.missing, "data of the frame") || contains(node.missing, "not constant") ||
      contains(node.missing, "compile time"))
    return "make the operand constant: export with static shapes, and fold constants (onnxsim)";
  if (contains(node.missing, "attribute")) return "export the model again, with operator set 13 or newer";
  if (contains(node.missing, "only the first output")) return "remove the other outputs from the model";
  if (contains(node.missing, "scale")) return "quantise again: scales must be constant, finite and above 0";
  return "change the form of the node: compiler/operators/README.md lists the supported forms";
}

std::string for_host(const NodeCoverage& node, bool assumed) {
  static const std::set<std::string_view> kLayers = {"Conv", "ConvTranspose", "Gemm", "MatMul"};
  if (node.missing.empty()) return {};  // a conversion at the model's ends
  if (const char* change = known_change(node.type)) return change;
  if (node.type == "MatMul" && node.weights == 0)
    return "no change to the model helps: only the host can multiply two activations";
  if (kLayers.contains(node.type) && !assumed)
    return std::string(
               "put a QuantizeLinear and a DequantizeLinear before the layer's input and weights, or run: ") +
           kQuantise;
  const operators::Operator* row = operators::find({node.domain, node.type, 0, {}});
  const bool has_hardware =
      row != nullptr && (row->lower_elementwise != nullptr || row->lower_qdq != nullptr);
  if (!has_hardware) return "no change to the model helps: only the host computes this operator";
  if (contains(node.missing, "; put ") || contains(node.missing, "quantiser")) return {};  // says it itself
  return "put a QuantizeLinear and a DequantizeLinear before and after the node";
}

std::string for_emulation(const NodeCoverage& node) {
  if (contains(node.missing, "bits")) return "quantise to at most 8 bits";
  if (contains(node.missing, "loops") || contains(node.missing, "axes"))
    return "simplify the Transpose and Reshape nodes, or run the block on the host: --host BLOCK";
  return "run the block on the host: --host " + (node.blocks.empty() ? "BLOCK" : node.blocks.front());
}

}  // namespace

std::string advice(const NodeCoverage& node, bool assumed) {
  switch (node.place) {
    case Place::kNowhere:
      return for_nobody(node);
    case Place::kHost:
      return for_host(node, assumed);
    case Place::kEmulated:
      return for_emulation(node);
    case Place::kHardware:
      return node.partly_host ? for_host(node, assumed) : std::string();
    default:
      return {};
  }
}

}  // namespace millrace::compiler::coverage
