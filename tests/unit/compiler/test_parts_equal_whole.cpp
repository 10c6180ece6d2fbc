// Tests that a program gives the same bytes whole and in parts, however it is cut. The parts run one after another and
// exchange data as the plan's channels say. Also tests the programs that other tests run on cards: a wrong byte on a
// link, or a part of another version on a card, must change the output. Otherwise those tests would prove nothing.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <random>

#include "compiler/emit/deployment.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/plan/image.hpp"
#include "tests/shortcuts/cuts.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/seed.hpp"

namespace millrace::compiler::emit::test_parts_equal_whole {
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
  const auto solution = millrace::tests::cut_by_work(explore::make_problem(program, cluster, cards));
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

using Parts = std::map<std::string, kernels::Program>;

/// Returns the program of each card partition, by the partition's name.
Parts card_parts(const Artifacts& made) {
  Parts parts;
  for (const auto& [path, bytes] : made.files) {
    const auto view = parse_xclbin(bytes).value();
    const auto data = decode_emulation_data(view.find(kSectionEmulationData)->bytes).value();
    for (std::size_t i = 0; i < data.programs.size(); ++i)
      parts[data.record.partitions[i].name] = data.programs[i];
  }
  return parts;
}

/// A function that receives the bytes that a channel transports, and may change them.
using Tap = std::function<void(const Channel&, Buffer&)>;

/// Runs the deployment's partitions in the plan's order, copies data along the plan's channels, and returns the output.
Buffer run(const Artifacts& made, const Parts& parts, const Buffer& input, const Tap& tap = {}) {
  std::map<std::pair<std::string, std::string>, Buffer> sent{{{"", made.plan.model.inputs[0].name}, input}};
  const auto received = [&](const std::string& partition, const std::string& port) {
    for (const auto& channel : made.plan.channels) {
      if (!(channel.consumer == PortRef{partition, port})) continue;
      Buffer bytes = sent.at({channel.producer.partition, channel.producer.port});
      if (tap) tap(channel, bytes);
      return bytes;
    }
    throw std::runtime_error("no channel to " + partition + "." + port);
  };
  for (const auto& partition : made.plan.partitions) {
    std::vector<Buffer> inputs;
    for (const auto& port : partition.inputs) inputs.push_back(received(partition.name, port.name));
    const bool host = partition.kind == PartitionKind::kHost;
    const auto outputs = kernels::reference::run(host ? partition.program : parts.at(partition.name), inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      sent[{partition.name, partition.outputs[i].name}] = outputs[i];
  }
  return received("", made.plan.model.outputs[0].name);
}

Buffer random_frame(const kernels::Program& program, std::mt19937& random) {
  std::uniform_real_distribution<float> value(-80, 80);
  Buffer frame(program.tensors[program.inputs[0]].storage_bytes());
  for (std::size_t i = 0; i < frame.size(); i += sizeof(float)) {
    const float x = value(random);
    std::memcpy(frame.data() + i, &x, sizeof x);
  }
  return frame;
}

void expect_equal_on_cards(const kernels::Program& program, std::uint32_t most) {
  const unsigned seed = tests::chosen_seed();
  std::mt19937 random(seed);
  for (int frame = 0; frame < 4; ++frame) {
    const Buffer input = random_frame(program, random);
    const Buffer whole = kernels::reference::run(program, {input})[0];
    for (std::uint32_t cards = 1; cards <= most; ++cards) {
      const Artifacts made = build(program, cards);
      EXPECT_EQ(run(made, card_parts(made), input), whole)
          << program.name << " on " << cards << " cards, MILLRACE_SEED=" << seed;
    }
  }
}

constexpr int kTrials = 100, kSeen = 95;

/// Runs the program on `cards` cards. For every link, runs many frames and flips the lowest bit of a random byte of
/// each frame on the link. Expects that the output nearly always changes.
void expect_a_wrong_byte_to_show(const kernels::Program& program, std::uint32_t cards) {
  const unsigned seed = tests::chosen_seed();
  std::mt19937 random(seed);
  const Artifacts made = build(program, cards);
  const Parts parts = card_parts(made);
  std::size_t links = 0;
  for (const Channel& link : made.plan.channels) {
    if (link.transport == Transport::kHost) continue;
    ++links;
    int seen = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      const Buffer input = random_frame(program, random);
      const auto flip = [&](const Channel& channel, Buffer& bytes) {
        if (channel.id == link.id) bytes[random() % bytes.size()] ^= std::byte{1};
      };
      seen += run(made, parts, input, flip) != run(made, parts, input) ? 1 : 0;
    }
    EXPECT_GE(seen, kSeen) << program.name << " on " << cards << " cards: of " << kTrials
                           << " wrong bytes on the link from " << link.producer.partition << " to "
                           << link.consumer.partition << " so many show; MILLRACE_SEED=" << seed;
  }
  EXPECT_GE(links, cards - 1);
}

/// For every split of the cards into two sets, runs one set with the parts of `one` and the other set with
/// those of `other`. Expects that the output nearly always differs from the outputs of both versions.
void expect_every_mixture_to_show(const kernels::Program& one, const kernels::Program& other,
                                  std::uint32_t cards) {
  const unsigned seed = tests::chosen_seed();
  std::mt19937 random(seed);
  const Artifacts first = build(one, cards), second = build(other, cards);
  const Parts of_first = card_parts(first), of_second = card_parts(second);
  ASSERT_EQ(of_first.size(), cards);
  for (std::uint32_t mixture = 1; mixture + 1 < 1U << cards; ++mixture) {
    Parts mixed = of_first;
    std::uint32_t card = 0;
    for (auto& [name, part] : mixed) {
      ASSERT_NE(part, of_second.at(name)) << name << " is the same in both versions";
      if ((mixture >> card++ & 1U) != 0) part = of_second.at(name);
    }
    int seen = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      const Buffer input = random_frame(one, random);
      const Buffer answer = run(first, mixed, input);
      const bool differs = answer != kernels::reference::run(one, {input})[0] &&
                           answer != kernels::reference::run(other, {input})[0];
      seen += differs ? 1 : 0;
    }
    EXPECT_GE(seen, kSeen) << "cards of the second version: bits of " << mixture
                           << "; MILLRACE_SEED=" << seed;
  }
}

