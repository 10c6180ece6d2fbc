#include "runtime/emulator/card/partition.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>

#include "kernels/program/packing.hpp"
#include "runtime/plan/parameters.hpp"
#include "runtime/plugins/models.hpp"

namespace millrace::runtime::emulator {

namespace abi = plan::abi;

namespace {

// How long a simulation runs until the card checks for commands and calls, and by how many cycles the
// simulation advances in one step.
constexpr std::uint64_t kSliceNanoseconds = 5'000'000, kSliceCycles = 256;

/// Allocates memory for a tensor's packed form (without padding between elements). Returns an empty vector if this form
/// equals the storage form (each element in whole bytes).
std::vector<std::byte> room_for_packed(const kernels::Tensor& tensor) {
  const std::uint64_t packed = kernels::packed_bytes(tensor.type, tensor.elements());
  const bool equal =
      packed == tensor.storage_bytes() && tensor.type.kind != kernels::ElementType::Kind::kBipolar;
  return std::vector<std::byte>(equal ? 0 : packed);
}

std::vector<std::size_t> output_bytes(const kernels::Program& program) {
  std::vector<std::size_t> bytes;
  for (const auto index : program.outputs) bytes.push_back(program.tensors[index].storage_bytes());
  return bytes;
}

FrameKey key_of(const Command& run) {
  return {run.u32(0x24), run.u64(0x2c)};  // epoch and sequence of ingress and egress runs (image_abi.hpp)
}

}  // namespace

std::byte* MemoryView::at(std::uint64_t address, std::uint64_t bytes) const {
  for (const auto& bank : banks_)
    if (address >= bank.address && address - bank.address < bank.bytes &&
        bytes <= bank.bytes - (address - bank.address))
      return data_ + bank.offset + (address - bank.address);
  return nullptr;
}

Partition::Partition(const kernels::Program& program, CardServices& services, std::vector<Channel> inputs,
                     std::vector<std::vector<Channel>> outputs, Parameters parameters,
                     std::unique_ptr<rtl::Executor> simulation, const plan::Pace& pace)
    : services_(services),
      parameters_(std::move(parameters)),
      ready_(parameters_.unit == nullptr),
      simulation_(std::move(simulation)),
      pacer_(pace, simulation_ == nullptr ? services.pace : 0, output_bytes(program)) {
  if (simulation_ == nullptr && ready_) executor_.emplace(program);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& tensor = program.tensors[program.inputs[i]];
    auto& input = inputs_.emplace_back();
    input.type = tensor.type;
    input.channel = inputs[i];
    input.frame.resize(tensor.storage_bytes());
    if (input.channel.link != nullptr) input.wire = room_for_packed(tensor);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& tensor = program.tensors[program.outputs[i]];
    auto& output = outputs_.emplace_back();
    output.type = tensor.type;
    output.frame.resize(tensor.storage_bytes());
    bool linked = false;
    for (const auto& channel : outputs[i]) {
      output.exits.push_back({channel, 0, true});
      linked = linked || channel.link != nullptr;
    }
    if (linked) output.wire = room_for_packed(tensor);
  }
  for (auto& input : inputs_) input_frames_.push_back(input.frame.data());
  for (auto& output : outputs_) output_frames_.push_back(output.frame.data());
}

// The hot path begins here.
bool Partition::advance() {
  wake_at_ = std::numeric_limits<std::uint64_t>::max();
  bool moved = take_parameters();
  for (auto& output : outputs_) moved |= hand_on(output);
  for (auto& input : inputs_)
    moved |= input.channel.unit != nullptr ? take_from_host(input) : take_from_link(input);
  bool computed = pacer_.has_pace() ? release_at_pace() : compute();
  if (computed)
    for (auto& output : outputs_) hand_on(output);
  if (pacer_.has_pace()) computed |= compute_at_pace();
  return moved || computed;
}

bool Partition::take_from_host(Input& input) {
  auto& queue = *input.channel.unit;
  bool moved = false;
  while (!queue.empty()) {
    const auto& run = queue.front();
    const auto key = key_of(run);
    const auto* from = services_.memory.at(run.u64(0x10), input.frame.size());
    const bool valid = from != nullptr && run.u32(0x1c) == input.frame.size();
    if (valid && key.epoch == services_.epoch) {
      if (input.full) break;
      std::memcpy(input.frame.data(), from, input.frame.size());
      input.key = key;
      input.full = true;
      if (pacer_.has_pace()) input.arrived = now_nanoseconds();
    }
    services_.completions.finish(run, valid ? PacketState::kCompleted : PacketState::kError);
    queue.pop_front();
    moved = true;
  }
  return moved;
}

