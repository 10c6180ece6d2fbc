// Of which resources there is too little for something, and how much more would do. Private to this folder.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/explore/packing.hpp"

namespace millrace::compiler::explore {

constexpr double kMuchMore = 16;  // times a resource that is looked at when one is short

struct Lack {
  std::vector<std::size_t> kinds;  // those of which more is needed; all of them together
  double factor = 1;               // times as much of each of them does, to a hundredth
};

/// Where it does not fit as it is: the one kind of which the least more would do; where none does alone, the
/// kinds that together do. Nothing where not even kMuchMore of all would. `fits`: with each kind's amount
/// times a factor.
std::optional<Lack> least_more(const std::function<bool(const Figures&)>& fits);

/// "DSP", "LUT and DSP".
std::string names_of(const Lack& lack);

/// "12 % more".
std::string more_of(const Lack& lack);

}  // namespace millrace::compiler::explore
