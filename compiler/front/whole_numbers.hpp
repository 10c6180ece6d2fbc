// FINN stores integers as floats: weights as whole numbers, and inputs whose integer type an annotation of the graph
// names. Private to compiler/front.
#pragma once

#include <map>
#include <string>

#include "compiler/graph/graph.hpp"

namespace millrace::compiler {

/// Puts a dequantiser with scale 1 behind constant float weights that are whole numbers, which thus become integers, if
/// the graph contains nodes of QONNX or FINN. Puts a quantiser and a dequantiser behind an input of the graph that has
/// an integer type in `types` ("INT4", "UINT8", "BIPOLAR"), unless only quantisers read the input.
void take_whole_numbers(graph::Graph& graph, graph::Names& names,
                        const std::map<std::string, std::string>& types);

}  // namespace millrace::compiler
