// The result of a quantisation for people and programs. Keys of the JSON: README.md.
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

/// A table for a terminal, lines of at most 100 columns.
std::string text(const Summary& summary);
/// One JSON object. `output` is the file that was written.
std::string json(const Summary& summary, const std::string& output);
/// A page in one file that fetches nothing and runs nothing.
std::string html(const Summary& summary);

}  // namespace millrace::compiler::quantize
