// The ports of a partition's top module. emit/rtl writes them; emit/vitis wraps them in a kernel.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compiler/generators/shell.hpp"

namespace millrace::compiler::emit {

/// A signal of a bus. `input` says whether the signal is an input of the partition's top module.
struct Signal {
  const char* name;
  bool input;
  unsigned width;
};

using generators::kDataBytes;

inline constexpr Signal kAxiLite[] = {{"awvalid", true, 1}, {"awready", false, 1}, {"awaddr", true, 12},
                                      {"wvalid", true, 1},  {"wready", false, 1},  {"wdata", true, 32},
                                      {"wstrb", true, 4},   {"bvalid", false, 1},  {"bready", true, 1},
                                      {"bresp", false, 2},  {"arvalid", true, 1},  {"arready", false, 1},
                                      {"araddr", true, 12}, {"rvalid", false, 1},  {"rready", true, 1},
                                      {"rdata", false, 32}, {"rresp", false, 2}};
inline constexpr Signal kAxiRead[] = {
    {"arvalid", false, 1}, {"arready", true, 1}, {"araddr", false, 64},           {"arlen", false, 8},
    {"rvalid", true, 1},   {"rready", false, 1}, {"rdata", true, kDataBytes * 8}, {"rresp", true, 2},
    {"rlast", true, 1}};
inline constexpr Signal kAxiWrite[] = {{"awvalid", false, 1},
                                       {"awready", true, 1},
                                       {"awaddr", false, 64},
                                       {"awlen", false, 8},
                                       {"wvalid", false, 1},
                                       {"wready", true, 1},
                                       {"wdata", false, kDataBytes * 8},
                                       {"wlast", false, 1},
                                       {"bvalid", true, 1},
                                       {"bready", false, 1},
                                       {"bresp", true, 2}};
/// The ports of a connector, which takes one end of a cable: a flag that the cable's core is up, and an AXI-Stream in
/// each direction.
inline constexpr Signal kConnector[] = {{"up", true, 1},
                                        {"tx_tvalid", false, 1},
                                        {"tx_tready", true, 1},
                                        {"tx_tdata", false, generators::kLinkBytes * 8},
                                        {"tx_tlast", false, 1},
                                        {"rx_tvalid", true, 1},
                                        {"rx_tdata", true, generators::kLinkBytes * 8},
                                        {"rx_tlast", true, 1}};

/// The ports of a connector of an image with UDP links: an AXI-Stream to a UDP network layer and one from it. A packet is a
/// datagram. `tdest` is the neighbour's index in the network layer's socket table.
inline constexpr Signal kUdpConnector[] = {
    {"tx_tvalid", false, 1}, {"tx_tready", true, 1},  {"tx_tdata", false, 512}, {"tx_tkeep", false, 64},
    {"tx_tlast", false, 1},  {"tx_tdest", false, 16}, {"rx_tvalid", true, 1},   {"rx_tready", false, 1},
    {"rx_tdata", true, 512}, {"rx_tkeep", true, 64},  {"rx_tlast", true, 1},    {"rx_tdest", true, 16}};

enum class Master : std::uint8_t { kNone, kRead, kWrite };

/// A unit inside a partition's top module whose signals are ports of the top.
struct TopUnit {
  std::string name;
  bool registers = true;          // an AXI4-Lite slave, <name>_axil_
  bool interrupt = true;          // <name>_irq
  Master master = Master::kNone;  // an AXI4 master, <name>_axi_, that reads or writes memory
};

/// All ports of a partition's top module except clk, rst and error, in the order of the port list.
struct TopInterface {
  std::vector<TopUnit> units;
  std::uint32_t connectors = 0;  // a connector's ports are link<k>_…, after the ports of the units
  bool udp = false;              // whether the connectors are those of UDP links (kUdpConnector)
};

/// Returns the signals of each connector.
inline std::span<const Signal> connector_signals_of(const TopInterface& top) {
  return top.udp ? std::span<const Signal>(kUdpConnector) : std::span<const Signal>(kConnector);
}

/// Returns the signals of an AXI4 master port of this kind; no signals for kNone.
inline std::span<const Signal> signals_of(Master master) {
  if (master == Master::kNone) return {};
  return master == Master::kRead ? std::span<const Signal>(kAxiRead) : std::span<const Signal>(kAxiWrite);
}

}  // namespace millrace::compiler::emit
