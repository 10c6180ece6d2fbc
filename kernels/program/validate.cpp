// validate() checks the structure of a program. check_operation.cpp checks the blocks one by one.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_set>

#include "kernels/program/checks.hpp"
#include "kernels/program/parameters.hpp"

namespace millrace::kernels {

bool checks::is_legal(ElementType type) {
  switch (type.kind) {
    case ElementType::Kind::kSigned:
      return (type.bits >= 1 && type.bits <= 32) || type.bits == 64;
    case ElementType::Kind::kUnsigned:
      return type.bits >= 1 && type.bits <= 32;
    case ElementType::Kind::kBipolar:
      return type.bits == 1;
    case ElementType::Kind::kFloat32:
      return type.bits == 32;
  }
  return false;
}

namespace {

using checks::fail;
using checks::Finding;
using checks::require;

constexpr std::uint64_t kMostElements = 0x7fffffff;
constexpr std::size_t kMostAxes = 8;
constexpr std::size_t kLongestBlockName = 128;

void check_tensor(const Tensor& tensor) {
  require(checks::is_legal(tensor.type), "type is not one of int1..32, int64, uint1..32, bipolar, float32");
  require(!tensor.shape.empty() && tensor.shape.size() <= kMostAxes, "shape must have 1 to ", kMostAxes,
          " axes");
  require(std::find(tensor.shape.begin(), tensor.shape.end(), 0U) == tensor.shape.end(),
          "shape has an axis of length 0");
  require(tensor.elements() <= kMostElements, "shape holds more than ", kMostElements, " elements");
  require(tensor.scale.size() <= 1 || tensor.scale.size() == tensor.shape.back(), "scale has ",
          tensor.scale.size(), " entries; give none, one, or one per channel (", tensor.shape.back(), ")");
  for (const float scale : tensor.scale) require(std::isfinite(scale), "scale is not finite");
}

bool is_file_name(std::string_view name) {
  if (name.empty() || name.size() > kLongestBlockName || name.front() == '.' || name.front() == '-')
    return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

// Makes a message safe for the log. Names come from outside, and no name may break a line of the log or flood it.
std::string one_line(std::string message) {
  constexpr std::size_t kLongest = 600;
  if (message.size() > kLongest) message.replace(kLongest, std::string::npos, "...");
  std::replace_if(
      message.begin(), message.end(), [](char c) { return (c >= 0 && c < ' ') || c == 127; }, '?');
  return message;
}

std::string shown(std::string_view name) {
  return std::string(name.substr(0, 80)) + (name.size() > 80 ? "..." : "");
}

/// Runs `check`. If it throws a Finding, puts `where` in front of the Finding's text.
template <class Check>
void check_inside(const std::string& where, Check check) {
  try {
    check();
  } catch (const Finding& finding) {
    fail(where, finding.text);
  }
}

class Validator {
 public:
  explicit Validator(const Program& program) : program_(program), known_(program.tensors.size()) {}

  void run() {
    tensors();
    require(!program_.inputs.empty(), "inputs: none given");
    for (const TensorIndex i : program_.inputs) produce("inputs", i);
    blocks();
    outputs();
  }

 private:
  std::string name_of(TensorIndex i) const { return "tensor '" + shown(program_.tensors[i].name) + "'"; }

  void tensors() const {
    std::unordered_set<std::string_view> names;
    for (std::size_t i = 0; i < program_.tensors.size(); ++i) {
      const Tensor& tensor = program_.tensors[i];
      require(!tensor.name.empty(), "tensors[", i, "]: name is empty");
      if (!names.insert(tensor.name).second)
        fail("tensors[", i, "]: name '", shown(tensor.name), "' is taken");
      check_inside(name_of(static_cast<TensorIndex>(i)) + ": ", [&] { check_tensor(tensor); });
    }
  }

  void index(const char* field, TensorIndex i) const {
    require(i < program_.tensors.size(), field, ": tensor ", i, " does not exist; there are ",
            program_.tensors.size());
  }

  void produce(const char* field, TensorIndex i) {
    index(field, i);
    if (known_[i]) fail(field, ": ", name_of(i), " has two producers");
    known_[i] = true;
  }

  void consume(const char* field, TensorIndex i) const {
    index(field, i);
    if (!known_[i]) fail(field, ": ", name_of(i), " is read before anything produces it");
  }

  void blocks() {
    std::unordered_set<std::string_view> names;
    for (std::size_t i = 0; i < program_.blocks.size(); ++i) {
      const Block& block = program_.blocks[i];
      if (!is_file_name(block.name))
        fail("blocks[", i, "]: name '", shown(block.name), "' is not a file name; use 1 to ",
             kLongestBlockName, " of the characters A-Z a-z 0-9 _ - . (not - or . at the start)");
      require(names.insert(block.name).second, "blocks[", i, "]: name '", block.name, "' is taken");
      check_inside("block '" + block.name + "' (" + operation_name(block.operation) + "): ",
                   [&] { check(block); });
    }
  }

  void check(const Block& block) {
    for (const TensorIndex i : block.inputs) consume("inputs", i);
    for (const TensorIndex i : block.outputs) produce("outputs", i);
    require(block.placement == Placement::kBaked || has_parameters(block.operation), "placement is ",
            to_string(block.placement), ", but this operation has no parameters");
    if (!std::holds_alternative<Quantise>(block.operation) &&
        !std::holds_alternative<Dequantise>(block.operation) &&
        !std::holds_alternative<Rearrange>(block.operation))
      for (const auto* list : {&block.inputs, &block.outputs})
        for (const TensorIndex i : *list)
          if (program_.tensors[i].type.bits > 32)
            fail(name_of(i),
                 " is int64, which only the operations quantise, dequantise and rearrange accept");
    checks::check_operation(program_, block);
  }

  void outputs() const {
    require(!program_.outputs.empty(), "outputs: none given");
    std::vector<bool> given(program_.tensors.size());
    for (const TensorIndex i : program_.outputs) {
      consume("outputs", i);
      if (given[i]) fail("outputs: ", name_of(i), " is named twice");
      given[i] = true;
    }
    for (TensorIndex i = 0; i < known_.size(); ++i)
      if (!known_[i]) fail(name_of(i), " is neither an input nor produced by a block");
  }

  const Program& program_;
  std::vector<bool> known_;  // the tensors that are produced so far
};

}  // namespace

std::string validate(const Program& program) {
  try {
    Validator(program).run();
    return {};
  } catch (const Finding& finding) {
    return one_line("program '" + shown(program.name) + "': " + finding.text);
  }
}

}  // namespace millrace::kernels
