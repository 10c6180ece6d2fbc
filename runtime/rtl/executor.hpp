// A partition alone, a frame at a time: its simulation between neighbours that always have and always take.
// What an emulated card at rtl fidelity computes with.
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

/// kCorrupt where the design's ports are not the program's inputs and outputs, naming the port.
Status check_ports(const Design& design, const kernels::Program& program);

/// One thread at a time.
class Executor {
 public:
  /// The simulation's ports are the program's (check_ports()). `program` is not needed afterwards.
  Executor(std::unique_ptr<Simulation> simulation, const kernels::Program& program);

  enum class State { kIdle, kRunning, kDone, kStuck };

  /// Begins a frame; kIdle or kDone before. Inputs in storage form, in the order of the program's.
  void start(std::span<const std::byte* const> inputs);
  /// Goes on for at most so many cycles.
  State advance(std::uint64_t cycles);
  /// What the frame became, in storage form; kDone before.
  void read(std::span<std::byte* const> outputs) const;

  /// Of this frame: from its first input beat to its last output beat so far.
  std::uint64_t cycles() const { return cycles_; }
  /// Why it is stuck: an assertion that failed, or streams that wait.
  const std::string& fault() const { return fault_; }
  /// Forgets the frame, by a reset of the dataflow.
  void abandon();
  /// Simulation::begin_load() and load_more(), with what hold_weights() takes; forgets the frame. No start()
  /// before it is done.
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
  bool begun_ = false;  // a beat went in
  std::uint64_t elapsed_ = 0, cycles_ = 0, quiet_ = 0;
  std::uint64_t patience_ = 0;
  std::string fault_;
};

/// "hop (full), conv_1_out (waiting)": the streams in which beats wait; for messages about a standstill.
std::string waiting_streams(const Simulation& simulation);

}  // namespace millrace::runtime::rtl