bool Partition::take_from_link(Input& input) {
  auto& link = *input.channel.link;
  const auto landing = input.landing();
  bool moved = false;
  LinkPort::Packet packet;
  while (!input.full && link.peek(packet)) {
    const auto& header = packet.header;
    const FrameKey key{header.epoch, header.sequence};
    moved = true;
    // The frame is incomplete if it began before this port was enabled or if its sender restarted. Then drop packets
    // until the first packet of a frame.
    const bool first = header.offset == 0;
    const bool next = key == input.key && header.offset == input.received;
    if (key.epoch == services_.epoch && (first || next)) {
      const auto end = std::uint64_t{header.offset} + header.length;
      if (end > landing.size() || (header.last != 0) != (end == landing.size())) {
        link.fail("a frame arrived that is not " + std::to_string(landing.size()) + " bytes long");
        return true;
      }
      std::memcpy(landing.data() + header.offset, packet.payload, header.length);
      input.key = key;
      input.received = header.offset + header.length;
      if (pacer_.has_pace()) input.arrived = header.arrives_at > 0 ? header.arrives_at : now_nanoseconds();
      if (input.received == landing.size()) {
        input.full = true;
        input.received = 0;
      }
    } else {
      input.received = 0;
    }
    link.take();
  }
  if (!input.full) wake_at_ = std::min(wake_at_, link.next_arrival());
  if (moved) link.notify_sender();
  if (moved && input.full && !input.wire.empty()) kernels::unpack(input.type, input.wire, input.frame);
  return moved;
}

bool Partition::inputs_are_full() const {
  return std::all_of(inputs_.begin(), inputs_.end(), [](const Input& input) { return input.full; });
}

bool Partition::outputs_are_free() const {
  return std::none_of(outputs_.begin(), outputs_.end(), [](const Output& output) { return output.full; });
}

/// Starts to compute a frame if all inputs hold it and all outputs are free. Returns whether anything changed.
bool Partition::compute() {
  if (!ready_) return false;
  if (!outputs_are_free()) return false;
  if (!simulating_) {
    if (!inputs_are_full()) return false;
    FrameKey key;
    if (!join(key)) return true;
    if (simulation_ == nullptr) {
      run_program(key);
      return true;
    }
    simulation_->start(input_frames_);
    for (auto& input : inputs_) input.full = false;
    simulated_ = key;
    simulating_ = true;
  }
  continue_simulation();
  return true;
}

/// Takes and computes a frame if the hardware would take it now. The frame's outputs stay in the pacer until the
/// hardware would have made them. Returns whether anything changed.
bool Partition::compute_at_pace() {
  if (!ready_ || pacer_.is_full() || !inputs_are_full()) return false;
  FrameKey key;
  if (!join(key)) return true;
  std::uint64_t arrived = 0;
  for (const auto& input : inputs_) arrived = std::max(arrived, input.arrived);
  const std::uint64_t begin = pacer_.begin_of(arrived), now = now_nanoseconds();
  if (now < begin) {
    wake_at_ = std::min(wake_at_, begin);
    return false;
  }
  Pacer::Frame& frame = pacer_.take(key, begin);
  for (std::size_t i = 0; i < outputs_.size(); ++i) output_frames_[i] = frame.outputs[i].data();
  for (auto& input : inputs_) input.full = false;
  try {
    executor_->run(input_frames_, output_frames_);
  } catch (const kernels::PluginFailure& failure) {
    fault_ = failure.what();
    frame.dropped = true;
  }
  frame.took = now_nanoseconds() - now;
  services_.busy_nanoseconds += std::max(frame.took, pacer_.interval());
  return true;
}

/// Moves the oldest computed frame to the outputs if the hardware would have finished that frame by now. Returns
/// whether a frame was moved.
bool Partition::release_at_pace() {
  if (!outputs_are_free()) return false;
  const Pacer::Frame* const frame = pacer_.oldest();
  if (frame == nullptr) return false;
  if (now_nanoseconds() < frame->due) {
    wake_at_ = std::min(wake_at_, frame->due);
    return false;
  }
  const std::uint64_t left_at = std::max(frame->due, outputs_free_at_);
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    std::copy(frame->outputs[i].begin(), frame->outputs[i].end(), outputs_[i].frame.begin());
    outputs_[i].left_at = left_at;
  }
  fill_outputs(frame->key, frame->took);
  pacer_.remove_oldest(left_at);
  return true;
}

