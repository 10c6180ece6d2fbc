// Runs one partition's simulation, one frame at a time, between neighbours that always offer and always take.
// An emulated card at rtl fidelity computes with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/program/program.hpp"
#include "runtime/base/result.hpp"
#include "runtime/rtl/simulation.hpp"

namespace millrace::runtime::rtl {

/// Checks that the design's ports are the program's inputs and outputs. kCorrupt: names the port that
/// differs.
Status check_ports(const Design& design, const kernels::Program& program);

/// One thread at a time.
class Executor {
 public:
  /// The simulation's ports must be the program's (check_ports()). `program` is not needed afterwards.
  Executor(std::unique_ptr<Simulation> simulation, const kernels::Program& program);

  enum class State { kIdle, kRunning, kDone, kStuck };

  /// Begins a frame. Allowed in the states kIdle and kDone. Inputs are in storage form, in the program's
  /// order.
  void start(std::span<const std::byte* const> inputs);
  /// Continues for at most `cycles` cycles.
  State advance(std::uint64_t cycles);
  /// Writes the frame's results in storage form. Allowed in the state kDone.
  void read(std::span<std::byte* const> outputs) const;

  /// The cycles of this frame, from its first input beat to its last output beat so far.
  std::uint64_t cycles() const { return cycles_; }
  /// Why the state is kStuck: an assertion that failed, or streams that wait.
  const std::string& fault() const { return fault_; }
  /// Drops the frame by a reset of the dataflow.
  void abandon();
  /// Drops the frame and begins to load parameters: Simulation::begin_load() with `words` and hold_weights()
  /// with `streamed`. Do not call start() before load_more() returns true.
  Status begin_load(std::span<const std::byte> words, std::span<const std::byte> streamed);
  Result<bool> load_more(std::uint64_t cycles) { return simulation_->load_more(cycles); }

 private:
  struct Frame {
    kernels::ElementType type;
    std::uint64_t beat_bits = 0, beats = 0, beat = 0;
    std::vector<std::byte> packed;
    std::uint64_t storage_bytes = 0;
  };
  bool cycle();

  std::unique_ptr<Simulation> simulation_;
  std::vector<Frame> inputs_, outputs_;
  State state_ = State::kIdle;
  bool begun_ = false;  // the frame's first beat went in
  std::uint64_t elapsed_ = 0, cycles_ = 0, quiet_ = 0;
  std::uint64_t patience_ = 0;
  std::string fault_;
};

/// The streams in which beats wait, for messages about a standstill: "hop (full), conv_1_out (waiting)".
std::string waiting_streams(const Simulation& simulation);

}  // namespace millrace::runtime::rtl
