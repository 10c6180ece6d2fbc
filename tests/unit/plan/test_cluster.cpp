#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "runtime/base/file.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/yaml.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/seed.hpp"

namespace millrace::runtime::plan::test_cluster {
namespace {

namespace fs = std::filesystem;

const fs::path kConfigs = fs::path(tests::source_dir()) / "configs";

/// A test with a temporary directory that has devices/small.yaml and clusters/. Tests write further files to it.
class ClusterFile : public testing::Test {
 protected:
  ClusterFile() {
    fs::create_directories(directory_.path() / "devices");
    fs::create_directories(directory_.path() / "clusters");
    write("devices/small.yaml", kSmall);
  }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(directory_.path() / name) << text;
  }

  Result<Cluster> load(const std::string& text) {
    write("clusters/c.yaml", text);
    return load_cluster(directory_.path() / "clusters" / "c.yaml");
  }
  /// Loads a cluster file that must be refused and returns the error message, which must name the file and `line`.
  std::string refusal(const std::string& text, int line) {
    return checked(load(text), "c.yaml:" + std::to_string(line) + ":");
  }
  std::string device_refusal(const std::string& text, int line) {
    write("devices/d.yaml", text);
    return checked(load_device(directory_.path() / "devices" / "d.yaml"),
                   "d.yaml:" + std::to_string(line) + ":");
  }

  template <class T>
  static std::string checked(const Result<T>& result, const std::string& where) {
    if (result.ok()) return "accepted";
    EXPECT_NE(result.error().message().find(where), std::string::npos) << result.error().message();
    EXPECT_EQ(exit_code(result.error().code()), 2);
    return result.error().message();
  }

  static constexpr char kSmall[] =
      "schema: 1\npart: p\nfamily: xcu\nclock_mhz: 100\nresources: {lut: 10}\n"
      "memory:\n  - {name: \"DDR[0]\", capacity_bytes: 1048576, bandwidth_bytes_per_second: "
      "1000}\nconnectors: 2\n";
  TemporaryDirectory directory_{"millrace-cluster"};
};

bool has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
  return true;
}

TEST(ShippedClusters, CardsOfEachKu060ClusterFormAChain) {
  for (const auto& [file, cards] : {std::pair{"one", 1U}, {"two", 2U}, {"three", 3U}}) {
    const auto cluster = load_cluster(kConfigs / "clusters" / (std::string(file) + "-ku060.yaml"));
    ASSERT_TRUE(cluster.ok()) << cluster.error().message();
    EXPECT_EQ(cluster->name, std::string(file) + "-ku060");
    EXPECT_TRUE(cluster->emulated);
    ASSERT_EQ(cluster->cards.size(), cards);
    ASSERT_EQ(cluster->cables.size(), cards - 1);
    for (std::size_t i = 0; i + 1 < cards; ++i) {
      EXPECT_EQ(cluster->cables[i].a.card, "fpga" + std::to_string(i));
      EXPECT_EQ(cluster->cables[i].b.card, "fpga" + std::to_string(i + 1));
      EXPECT_EQ(cluster->cables[i].gigabits_per_second, 10);
    }
    const Device& device = cluster->device_of(cluster->cards[0]);
    EXPECT_EQ(device.regions[0].resources, (Resources{111360, 56160, 222720, 1080, 360, 0}));
    EXPECT_EQ(device.platform, "");
    EXPECT_EQ(device.clock_mhz, 156.25);
    EXPECT_FALSE(device.sources.empty());
  }
}

TEST(ShippedClusters, EveryFileLoads) {
  int count = 0;
  for (const auto& file : fs::directory_iterator(kConfigs / "clusters")) {
    const auto cluster = load_cluster(file.path());
    EXPECT_TRUE(cluster.ok()) << cluster.error().message();
    ++count;
  }
  EXPECT_GE(count, 5);
}