/// Finds the frame that all inputs hold. Each port receives frames in order. So a frame with a lower number than
/// another port's frame can never be complete and is dropped.
bool Partition::join(FrameKey& key) {
  const Input* newest = &inputs_.front();
  for (const auto& input : inputs_)
    if (input.key.sequence > newest->key.sequence) newest = &input;
  key = newest->key;
  bool joined = true;
  for (auto& input : inputs_) {
    if (input.key == key) continue;
    input.full = false;
    joined = false;
  }
  return joined;
}

void Partition::run_program(const FrameKey& key) {
  constexpr std::uint64_t kWorthAWakeUp = 20'000;  // nanoseconds of computing before which waiters are woken
  if (usual_nanoseconds_ > kWorthAWakeUp) services_.completions.flush();
  const auto begin = now_nanoseconds();
  for (auto& input : inputs_) input.full = false;
  try {
    executor_->run(input_frames_, output_frames_);
  } catch (const kernels::PluginFailure& failure) {
    fault_ = failure.what();
    return;
  }
  const auto took = now_nanoseconds() - begin;
  usual_nanoseconds_ = (usual_nanoseconds_ * 7 + took) / 8;
  services_.busy_nanoseconds += took;
  fill_outputs(key, took);
}

/// Simulates for one time slice, so that the card can handle commands and calls between slices.
void Partition::continue_simulation() {
  using State = rtl::Executor::State;
  const auto begin = now_nanoseconds();
  State state = State::kRunning;
  std::uint64_t end = begin;
  for (; state == State::kRunning && end - begin < kSliceNanoseconds; end = now_nanoseconds())
    state = simulation_->advance(kSliceCycles);
  services_.busy_nanoseconds += end - begin;
  if (state == State::kRunning) return;
  simulating_ = false;
  if (state == State::kDone) {
    simulation_->read(output_frames_);
    fill_outputs(simulated_, simulation_->cycles());
  } else {
    fault_ = simulation_->fault();
    simulation_->abandon();
  }
}

void Partition::fill_outputs(const FrameKey& key, std::uint64_t took) {
  ++services_.frames;
  for (auto& output : outputs_) {
    output.key = key;
    output.full = true;
    output.took = took;
    output.ready_at = now_nanoseconds();
    if (!output.wire.empty()) kernels::pack(output.type, output.frame, output.wire);
    for (auto& exit : output.exits) {
      exit.sent = 0;
      exit.done = false;
    }
  }
}

bool Partition::hand_on(Output& output) {
  bool moved = false;
  for (auto& exit : output.exits) {
    if (exit.channel.unit != nullptr) {
      moved |= hand_to_host(output, exit);
    } else if (output.full && !exit.done) {
      moved |= exit.channel.link->send(output.key, output.wire_form(), exit.sent, output.left_at);
      exit.done = exit.sent == output.wire_form().size();
      if (!exit.done) wake_at_ = std::min(wake_at_, exit.channel.link->cable_up_at());
    }
  }
  if (output.full) {
    output.full =
        !std::all_of(output.exits.begin(), output.exits.end(), [](const Exit& e) { return e.done; });
    if (!output.full && pacer_.has_pace()) outputs_free_at_ = now_nanoseconds();
  }
  return moved;
}

bool Partition::hand_to_host(Output& output, Exit& exit) {
  auto& queue = *exit.channel.unit;
  bool moved = false;
  while (!queue.empty()) {
    const auto& run = queue.front();
    const auto key = key_of(run);
    const bool here = output.full && !exit.done;
    const auto* room = services_.memory.at(run.u64(0x10), abi::egress_buffer_bytes(output.frame.size()));
    if (run.u32(0x1c) != output.frame.size() || room == nullptr) {
      services_.completions.finish(run, PacketState::kError);
    } else if (key.epoch != services_.epoch || (here && output.key.sequence > key.sequence)) {
      deliver(output, run, abi::FrameStatus::kDropped);
    } else if (!here) {
      break;
    } else {
      exit.done = true;
      moved = true;
      if (output.key.sequence < key.sequence) break;  // no run waits for this frame
      deliver(output, run, abi::FrameStatus::kOk);
    }
    queue.pop_front();
    moved = true;
  }
  return moved;
}

