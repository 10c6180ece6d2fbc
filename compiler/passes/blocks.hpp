// One integer operation with its float32 reference -> one block of kernels/program whose requantisation is
// proved. Private to compiler/passes.
#pragma once

#include "compiler/graph/graph.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::passes {

kernels::ElementType element_type(graph::Type type);

/// Weights with zero points folded, in [O][kh][kw][I / groups]; the accumulator as narrow as these weights
/// allow.
Result<kernels::Convolution> make_convolution(const graph::Accumulate& a, graph::Type input,
                                              graph::Type output);

Result<kernels::SumPool> make_sum_pool(const graph::SumPool& s, graph::Type input, graph::Type output);

kernels::Window make_window(const graph::Geometry& g, std::int64_t pad_value);

/// Rescale, or Lookup where a step function does not do. `chain` is from integer to integer.
Result<kernels::Operation> make_rescale(const graph::Chain& chain, graph::Type input, graph::Type output);

/// Multipliers that hold for all pairs of operands, else the table of all pairs.
Result<kernels::Add> make_add(const graph::Combine& c, graph::Type a, graph::Type b, graph::Type output);

}  // namespace millrace::compiler::passes
