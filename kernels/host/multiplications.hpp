// Counts the multiplications of operators of the host.
#pragma once

#include <cstdint>

#include "kernels/host/float_operator.hpp"

namespace millrace::kernels::host {

/// Returns the number of multiplications of a convolution or matrix product that passed check(); 0 for other operators.
std::uint64_t multiply_accumulates(const FloatOperator& op);

}  // namespace millrace::kernels::host
