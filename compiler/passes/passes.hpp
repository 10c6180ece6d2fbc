// The passes that turn an imported graph into integer arithmetic, in the order in which they run, and the step
// that makes a program of the result. Each pass is one free function.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "compiler/graph/graph.hpp"
#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::passes {

using graph::Graph;

/// A pass returns the changed graph, or one error that lists all nodes at fault.
struct Pass {
  const char* name;  // the function's name: "fold_constants"
  Result<Graph> (*run)(Graph);
  graph::Level gives;  // what the graph satisfies afterwards
};

/// The passes from level kImported to level kInteger.
std::span<const Pass> standard_passes();

/// Runs all passes and verifies the graph after each. Calls `after`, if given, with the graph after each pass.
Result<Graph> run_standard_passes(Graph graph,
                                  const std::function<void(const Pass&, const Graph&)>& after = {});

/// Makes the executable form of a whole model: `graph` is at Level::kInteger, each block of the result is one of
/// its operations, and host blocks are included. Inputs and outputs have the names of the ONNX graph and hold
/// their elements in the model's own order, without the batch axis. (If the dataflow has the same order, they
/// have its shape.) Block names are made of ONNX node names; they are valid file names and stable between
/// compilations. One error lists all operations that no block can compute (kUnsupported). The program passes
/// kernels::validate().
Result<kernels::Program> build_program(Graph graph);

enum class AssumedScales : std::uint8_t {
  kPerChannel,  // any number; weights have one per output channel
  kPowerOfTwo,  // one per tensor, so requantisation is a shift
};

/// The types that a float model is assumed to be quantised to: signed, 2 to 8 bits, zero points 0.
struct AssumedTypes {
  std::uint8_t weight_bits = 8, activation_bits = 8;
  AssumedScales scales = AssumedScales::kPerChannel;
};

/// Reads "int8" (weights and activations) or "w4a8" (weights 4 bits, activations 8). Either may end in "-pow2"
/// for scales that are powers of two. Empty for any other text.
std::optional<AssumedTypes> assumed_types(const std::string& text);

/// Adds quantisers to an imported float model where a quantising tool would put them. The result serves to plan
/// the model's structure. Its results are meaningless, so it must never be run.
Graph assume_quantised(Graph graph, const AssumedTypes& types);

}  // namespace millrace::compiler::passes
