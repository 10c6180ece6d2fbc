// Writes a deployment that needs no card: one host partition between an input "x" and one output.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/plan/deployment.hpp"
#include "runtime/plan/image.hpp"
#include "tests/unit/pipeline/plans.hpp"

namespace millrace::tests {

/// Writes a deployment whose output is the input plus `constant`. Throws std::runtime_error on failure.
inline void write_host_deployment(const std::filesystem::path& directory, int constant,
                                  const std::string& output = "y") {
  auto plan = PlanBuilder().input("x").host("h", {"x"}, constant).output(output, "h").build().deployment;
  for (auto& partition : plan.partitions)
    partition.program_digest = runtime::plan::program_digest(partition.program);
  using runtime::plan::Action;
  for (const auto& channel : plan.channels)
    for (const auto& [end, action] :
         {std::pair(channel.producer, Action::kSend), std::pair(channel.consumer, Action::kReceive)})
      if (!end.partition.empty())
        plan.communication.push_back(
            {"host", end.partition, end.port, {{action, channel.id, channel.frame_bytes}}});
  plan.digest = runtime::plan::compute_digest(plan);
  const auto written = runtime::plan::write_deployment(plan, directory, [](const auto&) { return Status(); });
  if (!written.ok()) throw std::runtime_error(written.error().message());
}

}  // namespace millrace::tests