TEST(ShippedDevices, EveryFileNamesTheSourceOfEachFigure) {
  for (const auto& file : fs::directory_iterator(kConfigs / "devices")) {
    const auto device = load_device(file.path());
    ASSERT_TRUE(device.ok()) << device.error().message();
    for (const char* figure :
         {"part", "clock_mhz", "shell", "memory.bandwidth", "memory.capacity", "connectors"})
      EXPECT_TRUE(device->sources.contains(figure)) << file.path() << ": " << figure;
    EXPECT_TRUE(device->sources.contains("resources") || device->sources.contains("regions")) << file.path();
    EXPECT_EQ(device->link == Resources{}, !device->sources.contains("link")) << file.path();
    EXPECT_EQ(device->platform.empty(), !device->sources.contains("platform")) << file.path();
    EXPECT_EQ(device->transceivers.lanes == 0, !device->sources.contains("transceivers")) << file.path();
    EXPECT_EQ(device->platform.empty(), device->transceivers.lanes == 0) << file.path();
    EXPECT_GT(device->regions.front().resources.lut, device->shell.lut) << file.path();
  }
}

TEST_F(ClusterFile, RefusesAnUnknownKeyByNameAndLine) {
  const auto text = refusal("schema: 1\nemulated: true\ncabels: []\ncards: []\n", 3);
  has(text, "unknown key 'cabels'");
  has(text, "cables, cards, emulated, hosts, name, network, schema");
  has(refusal("schema: 1\nemulated: true\ncards:\n  - {name: a, device: small, pci: x}\n", 4),
      "unknown key 'pci'");
}

TEST_F(ClusterFile, RefusesACableToAnUnknownCard) {
  const std::string cards =
      "schema: 1\nemulated: true\ncards:\n  - {name: a, device: small}\n  - {name: b, device: "
      "small}\ncables:\n";
  has(refusal(
          cards +
              "  - a: {card: a, connector: 0}\n    b: {card: zz, connector: 0}\n    gigabits_per_second: 1\n",
          8),
      "no card 'zz': a cable to nowhere");
  has(refusal(cards + "  - a: {card: a, connector: 0}\n    gigabits_per_second: 1\n", 7),
      "'b' is missing: a cable to nowhere");
}

TEST_F(ClusterFile, RefusesInvalidCables) {
  const std::string cards =
      "schema: 1\nemulated: true\ncards:\n  - {name: a, device: small}\n  - {name: b, device: "
      "small}\ncables:\n";
  const std::string good =
      "  - {a: {card: a, connector: 0}, b: {card: b, connector: 0}, gigabits_per_second: 1}\n";
  EXPECT_TRUE(load(cards + good).ok());
  has(refusal(cards + good + good, 8), "connector 0 of card 'a' already has a cable");
  has(refusal(
          cards + "  - {a: {card: a, connector: 2}, b: {card: b, connector: 0}, gigabits_per_second: 1}\n",
          7),
      "has 2 connectors");
  has(refusal(
          cards + "  - {a: {card: a, connector: 0}, b: {card: a, connector: 1}, gigabits_per_second: 1}\n",
          7),
      "both ends");
  has(refusal(
          cards + "  - {a: {card: a, connector: 0}, b: {card: b, connector: 0}, gigabits_per_second: 0}\n",
          7),
      "above 0");
  has(refusal(
          cards +
              "  - {a: {card: a, connector: 0}, b: {card: b, connector: 0}, gigabits_per_second: -.inf}\n",
          7),
      "not a number");
  has(refusal(cards + "  - {a: {card: a, connector: 0}, b: {card: b, connector: 0}}\n", 7),
      "'gigabits_per_second' is missing");
  has(refusal(cards + "  - {a: {card: a, connector: 0}, b: {card: b, connector: 0}, gigabits_per_second: 1, "
                      "latency_ns: -1}\n",
              7),
      "latency_ns");
  has(refusal(
          cards + "  - {a: {card: a, connector: -1}, b: {card: b, connector: 0}, gigabits_per_second: 1}\n",
          7),
      "whole number");
  has(refusal(cards + "  - {a: a, b: {card: b, connector: 0}, gigabits_per_second: 1}\n", 7),
      "a mapping with the keys address, card, connector");
}

