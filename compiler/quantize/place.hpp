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

/// The value that holds a layer's result, in the float graph and in the quantised graph. If activations are computed
/// together with the layer, this is the value behind them.
struct LayerResult {
  graph::ValueId floats = graph::kNoValue, quantised = graph::kNoValue;
};

struct Placed {
  graph::Graph graph;
  std::map<std::string, LayerResult> results;  // by the name of the layer's node
};

/// Returns the graph with quantisers around all operators that hardware computes with integers: sums, additions and
/// pools. An activation behind such an operator is computed together with it, so the quantiser stands behind the
/// activation. Operators that only move elements keep the scale of their input. Values of the old graph keep their ids.
///
/// Quantised weights have one scale for each output channel and no zero point. Values that are never negative become
/// uint8 with zero point 0, all others int8. Biases become int32; if the options say so, they are corrected for the
/// mean error that the weights' rounding causes.
Placed place_quantisers(graph::Graph graph, const Placement& placement);

}  // namespace millrace::compiler::quantize
