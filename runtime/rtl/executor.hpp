// Simulates one partition, one frame at a time. Memory never delays the simulation's inputs and outputs. An emulated
// card with the fidelity "rtl" computes with this class.
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

/// Checks that the design's ports match the program's inputs and outputs. Returns kCorrupt, naming a port that differs.
Status check_ports(const Design& design, const kernels::Program& program);

/// Computes frames with a Simulation. Only one thread at a time may use an executor.
class Executor {
 public:
  /// The simulation's ports must match those of the program (check_ports()). `program` is not needed afterwards.
  Executor(std::unique_ptr<Simulation> simulation, const kernels::Program& program);

  enum class State { kIdle, kRunning, kDone, kStuck };

  /// Begins a frame. May be called in the states kIdle and kDone. Inputs are in the program's order and in storage form
  /// (each element in whole bytes).
  void start(std::span<const std::byte* const> inputs);
  /// Continues the simulation for at most `cycles` cycles.
  State advance(std::uint64_t cycles);
  /// Writes the frame's results in storage form (each element in whole bytes). May be called in the state kDone.
  void read(std::span<std::byte* const> outputs) const;

  /// Returns the number of cycles from the frame's first transfer at an input to its latest transfer at an output.
  std::uint64_t cycles() const { return cycles_; }
  /// Returns why the state is kStuck: an assertion that failed, or the streams in which data waits.
  const std::string& fault() const { return fault_; }
  /// Drops the frame and resets the dataflow.
  void abandon();
  /// Drops the frame and begins to load parameters by Simulation::begin_load(words) and hold_weights(streamed).
  /// start() must not be called before load_more() has returned true.
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
  bool begun_ = false;  // whether the frame's first beat was accepted
  std::uint64_t elapsed_ = 0, cycles_ = 0, quiet_ = 0;
  std::uint64_t patience_ = 0;
  std::string fault_;
};

/// Returns the streams in which data waits, for error messages: "hop (full), conv_1_out (waiting)".
std::string waiting_streams(const Simulation& simulation);

}  // namespace millrace::runtime::rtl
