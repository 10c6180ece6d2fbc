// Hand-made plans (tests/unit/pipeline/plans.hpp) as deployments whose images the real XRT library loads onto
// emulated cards.
#pragma once

#include <memory>

#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"
#include "tests/unit/pipeline/plans.hpp"

namespace millrace::tests {

/// chain_cluster() with a device description, and a cable from the last card to the first.
runtime::plan::Cluster emulated_ring(std::uint32_t cards);

/// The plan with its images, as if it had been read from a directory.
std::shared_ptr<const runtime::plan::LoadedDeployment> load_images(Plan plan);

/// The numbers of descriptors, threads and child processes of this process.
struct Belongings {
  std::size_t descriptors = 0, threads = 0, children = 0;
};
Belongings count_belongings();

}  // namespace millrace::tests