TEST_F(ClusterFile, RefusesInvalidCards) {
  has(refusal("schema: 1\nemulated: true\ncards: []\n", 3), "at least one card");
  has(refusal("schema: 1\nemulated: true\n", 1), "at least one card");
  has(refusal(
          "schema: 1\nemulated: true\ncards:\n  - {name: a, device: small}\n  - {name: a, device: small}\n",
          5),
      "'a' is used twice");
  has(refusal("schema: 1\nemulated: true\ncards:\n  - {name: a, device: big}\n", 4),
      "no description of 'big'");
  has(refusal("schema: 1\nemulated: true\ncards:\n  - {name: a, device: ../small}\n", 4),
      "is not a valid name");
  has(refusal("schema: 1\nemulated: true\ncards:\n  - {name: a b, device: small}\n", 4),
      "is not a valid name");
  has(refusal("schema: 1\nemulated: true\ncards:\n  - {name: a, device: small, bdf: \"0:0\"}\n", 4),
      "no PCIe address");
  has(refusal("schema: 1\ncards:\n  - {name: a, device: small}\n", 3), "needs its PCIe address");
  has(refusal("schema: 1\ncards:\n  - {name: a, device: small, bdf: \"0:0\"}\n", 3), "no Vitis platform");
  has(refusal("schema: 1\nemulated: maybe\ncards:\n  - {name: a, device: small}\n", 2),
      "neither true nor false");
}

TEST_F(ClusterFile, FindsInstalledDevicesUnlessAFileBesideTheClusterDescribesThem) {
  const std::string text = "schema: 1\nemulated: true\ncards:\n  - {name: a, device: ku060}\n";
  const auto installed = load(text);
  ASSERT_TRUE(installed.ok()) << installed.error().message();
  const auto known = load_device(kConfigs / "devices" / "ku060.yaml");
  EXPECT_EQ(installed->devices.at("ku060"), *known);
  write("devices/ku060.yaml", kSmall);
  const auto own = load(text);
  ASSERT_TRUE(own.ok()) << own.error().message();
  EXPECT_EQ(own->devices.at("ku060").part, "p");
  has(refusal("schema: 1\nemulated: true\ncards:\n  - {name: a, device: big}\n", 4), "u280");
}

TEST_F(ClusterFile, ReadsHostsAndGivesEachHostItsOwnCards) {
  const auto cluster = load(
      "schema: 1\nemulated: true\nhosts:\n  - {name: left}\n  - {name: right}\n"
      "network: {gigabits_per_second: 25, latency_ns: 20000}\n"
      "cards:\n  - {name: a, device: small, host: left}\n  - {name: b, device: small, host: right}\n"
      "  - {name: c, device: small, host: right}\n"
      "cables:\n  - {a: {card: b, connector: 0}, b: {card: c, connector: 1}, gigabits_per_second: 1}\n");
  ASSERT_TRUE(cluster.ok()) << cluster.error().message();
  EXPECT_TRUE(cluster->emulated);
  EXPECT_EQ(cluster->network, (HostNetwork{25, 20000}));
  EXPECT_EQ(cluster->cards[0].host, "left");
  EXPECT_EQ(cluster->cards[2].host, "right");

  const auto left = cluster_of_host(*cluster, "left"), right = cluster_of_host(*cluster, "right");
  ASSERT_TRUE(left.ok() && right.ok());
  ASSERT_EQ(left->cards.size(), 1U);
  EXPECT_EQ(left->cards[0].name, "a");
  EXPECT_TRUE(left->cables.empty());
  ASSERT_EQ(right->cards.size(), 2U);
  EXPECT_EQ(right->cards[0].name, "b");
  EXPECT_EQ(right->cables.size(), 1U);
  EXPECT_TRUE(right->hosts.empty() && right->emulated && right->devices.contains("small"));

  const auto unknown = cluster_of_host(*cluster, "middle");
  ASSERT_FALSE(unknown.ok());
  has(unknown.error().message(), "has no host 'middle'; its hosts are left, right");
  has(unknown.error().message(), "--host-name");
}

TEST_F(ClusterFile, RefusesInvalidHosts) {
  const std::string two = "schema: 1\nemulated: true\nhosts: [{name: l}, {name: r}]\n",
                    network = "network: {gigabits_per_second: 1, latency_ns: 0}\n";
  has(refusal("schema: 1\nhosts: [{name: l}, {name: l}]\n", 2), "'l' is used twice");
  has(refusal(two + "cards: [{name: a, device: small, host: l}]\n", 1), "'network' is missing");
  has(refusal(two + "network: {gigabits_per_second: 0, latency_ns: 0}\n", 4), "above 0");
  has(refusal("schema: 1\nhosts: [{name: l}]\n" + network, 3), "fewer than two");
  has(refusal(two + network + "cards: [{name: a, device: small}]\n", 5), "'host' is missing");
  has(refusal(two + network + "cards: [{name: a, device: small, host: m}]\n", 5), "no host 'm'");
  has(refusal("schema: 1\nemulated: true\ncards: [{name: a, device: small, host: m}]\n", 3),
      "lists no hosts");
}

