// Functions that return the paths of the checkout and of the build. With macros instead, a test would compile to a
// different object in every checkout, and ccache could not share it.
#pragma once

namespace millrace::tests {

/// Returns the absolute path of the checkout's root. The string is in static storage.
const char* source_dir();

/// Returns the absolute path of the build folder, with programs in bin/ and tests/. The string is in static storage.
const char* binary_dir();

}  // namespace millrace::tests
