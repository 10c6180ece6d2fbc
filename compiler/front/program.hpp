// Makes the executable form of a whole model of its lowered graph: one block per node, host blocks included.
#pragma once

#include "compiler/graph/graph.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler {

/// `graph` is at Level::kLowered. Inputs and outputs have the names of the ONNX graph and hold their elements in
/// the model's own order, without the batch axis. (If the dataflow has the same order, they have its shape.) Block
/// names are made of ONNX node names; they are valid file names and stable between compilations. The program
/// passes kernels::validate(). If it does not, the error is kInternal and says why.
Result<kernels::Program> build_program(const graph::Graph& graph);

}  // namespace millrace::compiler
