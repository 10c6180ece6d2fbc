// The paths of the checkout and of the build. They are functions rather than macros, so that a test compiles
// to the same object in every checkout and ccache can share it.
#pragma once

namespace millrace::tests {

/// The absolute path of the checkout's root, in static storage.
const char* source_dir();

/// The absolute path of the build folder's root, in static storage. Programs are in its bin/ and tests/.
const char* binary_dir();

}  // namespace millrace::tests