TEST_F(ClusterFile, RefusesCablesBetweenEmulatedCardsOfTwoHosts) {
  has(refusal(
          "schema: 1\nemulated: true\nhosts: [{name: l}, {name: r}]\n"
          "network: {gigabits_per_second: 1, latency_ns: 0}\n"
          "cards: [{name: a, device: small, host: l}, {name: b, device: small, host: r}]\n"
          "cables:\n  - {a: {card: a, connector: 0}, b: {card: b, connector: 0}, gigabits_per_second: 1}\n",
          7),
      "joins emulated cards of the hosts 'l' and 'r'");
}

TEST_F(ClusterFile, RefusesRealAndEmulatedCardsOnOneHost) {
  write("devices/real.yaml", std::string(kSmall) + "platform: p\n");
  const std::string hosts =
      "schema: 1\nhosts: [{name: l}, {name: r, emulated: true}]\n"
      "network: {gigabits_per_second: 1, latency_ns: 0}\ncards:\n"
      "  - {name: a, device: real, host: l, bdf: \"0000:03:00.1\"}\n  - {name: b, device: small, host: r}\n";
  const auto mixed = load(hosts);
  ASSERT_TRUE(mixed.ok()) << mixed.error().message();
  EXPECT_FALSE(mixed->emulated);
  has(refusal(hosts + "  - {name: c, device: real, host: r, bdf: \"0000:04:00.1\"}\n", 7),
      "a host has only real or only emulated cards");
  has(refusal(hosts + "  - {name: c, device: real, host: l}\n", 7), "set 'emulated: true' for the host");
  has(refusal(hosts + "cables:\n  - {a: {card: a, connector: 0}, b: {card: b, connector: 0}, "
                      "gigabits_per_second: 1}\n",
              8),
      "is real, and the other is emulated");
}

TEST_F(ClusterFile, RefusesAnUnknownSchemaAndNamesTheSchemaNumber) {
  has(refusal("schema: 2\ncards: []\n", 1), "2 is not a schema");
  has(refusal("cards: []\n", 1), "'schema' is missing");
}

TEST_F(ClusterFile, RefusesFilesThatAreNotClusterFiles) {
  has(refusal("", 1), "is empty");
  has(refusal("just words\n", 1), "a mapping with the keys");
  has(refusal("schema: 1\ncards: [\n", 3), "not YAML");
  has(refusal("schema: 1\nschema: 1\n", 2), "'schema' is given twice");
  has(refusal("schema: 1\ncards: &all [*all]\n", 2), "an alias is inside the node that it refers to");
  has(refusal("schema: 1\n[cards]: x\n", 2), "a key must be plain text");
  has(refusal("schema: 1\n~: x\n", 2), "a key must be plain text");
  has(refusal("~", 1), "is empty");
  has(refusal("schema: 1\n---\nschema: 1\n", 1), "several documents");
  has(refusal(std::string(100000, '['), 1), "nested deeper");
  std::string steps = "schema: 1\ncards:\n";
  for (std::size_t i = 1; i < 1400; ++i) steps += std::string(i, ' ') + "a:\n";
  has(refusal(steps, 500), "nested deeper");
  std::string laughs = "a: &a [x,x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c < 'k'; ++c) {
    laughs += std::string(1, c) + ": &" + c + " [";
    for (int i = 0; i < 10; ++i) laughs += std::string(i ? "," : "") + "*" + static_cast<char>(c - 1);
    laughs += "]\n";
  }
  EXPECT_NE(checked(load(laughs), "c.yaml").find("too large"), std::string::npos);
  const auto absent = load_cluster(directory_.path() / "clusters" / "absent.yaml");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code(), ErrorCode::kNotFound);
  has(absent.error().message(), "absent.yaml");
}

TEST_F(ClusterFile, ExpandsYamlAliases) {
  const auto cluster = load(
      "schema: 1\nemulated: true\ncards:\n  - {name: a, device: &d small}\n  - {name: b, device: *d}\n"
      "cables:\n  - &c {a: {card: a, connector: 0}, b: {card: b, connector: 0}, gigabits_per_second: 1}\n");
  ASSERT_TRUE(cluster.ok()) << cluster.error().message();
  EXPECT_EQ(cluster->cards[1].device, cluster->cards[0].device);
}

