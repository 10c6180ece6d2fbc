// From a lowered graph to the executable form of the whole model, host blocks included: one block a node.
#pragma once

#include "compiler/graph/graph.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// `graph` is at Level::kLowered. Inputs and outputs are named as the ONNX graph's and hold their elements in
/// the model's own order without the batch axis (where that order is also the dataflow's, in the dataflow's
/// shape). Block names come from ONNX node names, are valid file names and stable between compilations. The
/// program passes kernels::validate(); where it would not, the error is kInternal and says why.
Result<kernels::Program> build_program(const graph::Graph& graph);

}  // namespace millrace::compiler
