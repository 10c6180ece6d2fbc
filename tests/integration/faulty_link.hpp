// Computes a deployment partition by partition, as the cards would, but with one wrong byte in a tensor that passes
// between two partitions. Shows whether test data and weights keep their signal: if a wrong byte did not change any
// output, a test that compares outputs would not notice a faulty link.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "kernels/program/program.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::tests {

class FaultyLink {
 public:
  /// Reads a deployment. Throws std::runtime_error.
  explicit FaultyLink(const std::filesystem::path& deployment);

  /// Returns the ids of the channels from one partition to another. If `only_cables` is true, returns only channels
  /// that use a cable.
  std::vector<std::uint32_t> channels(bool only_cables) const;
  const std::string& name_of(std::uint32_t channel) const;

  /// Runs random frames. In each frame, changes one random byte of the packed tensor that the channel carries, after the
  /// sender has packed it and before the receiver unpacks it. Returns in how many of the frames an output of the model
  /// differs from that of the same frame without the fault.
  std::uint32_t frames_that_change(std::uint32_t channel, std::uint32_t frames, std::uint32_t seed) const;

 private:
  using Buffer = std::vector<std::byte>;
  struct Fault {
    std::uint32_t channel = 0;
    std::uint64_t byte = 0;
    std::byte flipped{};  // the bits that change; not 0
  };

  std::vector<Buffer> run(const std::vector<Buffer>& inputs, const Fault* fault) const;

  runtime::plan::LoadedDeployment deployment_;
  std::vector<kernels::Program> programs_;  // of the plan's partitions, in their order
};

}  // namespace millrace::tests