TEST_F(ClusterFile, ReadsUdpCables) {
  const std::string cards =
      "schema: 1\nemulated: true\ncards:\n  - {name: a, device: small}\n  - {name: b, device: "
      "small}\ncables:\n";
  const auto cluster =
      load(cards +
           "  - {a: {card: a, connector: 0, address: \"10.0.0.1:5000\"}, b: {card: b, connector: 0}, "
           "gigabits_per_second: 100, protocol: udp, mtu: 9000,\n"
           "     faults: {loss: 0.01, duplicate: 0.02, reorder: 0.03, bit_errors: 1.0e-6, latency_ns: 5.0e4, "
           "gigabits_per_second: 9.5, outage: true}}\n"
           "  - {a: {card: a, connector: 1}, b: {card: b, connector: 1}, gigabits_per_second: 5}\n");
  ASSERT_TRUE(cluster.ok()) << cluster.error().message();
  const Cable& udp = cluster->cables[0];
  EXPECT_EQ(udp.protocol, CableProtocol::kUdp);
  EXPECT_EQ(udp.a.address, "10.0.0.1:5000");
  EXPECT_EQ(udp.b.address, "");
  EXPECT_EQ(udp.mtu, 9000U);
  EXPECT_EQ(udp.packet_bytes(), 8896U);
  EXPECT_EQ(udp.faults, (CableFaults{0.01, 0.02, 0.03, 1e-6, 5e4, 9.5, true}));
  EXPECT_EQ(cluster->cables[1].protocol, CableProtocol::kAurora);
  EXPECT_EQ(cluster->cables[1].packet_bytes(), kPacketBytes);
  EXPECT_EQ(cluster->cables[1].aurora_gigabits_per_second(), 5);
}

/// The expected rates: a lane at 10.3125 Gbit/s carries 64 bits of data in each 66, so 10 Gbit/s. A link port moves 64
/// bits in each clock cycle: at 250 MHz 16 Gbit/s, at 100 MHz 6.4.
TEST_F(ClusterFile, RateOfACableIsTheLowestOfCableAuroraCoreAndPort) {
  const std::string regions =
      "regions: [{name: SLR0, resources: {lut: 5}}, {name: SLR2, resources: {lut: 6}}]\n";
  const auto device = [&](const std::string& mhz, const std::string& lanes) {
    return "schema: 1\npart: p\nfamily: xcu\nclock_mhz: " + mhz + "\n" + regions +
           "memory: [{name: m, capacity_bytes: 4096, bandwidth_bytes_per_second: 1}]\n"
           "transceivers:\n  lanes: " +
           lanes +
           "\n  gigabits_per_second: 10.3125\n  reference_mhz: 156.25\n  free_clock: c\n  quads:\n"
           "    - {port: io_gt_qsfp0_00, reference_clock: io_clk_qsfp0_refclka_00, region: SLR2}\n"
           "    - {port: io_gt_qsfp1_00, reference_clock: io_clk_qsfp1_refclka_00}\n";
  };
  write("devices/one.yaml", device("250", "1"));
  write("devices/four.yaml", device("250", "4"));
  const auto cable = [&](const std::string& a, const std::string& b, const std::string& rate) {
    const auto cluster = load("schema: 1\nemulated: true\ncards:\n  - {name: a, device: " + a +
                              "}\n  - {name: b, device: " + b +
                              "}\ncables:\n  - {a: {card: a, connector: 0}, b: {card: b, connector: 0}, "
                              "gigabits_per_second: " +
                              rate + "}\n");
    EXPECT_TRUE(cluster.ok()) << cluster.error().message();
    return std::pair(cluster->cables[0].gigabits_per_second, cluster->cables[0].limit);
  };
  EXPECT_EQ(cable("one", "one", "9"), std::pair(9.0, std::string()));
  EXPECT_EQ(cable("one", "four", "95"),
            std::pair(10.0, std::string("the Aurora core of device one (1 lane at 10.3125 Gbit/s)")));
  EXPECT_EQ(cable("four", "four", "95"),
            std::pair(16.0, std::string("the link port of device four (64 bits at 250 MHz)")));
  EXPECT_EQ(cable("four", "small", "95"),
            std::pair(6.4, std::string("the link port of device small (64 bits at 100 MHz)")));
  const auto read = load_device(directory_.path() / "devices/one.yaml");
  ASSERT_TRUE(read.ok()) << read.error().message();
  EXPECT_EQ(read->connectors, 2U);
  EXPECT_EQ(read->transceivers.quads[0], (Quad{"io_gt_qsfp0_00", "io_clk_qsfp0_refclka_00", "SLR2"}));
}

