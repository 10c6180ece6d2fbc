#include "compiler/import/operators.hpp"

#include <cmath>
#include <map>
#include <set>

namespace millrace::compiler::import {
namespace {

using graph::OnnxOperator;

const std::set<std::string>& standard_operators() {
  static const std::set<std::string> kOperators = {"Add",           "AveragePool",   "BatchNormalization",
                                                   "Cast",          "Clip",          "Concat",
                                                   "Conv",          "ConvInteger",   "DequantizeLinear",
                                                   "Div",           "Dropout",       "Flatten",
                                                   "Gather",        "Gemm",          "GlobalAveragePool",
                                                   "GlobalMaxPool", "HardSigmoid",   "HardSwish",
                                                   "Identity",      "LeakyRelu",     "MatMul",
                                                   "MatMulInteger", "MaxPool",       "Mul",
                                                   "QLinearConv",   "QLinearMatMul", "QuantizeLinear",
                                                   "Relu",          "Reshape",       "Shape",
                                                   "Sigmoid",       "Slice",         "Softmax",
                                                   "Squeeze",       "Sub",           "Tanh",
                                                   "Transpose",     "Unsqueeze"};
  return kOperators;
}

const std::set<std::string>& microsoft_operators() {
  static const std::set<std::string> kOperators = {
      "DequantizeLinear",   "QGemm",          "QLinearAdd",
      "QLinearAveragePool", "QLinearConcat",  "QLinearGlobalAveragePool",
      "QLinearLeakyRelu",   "QLinearSigmoid", "QuantizeLinear"};
  return kOperators;
}

enum class Kind { kInteger, kReal, kText, kIntegers, kReals };

/// An attribute's type is the same in every operator that has it.
const std::map<std::string, Kind>& attribute_kinds() {
  static const std::map<std::string, Kind> kKinds = {{"allowzero", Kind::kInteger},
                                                     {"alpha", Kind::kReal},
                                                     {"auto_pad", Kind::kText},
                                                     {"axes", Kind::kIntegers},
                                                     {"axis", Kind::kInteger},
                                                     {"beta", Kind::kReal},
                                                     {"block_size", Kind::kInteger},
                                                     {"ceil_mode", Kind::kInteger},
                                                     {"channels_last", Kind::kInteger},
                                                     {"count_include_pad", Kind::kInteger},
                                                     {"dilations", Kind::kIntegers},
                                                     {"end", Kind::kInteger},
                                                     {"ends", Kind::kIntegers},
                                                     {"epsilon", Kind::kReal},
                                                     {"group", Kind::kInteger},
                                                     {"kernel_shape", Kind::kIntegers},
                                                     {"max", Kind::kReal},
                                                     {"min", Kind::kReal},
                                                     {"momentum", Kind::kReal},
                                                     {"output_dtype", Kind::kInteger},
                                                     {"pads", Kind::kIntegers},
                                                     {"perm", Kind::kIntegers},
                                                     {"precision", Kind::kInteger},
                                                     {"ratio", Kind::kReal},
                                                     {"saturate", Kind::kInteger},
                                                     {"seed", Kind::kInteger},
                                                     {"shape", Kind::kIntegers},
                                                     {"spatial", Kind::kInteger},
                                                     {"start", Kind::kInteger},
                                                     {"starts", Kind::kIntegers},
                                                     {"storage_order", Kind::kInteger},
                                                     {"strides", Kind::kIntegers},
                                                     {"to", Kind::kInteger},
                                                     {"training_mode", Kind::kInteger},
                                                     {"transA", Kind::kInteger},
                                                     {"transB", Kind::kInteger}};
  return kKinds;
}

bool has_kind(const graph::Attribute& attribute, Kind kind) {
  return attribute.index() == static_cast<std::size_t>(kind);
}

const char* describe(Kind kind) {
  switch (kind) {
    case Kind::kInteger:
      return "an integer";
    case Kind::kReal:
      return "a float";
    case Kind::kText:
      return "a string";
    case Kind::kIntegers:
      return "a list of integers";
    case Kind::kReals:
      return "a list of floats";
  }
  return "";
}

/// No integer stands for NaN or infinity. Only a bound may be infinite, where it bounds nothing.
bool is_sound(const OnnxOperator& op, const std::string& attribute, float number) {
  if (std::isfinite(number)) return true;
  if (op.type != "Clip" || std::isnan(number)) return false;
  return (attribute == "min" && number < 0) || (attribute == "max" && number > 0);
}

}  // namespace

std::string why_unsupported(const OnnxOperator& op) {
  if (op.domain.empty() && standard_operators().contains(op.type)) return {};
  if (op.domain == "com.microsoft" && microsoft_operators().contains(op.type)) return {};
  if (op.type == "DynamicQuantizeLinear")
    return "its scale depends on the data of each frame; quantise the model statically (QDQ or QOperator)";
  if (op.type == "Quant" || op.type == "BipolarQuant" || op.type == "Trunc" || op.type == "MultiThreshold")
    return "the QONNX and FINN dialects are not taken yet; export the model as QDQ";
  if (op.type == "If" || op.type == "Loop" || op.type == "Scan")
    return "control flow cannot become a dataflow pipeline";
  if (op.type == "LSTM" || op.type == "GRU" || op.type == "RNN") return "recurrent operators are not taken";
  if (op.type == "QLinearSoftmax")
    return "not taken; end the model before the softmax, or compute it in float32";
  if (!op.domain.empty() && op.domain != "com.microsoft")
    return "the operator domain '" + op.domain + "' is not known";
  return "not taken";
}

std::string taken_operators() {
  std::string names;
  for (const auto* set : {&standard_operators(), &microsoft_operators()})
    for (const auto& name : *set)
      if (set == &standard_operators() || !standard_operators().contains(name))
        names += (names.empty() ? "" : ", ") + name;
  return names;
}

std::string check_attributes(const OnnxOperator& op) {
  for (const auto& [name, value] : op.attributes) {
    const auto it = attribute_kinds().find(name);
    if (it == attribute_kinds().end()) return "attribute '" + name + "' is not known";
    if (!has_kind(value, it->second)) return "attribute '" + name + "' must be " + describe(it->second);
    std::vector<float> numbers;
    if (const auto* number = std::get_if<float>(&value)) numbers = {*number};
    if (const auto* list = std::get_if<std::vector<float>>(&value)) numbers = *list;
    for (const float number : numbers)
      if (!is_sound(op, name, number))
        return "attribute '" + name + "' is " + (std::isnan(number) ? "NaN" : "infinite") +
               "; export the model with finite numbers";
  }
  return {};
}

bool is_quantiser(const OnnxOperator& op) {
  return op.type.find("QuantizeLinear") != std::string::npos ||
         op.type.find("QLinear") != std::string::npos || op.type == "DequantizeLinear" ||
         op.type == "DynamicQuantizeLinear" || op.type == "ConvInteger" || op.type == "MatMulInteger" ||
         op.type == "QGemm" || op.type == "Quant" || op.type == "BipolarQuant" || op.type == "MultiThreshold";
}

}  // namespace millrace::compiler::import
