// Quantises a float model with calibration samples. The result is the same graph in QDQ form, and figures about how
// much accuracy each layer loses.
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

/// A declared number format: a signed integer q of `bits` bits means q / 2^fraction.
struct FixedPoint {
  int bits = 8, fraction = 7;
};

/// Parses a format such as "int8:7": 8 bits, 7 of them behind the binary point. Returns nothing for any other text.
std::optional<FixedPoint> fixed_point(const std::string& text);

struct Options {
  int weight_bits = 8;  // 8 or 4
  Method method = Method::kMinMax;
  double percent = 99.999;  // of Method::kPercentile
  bool equalise = false;
  bool correct_bias = true;
  std::vector<std::string> keep_float;  // nodes that stay float32
  std::vector<std::string> keep_8bit;   // layers with weights of 8 bits although weight_bits is 4
  /// The number format that the user declares, if any. The model's float weights and biases are then whole numbers in
  /// this format, and all activations get the same format. Nothing is calibrated in this case, and all other options
  /// except `keep_float` are ignored.
  std::optional<FixedPoint> declared;
};

inline constexpr int kFloatBits = 32;

/// A layer with weights, and what its quantisation cost. Lists of layers have the order of the model.
struct Layer {
  std::string name, type;     // of the ONNX node
  int bits = 8;               // of its weights; kFloatBits if it stays float
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

/// Quantises `graph`, an imported model with float layers. `calibration` must not be empty unless a format is declared.
/// kInvalidInput: a name in the options is no layer of the model, a sample has the wrong number of elements, or a value
/// becomes NaN or infinite. kUnsupported: the host cannot compute a node, no layer is left to quantise, or weights are
/// not whole numbers of the declared format.
Result<Quantised> quantise(graph::Graph graph, std::span<const Frame> calibration, const Options& options);

/// How closely a quantised model reproduces the float model, measured on samples that were not used for calibration.
struct Score {
  std::size_t frames = 0;
  std::size_t same = 0;  // frames whose largest element of the first output is the same
  bool labelled = false;
  std::size_t float_right = 0, quantised_right = 0;  // if labelled
  double sqnr_db = 0;                                // of the first output
};

/// Runs the float graph and the quantised graph on the same frames. `labels` has the index of each frame's correct
/// class, or is empty. The answer is the index of the largest element; if several are largest, the first of them.
Result<Score> score(const graph::Graph& floats, const graph::Graph& quantised, std::span<const Frame> frames,
                    std::span<const std::int64_t> labels);

}  // namespace millrace::compiler::quantize