TEST(PartsEqualWhole, PartitionsOfAChainGiveTheSameOutputsAsTheWholeProgram) {
  expect_equal_on_cards(tests::chain_program(5), 5);
}
TEST(PartsEqualWhole, PartitionsWithASkipConnectionGiveTheSameOutputsAsTheWhole) {
  expect_equal_on_cards(tests::skip_program(4), 4);
}
TEST(PartsEqualWhole, PartitionsWithEveryOperationGiveTheSameOutputsAsTheWhole) {
  expect_equal_on_cards(tests::every_operation_program(), 2);
}

TEST(PartsEqualWhole, TwoPartitionsInOneImageGiveTheSameOutputsAsTheWhole) {
  const auto program = tests::interrupted_program();
  const Artifacts made = build(program, 1);
  ASSERT_EQ(made.plan.images.size(), 1U);
  EXPECT_EQ(made.plan.images[0].partitions, (std::vector<std::string>{"part0", "part1"}));
  expect_equal_on_cards(program, 2);
}

TEST(TestPrograms, AWrongByteOnAnyLinkChangesTheOutput) {
  const std::vector<kernels::Program> programs = {
      tests::chain_program(3),
      tests::chain_program(6),
      tests::chain_program(6, 4, 99),
      tests::chain_program(3, 8),
      tests::skip_program(3),
      tests::skip_program(4),
      tests::skip_program(6),
      tests::skip_program(3, 2),
      tests::branch_program(),
      tests::trained_again(tests::chain_program(3)),
      tests::trained_again(tests::chain_program(6)),
      tests::with_other_weights(tests::chain_program(6), 2),
  };
  for (const kernels::Program& program : programs)
    for (const std::uint32_t cards : {2U, 3U}) expect_a_wrong_byte_to_show(program, cards);
}

TEST(TestPrograms, AWrongModelVersionOnOneCardChangesTheOutput) {
  const auto three = tests::chain_program(3), six = tests::chain_program(6),
             other = tests::chain_program(6, 4, 99);
  expect_every_mixture_to_show(three, tests::trained_again(three), 3);
  expect_every_mixture_to_show(six, tests::trained_again(six), 3);
  expect_every_mixture_to_show(six, other, 3);
  expect_every_mixture_to_show(tests::trained_again(six), other, 3);
}

}  // namespace
}  // namespace millrace::compiler::emit::test_parts_equal_whole
