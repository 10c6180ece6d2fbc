// The path of one frame from submit() to on_complete.
#include "runtime/pipeline/engine.hpp"

#include <algorithm>
#include <cstring>

namespace millrace::runtime::pipeline {

namespace {

// XRT may report the end of the runs that send a frame to the cards a little later than the frame's results. The
// recovery thread checks again after this time.
constexpr std::chrono::milliseconds kIngressLag{1};

/// Checks a frame's tensors. `bytes_of(i)` is the required length of tensor `i`.
template <class Tensors, class BytesOf>
Status check_tensors(const char* what, const Tensors& given, const std::vector<plan::TensorSignature>& wanted,
                     BytesOf bytes_of) {
  if (given.size() != wanted.size())
    return Error(ErrorCode::kInvalidInput, "the frame has " + std::to_string(given.size()) + " " + what +
                                               ", the model " + std::to_string(wanted.size()));
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (given[i].size() != bytes_of(i))
      return Error(ErrorCode::kInvalidInput, "tensor '" + wanted[i].name + "' has " +
                                                 std::to_string(given[i].size()) +
                                                 " bytes, the model needs " + std::to_string(bytes_of(i)));
  return {};
}

}  // namespace

Engine::Engine(std::shared_ptr<const plan::LoadedDeployment> deployment, plan::Cluster cluster,
               const PipelineOptions& options, Schedule schedule, Binding binding)
    : deployment_(std::move(deployment)),
      cluster_(std::move(cluster)),
      options_(options),
      schedule_(std::move(schedule)),
      fleet_(*deployment_, cluster_, schedule_, std::move(binding), options_),
      slots_(options.slots),
      card_threads_(fleet_.size()) {
  const std::size_t inputs = deployment_->plan.model.inputs.size();
  for (Slot& slot : slots_) {
    slot.storage.resize(schedule_.value_bytes.size());
    slot.values.resize(schedule_.value_bytes.size());
    slot.waits = std::vector<std::atomic<std::uint32_t>>(schedule_.tasks.size());
    const auto keep = [&](std::size_t value) {
      slot.storage[value].resize(schedule_.value_bytes[value]);
      slot.values[value] = slot.storage[value].data();
    };
    for (std::size_t value = inputs; value < schedule_.value_bytes.size(); ++value) keep(value);
    for (const std::uint32_t value : schedule_.kept_inputs) keep(value);
  }
  for (const Schedule::HostStage& stage : schedule_.stages) {
    stages_.push_back({kernels::fast::Executor(deployment_->plan.partitions[stage.partition].program),
                       std::vector<const std::byte*>(stage.inputs.size()),
                       std::vector<std::byte*>(stage.outputs.size())});
  }
  for (std::uint32_t position = 0; position < fleet_.size(); ++position) {
    if (!fleet_.egresses_of(position).empty()) ++egress_positions_;
  }
  if (options_.check_known_answer && deployment_->plan.known_answer) make_known_frame();
}

Status Engine::check_frame(const Frame& frame) const {
  const plan::ModelInfo& model = deployment_->plan.model;
  MILLRACE_TRY(check_tensors("inputs", frame.inputs, model.inputs,
                             [&](std::size_t i) { return schedule_.value_bytes[i]; }));
  return check_tensors("outputs", frame.outputs, model.outputs,
                       [&](std::size_t i) { return schedule_.value_bytes[schedule_.outputs[i]]; });
}

Status Engine::submit(Frame& frame) {
  if (auto taken = offer(frame, Clock::now())) return std::move(*taken);
  return Error(ErrorCode::kResourceExhausted, "all " + std::to_string(options_.slots) + " slots are in use");
}

std::uint32_t Engine::room() const {
  if (!ready()) return 0;
  const std::uint64_t next = next_sequence_.load(), done = done_.load();
  if (next <= done) return options_.slots;  // a frame began and ended between the two reads above
  return next - done < options_.slots ? options_.slots - static_cast<std::uint32_t>(next - done) : 0;
}

std::optional<Status> Engine::offer(Frame& frame, Clock::time_point submitted) {
  if (Status wrong = check_frame(frame); !wrong.ok()) return wrong;
  frame.status = {};
  frame.times = {};
  const Clock::time_point deadline = frame.deadline;  // read before another thread can complete the frame
  if (deadline <= Clock::now())
    return Error(ErrorCode::kDeadlineExceeded, "the frame's deadline has passed already");
  const std::lock_guard lock(mutex_);
  if (stopping_.load() || phase_.load() != Phase::kRunning) return refusal();
  if (!has_free_slot()) return std::nullopt;
  stage(frame, submitted);
  wake_recovery_at(deadline);
  return Status();
}

Error Engine::why_unavailable() const {
  const std::lock_guard lock(mutex_);
  return refusal();
}

Error Engine::refusal() const {
  if (stopping_.load()) return Error(ErrorCode::kUnavailable, "the pipeline is stopping");
  return Error(ErrorCode::kUnavailable, lost_reason_ + "; the pipeline is being brought back");
}

void Engine::tell_watcher() {
  if (Watcher* const watcher = watcher_.load(); watcher != nullptr) watcher->changed();
}

// The first part of the hot path, from submit() to the cards, begins here. It allocates nothing; the caller
// holds mutex_; its only system calls are those that start ingress runs.
void Engine::stage(Frame& frame, Clock::time_point submitted) {
  const std::uint64_t sequence = next_sequence_++;
  Slot& slot = slot_of(sequence);
  const Clock::time_point begin = Clock::now();
  slot.times = {};
  slot.submitted = submitted;
  slot.taken = begin;
  slot.times.queue = begin - submitted;
  slot.deadline = frame.deadline;
  slot.epoch = epoch_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < frame.inputs.size(); ++i) {
    if (slot.storage[i].empty()) {
      slot.values[i] = frame.inputs[i].data();
    } else {
      std::memcpy(slot.storage[i].data(), frame.inputs[i].data(), slot.storage[i].size());
    }
  }
  for (std::size_t task = 0; task < schedule_.tasks.size(); ++task) {
    slot.waits[task].store(schedule_.tasks[task].waits, std::memory_order_relaxed);
  }
  slot.threads_left.store(egress_positions_, std::memory_order_relaxed);
  for (const std::uint32_t index : schedule_.early) {
    const Schedule::Task& task = schedule_.tasks[index];
    if (task.kind == Schedule::TaskKind::kStage) {
      run_stage(slot, task.index);
    } else {
      load_ingress(sequence, task.index);
    }
  }
  slot.started = Clock::now();
  slot.times.input = slot.started - begin;
  slot.frame.store(&frame, std::memory_order_release);
  slot.staged.store(sequence + 1, std::memory_order_release);
  wake_recovery_at(slot.started + options_.stuck_after);
  for (const std::uint32_t index : schedule_.early) {
    const Schedule::Task& task = schedule_.tasks[index];
    if (task.kind != Schedule::TaskKind::kIngress) continue;
    // If the card turns out to be lost, this frame fails together with all others in flight.
    if (const Status started = start_ingress(sequence, task.index); !started.ok()) {
      note_loss(fleet_.position_of_ingress(task.index), started.error().message());
    }
  }
}

