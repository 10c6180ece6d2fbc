// Finds the kernels of a level.
#pragma once

#include "kernels/fast/executor.hpp"
#include "kernels/fast/kernels.hpp"

namespace millrace::kernels::fast {

/// The kernels of `level` if this CPU can run them, otherwise the baseline kernels.
const Kernels& kernels_of(SimdLevel level);

}  // namespace millrace::kernels::fast
