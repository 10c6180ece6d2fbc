// validate(): the program's structure; blocks are checked one by one in check_operation.cpp.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_set>

#include "kernels/program/checks.hpp"
#include "kernels/program/parameters.hpp"

namespace millrace::kernels {
namespace checks {

bool is_legal(ElementType type) {
  switch (type.kind) {
    case ElementType::Kind::kSigned:
    case ElementType::Kind::kUnsigned:
      return type.bits >= 1 && type.bits <= 32;
    case ElementType::Kind::kBipolar:
      return type.bits == 1;
    case ElementType::Kind::kFloat32:
      return type.bits == 32;
  }
  return false;
}

bool holds(ElementType type, std::int64_t value) {
  if (type.kind == ElementType::Kind::kBipolar) return value == 1 || value == -1;
  return value >= type.lowest() && value <= type.highest();
}

}  // namespace checks

namespace {

using checks::text;

constexpr std::uint64_t kMostElements = 0x7fffffff;
constexpr std::size_t kMostAxes = 8;
constexpr std::size_t kLongestBlockName = 128;

std::string check_tensor(const Tensor& tensor) {
  if (!checks::is_legal(tensor.type)) return "type is not one of int1..32, uint1..32, bipolar, float32";
  if (tensor.shape.empty() || tensor.shape.size() > kMostAxes)
    return text("shape must have 1 to ", kMostAxes, " axes");
  if (std::find(tensor.shape.begin(), tensor.shape.end(), 0U) != tensor.shape.end())
    return "shape has an axis of length 0";
  if (tensor.elements() > kMostElements) return text("shape holds more than ", kMostElements, " elements");
  if (tensor.scale.size() > 1 && tensor.scale.size() != tensor.shape.back()) {
    return text("scale has ", tensor.scale.size(), " entries; give none, one, or one per channel (",
                tensor.shape.back(), ")");
  }
  for (const float scale : tensor.scale) {
    if (!std::isfinite(scale)) return "scale is not finite";
  }
  return {};
}

bool is_file_name(std::string_view name) {
  if (name.empty() || name.size() > kLongestBlockName || name.front() == '.' || name.front() == '-')
    return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

// Names come from outside. No name may break a line of the log or flood it.
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

class Validator {
 public:
  explicit Validator(const Program& program) : program_(program), known_(program.tensors.size()) {}

  std::string run() {
    for (std::string (Validator::*step)() :
         {&Validator::tensors, &Validator::inputs, &Validator::blocks, &Validator::outputs}) {
      if (std::string wrong = (this->*step)(); !wrong.empty())
        return one_line(text("program '", shown(program_.name), "': ", wrong));
    }
    return {};
  }

 private:
  std::string tensors() {
    std::unordered_set<std::string_view> names;
    for (std::size_t i = 0; i < program_.tensors.size(); ++i) {
      const Tensor& tensor = program_.tensors[i];
      if (tensor.name.empty()) return text("tensors[", i, "]: name is empty");
      if (!names.insert(tensor.name).second)
        return text("tensors[", i, "]: name '", shown(tensor.name), "' is taken");
      if (std::string wrong = check_tensor(tensor); !wrong.empty())
        return text("tensor '", shown(tensor.name), "': ", wrong);
    }
    return {};
  }

  std::string index(TensorIndex i) const {
    if (i >= program_.tensors.size())
      return text("tensor ", i, " does not exist; there are ", program_.tensors.size());
    return {};
  }

  std::string produce(TensorIndex i) {
    if (std::string wrong = index(i); !wrong.empty()) return wrong;
    if (known_[i]) return text("tensor '", shown(program_.tensors[i].name), "' has two producers");
    known_[i] = true;
    return {};
  }

  std::string consume(TensorIndex i) const {
    if (std::string wrong = index(i); !wrong.empty()) return wrong;
    if (!known_[i])
      return text("tensor '", shown(program_.tensors[i].name), "' is read before anything produces it");
    return {};
  }

  std::string inputs() {
    if (program_.inputs.empty()) return "inputs: none given";
    for (const TensorIndex i : program_.inputs) {
      if (std::string wrong = produce(i); !wrong.empty()) return text("inputs: ", wrong);
    }
    return {};
  }

  std::string blocks() {
    std::unordered_set<std::string_view> names;
    for (std::size_t i = 0; i < program_.blocks.size(); ++i) {
      const Block& block = program_.blocks[i];
      if (!is_file_name(block.name)) {
        return text("blocks[", i, "]: name '", shown(block.name), "' is not a file name; use 1 to ",
                    kLongestBlockName, " of A-Z a-z 0-9 _ - . and start with none of - .");
      }
      if (!names.insert(block.name).second) return text("blocks[", i, "]: name '", block.name, "' is taken");
      if (std::string wrong = check(block); !wrong.empty())
        return text("block '", block.name, "' (", operation_name(block.operation), "): ", wrong);
    }
    return {};
  }

  std::string check(const Block& block) {
    if (block.operation.valueless_by_exception()) return "operation is missing";
    for (const TensorIndex i : block.inputs) {
      if (std::string wrong = consume(i); !wrong.empty()) return text("inputs: ", wrong);
    }
    for (const TensorIndex i : block.outputs) {
      if (std::string wrong = produce(i); !wrong.empty()) return text("outputs: ", wrong);
    }
    if (block.placement != Placement::kBaked && !has_parameters(block.operation))
      return text("placement is ", to_string(block.placement), ", but such an operation has no parameters");
    return checks::operation(program_, block);
  }

  std::string outputs() {
    if (program_.outputs.empty()) return "outputs: none given";
    std::vector<bool> given(program_.tensors.size());
    for (const TensorIndex i : program_.outputs) {
      if (std::string wrong = consume(i); !wrong.empty()) return text("outputs: ", wrong);
      if (given[i]) return text("outputs: tensor '", shown(program_.tensors[i].name), "' is named twice");
      given[i] = true;
    }
    for (std::size_t i = 0; i < known_.size(); ++i) {
      if (!known_[i])
        return text("tensor '", shown(program_.tensors[i].name),
                    "' is neither an input nor produced by a block");
    }
    return {};
  }

  const Program& program_;
  std::vector<bool> known_;  // produced so far
};

}  // namespace

std::string validate(const Program& program) {
  return Validator(program).run();
}

}  // namespace millrace::kernels
