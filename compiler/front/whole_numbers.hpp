// FINN stores integers as floats: weights as whole numbers, and inputs whose integer type an annotation of the graph
// names. Private to compiler/front.
#pragma once

#include <map>
#include <string>

#include "compiler/graph/graph.hpp"

namespace millrace::compiler {

/// Converts whole numbers that a graph stores as floats to integers. In a graph with nodes of QONNX or FINN, constant
/// weights that are whole numbers become integers, each with a dequantiser of scale 1 behind it. If `types` gives an
/// integer type ("INT4", "UINT8", "BIPOLAR") for an input of the graph, the input gets a quantiser and a dequantiser.
/// An input that only quantisers read is left as it is.
void take_whole_numbers(graph::Graph& graph, graph::Names& names,
                        const std::map<std::string, std::string>& types);

}  // namespace millrace::compiler
