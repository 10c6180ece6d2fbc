// Runs a whole deployment, its card partitions and its host partitions, with kernels/reference. `verify`
// compares the cards' outputs with this reference.
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

/// The first tensor, in the order of partitions and blocks, whose values differ between two computations of a frame.
struct Difference {
  std::string partition, tensor, block;
  std::vector<std::string> nodes;  // the block's ONNX nodes
  std::uint64_t element = 0;
};

/// Finds the first tensor in `got`, in the order of the program's blocks, that differs from `wanted`.
/// `wanted` must contain every tensor of `got`.
std::optional<Difference> earliest_difference(const std::string& partition, const kernels::Program& program,
                                              const std::map<kernels::TensorIndex, Buffer>& wanted,
                                              const std::map<kernels::TensorIndex, Buffer>& got);

/// The amount by which a model's output changes if the integers from which it is computed change by one.
struct OutputStep {
  float scale = 1;       // the largest scale of the output's DequantizeLinear; 1 for an integer output
  bool softmax = false;  // a Softmax follows the DequantizeLinear; `scale` belongs to the Softmax's input
};

class ReferenceModel {
 public:
  /// Reads the programs of card partitions from the section EMULATION_DATA of the FPGA images. `deployment`
  /// must outlive this object. Loads the libraries of plugins from the machine's cache. Returns kCorrupt if an FPGA
  /// image is damaged, and kUnsupported if an image has no EMULATION_DATA or a channel between partitions carries only
  /// a slice of a tensor. `load` loads the plugins of each program.
  static Result<ReferenceModel> make(const runtime::plan::LoadedDeployment& deployment,
                                     const std::function<Status(kernels::Program&)>& load);

  /// Computes the model's outputs for one frame of the model's inputs.
  std::vector<Buffer> run(const std::vector<Buffer>& inputs) const;

  /// Finds the first tensor for which kernels/fast and kernels/reference compute different values when each
  /// partition receives the reference's inputs.
  std::optional<Difference> first_difference(const std::vector<Buffer>& inputs) const;

  /// Writes every tensor of every partition as DIR/<partition>/<number>_<tensor>.npy.
  Status dump(const std::vector<Buffer>& inputs, const std::filesystem::path& directory) const;

  /// Returns the quantisation step of output `index`, in which differences are counted. Returns nothing if the values of
  /// a float output are not multiples of one step, such as those of an input that is passed through.
  std::optional<OutputStep> output_step(std::size_t index) const;

  using Key = std::pair<std::string, std::string>;  // (partition, port), or ("", tensor) of the model

  /// The values of the model's inputs and of every output port of every partition.
  std::map<Key, Buffer> ports(const std::vector<Buffer>& inputs) const { return evaluate(inputs, {}); }

  const kernels::Program& program(const std::string& partition) const;

 private:
  using Visit = std::function<void(std::size_t partition, const std::vector<Buffer>& inputs)>;

  std::map<Key, Buffer> evaluate(const std::vector<Buffer>& inputs, const Visit& visit) const;
  /// The step of the values that a partition's input port or a model's output receives.
  std::optional<OutputStep> step_behind(const Key& consumer) const;
  std::optional<OutputStep> step_of(std::size_t partition, kernels::TensorIndex tensor) const;

  const runtime::plan::Deployment* deployment_ = nullptr;
  std::vector<kernels::Program> programs_;  // in the order of the deployment's partitions
  std::map<Key, Key> sources_;              // consumer -> producer
};

}  // namespace millrace::cli
