// The hardware: devices (kinds of FPGA), the hosts and cards of a cluster, and the cables between cards. They are read
// from YAML, configs/devices/*.yaml and configs/clusters/*.yaml; configs/README.md describes the keys.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/plan/cable_faults.hpp"

namespace millrace::runtime::plan {

struct Resources {
  std::uint64_t lut = 0, lutram = 0, ff = 0, dsp = 0, bram36 = 0, uram = 0;
  bool operator==(const Resources&) const = default;
};

struct MemoryBank {
  std::string name;  // "DDR[0]"
  std::uint64_t capacity_bytes = 0;
  std::uint64_t bandwidth_bytes_per_second = 0;
  bool operator==(const MemoryBank&) const = default;
};

/// A part of a device that a partition can occupy. A device without named regions has one region, "all".
struct Region {
  std::string name;
  Resources resources;              // resources of the region, before the shell's are subtracted
  std::vector<std::string> memory;  // names of the memory banks that the region can access
  std::string programming_unit;     // regions with the same unit are programmed together
  bool operator==(const Region&) const = default;
};

/// A transceiver of a card: its connector for a cable (a QSFP cage), as the vendor's linker names it.
struct Quad {
  std::string port;             // name of the serial port: "io_gt_qsfp0_00"
  std::string reference_clock;  // name of the port of its reference clock: "io_clk_qsfp0_refclka_00"
  std::string region;           // name of the region next to the transceiver; empty if unknown
  bool operator==(const Quad&) const = default;
};

/// What a platform has for cables, and how the vendor's Aurora core at each end of a cable is built. Everything that
/// Millrace emits for cables, and the rate that plans assume for them, comes from here.
struct Transceivers {
  std::uint32_t lanes = 0;              // serial lanes of a cable; 0: the file describes no transceivers
  double lane_gigabits_per_second = 0;  // line rate of each lane, before the 64B/66B code
  double reference_mhz = 0;             // clock at each quad's `reference_clock`
  std::string free_clock;               // name of a clock of 100 MHz that always runs
  std::vector<Quad> quads;              // by connector; may be fewer than the device's connectors

  /// Returns the rate at which the core carries data: all lanes, without the 2 bits of each 66 that the code takes.
  double core_gigabits_per_second() const { return lanes * lane_gigabits_per_second * 64 / 66; }
  /// Returns the clock, in MHz, at which the core delivers words of a link. The core cannot wait, so the clock of the
  /// image that receives them must not be slower. Returns 0 if the device has no transceivers.
  double core_mhz() const;
  bool operator==(const Transceivers&) const = default;
};

struct Device {
  std::string name;       // "ku060"; the same as the file's name
  std::string part;       // "xcku060"
  std::string family;     // Yosys family: "xcku" and others; see configs/README.md
  std::string platform;   // Vitis platform; empty if the device can only be emulated
  std::string plan_only;  // why plans for the device cannot be compiled; empty if they can
  double clock_mhz = 0;
  Resources shell;              // resources of the shell, subtracted from the regions, first region first
  Resources shell_of_platform;  // the part of `shell` that belongs to the vendor's platform
  Resources link;               // resources of each cable in use, subtracted from the first region
  std::vector<Region> regions;  // never empty
  std::vector<MemoryBank> memory;
  std::uint32_t connectors = 0;                // link connectors (QSFP or network ports)
  Transceivers transceivers;                   // of the platform; `lanes` is 0 if the device has no platform
  std::map<std::string, std::string> sources;  // name of a figure -> where the figure comes from
  bool operator==(const Device&) const = default;
};

/// A server with cards. In a cluster of several hosts, one MPI process (a rank) runs on each host.
struct ClusterHost {
  std::string name;       // unique; as `hostname` prints it, or as `serve --host-name` states it
  bool emulated = false;  // whether the host's cards are emulated: all are, or none
  bool operator==(const ClusterHost&) const = default;
};

/// The network between hosts, over which MPI sends tensors.
struct HostNetwork {
  double gigabits_per_second = 0;  // of each host, in each direction; > 0 in a cluster of several hosts
  double latency_ns = 0;           // of a message from one host to another
  bool operator==(const HostNetwork&) const = default;
};

struct ClusterCard {
  std::string name;    // unique: "fpga0"
  std::string device;  // name of a Device
  std::string bdf;     // PCIe address of a real card; empty for emulated ones
  std::string host{};  // name of the card's ClusterHost; empty if the cluster file lists no hosts
  bool operator==(const ClusterCard&) const = default;
};

/// One end of a cable: a card and a connector of the card. An empty `card` stands for no cable.
struct CableEnd {
  std::string card;
  std::uint32_t connector = 0;
  // The address of a UDP cable's end, such as "10.1.2.3:5000". If empty, an emulated card uses any port of the loopback
  // interface.
  std::string address{};
  bool operator==(const CableEnd&) const = default;
};

/// The protocol of a cable.
enum class CableProtocol {
  kAurora,  // serial link without a network (kernels/rtl/README.md, "A packet")
  kUdp,     // UDP datagrams, possibly through switches (runtime/link/README.md)
  kMpi,  // through the memory of two hosts and the network between them; only in the result of join_hosts()
};

/// A cable between two cards, full duplex.
struct Cable {
  std::string name;  // if absent: "fpga0-fpga1"
  CableEnd a, b;
  // In each direction, > 0. load_cluster() stores the rate at which packets pass, the least of three: the cable's own
  // rate (from the file), and at both ends the rates of the Aurora core and of the link port.
  double gigabits_per_second = 0;
  double latency_ns = 0;
  CableProtocol protocol = CableProtocol::kAurora;
  std::uint32_t mtu = 1500;  // for UDP: longest IP packet in bytes
  CableFaults faults{};      // for emulated UDP cables
  // What limits gigabits_per_second, with its figures, if it is not the cable itself: "the Aurora core of device u280
  // (1 lane at 10.3125 Gbit/s)". Empty otherwise.
  std::string limit{};

