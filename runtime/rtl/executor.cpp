#include "runtime/rtl/executor.hpp"

#include <algorithm>

#include "kernels/program/packing.hpp"
#include "runtime/rtl/bits.hpp"

namespace millrace::runtime::rtl {

namespace {

constexpr std::uint64_t kFailureCheckCycles = 64;

Status check_port(const Port& port, const kernels::Tensor& tensor, const std::string& partition) {
  if (port.kind == tensor.type.kind && port.bits == tensor.type.bits && port.elements() == tensor.elements())
    return {};
  return Error(ErrorCode::kCorrupt, "partition '" + partition + "', port '" + port.name +
                                        "': the SystemVerilog has " + std::to_string(port.elements()) +
                                        " elements of " + std::to_string(port.bits) +
                                        " bits, the program's tensor '" + tensor.name + "' " +
                                        std::to_string(tensor.elements()) + " x " + to_string(tensor.type));
}

}  // namespace

Status check_ports(const Design& design, const kernels::Program& program) {
  if (design.inputs.size() != program.inputs.size() || design.outputs.size() != program.outputs.size())
    return Error(ErrorCode::kCorrupt,
                 "partition '" + design.partition +
                     "': the SystemVerilog and the program have different numbers of ports");
  for (std::size_t i = 0; i < design.inputs.size(); ++i)
    MILLRACE_TRY(check_port(design.inputs[i], program.tensors[program.inputs[i]], design.partition));
  for (std::size_t i = 0; i < design.outputs.size(); ++i)
    MILLRACE_TRY(check_port(design.outputs[i], program.tensors[program.outputs[i]], design.partition));
  return {};
}

std::string waiting_streams(const Simulation& simulation) {
  constexpr std::size_t kMost = 12;
  std::string out;
  std::size_t count = 0;
  const auto& streams = simulation.design().streams;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const auto state = simulation.state(i);
    if (state != Simulation::StreamState::kFull && state != Simulation::StreamState::kWaiting) continue;
    if (++count > kMost) continue;
    out += (out.empty() ? "" : ", ") + streams[i].name +
           (state == Simulation::StreamState::kFull ? " (full)" : " (not taken)");
  }
  if (count > kMost) out += " and " + std::to_string(count - kMost) + " more";
  return out.empty() ? "no stream holds a beat" : out;
}

Executor::Executor(std::unique_ptr<Simulation> simulation, const kernels::Program& program)
    : simulation_(std::move(simulation)) {
  const Design& design = simulation_->design();
  const auto make = [&](const Port& port, kernels::TensorIndex index) {
    const kernels::Tensor& tensor = program.tensors[index];
    Frame frame;
    frame.type = tensor.type;
    frame.beat_bits = port.beat_bits();
    frame.beats = frame.beat = port.beats;
    frame.packed.resize(kernels::packed_bytes(tensor.type, tensor.elements()));
    frame.storage_bytes = tensor.storage_bytes();
    return frame;
  };
  for (std::size_t i = 0; i < design.inputs.size(); ++i)
    inputs_.push_back(make(design.inputs[i], program.inputs[i]));
  for (std::size_t i = 0; i < design.outputs.size(); ++i)
    outputs_.push_back(make(design.outputs[i], program.outputs[i]));
  patience_ = 10'000 + 2 * (design.predicted.latency + design.predicted.interval);
}

void Executor::start(std::span<const std::byte* const> inputs) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    kernels::pack(inputs_[i].type, {inputs[i], inputs_[i].storage_bytes}, inputs_[i].packed);
    inputs_[i].beat = 0;
  }
  for (Frame& output : outputs_) {
    std::fill(output.packed.begin(), output.packed.end(), std::byte{0});
    output.beat = 0;
  }
  state_ = State::kRunning;
  begun_ = false;
  elapsed_ = cycles_ = quiet_ = 0;
}

Executor::State Executor::advance(std::uint64_t cycles) {
  for (std::uint64_t i = 0; i < cycles && state_ == State::kRunning; ++i) {
    quiet_ = cycle() ? 0 : quiet_ + 1;
    const auto whole = [](const Frame& frame) { return frame.beat == frame.beats; };
    const bool done = std::all_of(outputs_.begin(), outputs_.end(), whole) &&
                      std::all_of(inputs_.begin(), inputs_.end(), whole);
    if (done) state_ = State::kDone;
    const bool look = done || quiet_ > patience_ || i % kFailureCheckCycles == 0;
    if (std::string failed = look ? simulation_->failure() : std::string(); !failed.empty()) {
      fault_ = std::move(failed);
      state_ = State::kStuck;
    } else if (quiet_ > patience_) {
      fault_ = "no beat moved for " + std::to_string(quiet_) + " cycles; " + waiting_streams(*simulation_);
      state_ = State::kStuck;
    }
  }
  return state_;
}

/// Simulates one cycle. Returns whether a beat (one transfer at a port) entered or left the dataflow.
bool Executor::cycle() {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Frame& frame = inputs_[i];
    const abi::Port& port = simulation_->input(i);
    *port.valid = frame.beat < frame.beats ? 1 : 0;
    if (frame.beat < frame.beats)
      copy_bits_out(frame.packed.data(), frame.beat * frame.beat_bits, frame.beat_bits, port.data);
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    *simulation_->output(i).ready = outputs_[i].beat < outputs_[i].beats ? 1 : 0;
  simulation_->settle();
  bool moved = false;
  if (begun_) ++elapsed_;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const abi::Port& port = simulation_->input(i);
    if (*port.valid == 0 || *port.ready == 0) continue;
    ++inputs_[i].beat;
    moved = begun_ = true;
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const abi::Port& port = simulation_->output(i);
    if (*port.valid == 0 || *port.ready == 0) continue;
    Frame& frame = outputs_[i];
    copy_bits_in(port.data, frame.beat_bits, frame.packed.data(), frame.beat * frame.beat_bits);
    ++frame.beat;
    cycles_ = elapsed_;
    moved = true;
  }
  simulation_->tick();
  return moved;
}

void Executor::read(std::span<std::byte* const> outputs) const {
  for (std::size_t i = 0; i < outputs_.size(); ++i)
    kernels::unpack(outputs_[i].type, outputs_[i].packed, {outputs[i], outputs_[i].storage_bytes});
}

void Executor::abandon() {
  simulation_->reset();
  state_ = State::kIdle;
  fault_.clear();
}

Status Executor::begin_load(std::span<const std::byte> words, std::span<const std::byte> streamed) {
  state_ = State::kIdle;
  fault_.clear();
  MILLRACE_TRY(simulation_->begin_load(words));  // does not change the tables yet
  return simulation_->hold_weights(streamed);
}

}  // namespace millrace::runtime::rtl
