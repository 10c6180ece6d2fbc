// The interface between this program and a simulation that it built: functions of a shared library, found by
// name. The library is built from wrapper.cpp.in by the same build of Millrace, and the cache's key
// covers that text. So layouts need no version of their own.
#pragma once

#include <cstdint>

namespace millrace::runtime::rtl::abi {

/// A port's signals inside the model. `data` is little-endian, (bits + 7) / 8 bytes; unused high bits are
/// zero.
struct Port {
  std::uint8_t* valid;
  std::uint8_t* ready;
  std::uint8_t* data;
};

/// A stream's FIFO inside the model. Bits of `state`: 0 s_valid, 1 s_ready, 2 m_valid, 3 m_ready.
struct Stream {
  const std::uint32_t* high_water;
  const std::uint8_t* state;
};

/// A matrix-vector unit inside the model: the cycles since the last reset in which its multipliers took
/// operands.
struct Unit {
  const std::uint64_t* busy_cycles;
};

/// An AXI4 read port of a bus master, with 64-byte words.
struct ReadPort {
  const std::uint8_t* arvalid;
  std::uint8_t* arready;
  const std::uint64_t* araddr;
  const std::uint8_t* arlen;
  std::uint8_t* rvalid;
  const std::uint8_t* rready;
  std::uint8_t *rdata, *rresp, *rlast;
};

/// The signals that tell readers of weights where the weights are.
struct Weights {
  std::uint8_t *active, *flush;
  std::uint64_t* addr;
  const std::uint8_t *quiet, *error;
};

inline constexpr char kOpen[] = "millrace_simulation_open";
using Open = void*(std::uint32_t seed);
inline constexpr char kClose[] = "millrace_simulation_close";
using Close = void(void*);
/// Fills one entry for each port, stream and unit (those of all layers), in the design's order. If constants
/// are loaded, there is one more input: their stream of 64-bit words, without a ready signal.
inline constexpr char kConnect[] = "millrace_simulation_connect";
using Connect = void(void*, Port* inputs, Port* outputs, Stream* streams, Unit* units);
/// For weights that are read from memory. Fills their ports in the design's order.
inline constexpr char kConnectWeights[] = "millrace_simulation_connect_weights";
using ConnectWeights = void(void*, Weights*, ReadPort* ports);
inline constexpr char kReset[] = "millrace_simulation_reset";
using Reset = void(void*, int level);
/// Lets combinational logic settle after inputs have changed within a cycle.
inline constexpr char kSettle[] = "millrace_simulation_settle";
using Settle = void(void*);
/// A rising edge of the clock. Call settle() before reading anything.
inline constexpr char kTick[] = "millrace_simulation_tick";
using Tick = void(void*);
/// The first assertion that failed, or an empty string. The text lives as long as the model.
inline constexpr char kFailure[] = "millrace_simulation_failure";
using Failure = const char*(void*);

}  // namespace millrace::runtime::rtl::abi
