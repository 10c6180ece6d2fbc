// Fits a catalogue of cost coefficients to measurements. A module's number of logic LUTs and of flip-flops is modelled
// as a weighted sum of the terms in compiler/generators/module.hpp. The weights are not negative and minimise the
// squared relative errors.
#pragma once

#include <string>
#include <vector>

#include "compiler/generators/catalog.hpp"
#include "runtime/base/result.hpp"
#include "tools/calibrate/measurements.hpp"

namespace millrace::tools::calibrate {

/// Errors are relative to the measured count or, if the count is smaller than this number, to this number: a difference
/// of two LUTs in a tiny module does not matter.
inline constexpr double kLeastCount = 100;

/// A measurement that differs from a figure which cost() should predict exactly.
struct Inexact {
  Measurement measurement;
  compiler::generators::Cost predicted;
};

struct Fitted {
  compiler::generators::Catalog catalog;
  std::vector<Inexact> inexact;
};

/// Fits a catalogue. Equal measurements always give the same catalogue. The coefficients of tables are fitted first.
/// Then only the term for deep tables is fitted. To estimate the errors on unseen instances, every tenth measurement is
/// in turn left out and predicted from a fit to the others. Returns kInvalidInput if a measurement has no features.
Result<Fitted> fit(const Measurements& measurements);

/// Returns the catalogue as the text of a file that parse_catalog() can read.
std::string print_catalog(const compiler::generators::Catalog& catalog);

}  // namespace millrace::tools::calibrate
