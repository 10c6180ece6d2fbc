// Digests of the SystemVerilog that a measurement was made with. Committed measurements include these digests, so
// tests detect measurements of older sources. tools/calibrate/sources.py computes the same digests.
#pragma once

#include <string>

#include "compiler/synth/yosys.hpp"
#include "runtime/base/result.hpp"

namespace millrace::tools::calibrate {

/// Returns the files of kernels/rtl as they were when this program was built.
const compiler::synth::Sources& library();

/// Returns the first digits of the digest of a text, ignoring comments, trailing blanks and empty lines.
std::string digest_of(const std::string& text);

/// Returns the digest of a module and all modules that it instantiates. Fails like sources_of().
Result<std::string> digest_of(const std::string& module, const compiler::synth::Sources& library);

}  // namespace millrace::tools::calibrate
