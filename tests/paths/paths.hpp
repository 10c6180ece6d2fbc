// Where the checkout and the build are. Functions rather than macros: a test compiles to the same object in every
// checkout, so that ccache shares it.
#pragma once

namespace millrace::tests {

/// The root of the checkout, absolute; static storage.
const char* source_dir();

/// The root of the build folder, absolute; static storage. Programs are in bin/ and tests/ below it.
const char* binary_dir();

}  // namespace millrace::tests
