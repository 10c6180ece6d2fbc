// What operations take on this machine's processor, measured with kernels/fast.
#pragma once

#include <map>
#include <string>

#include "compiler/generators/catalog.hpp"

namespace millrace::tools::calibrate {

struct HostTimes {
  std::string machine;  // the processor's name, and the instructions used
  std::map<std::string, compiler::generators::HostTime, std::less<>> operations;
};

/// Every operation at two sizes, one thread, the shortest of many runs each: some seconds.
HostTimes measure_host();

}  // namespace millrace::tools::calibrate
