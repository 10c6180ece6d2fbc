// A search that is repeated, because its plan turned out to take more or to give less than the search
// reckoned with. Private to this folder.
#pragma once

#include <string>

#include "compiler/explore/problem.hpp"
#include "compiler/planning/plan.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// The targets that a plan misses as it is predicted, in words; empty: none.
std::string missed(const Plan& plan);

/// What the plan's designs take more of than there is, by card, region and kind; empty: nothing.
std::string overfull(const Plan& plan);

/// Whether `problem` had to be made harder because the plan's designs take more than there is.
bool tighten_regions(const Plan& plan, explore::Problem& problem);

/// The same, or because they miss what was promised.
bool tighten(const Plan& plan, explore::Problem& problem);

/// Of the plans that turned out to miss what was asked, the one that does so least.
class Nearest {
 public:
  void look_at(const Plan& plan);

  /// kDoesNotFit, with the figures of that plan. `reckoned`: the problem as it was tightened last, of which
  /// `explain` says what binds in it and what could be met.
  Error error(const Plan& plan, const explore::Problem& reckoned, bool explain) const;

 private:
  double by_ = 1;  // the target is missed by this factor
  std::string words_;
};

}  // namespace millrace::compiler
