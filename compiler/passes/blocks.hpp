// Turns one integer operation with its float32 reference into one block of kernels/program, whose requantisation
// is proved. Private to compiler/passes.
#pragma once

#include "compiler/graph/graph.hpp"
#include "compiler/passes/layout.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::passes {

/// Folds zero points into weights and bias. Weight i of an output channel is weight `order[i]` of that channel in
/// `a`. The accumulator is as narrow as the weights allow.
Result<kernels::Convolution> make_convolution(const graph::Accumulate& a, const kernels::Window& window,
                                              const IndexMap& order, kernels::ElementType input,
                                              graph::Type output);

Result<kernels::SumPool> make_sum_pool(const graph::SumPool& s, kernels::ElementType input,
                                       graph::Type output);

/// Rescale, or Lookup if the chain (from integer to integer) is no step function.
Result<kernels::Operation> make_rescale(const graph::Chain& chain, kernels::ElementType input,
                                        graph::Type output);

/// Uses multipliers if they give the right result for all pairs of operands, otherwise a table of all pairs.
Result<kernels::Add> make_add(const graph::Combine& c, kernels::ElementType a, kernels::ElementType b,
                              graph::Type output);

}  // namespace millrace::compiler::passes
