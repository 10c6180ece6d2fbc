// What Resize and Upsample have in common, whichever elements they choose. Private to compiler/operators.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/operators/rules.hpp"

namespace millrace::compiler::operators {

/// The operator and inputs of a node. An input's value may be unknown at compile time.
struct Form {
  const OnnxOperator& op;
  Inputs in;  // null for an input that is left out

  bool has(std::size_t i) const { return i < in.size() && in[i] != nullptr; }
  const Shape& shape() const { return in[0]->shape; }
  /// The integers of a constant input or, if the node does not have it, of an attribute; nothing if neither is known.
  std::optional<std::vector<std::int64_t>> integers(std::size_t i, const char* attribute) const;
};

/// Computes the factor and the size of each axis after a Resize or Upsample. Returns what is wrong with the node, or an
/// empty text.
std::string resized(const Form& form, std::vector<float>& scales, Shape& sizes);

}  // namespace millrace::compiler::operators
