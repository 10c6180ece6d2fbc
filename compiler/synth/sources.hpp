// Digests of the SystemVerilog that a measurement was made with. Committed rows carry them, so tests find
// rows of older sources. tools/calibrate/sources.py makes the same digests.
#pragma once

#include <map>
#include <string>

#include "runtime/base/result.hpp"

namespace millrace::compiler::synth {

/// File name -> text, as "mr_mvu.sv".
using Sources = std::map<std::string, std::string>;

/// kernels/rtl as it was when this program was built.
const Sources& library();

/// The files of `library` that `module` consists of. kInvalidInput if one is missing.
Result<Sources> sources_of(const std::string& module, const Sources& library);

/// The first digits of a digest of a text without comments, trailing blanks and empty lines.
std::string digest_of(const std::string& text);

/// The same for a module and all modules below it. Errors as sources_of().
Result<std::string> digest_of(const std::string& module, const Sources& library);

}  // namespace millrace::compiler::synth
