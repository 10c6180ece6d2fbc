// Fits a catalogue to measurements. For each module, LUTs of logic and flip-flops are sums of its terms
// (compiler/generators/module.hpp). The coefficients are not negative and minimise the squared relative
// errors.
#pragma once

#include <string>
#include <vector>

#include "compiler/generators/catalog.hpp"
#include "runtime/base/result.hpp"
#include "tools/calibrate/measurements.hpp"

namespace millrace::tools::calibrate {

/// Errors are relative to the measurement, but at least to this count: two LUTs more in a skid do not matter.
inline constexpr double kLeastCount = 100;

/// A measurement that differs from the exact part of cost().
struct Inexact {
  Measurement measurement;
  compiler::generators::Cost predicted;
};

struct Fitted {
  compiler::generators::Catalog catalog;
  std::vector<Inexact> inexact;
};

/// Deterministic. Tables are fitted first, and of these the deep ones last with only their own term free. For
/// the held-out errors, every tenth measurement in turn is predicted from a fit to the others. kInvalidInput
/// if a measurement has no features.
Result<Fitted> fit(const Measurements& measurements);

/// The text of a catalogue's file, which parse_catalog() reads back.
std::string print_catalog(const compiler::generators::Catalog& catalog);

}  // namespace millrace::tools::calibrate
