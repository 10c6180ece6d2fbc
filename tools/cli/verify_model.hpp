// Runs a whole deployment, card and host partitions alike, with kernels/reference. `verify` compares the
// cards' outputs with the result.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/program/program.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::cli {

using kernels::reference::Buffer;

/// The first tensor, in the order of partitions and blocks, that two computations of a frame give different
/// values for.
struct Difference {
  std::string partition, tensor, block;
  std::vector<std::string> nodes;  // the block's ONNX nodes
  std::uint64_t element = 0;
};

/// Finds the earliest block that has a tensor in `got` that differs from `wanted`. `wanted` must hold every
/// tensor of `got`.
std::optional<Difference> earliest_difference(const std::string& partition, const kernels::Program& program,
                                              const std::map<kernels::TensorIndex, Buffer>& wanted,
                                              const std::map<kernels::TensorIndex, Buffer>& got);

/// The change of an output when the integers that it is computed from change by one.
struct OutputStep {
  float scale = 1;       // the largest scale of the output's DequantizeLinear; 1 for an integer output
  bool softmax = false;  // a Softmax follows the DequantizeLinear; `scale` belongs to the Softmax's input
};

class ReferenceModel {
 public:
  /// Reads the programs of card partitions from the images' EMULATION_DATA. `deployment` must outlive this
  /// object. kCorrupt; kUnsupported if an image has no EMULATION_DATA or a channel carries a slice.
  static Result<ReferenceModel> make(const runtime::plan::LoadedDeployment& deployment);

  /// Computes the model's outputs for one frame of the model's inputs.
  std::vector<Buffer> run(const std::vector<Buffer>& inputs) const;

  /// The first tensor that kernels/fast computes differently if each partition gets the reference's inputs.
  std::optional<Difference> first_difference(const std::vector<Buffer>& inputs) const;

  /// Writes every tensor of every partition as DIR/<partition>/<number>_<tensor>.npy.
  Status dump(const std::vector<Buffer>& inputs, const std::filesystem::path& directory) const;

  /// The step of output `index`. Empty for a float output without a defined step, such as an input that is
  /// passed through, or a softmax of a softmax.
  std::optional<OutputStep> output_step(std::size_t index) const;

  using Key = std::pair<std::string, std::string>;  // partition, port; ("", tensor) for the model's own

  /// The values of the model's inputs and of every output port of every partition.
  std::map<Key, Buffer> ports(const std::vector<Buffer>& inputs) const { return evaluate(inputs, {}); }

  /// `partition` must be one of the deployment's.
  const kernels::Program& program(const std::string& partition) const;

 private:
  using Visit = std::function<void(std::size_t partition, const std::vector<Buffer>& inputs)>;

  std::map<Key, Buffer> evaluate(const std::vector<Buffer>& inputs, const Visit& visit) const;
  /// The step of the values that a port, or an output of the model, receives.
  std::optional<OutputStep> step_behind(const Key& consumer) const;
  std::optional<OutputStep> step_of(std::size_t partition, kernels::TensorIndex tensor) const;

  const runtime::plan::Deployment* deployment_ = nullptr;
  std::vector<kernels::Program> programs_;  // by partition
  std::map<Key, Key> sources_;              // consumer -> producer
};

}  // namespace millrace::cli
