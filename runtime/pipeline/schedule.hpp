// The host's work for one frame, derived once from a plan: host stages, ingress units with their inputs,
// egress units with their results, and the dependencies between them. The work is a graph with forks and
// joins; host stages may be before, between and after the cards.
//
// A value is a tensor in host memory. Values known when a frame is submitted are early: the model's inputs, and what
// host stages compute from early values alone. All other values are late: they come from egress units, or from host
// stages that read late values. A task that reads late values runs when the last of them has arrived.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"
#include "runtime/plan/image.hpp"

namespace millrace::runtime::pipeline {

struct Schedule {
  struct HostStage {
    std::uint32_t partition = 0;                 // index into deployment.partitions
    std::vector<std::uint32_t> inputs, outputs;  // indices of values, in the program's order
  };
  struct Ingress {
    std::uint32_t endpoint = 0;  // index into deployment.endpoints
    std::string unit;
    std::uint64_t bytes = 0;
    std::uint32_t value = 0;
  };
  struct Egress {
    std::uint32_t endpoint = 0;
    std::string unit;
    std::uint64_t bytes = 0;
    std::optional<std::uint32_t> value;  // nothing: drop the bytes, which another unit also sends
    plan::PortRef port;                  // the output port whose tensor the unit sends
  };
  enum class TaskKind : std::uint8_t { kStage, kIngress, kFinish };
  struct Task {
    TaskKind kind = TaskKind::kFinish;
    std::uint32_t index = 0;  // index into stages or ingresses
    std::uint32_t waits = 0;  // number of late values that the task reads; 0 for early tasks
  };

  std::vector<std::uint64_t> value_bytes;  // indexed by value; the model's inputs come first, in order
  std::vector<HostStage> stages;
  std::vector<Ingress> ingresses;
  std::vector<Egress> egresses;      // in topological order
  std::vector<Task> tasks;           // the last is kFinish: the model's outputs are complete
  std::vector<std::uint32_t> early;  // tasks to do when a frame is submitted: stages in order, then ingresses
  std::vector<std::vector<std::uint32_t>> readers;  // indexed by value: late tasks that read the value
  std::vector<std::uint32_t> outputs;               // the values that are the model's outputs, in order
  std::vector<std::uint32_t> kept_inputs;           // model inputs that a late task reads
};

/// Derives the schedule. The plan and the records (descriptions of the FPGA images) are those of a LoadedDeployment.
/// Returns kInvalidInput, naming a partition and port that contradict each other, and kUnsupported for host channels
/// with a slice and plans without a card.
Result<Schedule> derive_schedule(const plan::Deployment& deployment,
                                 const std::map<std::string, plan::ImageRecord>& records);

}  // namespace millrace::runtime::pipeline
