// Measures how long the operations of kernels/fast take on this machine's processor.
#pragma once

#include <map>
#include <string>

#include "compiler/generators/catalog.hpp"

namespace millrace::tools::calibrate {

struct HostTimes {
  std::string machine;  // the processor's name and the instruction sets used
  std::map<std::string, compiler::generators::HostTime, std::less<>> operations;
};

/// Runs every operation at two sizes on one thread and keeps the shortest of many runs. Takes some seconds.
HostTimes measure_host();

}  // namespace millrace::tools::calibrate
