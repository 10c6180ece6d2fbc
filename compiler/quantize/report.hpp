// Prints the result of a quantisation as a table, as an HTML page and as JSON. README.md lists the JSON keys.
#pragma once

#include <optional>
#include <string>

#include "compiler/quantize/quantize.hpp"

namespace millrace::compiler::quantize {

struct Summary {
  std::string model;  // its name
  Options options;
  Quantised quantised;
  std::size_t calibration_frames = 0;
  std::optional<Score> score;  // on other samples than those that calibrated
};

/// Returns the summary as a table for a terminal, in lines of at most 100 columns.
std::string text(const Summary& summary);
/// Returns the summary as one JSON object. `output` is the name of the quantised file.
std::string json(const Summary& summary, const std::string& output);
/// Returns the summary as one HTML page without scripts that loads no other file.
std::string html(const Summary& summary);

}  // namespace millrace::compiler::quantize
