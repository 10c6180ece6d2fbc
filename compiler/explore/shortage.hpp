// The resources that are short, and how much more of them would do. Private to this folder.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/explore/packing.hpp"

namespace millrace::compiler::explore {

constexpr double kLargestFactor = 16;  // no more of a resource than this is tried

struct Shortage {
  std::vector<std::size_t> kinds;  // of resources; more is needed of all of them together
  double factor = 1;               // by which each has to grow; rounded up to a hundredth
};

/// The smallest increase that makes something fit: of one kind of resource if one suffices, otherwise of the
/// smallest set of kinds that does. Nothing if not even kLargestFactor of every kind is enough. `fits` takes
/// a factor for each kind.
std::optional<Shortage> find_shortage(const std::function<bool(const Figures&)>& fits);

/// "DSP", "LUT and DSP".
std::string names_of(const Shortage& shortage);

/// "12 % more".
std::string increase_of(const Shortage& shortage);

}  // namespace millrace::compiler::explore
