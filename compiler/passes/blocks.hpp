// Turns one integer operation with its float32 reference into one block of kernels/program, whose requantisation
// is proved. Private to compiler/passes.
#pragma once

#include "compiler/graph/graph.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::passes {

/// Folds zero points into the weights [O][kh][kw][I / groups] and the bias. The accumulator is as narrow as the
/// weights allow.
Result<kernels::Convolution> make_convolution(const graph::Accumulate& a, graph::Type input,
                                              graph::Type output);

Result<kernels::SumPool> make_sum_pool(const graph::SumPool& s, graph::Type input, graph::Type output);

kernels::Window make_window(const graph::Geometry& g, std::int64_t pad_value);

/// Rescale, or Lookup if the chain (from integer to integer) is no step function.
Result<kernels::Operation> make_rescale(const graph::Chain& chain, graph::Type input, graph::Type output);

/// Uses multipliers if they give the right result for all pairs of operands, otherwise a table of all pairs.
Result<kernels::Add> make_add(const graph::Combine& c, graph::Type a, graph::Type b, graph::Type output);

}  // namespace millrace::compiler::passes
