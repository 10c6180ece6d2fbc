#include "server/models/signature.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "runtime/base/text.hpp"

namespace millrace::server::models {

namespace {

using runtime::plan::TensorSignature;
using Tensors = std::vector<TensorSignature>;

constexpr std::size_t kMostDifferences = 8;
constexpr std::size_t kMostNameBytes = 100;
constexpr std::size_t kMostAxes = 16;

const TensorSignature* find(const Tensors& tensors, std::string_view name) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

std::string named(std::string_view kind, const std::string& name) {
  return std::string(kind) + " '" + printable(name.substr(0, kMostNameBytes)) +
         (name.size() > kMostNameBytes ? "…'" : "'");
}

std::string type_of(const TensorSignature& tensor) {
  std::string axes;
  for (std::size_t i = 0; i < std::min(tensor.shape.size(), kMostAxes); ++i)
    axes += (i == 0 ? "" : ",") + std::to_string(tensor.shape[i]);
  if (tensor.shape.size() > kMostAxes) axes += ",…";
  return tensor.datatype + " [" + axes + "]";
}

void compare(std::string_view kind, const Tensors& now, const Tensors& next, std::vector<std::string>& out) {
  if (now == next) return;
  const std::size_t before = out.size();
  for (const TensorSignature& tensor : now) {
    const TensorSignature* const same = find(next, tensor.name);
    if (same == nullptr)
      out.push_back(named(kind, tensor.name) + " is gone");
    else if (*same != tensor)
      out.push_back(named(kind, tensor.name) + " was " + type_of(tensor) + ", is " + type_of(*same));
  }
  for (const TensorSignature& tensor : next)
    if (find(now, tensor.name) == nullptr)
      out.push_back(named(kind, tensor.name) + ", " + type_of(tensor) + ", is new");
  if (out.size() == before) out.push_back("the " + std::string(kind) + "s are in another order");
}

}  // namespace

std::string signature_difference(const runtime::plan::ModelInfo& now, const runtime::plan::ModelInfo& next) {
  std::vector<std::string> all;
  compare("input", now.inputs, next.inputs, all);
  compare("output", now.outputs, next.outputs, all);
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), kMostDifferences); ++i)
    text += (i == 0 ? "" : "; ") + all[i];
  const std::size_t unlisted = all.size() - std::min(all.size(), kMostDifferences);
  if (unlisted > 0) text += "; and " + std::to_string(unlisted) + " more";
  return text;
}

}  // namespace millrace::server::models
