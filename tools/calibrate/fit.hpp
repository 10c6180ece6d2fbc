// From measurements to a catalogue: for each module, LUTs of logic and flip-flops as sums of the terms that
// compiler/generators/module.hpp gives, with coefficients that are not negative and make the squared
// relative errors least.
#pragma once

#include <vector>

#include "compiler/generators/catalog.hpp"
#include "runtime/base/result.hpp"
#include "tools/calibrate/measurements.hpp"

namespace millrace::tools::calibrate {

/// Errors are relative to the measurement, or to this many where there are fewer: a skid's two LUTs more are
/// no 40 % of anything that matters.
inline constexpr double kLeastCount = 100;

/// Where what cost() says is exact is not what was measured.
struct Inexact {
  Measurement measurement;
  compiler::generators::Cost predicted;
};

struct Fitted {
  compiler::generators::Catalog catalog;
  std::vector<Inexact> inexact;
};

/// Deterministic. Tables come first, the deep ones of them last and with nothing but their own term free. The
/// held-out error of a fit: ten times, every tenth measurement is predicted from a fit to the others.
/// kInvalidInput where a measurement has no features.
Result<Fitted> fit(const Measurements& measurements);

}  // namespace millrace::tools::calibrate