  /// Returns the number of payload bytes in a packet on this cable. The last packet of a frame may have fewer.
  std::uint32_t packet_bytes() const;
  /// Returns the rate at which an Aurora cable would carry as many payload bytes per second as this cable. The result
  /// differs from gigabits_per_second for UDP, whose datagrams have longer headers, and for MPI, which has no packet
  /// headers.
  double aurora_gigabits_per_second() const;

  bool operator==(const Cable&) const = default;
};

struct Cluster {
  std::string name;
  bool emulated = false;           // whether all cards are emulated
  std::vector<ClusterHost> hosts;  // empty: one host, whose name does not matter
  HostNetwork network;             // all 0 if there are fewer than two hosts
  std::vector<ClusterCard> cards;  // in file order; an emulated card's XRT index is its position on its host
  std::vector<Cable> cables;
  std::map<std::string, Device> devices;  // the devices of the cluster's cards, by name

  const ClusterCard* find_card(const std::string& card) const;
  const ClusterHost* find_host(const std::string& host) const;
  const Device& device_of(const ClusterCard& card) const { return devices.at(card.device); }
};

// On a cable, frames are divided into packets.

/// The number of payload bytes in a packet on an Aurora cable. The last packet of a frame may have fewer.
inline constexpr std::uint32_t kPacketBytes = 1024;

/// On the wire, a packet consists of a header of 32 bytes, the payload padded to whole words, and a word with the CRC.
inline constexpr std::uint32_t kPacketWordBytes = 8;
inline constexpr std::uint32_t kPacketOverheadBytes = 32 + kPacketWordBytes;

constexpr std::uint64_t packet_bytes_on_wire(std::uint64_t payload) {
  return (payload + kPacketWordBytes - 1) / kPacketWordBytes * kPacketWordBytes + kPacketOverheadBytes;
}

constexpr std::uint64_t frame_bytes_on_wire(std::uint64_t frame_bytes,
                                            std::uint64_t packet_bytes = kPacketBytes) {
  if (packet_bytes == 0) return 0;
  const std::uint64_t rest = frame_bytes % packet_bytes;
  return frame_bytes / packet_bytes * packet_bytes_on_wire(packet_bytes) +
         (rest > 0 ? packet_bytes_on_wire(rest) : 0);
}

/// A UDP datagram has headers of IP and UDP, and the header of a link datagram (runtime/link/README.md). On the wire, it
/// also has the Ethernet header, checksum, preamble and gap between packets.
inline constexpr std::uint32_t kIpAndUdpHeaderBytes = 28;
inline constexpr std::uint32_t kLinkHeaderBytes = 64;
inline constexpr std::uint32_t kEthernetBytes = 38;
inline constexpr std::uint32_t kDatagramOverheadBytes =
    kLinkHeaderBytes + kIpAndUdpHeaderBytes + kEthernetBytes;
/// The smallest and largest MTU of a UDP cable: the size that every IPv4 host must accept, and the longest IPv4 packet.
inline constexpr std::uint32_t kLeastMtu = 576, kMostMtu = 65'535;

constexpr std::uint64_t frame_bytes_on_udp(std::uint64_t frame_bytes, std::uint64_t packet_bytes) {
  if (packet_bytes == 0) return 0;
  return frame_bytes + (frame_bytes + packet_bytes - 1) / packet_bytes * kDatagramOverheadBytes;
}

/// Lowers the rate of an Aurora cable to what the Aurora cores and the link ports at its ends carry, and stores in
/// `limit` which of them is slowest. A link port moves one word of kPacketWordBytes in each clock cycle of the device. A
/// device without transceivers limits the rate by its port alone, and a device without a clock not at all. Cables of other
/// protocols stay as they are.
void limit_rate(Cable& cable, const Device& a, const Device& b);

/// Reads and checks a cluster and its devices (`<devices_dir>/<device>.yaml`; by default, the folder
/// `devices` next to the cluster file's folder). A device without a file there is read from the installed ones
/// (installed.hpp). Error messages name file, line and key.
Result<Cluster> load_cluster(const std::filesystem::path& file,
                             const std::filesystem::path& devices_dir = {});
Result<Device> load_device(const std::filesystem::path& file);

/// Returns the cluster with a "cable" of protocol kMpi between every two cards of different hosts that no cable joins, for
/// plans. Its latency is that of two messages, because a tensor passes through the host of rank 0
/// (runtime/mpi/README.md).
Cluster join_hosts(Cluster cluster);

/// Returns the part of a cluster that one host sees: its cards, and the cables between them. The result has no hosts,
/// and its `emulated` is the host's. Returns the whole cluster if the cluster lists no hosts, and kInvalidInput if it
/// lists hosts without this one.
Result<Cluster> cluster_of_host(const Cluster& cluster, const std::string& host);

}  // namespace millrace::runtime::plan
