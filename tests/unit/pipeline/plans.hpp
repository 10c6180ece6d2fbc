// Builds small plans for tests of pipelines with fake cards. Every tensor is a vector of int16, and every partition
// computes out = in0 (+ in1) + constant.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"
#include "runtime/plan/image.hpp"

namespace millrace::tests {

struct Plan {
  runtime::plan::Deployment deployment;
  std::map<std::string, runtime::plan::ImageRecord> records;
  std::map<std::string, kernels::Program> programs;  // by the partition's name
};

class PlanBuilder {
 public:
  static constexpr std::uint32_t kElements = 8;

  PlanBuilder& input(const std::string& name);
  /// Adds a partition on the host or, with card(), on a card. `from` names one or two partitions or model inputs.
  PlanBuilder& host(const std::string& name, const std::vector<std::string>& from, int constant);
  PlanBuilder& card(const std::string& name, const std::vector<std::string>& from, int constant,
                    const std::string& endpoint = {});
  PlanBuilder& output(const std::string& name, const std::string& from);

  /// Adds the records (descriptions) of the FPGA images and returns the plan. Call it only once.
  Plan build();

 private:
  void partition(const std::string& name, const std::vector<std::string>& from, int constant, bool on_host,
                 const std::string& endpoint);
  void connect(const std::string& from, const runtime::plan::PortRef& to);
  bool on_card(const std::string& partition) const;
  const std::string& endpoint_of(const std::string& partition) const;

  Plan plan_;
};

/// Returns a cluster with a chain of equal cards "fpga0", "fpga1", …, with a cable from each card to the next.
runtime::plan::Cluster chain_cluster(std::uint32_t cards, const std::string& device = "test");

/// Adds a cable between two cards, on connectors that are still free.
void add_cable(runtime::plan::Cluster& cluster, const std::string& a, const std::string& b);

}  // namespace millrace::tests
