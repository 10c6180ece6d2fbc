// Quantises a float model with calibration samples: the result is the same graph in QDQ form, and what each layer loses.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/quantize/evaluate.hpp"
#include "compiler/quantize/statistics.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::quantize {

/// A declared number format: integers of `bits` bits with a sign, each of which means itself over 2^fraction.
struct FixedPoint {
  int bits = 8, fraction = 7;
};

/// Parses "int8:7" (8 bits, of which 7 are behind the point). Returns nothing for any other text.
std::optional<FixedPoint> fixed_point(const std::string& text);

struct Options {
  int weight_bits = 8;  // 8 or 4
  Method method = Method::kMinMax;
  double percent = 99.999;  // of Method::kPercentile
  bool equalise = false;
  bool correct_bias = true;
  std::vector<std::string> keep_float;  // nodes that stay float32
  std::vector<std::string> keep_8bit;   // layers with weights of 8 bits although weight_bits is 4
  /// If set, the model's float weights and biases are whole numbers in this format, and all activations get it too. Nothing
  /// is calibrated then, and no other option counts but keep_float.
  std::optional<FixedPoint> declared;
};

/// A layer with weights, in the order of the model.
struct Layer {
  std::string name, type;     // of the ONNX node
  int bits = 8;               // of its weights; 32 if it stays float
  std::uint64_t weights = 0;  // how many
  std::string why;            // why it has more bits than asked for; empty if it has not
  double sqnr_db =
      0;  // of its result, with all layers before it quantised too; infinite if equal, NaN if not measured
};

struct Quantised {
  graph::Graph graph;  // at Level::kImported
  graph::Graph
      floats;  // the float graph that `graph` stands for: as given or, if a format was declared, what that means
  std::vector<Layer> layers;
  double sqnr_db = 0;                 // of the first output
  std::vector<std::string> notes;     // for the model's owner
  std::uint64_t float_bytes() const;  // of all weights
  std::uint64_t bytes() const;        // of all weights as quantised
};

/// Quantises `graph`, an imported model with float layers. `calibration` must not be empty unless a format is declared. Errors: kInvalidInput if a
/// name in the options is no layer of the model, a sample has the wrong number of elements, or a value becomes NaN or
/// infinite; kUnsupported if the host cannot compute a node, if no layer is left to quantise, or if weights are not whole numbers of the declared
/// format.
Result<Quantised> quantise(graph::Graph graph, std::span<const Frame> calibration, const Options& options);

/// How well a quantised model does what the float model does, on samples that did not calibrate it.
struct Score {
  std::size_t frames = 0;
  std::size_t same = 0;  // frames whose largest element of the first output is the same
  bool labelled = false;
  std::size_t float_right = 0, quantised_right = 0;  // if labelled
  double sqnr_db = 0;                                // of the first output
};

/// Runs the float graph and the quantised graph on the same frames. `labels`: the index of the right class of each frame,
/// or empty. Of equal elements the first counts as the largest.
Result<Score> score(const graph::Graph& floats, const graph::Graph& quantised, std::span<const Frame> frames,
                    std::span<const std::int64_t> labels);

}  // namespace millrace::compiler::quantize
