// The SystemVerilog a measurement was made with: committed rows carry its digest, and tests say which rows
// are of another. tools/calibrate/sources.py makes the same digests.
#pragma once

#include <map>
#include <string>

#include "runtime/base/result.hpp"

namespace millrace::compiler::synth {

/// File name -> text, as "mr_mvu.sv".
using Sources = std::map<std::string, std::string>;

/// kernels/rtl as this program was built with it.
const Sources& library();

/// Of `library`, what `module` needs of it, itself included. kInvalidInput where it or a module below is
/// missing.
Result<Sources> sources_of(const std::string& module, const Sources& library);

/// The beginning of a digest of what a text says: comments, trailing blanks and empty lines count nothing.
std::string digest_of(const std::string& text);

/// The same of a module with all below it. Errors as sources_of().
Result<std::string> digest_of(const std::string& module, const Sources& library);

}  // namespace millrace::compiler::synth
