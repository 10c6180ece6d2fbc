// What a plan says, as values: `plan --json` prints them, the page fills its template with them. The keys are
// in README.md. Private to this folder.
#pragma once

#include <boost/json/fwd.hpp>

#include <cstdint>

#include "compiler/planning/alternatives.hpp"
#include "compiler/planning/plan.hpp"

namespace millrace::compiler::report {

boost::json::object facts(const Plan& plan, const PlanOptions& options, const Alternatives& alternatives);

inline const explore::Card& card_of(const Plan& plan, std::uint32_t place) {
  return plan.problem().cards[plan.solution.card[place]];
}

/// How a block on a card is built.
inline const explore::Implementation& way_of(const Plan& plan, std::uint32_t block) {
  return plan.problem().operations[block].implementations[plan.solution.implementation[block]];
}

}  // namespace millrace::compiler::report
