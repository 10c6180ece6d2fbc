// Computes an imported graph in float32, quantisers included, one frame at a time. Private to compiler/quantize and its
// tests.
#pragma once

#include <memory>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "runtime/base/result.hpp"

namespace millrace::compiler::quantize {

/// The elements of each model input, in the order of Graph::inputs, row-major. Integer elements are stored as whole
/// floats.
using Frame = std::vector<std::vector<float>>;

class Evaluator {
 public:
  /// Prepares a graph at Level::kImported; `graph` is not needed afterwards. Values that depend only on constants are
  /// computed here once. kUnsupported: the error lists at most ten nodes that the host cannot compute, with their
  /// reasons.
  static Result<Evaluator> make(const graph::Graph& graph);
  ~Evaluator();
  Evaluator(Evaluator&&) noexcept;
  Evaluator& operator=(Evaluator&&) noexcept;

  /// Computes all values of one frame. The elements of `frame` must have the shapes of the graph's inputs. Quantisers
  /// round as the ONNX file says; the operators between them compute in float32.
  void run(const Frame& frame);

  /// The elements of a value after run(), or of a constant. Integers are stored as floats.
  const std::vector<float>& value(graph::ValueId id) const;

 private:
  struct Impl;
  explicit Evaluator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::compiler::quantize
