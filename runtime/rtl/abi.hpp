// Between this program and a simulation it built: functions of the shared library, by name. The library is
// built from text of wrapper.cpp by the same build of Millrace (the cache's key holds that text), so layouts
// have no versions of their own.
#pragma once

#include <cstdint>

namespace millrace::runtime::rtl::abi {

/// A port's signals inside the model. `data`: little-endian, (bits + 7) / 8 bytes, unused high bits zero.
struct Port {
  std::uint8_t* valid;
  std::uint8_t* ready;
  std::uint8_t* data;
};

/// A stream's FIFO inside the model. `state`: bit 0 s_valid, 1 s_ready, 2 m_valid, 3 m_ready.
struct Stream {
  const std::uint32_t* high_water;
  const std::uint8_t* state;
};

/// A matrix-vector unit inside the model: cycles since the last reset in which its multipliers took operands.
struct Unit {
  const std::uint64_t* busy_cycles;
};

/// An AXI4 read port that masters the bus; words of 64 bytes.
struct ReadPort {
  const std::uint8_t* arvalid;
  std::uint8_t* arready;
  const std::uint64_t* araddr;
  const std::uint8_t* arlen;
  std::uint8_t* rvalid;
  const std::uint8_t* rready;
  std::uint8_t *rdata, *rresp, *rlast;
};

/// What tells the readers of weights where these are.
struct Weights {
  std::uint8_t *active, *flush;
  std::uint64_t* addr;
  const std::uint8_t *quiet, *error;
};

inline constexpr char kOpen[] = "millrace_simulation_open";
using Open = void*(std::uint32_t seed);
inline constexpr char kClose[] = "millrace_simulation_close";
using Close = void(void*);
/// Fills one entry for each port, stream and unit (those of all layers) of the design, in its order. Where
/// constants are loaded, one more input: their stream, of 64-bit words, without a ready.
inline constexpr char kConnect[] = "millrace_simulation_connect";
using Connect = void(void*, Port* inputs, Port* outputs, Stream* streams, Unit* units);
/// Only where weights are read from memory: their ports, in the design's order.
inline constexpr char kConnectWeights[] = "millrace_simulation_connect_weights";
using ConnectWeights = void(void*, Weights*, ReadPort* ports);
inline constexpr char kReset[] = "millrace_simulation_reset";
using Reset = void(void*, int level);
/// What follows from the inputs within the cycle.
inline constexpr char kSettle[] = "millrace_simulation_settle";
using Settle = void(void*);
/// A rising edge of the clock; settle() comes before anything is read.
inline constexpr char kTick[] = "millrace_simulation_tick";
using Tick = void(void*);
/// The first assertion that failed; empty where none did. Lives as long as the model.
inline constexpr char kFailure[] = "millrace_simulation_failure";
using Failure = const char*(void*);

}  // namespace millrace::runtime::rtl::abi
