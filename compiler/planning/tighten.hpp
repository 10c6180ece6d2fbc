// A search is repeated if its plan takes more, or gives less, than the search promised. This file makes the
// problem harder by as much as the plan missed it.
#pragma once

#include <string>

#include "compiler/explore/problem.hpp"
#include "compiler/planning/predict.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// The targets that a plan misses, in words; empty: none.
std::string missed(const Predicted& plan);

/// The resources of which a plan's designs need more than there are, by card and region; empty: none.
std::string overfull(const Predicted& plan);

/// Makes regions that turned out too full smaller in `problem`. Whether there were any.
bool tighten_regions(const Predicted& plan, explore::Problem& problem);

/// The same, and makes targets that the plan misses harder.
bool tighten(const Predicted& plan, explore::Problem& problem);

/// Of several plans that miss the targets, the one that misses them by least.
class Nearest {
 public:
  void compare(const Predicted& plan);

  /// kDoesNotFit, with that plan's figures. `tightened` is the problem of the last search; `explain` adds
  /// what limits it and which targets could be met.
  Error error(const explore::Problem& asked, const explore::Problem& tightened, bool explain) const;

 private:
  double factor_ = 1;  // by which the plan misses its target
  std::string missed_;
};

}  // namespace millrace::compiler