TEST_F(ClusterFile, RefusesInvalidTransceivers) {
  const std::string keys[] = {"lanes: 1", "gigabits_per_second: 10", "reference_mhz: 156.25", "free_clock: c",
                              "quads: [{port: p, reference_clock: r}]"};
  const auto with = [&](std::size_t changed, const std::string& value) {
    std::string text = std::string(kSmall) + "transceivers:\n";
    for (std::size_t i = 0; i < std::size(keys); ++i) text += "  " + (i == changed ? value : keys[i]) + "\n";
    return device_refusal(text, static_cast<int>(10 + changed));
  };
  EXPECT_EQ(with(0, "lanes: 1"), "accepted");
  has(with(0, "lanes: 5"), "lanes: must be 1 to 4");
  has(with(1, "gigabits_per_second: 40"), "must be above 0 and at most 32.75");
  has(with(2, "reference_mhz: 0.15625"), "reference_mhz: must be 60 to 820");
  has(with(3, "free_clock: \"\""), "free_clock: is empty");
  has(with(4, "quads: []"), "quads: at least one quad is needed");
  has(with(4, "quads: [{port: p, reference_clock: r, region: SLR9}]"), "no region 'SLR9'");
  has(with(4, "quads: [{port: p, reference_clock: r}, {port: p, reference_clock: r}]"), "'p' is used twice");
  has(with(4, "quads: [{port: p, reference_clock: \"\"}]"), "reference_clock: is empty");
  std::string text = kSmall;
  text.replace(text.find("connectors: 2"), 13, "connectors: 0");
  for (const std::string& key : keys) text += (&key == keys ? "transceivers:\n  " : "  ") + key + "\n";
  has(device_refusal(text, 8), "connectors: fewer than the 1 quads of 'transceivers'");
}

TEST_F(ClusterFile, RefusesInvalidUdpCables) {
  const std::string cards =
      "schema: 1\nemulated: true\ncards:\n  - {name: a, device: small}\n  - {name: b, device: "
      "small}\ncables:\n";
  const auto cable = [&](const std::string& keys, const std::string& address = "") {
    return cards + "  - {a: {card: a, connector: 0" + address +
           "}, b: {card: b, connector: 0}, gigabits_per_second: 1" + keys + "}\n";
  };
  has(refusal(cable(", protocol: tcp"), 7), "it is aurora or udp");
  has(refusal(cable(", mtu: 9000"), 7), "only cables with 'protocol: udp' have an mtu");
  has(refusal(cable(", protocol: udp, mtu: 100"), 7), "must be 576 to 65535");
  has(refusal(cable("", ", address: \"10.0.0.1:5000\""), 7),
      "only cables with 'protocol: udp' have addresses");
  for (const char* const wrong : {"10.0.0.1", "10.0.0.256:1", "host:1", "10.0.0.1:0", "10.0.0.1:65536"})
    has(refusal(cable(", protocol: udp", ", address: \"" + std::string(wrong) + "\""), 7),
        "is not an IPv4 address");
  const auto faults = [&](const std::string& fault) {
    return cable(", protocol: udp, faults: {" + fault + "}");
  };
  has(refusal(faults("loss: 1.5"), 7), "loss: must be a probability");
  has(refusal(faults("bit_errors: 0.6"), 7), "bit_errors: must be a probability of 0 to 0.5");
  for (const char* const wrong : {"0", "-1", "1.0e-7"})
    has(refusal(faults("gigabits_per_second: " + std::string(wrong)), 7),
        "gigabits_per_second: must be a number of at least 1e-6");
  for (const char* const wrong : {".inf", ".nan", "inf", "nan"}) {
    has(refusal(faults("latency_ns: " + std::string(wrong)), 7), "latency_ns: '" + std::string(wrong));
    has(refusal(faults("gigabits_per_second: " + std::string(wrong)), 7), "gigabits_per_second: '");
    has(refusal(cable(", latency_ns: " + std::string(wrong)), 7), "latency_ns: '" + std::string(wrong));
  }
  has(refusal(faults("latency_ns: 1.0e11"), 7), "latency_ns: must be 0 to 1e10");
  has(refusal(cable(", latency_ns: 1.0e11"), 7), "latency_ns: must be at most 1e10");
  has(refusal(cable(", protocol: udp, faults: {lost: 1}"), 7), "unknown key 'lost'");
  has(refusal(cable(", faults: {loss: 0.5}"), 7), "only cables with 'protocol: udp' can have faults");
}

