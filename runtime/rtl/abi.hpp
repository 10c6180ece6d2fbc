// The interface between this program and a simulation that it built: functions of a shared library, found by
// name. The library is compiled from wrapper.cpp.in of the same Millrace, and the cache's key contains that
// text. So the layouts here need no version.
#pragma once

#include <cstdint>

namespace millrace::runtime::rtl::abi {

/// Pointers to a port's signals in the simulated model. `data` is little-endian and has (bits + 7) / 8 bytes; unused
/// high bits are zero.
struct Port {
  std::uint8_t* valid;
  std::uint8_t* ready;
  std::uint8_t* data;
};

/// Pointers to a stream's FIFO in the simulated model. Bits of `state`: 0 s_valid, 1 s_ready, 2 m_valid, 3 m_ready.
struct Stream {
  const std::uint32_t* high_water;
  const std::uint8_t* state;
};

/// Points to a counter of a matrix-vector unit in the simulated model. The counter counts the cycles since the last
/// reset in which the unit's multipliers received operands.
struct Unit {
  const std::uint64_t* busy_cycles;
};

/// Pointers to the signals of an AXI4 read port of a bus master, with 64-byte words.
struct ReadPort {
  const std::uint8_t* arvalid;
  std::uint8_t* arready;
  const std::uint64_t* araddr;
  const std::uint8_t* arlen;
  std::uint8_t* rvalid;
  const std::uint8_t* rready;
  std::uint8_t *rdata, *rresp, *rlast;
};

/// Pointers to the signals that pass a memory address to the readers of weights, and that report the readers' state.
struct Weights {
  std::uint8_t *active, *flush;
  std::uint64_t* addr;
  const std::uint8_t *quiet, *error;
};

inline constexpr char kOpen[] = "millrace_simulation_open";
using Open = void*(std::uint32_t seed);
inline constexpr char kClose[] = "millrace_simulation_close";
using Close = void(void*);
/// Fills in the ports, streams and units (of all layers), in the design's order. If constants are loaded,
/// there is one more input: the stream of their 64-bit words, without a ready signal.
inline constexpr char kConnect[] = "millrace_simulation_connect";
using Connect = void(void*, Port* inputs, Port* outputs, Stream* streams, Unit* units);
/// Fills in the ports that read weights from memory, in the design's order, and the weights' signals.
inline constexpr char kConnectWeights[] = "millrace_simulation_connect_weights";
using ConnectWeights = void(void*, Weights*, ReadPort* ports);
inline constexpr char kReset[] = "millrace_simulation_reset";
using Reset = void(void*, int level);
/// Recomputes combinational logic after inputs have changed within a cycle.
inline constexpr char kSettle[] = "millrace_simulation_settle";
using Settle = void(void*);
/// Simulates a rising edge of the clock. Before any signal is read, settle() must be called.
inline constexpr char kTick[] = "millrace_simulation_tick";
using Tick = void(void*);
/// Returns the first assertion that failed, or an empty string. The text is valid as long as the model exists.
inline constexpr char kFailure[] = "millrace_simulation_failure";
using Failure = const char*(void*);

}  // namespace millrace::runtime::rtl::abi
