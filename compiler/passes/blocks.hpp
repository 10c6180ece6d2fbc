// Converts one integer operation with its float32 reference into one block of kernels/program with a proved
// requantisation, and computes the order in which elements are stored. Private to compiler/passes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::passes {

// The functions that compute the order of elements are defined in layout.cpp.

/// map[i] is the index of the input element that becomes element i of the output.
using IndexMap = std::vector<std::uint32_t>;

IndexMap identity_map(std::int64_t elements);
bool is_identity_map(const IndexMap& map);
IndexMap inverse(const IndexMap& map);

/// Returns, for a Move (an operation that only reorders elements) on an input of this shape, which input element
/// becomes each output element. Elements are numbered row-major.
IndexMap move_map(const graph::Move& move, const graph::Shape& input);

/// Whether the shape is [1, C, H, W], of which dataflow_shape() makes [H, W, C]. All other shapes become [1, 1, N].
bool is_plane(const graph::Shape& shape);
graph::Shape dataflow_shape(const graph::Shape& shape);

/// Returns, for each position in the dataflow's layout, the row-major index that the element has in the ONNX shape.
IndexMap dataflow_map(const graph::Shape& shape);

/// Returns an error with the code kUnsupported.
Error unsupported(std::string message);

// The functions in host_blocks.cpp make blocks for the host.

/// A block of a sequence of host blocks. Each block reads the result of the preceding one.
struct HostBlock {
  const char* suffix = "";  // for the block's name
  kernels::Operation operation;
  kernels::ElementType type;  // of its result
};

/// Returns a chain of float32 and integer steps as blocks, on a tensor of this shape. If `last_axis` is set, the chain's
/// constants run along the tensor's last axis, otherwise along `axis`. `input` and `output` are the types of the chain's
/// first and last value. kUnsupported: the host does not compute some step.
Result<std::vector<HostBlock>> make_host_blocks(const graph::Chain& chain, const graph::Shape& shape,
                                                std::int64_t axis, bool last_axis, kernels::ElementType input,
                                                graph::Type output);

/// Returns max pooling on floats [1, C, H, W] as an operator of the host.
kernels::FloatOperator make_host_max_pool(const kernels::Window& window, const graph::Shape& input,
                                          const graph::Shape& output);

/// Returns an operator of the host on tensors of these shapes.
kernels::FloatOperator make_host_operator(const char* type, const std::vector<graph::Shape>& inputs,
                                          const graph::Shape& output);

// The functions that make blocks for hardware are in blocks.cpp and add_block.cpp.

/// Converts `a` to a convolution, with the zero points of `a` folded into weights and bias. Weight i of an output
/// channel is weight `order[i]` of this channel in `a`. The accumulator is as narrow as the weights allow.
Result<kernels::Convolution> make_convolution(const graph::Accumulate& a, const kernels::Window& window,
                                              const IndexMap& order, kernels::ElementType input,
                                              graph::Type output);

Result<kernels::SumPool> make_sum_pool(const graph::SumPool& s, kernels::ElementType input,
                                       graph::Type output);

/// Converts a chain of element-wise functions from integer to integer to a Rescale, or to a Lookup if the chain is not
/// a step function.
Result<kernels::Operation> make_rescale(const graph::Chain& chain, kernels::ElementType input,
                                        graph::Type output);

/// Computes the result of a Combine for one pair of its operands' integers.
using PairFunction = std::function<std::int64_t(std::int64_t, std::int64_t)>;

/// Returns the function that `c` computes from its two operands. The second operand has type `b`. `c` must live as long
/// as the function.
PairFunction pair_function(const graph::Combine& c, kernels::ElementType b);

/// Makes an Add with multipliers if their result is right for all pairs of operands, otherwise with a table of results.
Result<kernels::Add> make_add(const graph::Combine& c, kernels::ElementType a, kernels::ElementType b,
                              graph::Type output);

}  // namespace millrace::compiler::passes
