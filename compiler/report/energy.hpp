// What a frame's work may cost in energy: an order of magnitude from published figures, never measured.
// Private to this folder.
#pragma once

#include <string>
#include <vector>

#include "compiler/planning/plan.hpp"

namespace millrace::compiler::report {

struct EnergyTerm {
  std::string what, unit;  // "multiplications", "multiplication"
  double count = 0;        // of them a frame
  double picojoules = 0;   // each, assumed
  std::string from;        // where that figure comes from
  double joules() const { return count * picojoules * 1e-12; }
};

struct Energy {
  std::vector<EnergyTerm> terms;  // those that a frame has any of
  double joules = 0;              // their sum: what idle cards and the host take is not in it
  // What each watt that a card takes whether it works or not adds to a frame.
  double joules_per_idle_watt = 0;
};

/// The plan is predicted.
Energy assumed_energy(const Plan& plan);

}  // namespace millrace::compiler::report