// Whether the next slot (the buffers and runs for one frame) is free. The slot's ingress runs must also have ended,
// because they read its buffers.
bool Engine::has_free_slot() {
  if (phase_.load() != Phase::kRunning || next_sequence_ - done_.load() >= options_.slots) return false;
  const std::uint32_t slot = slot_index(next_sequence_);
  for (std::uint32_t index = 0; index < schedule_.ingresses.size(); ++index) {
    if (fleet_.ingress(index).state(slot) != card::RunState::kRunning) continue;
    wake_recovery_at(Clock::now() + kIngressLag);
    return false;
  }
  return true;
}

void Engine::wake_recovery_at(Clock::time_point time) {
  if (time >= next_expiry_) return;
  next_expiry_ = time;
  recovery_wake_.notify_all();
}

void Engine::run_stage(Slot& slot, std::uint32_t index) {
  const Schedule::HostStage& plan = schedule_.stages[index];
  Stage& stage = stages_[index];
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) stage.inputs[i] = slot.values[plan.inputs[i]];
  for (std::size_t i = 0; i < plan.outputs.size(); ++i)
    stage.outputs[i] = slot.storage[plan.outputs[i]].data();
  stage.executor.run(stage.inputs, stage.outputs);
}

void Engine::load_ingress(std::uint64_t sequence, std::uint32_t index) {
  card::Ingress& ingress = fleet_.ingress(index);
  const std::uint32_t slot = slot_index(sequence);
  const std::span<std::byte> buffer = ingress.buffer(slot);
  std::memcpy(buffer.data(), slots_[slot].values[schedule_.ingresses[index].value], buffer.size());
}

