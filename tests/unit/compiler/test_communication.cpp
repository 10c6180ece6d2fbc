#include <gtest/gtest.h>

#include "compiler/emit/clocked_rate.hpp"
#include "compiler/emit/deployment.hpp"
#include "runtime/plan/image.hpp"
#include "tests/shortcuts/cuts.hpp"
#include "tests/support/programs.hpp"

namespace millrace::compiler::emit::test_communication {
namespace {

using namespace runtime::plan;

/// Returns a cluster with a cable between every two cards.
Cluster meshed(std::uint32_t cards, double gigabits_per_second = 10) {
  Cluster cluster;
  cluster.name = "mesh";
  cluster.emulated = true;
  Device device;
  device.name = "ku060";
  device.clock_mhz = 100;
  device.regions = {{"all", {}, {"DDR[0]"}, "device"}};
  device.memory = {{"DDR[0]", 1U << 20U, 1}};
  device.connectors = cards;
  cluster.devices["ku060"] = device;
  for (std::uint32_t i = 0; i < cards; ++i) {
    cluster.cards.push_back({"fpga" + std::to_string(i), "ku060", ""});
    for (std::uint32_t k = 0; k < i; ++k) {
      Cable cable;
      cable.name = std::to_string(k) + "-" + std::to_string(i);
      cable.a = {cluster.cards[k].name, i - 1};
      cable.b = {cluster.cards[i].name, k};
      cable.gigabits_per_second = gigabits_per_second;
      cluster.cables.push_back(cable);
    }
  }
  return cluster;
}

Result<Artifacts> build(const kernels::Program& program, std::uint32_t cards, const Cluster& cluster,
                        std::optional<double> frames_per_second = {}) {
  const auto solution = millrace::tests::cut_by_work(explore::make_problem(program, cluster, cards));
  if (!solution.ok()) return solution.error();
  ModelInfo model;
  model.name = "net";
  model.inputs = {{"x", "FP32", {1, 8, 8, 2}}};
  model.outputs = {{"y", "FP32", {1, 4, 4, 4}}};
  return build_deployment(program, *solution, cluster, model, {}, frames_per_second);
}

const Channel& channel(const Deployment& plan, const std::string& name) {
  for (const auto& c : plan.channels)
    if (c.name == name) return c;
  throw std::runtime_error("no channel " + name);
}

void expect(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Communication, CardsConnectedOnlyByMpiSendWholeTensorsThroughTheirHosts) {
  Cluster cluster = meshed(2);
  cluster.hosts = {{"left", true}, {"right", true}};
  cluster.network = {8, 1000};
  cluster.cards[0].host = "left";
  cluster.cards[1].host = "right";
  cluster.cables.clear();
  const Cluster joined = join_hosts(cluster);
  ASSERT_EQ(joined.cables.size(), 1U);
  EXPECT_EQ(joined.cables[0].latency_ns, 2000) << "the tensor passes through the host of rank 0";

  const auto made = build(tests::chain_program(2), 2, joined);
  ASSERT_TRUE(made.ok()) << made.error().message();
  const Channel& passed = channel(made->plan, "part0.out0>part1.in0");
  EXPECT_EQ(passed.transport, Transport::kMpi);
  EXPECT_EQ(passed.packet_bytes, 0U);
  EXPECT_EQ(passed.credits, 0U);
  const auto problem = explore::make_problem(tests::chain_program(2), joined, 2);
  ASSERT_EQ(problem.cables.size(), 1U);
  EXPECT_TRUE(problem.cables[0].through_hosts);
  // On a cable, a packet of 1,024 bytes also has 40 bytes of header and CRC. MPI sends no such bytes. So an equally
  // fast cable carries 1,064 bytes in the time in which MPI sends 1,024.
  EXPECT_DOUBLE_EQ(problem.cables[0].bytes_per_second, 1e9 * 1064 / 1024);
}

TEST(Communication, EveryReaderOfATensorHasItsOwnChannel) {
  const auto made = build(tests::skip_program(3), 3, meshed(3));
  ASSERT_TRUE(made.ok()) << made.error().message();
  const Deployment& plan = made->plan;
  const Channel& near = channel(plan, "part0.out0>part1.in0");
  const Channel& far = channel(plan, "part0.out0>part2.in1");
  EXPECT_EQ(near.transport, Transport::kAurora);
  EXPECT_EQ(far.frame_bytes, 64U);
  EXPECT_GT(far.credits * std::uint64_t{far.packet_bytes},
            far.frame_bytes);  // the channel has room for a frame while part1 computes
  for (const auto& port : plan.communication) {
    if (port.partition != "part0" || port.port != "out0") continue;
    EXPECT_EQ(port.steps,
              (std::vector<CommunicationStep>{{Action::kSend, near.id, 64}, {Action::kSend, far.id, 64}}));
  }
  EXPECT_EQ(find_cyclic_wait(plan), "");
}

TEST(Communication, LinkCreditsSufficeForTwoFramesButForAtMostSixteenPackets) {
  for (const auto& [bytes, credits] :
       {std::pair{64U, 2U}, std::pair{1176U, 4U}, std::pair{5000U, 10U}, std::pair{100'000U, 16U}}) {
    Deployment plan;
    for (const char* name : {"part0", "part1"}) {
      Partition& partition = plan.partitions.emplace_back();
      partition.name = name;
      partition.kind = PartitionKind::kDataflow;
    }
    const kernels::ElementType int8{kernels::ElementType::Kind::kSigned, 8};
    plan.partitions[0].outputs = {{"out0", "t", int8, {bytes}}};
    plan.partitions[1].inputs = {{"in0", "t", int8, {bytes}}};
    ASSERT_TRUE(plan_communication(plan, {}, {}).ok());
    ASSERT_EQ(plan.channels.size(), 1U);
    EXPECT_EQ(plan.channels[0].credits, credits) << bytes;
  }
}

TEST(Communication, AChannelHasTheProtocolOfTheFirstCableBetweenItsCards) {
  Cluster cluster = meshed(3);
  for (Cable& cable : cluster.cables)
    if (cable.name == "0-1") cable.protocol = CableProtocol::kUdp;
  const auto made = build(tests::skip_program(3), 3, cluster);
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_EQ(channel(made->plan, "part0.out0>part1.in0").transport, Transport::kUdp);
  EXPECT_EQ(channel(made->plan, "part0.out0>part2.in1").transport, Transport::kAurora);
  EXPECT_EQ(channel(made->plan, "part1.out0>part2.in0").transport, Transport::kAurora);
  EXPECT_TRUE(check_communication(made->plan, cluster, made->binding).ok());
  // The plan is invalid on a cluster that lacks the UDP cable for which it was made.
  EXPECT_FALSE(check_communication(made->plan, meshed(3), made->binding).ok());
}

TEST(Communication, UdpPacketsFitTheMtuAndCreditsSufficeForTheRoundTrip) {
  Cluster cluster = meshed(2);
  Cable& cable = cluster.cables[0];
  cable.protocol = CableProtocol::kUdp;
  Deployment plan;
  for (const char* name : {"part0", "part1"}) {
    Partition& partition = plan.partitions.emplace_back();
    partition.name = partition.endpoint = name;
    partition.kind = PartitionKind::kDataflow;
  }
  const kernels::ElementType int8{kernels::ElementType::Kind::kSigned, 8};
  plan.partitions[0].outputs = {{"out0", "t", int8, {100'000}}};
  plan.partitions[1].inputs = {{"in0", "t", int8, {100'000}}};
  const Binding binding = {{"part0", "fpga0"}, {"part1", "fpga1"}};
  ASSERT_TRUE(plan_communication(plan, cluster, binding).ok());
  ASSERT_EQ(plan.channels.size(), 1U);
  EXPECT_EQ(plan.channels[0].packet_bytes, 1408U);  // 1,500 - 28 - 64 is 1,408, which is 22 words of 64 bytes
  EXPECT_EQ(plan.channels[0].credits, 16U);
  EXPECT_EQ(bytes_on_wire(plan.channels[0]), 100'000U + 72 * 130);
  cable.mtu = 9000;
  cable.latency_ns = 10'000;
  ASSERT_TRUE(plan_communication(plan, cluster, binding).ok());
  EXPECT_EQ(plan.channels[0].packet_bytes, 8896U);
  // A channel for a tensor of 12 packets has 16 credits (packets that may be unacknowledged) even without a round trip.
  // In the round trip of 20 us, 10 Gbit/s carry 25,000 bytes, which are 3 packets. The channel gets twice this number
  // of credits in addition.
  EXPECT_EQ(plan.channels[0].credits, 22U);
}

TEST(Communication, TwoChannelsOfOnePortUseTwoRowsOfTheLinkTable) {
  const auto made = build(tests::skip_program(3), 3, meshed(3));
  ASSERT_TRUE(made.ok());
  const auto view = parse_xclbin(made->files.at("images/image0.xclbin"));
  ASSERT_TRUE(view.ok());
  const auto data = decode_emulation_data(view->find(kSectionEmulationData)->bytes);
  ASSERT_TRUE(data.ok()) << data.error().message();
  const auto& ports = data->record.partitions[0].ports;
  ASSERT_EQ(ports.size(), 3U);
  EXPECT_EQ(ports[1].name, "out0");
  EXPECT_EQ(ports[2].name, "out0");
  EXPECT_NE(ports[1].link_index, ports[2].link_index);
}

TEST(Communication, DetectsADeadlockWhenAForkFillsOneBranchFirst) {
  const auto made = build(tests::skip_program(3), 3, meshed(3));
  ASSERT_TRUE(made.ok());
  Deployment plan = made->plan;
  for (auto& c : plan.channels) {
    if (c.transport == Transport::kHost) continue;
    c.packet_bytes = 16;
    c.credits = 4;  // 4 packets of 16 bytes are a whole frame
  }
  for (auto& port : plan.communication)
    if (port.partition == "part0" && port.port == "out0") std::swap(port.steps[0], port.steps[1]);
  EXPECT_EQ(find_cyclic_wait(plan), "");
  for (auto& c : plan.channels)
    if (c.name == "part0.out0>part2.in1") c.credits = 3;
  const std::string wait = find_cyclic_wait(plan);
  expect(wait, "partition 'part0' waits for credits of channel 'part0.out0>part2.in1' (3 packets)");
  expect(wait, "partition 'part1' waits for data of channel 'part0.out0>part1.in0'");
  const auto status = check_communication(plan, meshed(3), made->binding);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), ErrorCode::kDoesNotFit);
  expect(status.error().message(), "more link credits");
}

TEST(Communication, RefusesMoreBytesPerSecondThanTheCableCarries) {
  const Cluster cluster = meshed(2, 0.001);  // 1 Mbit/s
  const auto made = build(tests::chain_program(2), 2, cluster);
  ASSERT_TRUE(made.ok()) << made.error().message();
  // A frame has 64 bytes, and 104 bytes with its packet's header and CRC. At 1,000 frames/s, that is 0.832 Mbit/s.
  EXPECT_TRUE(check_communication(made->plan, cluster, made->binding, 1000).ok());
  const auto status = check_communication(made->plan, cluster, made->binding, 2000);
  ASSERT_FALSE(status.ok());
  expect(status.error().message(), "2000 frames/s, cable '0-1'");
  expect(status.error().message(), "would have to carry 0.001664 Gbit/s, but it carries 0.001");
  expect(status.error().message(), "lower the rate to at most 1201 frames/s");
  expect(status.error().message(), "use cables of at least 0.001664 Gbit/s");
  const auto built = build(tests::chain_program(2), 2, cluster, 2000);
  ASSERT_FALSE(built.ok()) << "what is built is checked at its own rate";
  EXPECT_EQ(built.error().message(), status.error().message());
  EXPECT_TRUE(build(tests::chain_program(2), 2, cluster, 1e6 / 832).ok()) << "a full cable is none too full";
}

TEST(Communication, ErrorNamesTheCoreOrPortThatLimitsTheCable) {
  Cluster cluster = meshed(2, 0.001);
  cluster.cables[0].limit = "the Aurora core of device x (1 lane at 0.001 Gbit/s)";
  const auto made = build(tests::chain_program(2), 2, cluster);
  ASSERT_TRUE(made.ok()) << made.error().message();
  const auto status = check_communication(made->plan, cluster, made->binding, 2000);
  ASSERT_FALSE(status.ok());
  expect(
      status.error().message(),
      "but it carries 0.001 because of the Aurora core of device x (1 lane at 0.001 Gbit/s); lower the rate");
  expect(status.error().message(), "use devices whose links carry at least 0.001664 Gbit/s");
}

/// Returns the record in an FPGA image of a new deployment.
ImageRecord record_of(const Artifacts& made, const std::string& image) {
  const auto view = parse_xclbin(made.files.at("images/" + image + ".xclbin"));
  const auto bytes = view->find(kSectionUserMetadata)->bytes;
  return *parse_image_record({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

TEST(Communication, OnlyImagesThatReceiveFromAnAuroraCableRequireAMinimumClock) {
  Cluster cluster = meshed(2);
  EXPECT_EQ(record_of(*build(tests::chain_program(2), 2, cluster), "image1").least_clock_mhz, 0)
      << "the core is unknown";
  cluster.devices["ku060"].transceivers = {1, 10.3125, 156.25, "c", {}};
  const auto made = build(tests::chain_program(2), 2, cluster);
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_EQ(record_of(*made, "image0").least_clock_mhz, 0);
  EXPECT_EQ(record_of(*made, "image1").least_clock_mhz, 156.25) << "64 bits at 10 Gbit/s";
}

/// A frame of chain_program() has 64 bytes: one word at a port to the host, and 13 words of 8 bytes on a cable.
TEST(Communication, FrameRateAtAGivenClockIsThatOfTheSlowestPipelineHostPortOrLinkPort) {
  auto made = build(tests::chain_program(2), 2, meshed(2));
  ASSERT_TRUE(made.ok()) << made.error().message();
  std::map<std::string, ImageRecord> records;
  const auto set = [&](const std::string& image, const std::string& part, double mhz,
                       std::uint64_t interval) {
    ImagePartition partition;
    partition.name = part;
    partition.interval_cycles = interval;
    records[image].clock_mhz = mhz;
    records[image].partitions = {partition};
  };
  const auto expect_rate = [&](double rate, const std::string& limit) {
    const auto found = clocked_rate(made->plan, records);
    ASSERT_TRUE(found.has_value());
    EXPECT_DOUBLE_EQ(found->frames_per_second, rate);
    EXPECT_EQ(found->limit, limit);
  };
  set("image0", "part0", 100, 40);
  set("image1", "part1", 100, 50);
  expect_rate(2e6, "the pipeline of partition 'part1' (50 cycles a frame at 100 MHz)");
  set("image0", "part0", 50, 40);
  expect_rate(1.25e6, "the pipeline of partition 'part0' (40 cycles a frame at 50 MHz)");
  set("image0", "part0", 65, 1);
  set("image1", "part1", 100, 1);
  expect_rate(5e6, "the link ports from image 'image0' to image 'image1' (13 cycles a frame at 65 MHz)");
  set("image0", "part0", 65, 0);
  set("image1", "part1", 4, 0);
  expect_rate(4e6 / 13, "the link ports from image 'image0' to image 'image1' (13 cycles a frame at 4 MHz)");
  set("image0", "part0", 100, 0);
  set("image1", "part1", 100, 0);
  for (auto& channel : made->plan.channels)
    if (channel.consumer.partition == "part0") channel.frame_bytes = 6400;
  expect_rate(
      1e6,
      "the host port of channel 'input.out0>part0.in0' on image 'image0' (100 cycles a frame at 100 MHz)");
  EXPECT_FALSE(clocked_rate(made->plan, {}).has_value()) << "no clock is known";
}

TEST(Communication, RefusesAChannelBetweenCardsWithoutACable) {
  const auto made = build(tests::chain_program(2), 2, meshed(2));
  ASSERT_TRUE(made.ok());
  Cluster cableless = meshed(2);
  cableless.cables.clear();
  const auto status = check_communication(made->plan, cableless, made->binding);
  ASSERT_FALSE(status.ok());
  expect(status.error().message(), "has no cable between cards 'fpga0' and 'fpga1'");
}

TEST(Communication, RefusesMoreThanSixteenChannelsOnOneCable) {
  const auto made = build(tests::chain_program(2), 2, meshed(2));
  ASSERT_TRUE(made.ok());
  Deployment plan = made->plan;
  const Channel link = channel(plan, "part0.out0>part1.in0");
  for (int i = 0; i < 16; ++i) plan.channels.push_back(link);
  const auto status = check_communication(plan, meshed(2), made->binding);
  ASSERT_FALSE(status.ok());
  expect(status.error().message(), "17 channels");
}

TEST(Communication, RefusesAModelOutputThatNothingComputes) {
  const auto program = tests::chain_program(2);
  const Cluster cluster = meshed(1);
  const auto solution = millrace::tests::cut_by_work(explore::make_problem(program, cluster, {}));
  ASSERT_TRUE(solution.ok());
  ModelInfo model;
  model.name = "net";
  model.inputs = {{"x", "FP32", {1, 8, 8, 2}}};
  model.outputs = {{"x", "FP32", {1, 8, 8, 2}}};
  const auto made = build_deployment(program, *solution, cluster, model);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code(), ErrorCode::kUnsupported);
  expect(made.error().message(), "model output 'x'");
}

}  // namespace
}  // namespace millrace::compiler::emit::test_communication
