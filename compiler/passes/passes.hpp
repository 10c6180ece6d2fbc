// The passes that convert an imported graph to integer arithmetic, in the order in which they run, and the step that
// converts the result to a program. Each pass is one free function.
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
  graph::Level gives;  // the level of the graph after the pass
};

/// Returns the passes that take a graph from level kImported to level kInteger, in order.
std::span<const Pass> standard_passes();

/// Runs all passes and verifies the graph after each. Calls `after`, if given, with the graph after each pass. If nodes
/// are refused, calls `refused`, if given, with the graph that has them, and returns graph::refusal_error().
Result<Graph> run_standard_passes(Graph graph,
                                  const std::function<void(const Pass&, const Graph&)>& after = {},
                                  const std::function<void(const Graph&)>& refused = {});

/// Makes an executable program of a whole model, host blocks included. `graph` must be at Level::kInteger; each of its
/// operations becomes one block. The program's inputs and outputs have the names of the ONNX graph, and their elements
/// have the model's order, without the batch axis. If the dataflow uses the same order, their shape is the dataflow's.
/// Block names come from ONNX node names; they are valid file names and do not change between compilations. The program
/// passes kernels::validate().
///
/// kUnsupported: one error lists all operations that no block can compute. `notes`, if given, receives a note for each
/// node that the host computes because no hardware does. `refusals`, if given, receives the operations that the error
/// lists. In this case, an output that no block can produce is not an error: the program lacks the output, and the
/// refusal has no `sources`.
Result<kernels::Program> build_program(Graph graph, std::vector<graph::Diagnostic>* notes = nullptr,
                                       std::vector<graph::Refusal>* refusals = nullptr);

enum class AssumedScales : std::uint8_t {
  kPerChannel,  // scales are arbitrary numbers; weights have one scale for each output channel
  kPowerOfTwo,  // each tensor has one scale, a power of two, so requantisation is a shift
};

/// The types to which a float model is assumed to be quantised: signed, with 2 to 8 bits and zero points of 0.
struct AssumedTypes {
  std::uint8_t weight_bits = 8, activation_bits = 8;
  AssumedScales scales = AssumedScales::kPerChannel;
};

/// Parses "int8" (weights and activations of 8 bits) or "w4a8" (weights of 4 bits, activations of 8). The suffix
/// "-pow2" means scales that are powers of two. Returns nothing for any other text.
std::optional<AssumedTypes> assumed_types(const std::string& text);

/// Adds quantisers to an imported float model where a quantising tool would add them. The returned graph is good for
/// planning only. It must never be run, because the numbers that it computes are meaningless.
Graph assume_quantised(Graph graph, const AssumedTypes& types);

}  // namespace millrace::compiler::passes
