#include "compiler/planning/names.hpp"

#include <cstddef>
#include <utility>

namespace millrace::compiler {

TakenNames::TakenNames(const kernels::Program& program) {
  for (const auto& block : program.blocks) blocks.insert(block.name);
  for (const auto& tensor : program.tensors) tensors.insert(tensor.name);
}

std::string new_name(std::string wanted, std::set<std::string>& taken) {
  constexpr std::size_t kLongest = 110;
  if (wanted.size() > kLongest) wanted.resize(kLongest);
  while (!taken.insert(wanted).second) wanted += "_";
  return wanted;
}

}  // namespace millrace::compiler
