// Digests of the SystemVerilog that a measurement was made with. Committed rows carry them, so tests find
// rows of older sources. tools/calibrate/sources.py makes the same digests.
#pragma once

#include <string>

#include "compiler/synth/yosys.hpp"
#include "runtime/base/result.hpp"

namespace millrace::tools::calibrate {

/// kernels/rtl as it was when this program was built.
const compiler::synth::Sources& library();

/// The first digits of a digest of a text without comments, trailing blanks and empty lines.
std::string digest_of(const std::string& text);

/// The same for a module and all modules below it. Errors as sources_of().
Result<std::string> digest_of(const std::string& module, const compiler::synth::Sources& library);

}  // namespace millrace::tools::calibrate
