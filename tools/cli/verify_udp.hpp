// `verify --fidelity rtl`: the SystemVerilog of a channel over UDP, between two partitions.
//
//   output of a partition ─▶ mr_udp_send ─▶ mr_udp_out ═ cable ═▶ mr_udp_in ─▶ mr_udp_receive ─▶ input of a partition
//                                 ▲ mr_udp_in ◀═ cable ═ mr_udp_out ◀─┘
#pragma once

#include "runtime/base/result.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"
#include "runtime/rtl/design.hpp"

namespace millrace::cli {

/// Whether the channel can be simulated as hardware: it is over UDP and has at most 64 credits, its packets are whole words,
/// both partitions have no links over Aurora (their deployment has no UDP modules otherwise), and the cable is neither too
/// slow nor too long to simulate.
bool has_udp_hardware(const runtime::plan::Deployment& plan, const runtime::plan::Channel& channel,
                      const runtime::plan::Cable& cable, double clock_mhz);

/// Returns a channel over UDP as the source of a simulation with an input (of the sending card) and an output (of the
/// receiving card). `sender` and `receiver` are the two partitions, which bring the modules of their links; `from` and `to`
/// are the channel's ports. The cable passes one word of 64 bytes after the other, at its rate and with its latency. Frames
/// have the epoch 1 and are counted from 0; an assertion fails if a frame's tag or one of its packets is wrong.
/// `number` makes the module's name unique. Returns kCorrupt if a partition lacks a module.
Result<runtime::rtl::Source> udp_channel_source(const runtime::rtl::Source& sender,
                                                const runtime::rtl::Source& receiver,
                                                const runtime::rtl::Port& from, const runtime::rtl::Port& to,
                                                const runtime::plan::Channel& channel,
                                                const runtime::plan::Cable& cable, double clock_mhz,
                                                std::size_t number);

}  // namespace millrace::cli
