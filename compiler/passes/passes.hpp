// From an imported graph to blocks: the passes, in the order in which they run. One pass, one file, one free
// function.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "compiler/graph/graph.hpp"
#include "compiler/graph/verify.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::passes {

using graph::Graph;

/// A pass takes a graph and gives the changed one, or an error the model's owner can act on (all of its kind
/// at once).
struct Pass {
  const char* name;  // the function's name: "fold_constants"
  Result<Graph> (*run)(Graph);
  graph::Level gives;  // what the graph satisfies afterwards
};

/// Imported -> lowered. Constant for the life of the program.
std::span<const Pass> standard_passes();

/// Runs all of them, verifying after each; `after`, where given, sees the graph after each pass.
Result<Graph> run_standard_passes(Graph graph,
                                  const std::function<void(const Pass&, const Graph&)>& after = {});

enum class AssumedScales : std::uint8_t {
  kPerChannel,  // any number; of weights one for each output channel
  kPowerOfTwo,  // one for each tensor: requantisation is a shift
};

/// What a float model is taken to be quantised to: widths of 2 to 8 bits, signed, zero points of 0.
struct AssumedTypes {
  std::uint8_t weight_bits = 8, activation_bits = 8;
  AssumedScales scales = AssumedScales::kPerChannel;
};

/// "int8", "int4" (both), "w4a8" (weights, activations), each with "-pow2" behind it for scales that are
/// powers of two; nothing for anything else.
std::optional<AssumedTypes> assumed_types(const std::string& text);

/// An imported float model with quantisers where a quantising tool would put them, to be planned on its
/// structure. Its results mean nothing: never to be run.
Graph assume_quantised(Graph graph, const AssumedTypes& types);

}  // namespace millrace::compiler::passes
