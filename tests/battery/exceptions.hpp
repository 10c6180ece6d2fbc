// The list of nets that differ from ONNX Runtime, run on the host or are refused, each with the reason: exceptions.csv.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace millrace::tests {

/// What becomes of a net of the battery.
enum class Kind {
  kAgrees,   // every output byte is that of ONNX Runtime, and no operator runs on the host
  kDiffers,  // some output bytes differ
  kHost,     // every output byte is that of ONNX Runtime, and the host computes an operator
  kRefused,  // the net does not compile
};

std::string to_string(Kind kind);

struct Exception {
  Kind kind = Kind::kAgrees;
  double steps = 0;     // kDiffers: the largest difference that is allowed, in steps of the output
  double per_cent = 0;  // kDiffers: the share of the outputs that may differ
  std::string message;  // kRefused: a part of the error message
  std::string reason;
};

/// Reads a file with the columns net, outcome, detail, reason. Throws std::runtime_error if a line has another form.
std::map<std::string, Exception> read_exceptions(const std::filesystem::path& file);

}  // namespace millrace::tests
