// Names of blocks and tensors that planning adds to a program.
#pragma once

#include <set>
#include <string>

#include "kernels/program/program.hpp"

namespace millrace::compiler {

/// The names that a program already uses.
struct TakenNames {
  explicit TakenNames(const kernels::Program& program);
  std::set<std::string> blocks, tensors;
};

/// Returns a name that is not in `taken`: `wanted`, shortened to 110 characters and followed by "_" as often as
/// necessary. Adds the name to `taken`. A block's name has at most 128 characters.
std::string new_name(std::string wanted, std::set<std::string>& taken);

}  // namespace millrace::compiler
