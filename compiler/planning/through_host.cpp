#include "compiler/planning/through_host.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "compiler/planning/names.hpp"

namespace millrace::compiler {

std::vector<std::uint32_t> tensors_beside_host(const explore::Problem& problem) {
  const auto stage = explore::stages(problem);
  std::map<std::uint32_t, std::uint32_t>
      made_in;  // tensor -> the stage of the card's operation that makes it
  std::set<std::uint32_t> found;
  for (std::size_t i = 0; i < problem.operations.size(); ++i) {
    const auto& operation = problem.operations[i];
    if (operation.host) continue;
    for (const auto t : operation.inputs)
      if (const auto made = made_in.find(t); made != made_in.end() && stage[i] > made->second)
        found.insert(t);
    for (const auto t : operation.outputs) made_in[t] = stage[i];
  }
  return {found.begin(), found.end()};
}

ThroughHost copy_through_host(const kernels::Program& program, const explore::Problem& problem) {
  ThroughHost out{program, {}};
  const auto stage = explore::stages(problem);
  TakenNames taken(program);
  std::map<std::uint32_t, std::uint32_t> copy_of;  // tensor -> its copy
  for (const auto t : tensors_beside_host(problem)) {
    copy_of[t] = static_cast<std::uint32_t>(out.program.tensors.size());
    kernels::Tensor copy = program.tensors[t];
    copy.name = new_name(copy.name + ".through_host", taken.tensors);
    out.program.tensors.push_back(std::move(copy));
  }
  std::map<std::uint32_t, std::uint32_t> made_in;  // copied tensor -> the stage that makes it
  out.program.blocks.clear();
  for (std::size_t b = 0; b < program.blocks.size(); ++b) {
    kernels::Block block = program.blocks[b];
    if (!problem.operations[b].host)
      for (auto& t : block.inputs)
        if (const auto made = made_in.find(t); made != made_in.end() && stage[b] > made->second)
          t = copy_of.at(t);
    const auto outputs = block.outputs;
    const std::string name = block.name;
    out.program.blocks.push_back(std::move(block));
    for (const auto t : outputs) {
      if (!copy_of.contains(t)) continue;
      made_in[t] = stage[b];
      kernels::Block pass;
      pass.name = new_name(name + "_through_host", taken.blocks);
      pass.inputs = {t};
      pass.outputs = {copy_of.at(t)};
      pass.operation = kernels::Rearrange{};
      out.copies.push_back(pass.name);
      out.program.blocks.push_back(std::move(pass));
    }
  }
  return out;
}

}  // namespace millrace::compiler
