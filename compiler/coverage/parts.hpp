// Functions that several files of compiler/coverage use.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "compiler/coverage/coverage.hpp"
#include "compiler/graph/graph.hpp"

namespace millrace::compiler::coverage {

struct Work {
  std::uint64_t multiply_accumulates = 0, weights = 0;
};

/// Returns, by name of the ONNX node, the number of multiplications and weights of each convolution and matrix product.
std::map<std::string, Work> work_of(const graph::Graph& graph);

/// Returns advice on how to change the model so that hardware can compute the node or, if nothing can compute the node
/// yet, so that some device can. Empty if no change is needed or known. `assumed`: the model is a float model.
std::string advice(const NodeCoverage& node, bool assumed);

}  // namespace millrace::compiler::coverage
