// Computes ONNX operators in float32 on the host. The host computes operators for which there is no hardware, between
// integer blocks or at the ends of a model. `compute()` is the only implementation: kernels/reference and kernels/fast
// both call it, and `millrace quantize` runs float models with it.
//
// The ONNX standard defines the meaning of each operator. Sums are added in float32, in the order of the
// operands' elements, so results can differ from ONNX Runtime's by rounding, relatively by about 1e-6.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::kernels {

/// An attribute of an ONNX operator. Exactly one of the lists has entries, or `text` is set.
struct FloatAttribute {
  std::string name;
  std::vector<std::int64_t> integers;  // one entry for an attribute of type INT
  std::vector<float> reals;            // one entry for an attribute of type FLOAT
  std::string text;
  bool operator==(const FloatAttribute&) const = default;
};

/// An input of a FloatOperator, in the order of the ONNX operator's inputs.
struct FloatOperand {
  enum class Kind : std::uint8_t {
    kTensor,    // the block's next input tensor, float32
    kFloats,    // the constant `floats`
    kIntegers,  // the constant `integers`, which says how to compute: axes, pads, a shape
    kAbsent,    // an optional input that is left out
  };
  Kind kind = Kind::kTensor;
  std::vector<std::int64_t> shape;  // as ONNX sees it, with the batch axis; empty for a scalar
  std::vector<float> floats;        // row-major
  std::vector<std::int64_t> integers;
  bool operator==(const FloatOperand&) const = default;
};

/// One ONNX operator of the standard domain with float32 data. The batch axis counts, although programs compute single
/// frames: an axis attribute means the same axis as in the ONNX file.
struct FloatOperator {
  std::string type;         // "LayerNormalization"
  std::int64_t opset = 17;  // the version of the operator set, which decides the meaning of some attributes
  std::vector<FloatAttribute> attributes;
  std::vector<FloatOperand> operands;
  std::vector<std::int64_t> shape;  // of the result
  bool operator==(const FloatOperator&) const = default;

  const FloatAttribute* attribute(std::string_view name) const;  // null if there is none
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  float real(std::string_view name, float otherwise) const;
  std::string_view text(std::string_view name, std::string_view otherwise) const;
  std::vector<std::int64_t> integers(std::string_view name, std::vector<std::int64_t> otherwise) const;
};

namespace host {

using Shape = std::vector<std::int64_t>;

/// Whether the host computes the ONNX operator `type` in float32.
bool supports(std::string_view type);
/// Returns the names of all ONNX operators that the host computes in float32, in alphabetical order.
std::vector<std::string_view> operators();

/// Computes the shape of the result from the operator's operands and attributes. Reads `op.shape` only for operators
/// that keep all elements, such as Reshape. On failure, returns nothing, and `why` says what is wrong ("Conv: ...").
/// Safe on hostile operators: time and memory are bounded by the operator's size.
std::optional<Shape> result_shape(const FloatOperator& op, std::string& why);

/// Returns what is wrong with an operator, or an empty text. Refuses an unknown type, operands that do not fit the
/// operator, results with too many elements, and an `op.shape` that differs from the computed shape.
std::string check(const FloatOperator& op);

/// Computes an operator that passed check(). `tensors` holds the elements of the operands of kind kTensor, in order and
/// row-major; `result` has room for the elements of op.shape. Any thread may call this function. Some operators
/// allocate scratch memory.
void compute(const FloatOperator& op, std::span<const float* const> tensors, float* result);

}  // namespace host
}  // namespace millrace::kernels
