#include "compiler/front/program.hpp"

#include <unordered_map>
#include <unordered_set>

namespace millrace::compiler {
namespace {

using graph::ValueId;

constexpr std::size_t kLongestName = 100;

/// The block name for an ONNX node. Block names must be file names, but node names can be any text.
std::string file_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-' || c == '.';
    if (plain)
      name += c;
    else if (!name.empty() && name.back() != '_')
      name += '_';
  }
  while (!name.empty() && (name.front() == '.' || name.front() == '-')) name.erase(0, 1);
  if (name.size() > kLongestName) name.resize(kLongestName);
  return name.empty() ? "block" : name;
}

class UniqueNames {
 public:
  std::string unique(const std::string& wanted) {
    std::string name = wanted;
    for (int i = 2; !taken_.insert(name).second; ++i) name = wanted + "_" + std::to_string(i);
    return name;
  }

 private:
  std::unordered_set<std::string> taken_;
};

class ProgramBuilder {
 public:
  explicit ProgramBuilder(const graph::Graph& graph) : graph_(graph) {}

  Result<kernels::Program> run() {
    program_.name = graph_.name;
    // Inputs and outputs come first, because they must keep the names that the model gives them.
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i)
      program_.inputs.push_back(add_tensor(graph_.inputs[i], graph_.input_signatures[i].name));
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      if (tensors_.contains(graph_.outputs[i]))
        return Error(ErrorCode::kUnsupported,
                     "output '" + graph_.output_signatures[i].name +
                         "' is the same tensor as another input or output: remove one");
      program_.outputs.push_back(add_tensor(graph_.outputs[i], graph_.output_signatures[i].name));
    }
    for (const graph::Node& n : graph_.nodes) add_block(n);
    if (const std::string why = kernels::validate(program_); !why.empty())
      return Error(ErrorCode::kInternal, "the program that was built does not hold: " + why);
    return std::move(program_);
  }

 private:
  kernels::TensorIndex add_tensor(ValueId id, const std::string& name) {
    const graph::Value& v = graph_.value(id);
    kernels::Tensor t;
    t.name = tensor_names_.unique(name);
    t.type = graph::element_type(v.type);
    t.shape.assign(v.shape.begin(), v.shape.end());
    if (t.shape.empty()) t.shape = {1};
    const bool one_or_channels = v.scale.size() <= 1 || v.scale.size() == t.shape.back();
    if (v.type.is_integer() && one_or_channels) t.scale = v.scale;
    if (v.type.is_integer()) t.zero_point = v.zero_point;
    const auto index = static_cast<kernels::TensorIndex>(program_.tensors.size());
    program_.tensors.push_back(std::move(t));
    tensors_[id] = index;
    return index;
  }

  kernels::TensorIndex tensor(ValueId id) {
    const auto it = tensors_.find(id);
    return it != tensors_.end() ? it->second : add_tensor(id, graph_.value(id).name);
  }

  void add_block(const graph::Node& n) {
    kernels::Block b;
    b.name = block_names_.unique(file_name(n.name));
    b.nodes = n.sources;
    for (const ValueId v : n.inputs) b.inputs.push_back(tensor(v));
    for (const ValueId v : n.outputs) b.outputs.push_back(tensor(v));
    b.operation = std::get<kernels::Operation>(n.operation);
    program_.blocks.push_back(std::move(b));
  }

  const graph::Graph& graph_;
  kernels::Program program_;
  UniqueNames tensor_names_, block_names_;
  std::unordered_map<ValueId, kernels::TensorIndex> tensors_;
};

}  // namespace

Result<kernels::Program> build_program(const graph::Graph& graph) {
  return ProgramBuilder(graph).run();
}

}  // namespace millrace::compiler
