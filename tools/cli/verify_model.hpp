// The model a deployment's cards and host partitions make together, run by kernels/reference: what `verify`
// compares with.
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
#include "runtime/pipeline/images.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::cli {

using kernels::reference::Buffer;

/// Where two ways of computing a frame part: the first tensor, in the order of the partitions and blocks.
struct Difference {
  std::string partition, tensor, block;
  std::vector<std::string> nodes;  // ONNX nodes of the block
  std::uint64_t element = 0;
};

/// The tensor of the earliest block among those of `got` that differ from `wanted`, which holds all of them.
std::optional<Difference> earliest_difference(const std::string& partition, const kernels::Program& program,
                                              const std::map<kernels::TensorIndex, Buffer>& wanted,
                                              const std::map<kernels::TensorIndex, Buffer>& got);

/// How far a float output moves when the integers behind it move by one.
struct OutputStep {
  float scale = 1;       // of the DequantizeLinear behind it, the largest; 1 where the output is integers
  bool softmax = false;  // a Softmax follows it: the scale is that of the numbers it takes
};

class ReferenceModel {
 public:
  /// The programs of card partitions come from the images themselves (EMULATION_DATA). `deployment` must
  /// outlive this. kCorrupt, kUnsupported (an image of another vendor, without one; a channel that carries a
  /// slice).
  static Result<ReferenceModel> make(const runtime::plan::LoadedDeployment& deployment,
                                     const runtime::pipeline::Images& images);

  /// One frame, model.inputs to model.outputs.
  std::vector<Buffer> run(const std::vector<Buffer>& inputs) const;

  /// The first tensor that kernels/fast computes differently, each partition given the reference's inputs.
  std::optional<Difference> first_difference(const std::vector<Buffer>& inputs) const;

  /// Every tensor of every partition as DIR/<partition>/<number>_<tensor>.npy.
  Status dump(const std::vector<Buffer>& inputs, const std::filesystem::path& directory) const;

  /// What one step of output `index` is. Nothing for floats that do not come from one kind of step: an input
  /// handed through, a softmax of a softmax.
  std::optional<OutputStep> output_step(std::size_t index) const;

  using Key = std::pair<std::string, std::string>;  // partition, port; ("", tensor) for the model's own

  /// The model's inputs and what every output port of every partition gives for them.
  std::map<Key, Buffer> ports(const std::vector<Buffer>& inputs) const { return evaluate(inputs, {}); }

  /// Of a partition the deployment has.
  const kernels::Program& program(const std::string& partition) const;

 private:
  using Visit = std::function<void(std::size_t partition, const std::vector<Buffer>& inputs)>;

  std::map<Key, Buffer> evaluate(const std::vector<Buffer>& inputs, const Visit& visit) const;
  /// Of what a port, or an output of the model, takes.
  std::optional<OutputStep> step_behind(const Key& consumer) const;
  std::optional<OutputStep> step_of(std::size_t partition, kernels::TensorIndex tensor) const;

  const runtime::plan::Deployment* deployment_ = nullptr;
  std::vector<kernels::Program> programs_;  // by partition
  std::map<Key, Key> sources_;              // consumer -> producer
};

}  // namespace millrace::cli
