// Quantises a float model with samples from files: what `quantize`, `compile --data` and `plan --data` share.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

#include "compiler/front/read_model.hpp"
#include "compiler/quantize/report.hpp"
#include "runtime/base/result.hpp"
#include "tools/cli/commands.hpp"

namespace millrace::cli {

struct Calibrated {
  std::vector<std::byte> onnx;  // the QDQ model
  compiler::quantize::Summary summary;
};

/// Reads the model and the samples, quantises the model, and scores it if there are samples for that. `what.data` must not
/// be empty. Notes go to stderr unless `quiet`. Errors name the file or the option: kInvalidInput, kNotFound, and those of
/// import_onnx() and quantise().
Result<Calibrated> calibrate(const std::filesystem::path& model, const CalibrationWhat& what, bool quiet);

/// If samples are given, quantises the model and lets `options` compile the result in place of the file. Prints the
/// summary unless `quiet`. Returns kInvalidInput if --assume is given as well.
Status quantise_first(const PlanWhat& what, bool quiet, compiler::ModelOptions& options, std::ostream& out);

}  // namespace millrace::cli
