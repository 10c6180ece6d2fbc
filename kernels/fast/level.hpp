// The kernels of a level.
#pragma once

#include "kernels/fast/executor.hpp"
#include "kernels/fast/kernels.hpp"

namespace millrace::kernels::fast {

/// The level's own where it is available, else baseline's.
const Kernels& kernels_of(SimdLevel level);

}  // namespace millrace::kernels::fast