Status Engine::start_ingress(std::uint64_t sequence, std::uint32_t index) {
  return fleet_.ingress(index).start(slot_index(sequence), slots_[slot_index(sequence)].epoch, sequence);
}
// The hot path before the cards ends here.

// The second part of the hot path, on a card's thread, begins here: from a result of the card to on_complete.
// It allocates nothing and makes system calls only to start ingress runs, except in the frame's callback.
void Engine::arrived(std::uint64_t sequence, std::uint32_t value) {
  Slot& slot = slot_of(sequence);
  for (const std::uint32_t index : schedule_.readers[value]) {
    if (slot.waits[index].fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
    const Schedule::Task& task = schedule_.tasks[index];
    switch (task.kind) {
      case Schedule::TaskKind::kStage:
        run_stage(slot, task.index);
        for (const std::uint32_t made : schedule_.stages[task.index].outputs) arrived(sequence, made);
        break;
      case Schedule::TaskKind::kIngress:
        load_ingress(sequence, task.index);
        if (const Status started = start_ingress(sequence, task.index); !started.ok()) {
          report_loss(fleet_.position_of_ingress(task.index), started.error().message());
        }
        break;
      case Schedule::TaskKind::kFinish:
        finish(sequence);
        break;
    }
  }
}

void Engine::finish(std::uint64_t sequence) {
  Slot& slot = slot_of(sequence);
  Frame* const frame = slot.frame.exchange(nullptr, std::memory_order_acq_rel);
  if (frame == nullptr) return;  // the frame has already failed (deadline or lost card)
  for (std::size_t i = 0; i < frame->outputs.size(); ++i) {
    std::memcpy(frame->outputs[i].data(), slot.values[schedule_.outputs[i]], frame->outputs[i].size());
  }
  frame->times = slot.times;
  const Clock::time_point computed = slot.computed.load(std::memory_order_relaxed);
  frame->times.compute = computed - slot.started;
  const Clock::time_point done = Clock::now();
  frame->times.output = done - computed;
  if (!is_known(*frame))
    frame_log_.note({sequence, slot_index(sequence), slot.epoch, slot.submitted, slot.taken, slot.started,
                     computed, done});
  complete(*frame, {});
}

void Engine::free_slot(std::uint64_t sequence) {
  if (slot_of(sequence).threads_left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  done_.fetch_add(1);
  if (stopping_.load()) {
    const std::lock_guard lock(mutex_);
    drained_.notify_all();
  }
  tell_watcher();
}
// The hot path after the cards ends here.

void Engine::complete(Frame& frame, Status status) {
  if (!is_known(frame)) (status.ok() ? completed_ : failed_).fetch_add(1);
  frame.status = std::move(status);
  if (frame.on_complete != nullptr) frame.on_complete(frame, frame.context);
}

}  // namespace millrace::runtime::pipeline
