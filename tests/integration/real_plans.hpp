// Hand-made plans (tests/unit/pipeline/plans.hpp) as deployments whose images the real XRT library loads onto
// emulated cards.
#pragma once

#include <filesystem>
#include <memory>

#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"
#include "tests/unit/pipeline/plans.hpp"

namespace millrace::tests {

/// chain_cluster() with a device description, and a cable from the last card to the first.
runtime::plan::Cluster emulated_ring(std::uint32_t cards);

/// Writes the plan's images below `directory`.
std::shared_ptr<const runtime::plan::LoadedDeployment> write_images(Plan plan,
                                                                    const std::filesystem::path& directory);

/// The numbers of descriptors, threads and child processes of this process.
struct Belongings {
  std::size_t descriptors = 0, threads = 0, children = 0;
};
Belongings count_belongings();

}  // namespace millrace::tests
