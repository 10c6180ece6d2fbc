#include "tests/integration/real_plans.hpp"

#include <fstream>
#include <stdexcept>

#include "compiler/emit/container.hpp"
#include "runtime/plan/image.hpp"

namespace millrace::tests {

namespace plan = runtime::plan;
namespace fs = std::filesystem;

namespace {

plan::Device device_of_tests() {
  plan::Device device;
  device.name = "test";
  device.part = "xcku060";
  device.family = "xcku";
  device.clock_mhz = 156.25;
  device.regions.push_back({"all", {}, {"DDR[0]"}, "device"});
  device.memory = {{"DDR[0]", 64U << 20U, 19'200'000'000}};
  device.connectors = 4;
  return device;
}

}  // namespace

plan::Cluster emulated_ring(std::uint32_t cards) {
  plan::Cluster cluster = chain_cluster(cards);
  cluster.devices["test"] = device_of_tests();
  if (cards > 2) add_cable(cluster, cluster.cards.back().name, cluster.cards.front().name);
  return cluster;
}

std::shared_ptr<const plan::LoadedDeployment> load_images(Plan made) {
  auto loaded = std::make_shared<plan::LoadedDeployment>();
  loaded->plan = std::move(made.deployment);
  for (plan::Image& image : loaded->plan.images) {
    plan::EmulationData data;
    data.record = made.records.at(image.name);
    data.record.clock_mhz = 156.25;
    for (plan::ImagePartition& partition : data.record.partitions) {
      partition.region = "all";
      data.programs.push_back(made.programs.at(partition.name));
      partition.program_digest = plan::program_digest(data.programs.back());
    }
    data.record.content_digest = plan::compute_content_digest(data.record);
    auto bytes = compiler::emit::write_container(data, device_of_tests());
    if (!bytes.ok()) throw std::runtime_error(bytes.error().message());
    image.content_digest = data.record.content_digest;
    image.uuid = plan::uuid_from_digest(image.content_digest);  // a card reports its FPGA image by this UUID
    loaded->images[image.name] = std::move(*bytes);
    loaded->records[image.name] = std::move(data.record);
  }
  return loaded;
}

Belongings count_belongings() {
  const auto entries = [](const fs::path& directory) {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(directory), fs::directory_iterator()));
  };
  Belongings belongings;
  belongings.descriptors = entries("/proc/self/fd");
  belongings.threads = entries("/proc/self/task");
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    std::ifstream children(task.path() / "children");
    for (int child; children >> child;) ++belongings.children;
  }
  return belongings;
}

}  // namespace millrace::tests
