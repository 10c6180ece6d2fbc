// However a program is cut, its parts, run one after another as the plan's channels join them, give the bytes
// the whole program gives.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

#include "compiler/emit/deployment.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/plan/image.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/seed.hpp"

namespace millrace::compiler::emit {
namespace {

using namespace runtime::plan;
using Buffer = std::vector<std::byte>;

Cluster meshed(std::uint32_t cards) {
  Cluster cluster;
  cluster.name = "mesh";
  cluster.emulated = true;
  Device device;
  device.name = "ku060";
  device.clock_mhz = 100;
  device.regions = {{"all", {}, {"DDR[0]"}, "device"}};
  device.memory = {{"DDR[0]", 1U << 20U, 1}};
  cluster.devices["ku060"] = device;
  for (std::uint32_t i = 0; i < cards; ++i) {
    cluster.cards.push_back({"fpga" + std::to_string(i), "ku060", ""});
    for (std::uint32_t k = 0; k < i; ++k) {
      Cable cable;
      cable.a = {cluster.cards[k].name, i - 1};
      cable.b = {cluster.cards[i].name, k};
      cable.gigabits_per_second = 10;
      cluster.cables.push_back(cable);
    }
  }
  return cluster;
}

Artifacts build(const kernels::Program& program, std::uint32_t cards) {
  const Cluster cluster = meshed(cards);
  const auto solution = explore::solve(explore::make_problem(program, cluster, cards));
  EXPECT_TRUE(solution.ok()) << solution.error().message();
  ModelInfo model;
  model.name = "net";
  const auto signature = [&](kernels::TensorIndex index) {
    const auto& tensor = program.tensors[index];
    return TensorSignature{tensor.name, "FP32", {tensor.shape.begin(), tensor.shape.end()}};
  };
  for (const auto index : program.inputs) model.inputs.push_back(signature(index));
  for (const auto index : program.outputs) model.outputs.push_back(signature(index));
  auto made = build_deployment(program, *solution, cluster, model);
  EXPECT_TRUE(made.ok()) << made.error().message();
  return std::move(made).value();
}

/// The deployment's partitions in the plan's order, joined by its channels.
Buffer run(const Artifacts& made, const Buffer& input) {
  std::map<std::string, kernels::Program> programs;
  for (const auto& [path, bytes] : made.files) {
    const auto view = parse_xclbin(bytes).value();
    const auto data = decode_emulation_data(view.find(kSectionEmulationData)->bytes).value();
    for (std::size_t i = 0; i < data.programs.size(); ++i)
      programs[data.record.partitions[i].name] = data.programs[i];
  }
  std::map<std::pair<std::string, std::string>, Buffer> sent{{{"", made.plan.model.inputs[0].name}, input}};
  const auto received = [&](const std::string& partition, const std::string& port) {
    for (const auto& channel : made.plan.channels)
      if (channel.consumer == PortRef{partition, port})
        return sent.at({channel.producer.partition, channel.producer.port});
    throw std::runtime_error("no channel to " + partition + "." + port);
  };
  for (const auto& partition : made.plan.partitions) {
    std::vector<Buffer> inputs;
    for (const auto& port : partition.inputs) inputs.push_back(received(partition.name, port.name));
    const bool host = partition.kind == PartitionKind::kHost;
    const auto outputs =
        kernels::reference::run(host ? partition.program : programs.at(partition.name), inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      sent[{partition.name, partition.outputs[i].name}] = outputs[i];
  }
  return received("", made.plan.model.outputs[0].name);
}

void expect_equal_on_cards(const kernels::Program& program, std::uint32_t most) {
  const unsigned seed = tests::chosen_seed();
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(-80, 80);
  for (int frame = 0; frame < 4; ++frame) {
    Buffer input(program.tensors[program.inputs[0]].storage_bytes());
    for (std::size_t i = 0; i < input.size(); i += sizeof(float)) {
      const float x = value(random);
      std::memcpy(input.data() + i, &x, sizeof x);
    }
    const Buffer whole = kernels::reference::run(program, {input})[0];
    for (std::uint32_t cards = 1; cards <= most; ++cards)
      EXPECT_EQ(run(build(program, cards), input), whole)
          << program.name << " on " << cards << " cards, MILLRACE_SEED=" << seed;
  }
}

TEST(PartsEqualWhole, OfAChain) {
  expect_equal_on_cards(tests::chain_program(5), 5);
}
TEST(PartsEqualWhole, OfAProgramWithASkipOverEveryCard) {
  expect_equal_on_cards(tests::skip_program(4), 4);
}
TEST(PartsEqualWhole, OfEveryOperation) {
  expect_equal_on_cards(tests::every_operation_program(), 2);
}

TEST(PartsEqualWhole, WhereTheHostComputesInTheMiddleAndOneImageHoldsTwoPartitions) {
  const auto program = tests::interrupted_program();
  const Artifacts made = build(program, 1);
  ASSERT_EQ(made.plan.images.size(), 1U);
  EXPECT_EQ(made.plan.images[0].partitions, (std::vector<std::string>{"part0", "part1"}));
  expect_equal_on_cards(program, 2);
}

}  // namespace
}  // namespace millrace::compiler::emit
