// Turns the plans of tests/unit/pipeline/plans.hpp into deployments whose FPGA images the real XRT library
// loads onto emulated cards.
#pragma once

#include <memory>

#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"
#include "tests/unit/pipeline/plans.hpp"

namespace millrace::tests {

/// Returns chain_cluster() with a device description and an additional cable from the last card to the first.
runtime::plan::Cluster emulated_ring(std::uint32_t cards);

/// Adds the FPGA images to the plan and returns the deployment, as if it had been read from a directory.
std::shared_ptr<const runtime::plan::LoadedDeployment> load_images(Plan plan);

/// The numbers of this process's open file descriptors, threads and child processes, to find leaks.
struct Belongings {
  std::size_t descriptors = 0, threads = 0, children = 0;
};
Belongings count_belongings();

}  // namespace millrace::tests