/// Writes payload and trailer, or only the trailer of a dropped frame, to memory whose bounds were checked.
/// Completes the run.
void Partition::deliver(const Output& output, const Command& run, abi::FrameStatus status) {
  const auto key = key_of(run);
  const bool whole = status == abi::FrameStatus::kOk;
  abi::StatusTrailer trailer;
  trailer.epoch = key.epoch;
  trailer.sequence = key.sequence;
  trailer.status = status;
  trailer.flags = simulation_ == nullptr ? abi::kTrailerNanoseconds : 0;
  auto* to = services_.memory.at(run.u64(0x10), abi::egress_buffer_bytes(output.frame.size()));
  if (whole) {
    trailer.payload_bytes = static_cast<std::uint32_t>(output.frame.size());
    trailer.cycles = output.took;
    // A simulated partition never waits for the memory to which it writes, so it reports no stall cycles.
    trailer.stall_cycles = simulation_ == nullptr ? now_nanoseconds() - output.ready_at : 0;
    std::memcpy(to, output.frame.data(), output.frame.size());
  }
  std::memcpy(to + abi::trailer_offset(output.frame.size()), &trailer, sizeof trailer);
  services_.completions.finish(run, PacketState::kCompleted);
}
// The hot path ends here.

/// Loads the parameters of a run. The run stays first in its queue until the load is done, so that an abort finds it.
bool Partition::take_parameters() {
  CommandQueue* const runs = parameters_.unit;
  if (runs == nullptr) return false;
  if (loading_ && (runs->empty() || runs->front().slot != loading_->slot ||
                   runs->front().generation != loading_->generation)) {
    loading_.reset();  // parameters are partly loaded, so the partition has none
    return true;
  }
  if (runs->empty()) return false;
  const Command run = runs->front();
  const Status status = loading_ ? continue_loading() : use_parameters(run);
  if (!status.ok()) {
    std::fprintf(stderr, "millrace-card: %s\n", status.error().message().c_str());
    loading_.reset();
  }
  if (loading_) return true;
  services_.completions.finish(run, status.ok() ? PacketState::kCompleted : PacketState::kError);
  runs->pop_front();
  return true;
}

/// Uses the parameters of a run. If they are rejected, the partition keeps its old parameters.
Status Partition::use_parameters(const Command& run) {
  const std::uint32_t bytes = run.u32(0x1c);
  const std::byte* const from = services_.memory.at(run.u64(0x10), bytes);
  if (from == nullptr)
    return Error(ErrorCode::kInvalidInput, "the buffer of the parameters is not inside a memory bank");
  MILLRACE_ASSIGN(kernels::Program program, plan::decode_parameters({from, bytes}, parameters_.topology));
  if (simulation_ == nullptr) {
    MILLRACE_TRY(plugins::load_models(program));
    drop_frames(true);
    executor_.emplace(program);
    usual_nanoseconds_ = 0;
    ready_ = true;
    return {};
  }
  MILLRACE_ASSIGN(const plan::ParameterHeader header, plan::read_parameter_header({from, bytes}));
  drop_frames(true);
  MILLRACE_TRY(simulation_->begin_load({from + header.load.offset, header.load.bytes},
                                       {from + header.streamed.offset, header.streamed.bytes}));
  ready_ = false;
  loading_ = run;
  return {};
}

/// Loads parameters for one time slice, so that the card can handle commands and calls between slices.
Status Partition::continue_loading() {
  const auto begin = now_nanoseconds();
  while (now_nanoseconds() - begin < kSliceNanoseconds) {
    MILLRACE_ASSIGN(const bool done, simulation_->load_more(kSliceCycles));
    if (!done) continue;
    loading_.reset();
    ready_ = true;
    break;
  }
  return {};
}

void Partition::drop_frames(bool all) {
  const auto stays = [&](const FrameKey& key) { return !all && key.epoch == services_.epoch; };
  if (simulating_ && !stays(simulated_)) {
    simulation_->abandon();
    simulating_ = false;
  }
  pacer_.drop(stays);
  for (auto& input : inputs_) {
    if (stays(input.key)) continue;
    input.full = false;
    input.received = 0;
  }
  for (auto& output : outputs_) {
    if (!output.full || stays(output.key)) continue;
    output.full = false;
    for (auto& exit : output.exits) exit.done = true;
  }
}

}  // namespace millrace::runtime::emulator
