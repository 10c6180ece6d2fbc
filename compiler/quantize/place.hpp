// Puts quantisers into a prepared float graph. Private to compiler/quantize and its tests.
#pragma once

#include <map>
#include <set>
#include <string>

#include "compiler/graph/graph.hpp"
#include "compiler/quantize/compensate.hpp"
#include "compiler/quantize/prepare.hpp"
#include "compiler/quantize/quantize.hpp"
#include "compiler/quantize/statistics.hpp"

namespace millrace::compiler::quantize {

/// What place_quantisers() is told.
struct Placement {
  const Statistics* statistics = nullptr;  // of the same graph; empty if the options declare a format
  const Options* options = nullptr;
  std::map<std::string, int> bits;  // of the weights of each product, by node; 32: the node stays float
  std::set<std::string> keep_float;
  std::map<std::string, InputMoments> moments;  // of layers whose rounding minds their inputs
};

/// The value that carries a layer's result, in the float graph and in the quantised one. It stands behind what is computed
/// together with the layer.
struct LayerResult {
  graph::ValueId floats = graph::kNoValue, quantised = graph::kNoValue;
};

struct Placed {
  graph::Graph graph;
  std::map<std::string, LayerResult> results;  // by the name of the layer's node
};

/// Returns the graph with quantisers where hardware computes with integers: around the sums, additions and pools, behind
/// the activation that follows. A value that only moves keeps its scale. Values of the old graph keep their ids. Weights
/// have one scale for each output channel and no zero point. Values that are never negative are uint8 with the zero point
/// 0, others int8. Biases are int32, corrected for the mean error of the weights if the options say so.
Placed place_quantisers(graph::Graph graph, const Placement& placement);

}  // namespace millrace::compiler::quantize