TEST_F(ClusterFile, MutatedFilesNeverCrashTheReader) {
  const std::string valid =
      "schema: 1\nname: n\nemulated: true\ncards:\n  - {name: a, device: small}\n  - {name: b, device: "
      "small}\ncables:\n"
      "  - {a: {card: a, connector: 0}, b: {card: b, connector: 0}, gigabits_per_second: 1}\n";
  const unsigned seed = tests::chosen_seed();
  std::mt19937 random(seed);
  for (int round = 0; round < 1000; ++round) {
    std::string text = valid;
    for (unsigned i = 0; i < 1 + random() % 3; ++i)
      text[random() % text.size()] = static_cast<char>(random());
    const auto cluster = load(text);
    if (cluster.ok()) continue;
    ASSERT_NE(cluster.error().message(), "") << "MILLRACE_SEED=" << seed;
  }
}

TEST_F(ClusterFile, RefusesInvalidDevices) {
  const std::string good = kSmall;
  const auto without = [&](const std::string& line) {
    std::string text = good;
    return text.erase(text.find(line), line.size());
  };
  has(device_refusal(without("part: p\n"), 1), "'part' is missing");
  has(device_refusal(without("clock_mhz: 100\n"), 1), "'clock_mhz' is missing");
  has(device_refusal(without("resources: {lut: 10}\n"), 1), "either 'resources'");
  has(device_refusal(good + "shell: {lut: 11}\n", 9), "more than the device has");
  has(device_refusal(good + "sources: x\n", 9), "a mapping");
  has(device_refusal(good + "connector: 3\n", 9), "unknown key 'connector'");
  has(device_refusal("schema: 1\npart: \"\"\nfamily: xcu\nclock_mhz: 1\n", 2), "part: is empty");
  has(device_refusal("schema: 1\npart: p\nfamily: versal\nclock_mhz: 1\n", 3), "'versal' is not known");
  has(device_refusal("schema: 1\npart: p\nfamily: xcu\nclock_mhz: 0\n", 4), "above 0");
  has(device_refusal("schema: 1\npart: p\nfamily: xcu\nclock_mhz: 1\nresources: {lut: x}\nmemory: [{name: m, "
                     "capacity_bytes: 4096, bandwidth_bytes_per_second: 1}]\n",
                     5),
      "'x' is not a whole number");
  has(device_refusal("schema: 1\npart: p\nfamily: xcu\nclock_mhz: 1\nresources: {lut: 1}\nmemory: []\n", 6),
      "at least one memory bank");
  has(device_refusal("schema: 1\npart: p\nfamily: xcu\nclock_mhz: 1\nresources: {lut: 1}\nmemory: [{name: "
                     "a-name-too-long-x, capacity_bytes: 4096, bandwidth_bytes_per_second: 1}]\n",
                     6),
      "1 to 15 characters");
}

TEST_F(ClusterFile, ReadsRegionsWithTheirMemoryBanks) {
  write("devices/d.yaml",
        "schema: 1\npart: p\nfamily: xcu\nclock_mhz: 1\nmemory: [{name: m, capacity_bytes: 4096, "
        "bandwidth_bytes_per_second: 1}]\n"
        "regions:\n  - {name: slr0, resources: {lut: 5}, memory: m}\n  - {name: slr1, resources: {lut: 6}, "
        "programming_unit: other}\n");
  const auto device = load_device(directory_.path() / "devices" / "d.yaml");
  ASSERT_TRUE(device.ok()) << device.error().message();
  ASSERT_EQ(device->regions.size(), 2U);
  EXPECT_EQ(device->regions[0].memory, std::vector<std::string>{"m"});
  EXPECT_EQ(device->regions[0].programming_unit, "device");
  EXPECT_EQ(device->regions[1].programming_unit, "other");
}

}  // namespace
}  // namespace millrace::runtime::plan::test_cluster
