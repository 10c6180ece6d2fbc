#include "tests/unit/pipeline/fake_cards.hpp"

#include <algorithm>
#include <utility>

#include "kernels/reference/reference.hpp"

namespace millrace::tests {

using namespace runtime;
namespace abi = plan::abi;
using card::RunState;

namespace {

Error lost() {
  return Error(ErrorCode::kUnavailable, "this card is dead");
}

std::uint32_t row_register(std::uint32_t row, std::uint32_t field) {
  return abi::kLinkTable + row * abi::kLinkRowBytes + field;
}

bool is_link_status(std::uint32_t offset) {
  return offset >= abi::kLinkTable && (offset - abi::kLinkTable) % abi::kLinkRowBytes == abi::kLinkStatus;
}

}  // namespace

class FakeIngress final : public card::Ingress {
 public:
  FakeIngress(FakeWorld& world, std::uint32_t card, std::string unit, std::uint64_t bytes,
              std::uint32_t slots)
      : world_(world), card_(card), unit_(std::move(unit)), buffers_(slots, std::vector<std::byte>(bytes)) {}
  std::span<std::byte> buffer(std::uint32_t slot) override { return buffers_[slot]; }
  Status start(std::uint32_t slot, std::uint32_t epoch, std::uint64_t sequence) override {
    const std::lock_guard lock(world_.mutex_);
    if (!world_.operate(card_)) return lost();
    FakeWorld::State& state = world_.cards_[card_];
    FakeWorld::Unit& unit = state.units.at(unit_);
    FakeWorld::Run& run = unit.runs[slot];
    if (run.state == RunState::kRunning)
      return Error(ErrorCode::kInternal, "a running run was started again");
    run.stamp = {epoch, sequence};
    run.data = buffers_[slot];
    run.state = state.stalled || state.held ? RunState::kRunning : RunState::kDone;
    if (!state.stalled) world_.deliver(card_, unit.partition, unit.port, run.stamp, run.data);
    return {};
  }
  RunState state(std::uint32_t slot) override {
    const std::lock_guard lock(world_.mutex_);
    return world_.cards_[card_].units.at(unit_).runs[slot].state;
  }

 private:
  FakeWorld& world_;
  const std::uint32_t card_;
  const std::string unit_;
  std::vector<std::vector<std::byte>> buffers_;
};

class FakeEgress final : public card::Egress {
 public:
  FakeEgress(FakeWorld& world, std::uint32_t card, std::string unit, std::uint64_t bytes, std::uint32_t slots)
      : world_(world), card_(card), unit_(std::move(unit)), buffers_(slots, std::vector<std::byte>(bytes)) {}
  Status start(std::uint32_t slot, std::uint32_t epoch, std::uint64_t sequence) override {
    const std::lock_guard lock(world_.mutex_);
    if (!world_.operate(card_)) return lost();
    FakeWorld::Run& run = world_.cards_[card_].units.at(unit_).runs[slot];
    if (run.state == RunState::kRunning)
      return Error(ErrorCode::kInternal, "a running run was started again");
    run = {RunState::kRunning, {epoch, sequence}, {}, false};
    world_.match(card_);
    return {};
  }
  RunState wait(std::uint32_t slot, std::chrono::milliseconds bound) override {
    std::unique_lock lock(world_.mutex_);
    FakeWorld::Run& run = world_.cards_[card_].units.at(unit_).runs[slot];
    world_.changed_.wait_for(lock, bound, [&] { return run.state != RunState::kRunning; });
    return run.state;
  }
  Result<abi::StatusTrailer> fetch(std::uint32_t slot) override {
    const std::lock_guard lock(world_.mutex_);
    if (!world_.cards_[card_].alive) return lost();
    const FakeWorld::Run& run = world_.cards_[card_].units.at(unit_).runs[slot];
    abi::StatusTrailer trailer;
    trailer.epoch = run.stamp.first;
    trailer.sequence = run.stamp.second;
    trailer.status = run.dropped ? abi::FrameStatus::kDropped : abi::FrameStatus::kOk;
    trailer.payload_bytes = static_cast<std::uint32_t>(run.data.size());
    if (!run.dropped) buffers_[slot] = run.data;
    if (const auto change = std::exchange(world_.cards_[card_].change_trailer, {})) change(trailer);
    return trailer;
  }
  std::span<const std::byte> payload(std::uint32_t slot) const override { return buffers_[slot]; }

 private:
  FakeWorld& world_;
  const std::uint32_t card_;
  const std::string unit_;
  std::vector<std::vector<std::byte>> buffers_;
};

class FakeCard final : public card::Card {
 public:
  FakeCard(FakeWorld& world, std::uint32_t card) : world_(world), card_(card) {}
  ~FakeCard() override {
    const std::lock_guard lock(world_.mutex_);
    state().open = false;
  }

  Result<bool> load(std::span<const std::byte> image) override {
    const std::lock_guard lock(world_.mutex_);
    const std::string name(reinterpret_cast<const char*>(image.data()), image.size());
    if (state().refuse > 0) {
      --state().refuse;
      return Error(ErrorCode::kEnvironment, "this card does not load");
    }
    const bool changed = !state().alive || state().image != name;
    if (!state().alive) {
      state().registers.clear();
      state().inputs.clear();
      state().parameters.clear();
    }
    state().alive = true;
    state().hung = false;
    state().image = name;
    ++state().loads;
    if (!world_.operate(card_)) return lost();
    state().registers[abi::kRegAbiVersion] = abi::kAbiVersion;
    return changed;
  }
  void unload() override {
    const std::lock_guard lock(world_.mutex_);
    state().units.clear();
    state().supervised = false;
  }
  Result<std::unique_ptr<card::Ingress>> make_ingress(const std::string& unit, std::uint64_t bytes,
                                                      std::uint32_t slots) override {
    MILLRACE_TRY(make(unit, bytes));
    return std::unique_ptr<card::Ingress>(std::make_unique<FakeIngress>(world_, card_, unit, bytes, slots));
  }
  Result<std::unique_ptr<card::Egress>> make_egress(const std::string& unit, std::uint64_t bytes,
                                                    std::uint32_t slots) override {
    MILLRACE_TRY(make(unit, bytes));
    return std::unique_ptr<card::Egress>(std::make_unique<FakeEgress>(world_, card_, unit, bytes, slots));
  }
  Status give_parameters(const std::string& unit, std::span<const std::byte> file) override {
    const std::lock_guard lock(world_.mutex_);
    if (!world_.operate(card_)) return lost();
    ++state().parameter_loads;
    state().parameters[unit] = FakeWorld::Bytes(file.begin(), file.end());
    return {};
  }
  Result<std::uint32_t> read(std::uint32_t offset) override {
    std::unique_lock lock(world_.mutex_);
    world_.changed_.wait(lock, [&] { return !state().registers_hung; });
    if (!world_.operate(card_)) return lost();
    if (is_link_status(offset) && world_.cable_is_up(card_, offset)) return 3U;
    return state().registers[offset];
  }
  Status write(std::uint32_t offset, std::uint32_t value) override {
    const std::lock_guard lock(world_.mutex_);
    if (!world_.operate(card_)) return lost();
    state().registers[offset] = value;
    if (offset == abi::kRegEpoch) world_.flush(card_);
    if (offset == abi::kRegSupervisorStop) state().supervised = false;
    world_.changed_.notify_all();
    return {};
  }
  Status start_supervisor() override {
    const std::lock_guard lock(world_.mutex_);
    if (!world_.operate(card_)) return lost();
    state().supervised = state().faults == 0;
    if (state().supervised) state().fault = {};
    state().faults -= state().supervised ? 0U : 1U;
    return {};
  }
  RunState wait_supervisor(std::chrono::milliseconds bound) override {
    std::unique_lock lock(world_.mutex_);
    world_.changed_.wait_for(lock, bound, [&] { return !state().alive || !state().supervised; });
    if (!state().alive) return RunState::kFailed;
    return state().supervised ? RunState::kRunning : RunState::kDone;
  }
  bool supervisor_ended() override {
    const std::lock_guard lock(world_.mutex_);
    return !state().alive || !state().supervised;
  }
  abi::FaultReport fault_report() override {
    const std::lock_guard lock(world_.mutex_);
    return state().fault;
  }
  Status reset(card::ResetStep step) override {
    const std::lock_guard lock(world_.mutex_);
    state().tried_resets.push_back(step);
    if (!state().resets.contains(step)) return card::Card::reset(step);
    state().hung = false;
    state().flaw = FakeWorld::Flaw::kNone;
    for (auto& [name, unit] : state().units)
      for (auto& [slot, run] : unit.runs) run.state = RunState::kDone;
    return {};
  }
  card::CardInfo info() override { return {}; }

 private:
  FakeWorld::State& state() { return world_.cards_[card_]; }

  Status make(const std::string& name, std::uint64_t bytes) {
    const std::lock_guard lock(world_.mutex_);
    if (!world_.operate(card_)) return lost();
    for (const plan::ImagePartition& partition : world_.plan_.records.at(state().image).partitions) {
      for (const plan::ImagePort& port : partition.ports) {
        if (port.compute_unit != name) continue;
        if (bytes != port.elements * 2) return Error(ErrorCode::kInternal, "wrong number of bytes");
        state().units[name] = {partition.name, port.name, port.kind == plan::PortKind::kEgress, {}, {}};
        return {};
      }
    }
    return Error(ErrorCode::kEnvironment, "no unit " + name);
  }

  FakeWorld& world_;
  const std::uint32_t card_;
};

FakeWorld::FakeWorld(Plan plan, runtime::plan::Cluster cluster)
    : plan_(std::move(plan)), cluster_(std::move(cluster)), cards_(cluster_.cards.size()) {}

pipeline::CardSource FakeWorld::source() {
  return {[this](const plan::ClusterCard&, std::uint32_t index) -> Result<std::unique_ptr<card::Card>> {
            const std::lock_guard lock(mutex_);
            cards_[index].open = true;
            return std::unique_ptr<card::Card>(std::make_unique<FakeCard>(*this, index));
          },
          [this](const plan::ClusterCard&, std::uint32_t index) {
            const std::lock_guard lock(mutex_);
            return !cards_[index].open;
          }};
}

std::shared_ptr<const plan::LoadedDeployment> FakeWorld::deployment() const {
  auto loaded = std::make_shared<plan::LoadedDeployment>();
  loaded->plan = plan_.deployment;
  loaded->records = plan_.records;
  for (const auto& [name, record] : plan_.records) {
    const auto* const text = reinterpret_cast<const std::byte*>(name.data());
    loaded->images[name] = Bytes(text, text + name.size());
    for (const plan::ImagePartition& partition : record.partitions) {
      if (!partition.parameters_unit.empty()) loaded->parameters[partition.name] = Bytes(64);
    }
  }
  return loaded;
}

bool FakeWorld::operate(std::uint32_t card) {
  if (++operations_ == fatal_) die(card);
  return cards_[card].alive;
}

void FakeWorld::die(std::uint32_t card) {
  State& state = cards_[card];
  state.alive = false;
  state.stalled = false;
  for (auto& [name, unit] : state.units) {
    for (auto& [slot, run] : unit.runs) run.state = RunState::kFailed;
  }
  changed_.notify_all();
}

std::uint32_t FakeWorld::epoch(std::uint32_t card) {
  return cards_[card].registers[abi::kRegEpoch];
}

void FakeWorld::deliver(std::uint32_t card, const std::string& partition, const std::string& port,
                        Stamp stamp, Bytes data) {
  State& state = cards_[card];
  if (!state.alive || state.hung || state.flaw == Flaw::kNoResults || stamp.first != epoch(card)) return;
  if (state.drop) {
    state.drop = false;
    for (auto& [name, unit] : state.units) {
      for (auto& [slot, run] : unit.runs) {
        if (!unit.egress || run.stamp != stamp) continue;
        run.dropped = true;
        run.state = RunState::kDone;
      }
    }
    changed_.notify_all();
    return;
  }
  for (const plan::ImagePartition& held : plan_.records.at(state.image).partitions) {
    if (held.name == partition && !held.parameters_unit.empty() &&
        !state.parameters.contains(held.parameters_unit))
      return;
  }
  const kernels::Program& program = plan_.programs.at(partition);
  auto& frame = state.inputs[partition][stamp];
  frame[port] = std::move(data);
  if (frame.size() < program.inputs.size()) return;
  std::vector<Bytes> inputs;
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    inputs.push_back(frame.at("in" + std::to_string(i)));
  state.inputs[partition].erase(stamp);
  Bytes result = kernels::reference::run(program, inputs).at(0);
  if (state.flaw == Flaw::kWrongResults) result.back() ^= std::byte{1};
  for (const plan::ImagePartition& held : plan_.records.at(state.image).partitions) {
    if (held.name != partition) continue;
    for (const plan::ImagePort& out : held.ports) {
      if (out.kind == plan::PortKind::kLinkSend) send(card, out.link_index, stamp, result);
      if (out.kind == plan::PortKind::kEgress) state.units.at(out.compute_unit).results[stamp] = result;
    }
  }
  match(card);
}

void FakeWorld::send(std::uint32_t card, std::uint32_t row, Stamp stamp, const Bytes& data) {
  auto& from = cards_[card].registers;
  if (from[row_register(row, abi::kLinkEnable)] != 1) return;
  const plan::CableEnd end{cluster_.cards[card].name, from[row_register(row, abi::kLinkConnector)]};
  for (const plan::Cable& cable : cluster_.cables) {
    if (cable.a != end && cable.b != end) continue;
    const plan::CableEnd& far = cable.a == end ? cable.b : cable.a;
    for (std::uint32_t peer = 0; peer < cards_.size(); ++peer) {
      State& to = cards_[peer];
      if (cluster_.cards[peer].name != far.card || !to.alive) continue;
      for (const plan::ImagePartition& held : plan_.records.at(to.image).partitions) {
        for (const plan::ImagePort& port : held.ports) {
          if (port.kind != plan::PortKind::kLinkReceive) continue;
          const auto value = [&](std::uint32_t field) {
            return to.registers[row_register(port.link_index, field)];
          };
          if (value(abi::kLinkEnable) != 1 || value(abi::kLinkConnector) != far.connector) continue;
          if (value(abi::kLinkTag) != from[row_register(row, abi::kLinkTag)]) continue;
          deliver(peer, held.name, port.name, stamp, data);
        }
      }
    }
  }
}

void FakeWorld::match(std::uint32_t card) {
  if (cards_[card].hung) return;
  for (auto& [name, unit] : cards_[card].units) {
    if (!unit.egress) continue;
    for (auto& [slot, run] : unit.runs) {
      if (run.state != RunState::kRunning) continue;
      if (const auto result = unit.results.find(run.stamp); result != unit.results.end()) {
        run.data = result->second;
        unit.results.erase(result);
        run.state = RunState::kDone;
      } else if (run.stamp.first != epoch(card)) {
        run.dropped = true;
        run.state = RunState::kDone;
      }
    }
  }
  changed_.notify_all();
}

void FakeWorld::flush(std::uint32_t card) {
  State& state = cards_[card];
  if (state.hung) return;
  for (auto& [partition, frames] : state.inputs) {
    std::erase_if(frames, [&](const auto& entry) { return entry.first.first != epoch(card); });
  }
  for (auto& [name, unit] : state.units) {
    std::erase_if(unit.results, [&](const auto& entry) { return entry.first.first != epoch(card); });
    if (unit.egress) continue;
    for (auto& [slot, run] : unit.runs) {
      if (run.state == RunState::kRunning && run.stamp.first != epoch(card)) run.state = RunState::kDone;
    }
  }
  match(card);
}

void FakeWorld::set_flaw(std::uint32_t card, Flaw flaw) {
  const std::lock_guard lock(mutex_);
  cards_[card].flaw = flaw;
}

void FakeWorld::kill(std::uint32_t card) {
  const std::lock_guard lock(mutex_);
  die(card);
}

void FakeWorld::stall(std::uint32_t card, bool stalled) {
  const std::lock_guard lock(mutex_);
  cards_[card].stalled = stalled;
  if (stalled) return;
  std::map<Stamp, std::vector<Unit*>> waiting;
  for (auto& [name, unit] : cards_[card].units) {
    for (auto& [slot, run] : unit.runs) {
      if (!unit.egress && run.state == RunState::kRunning) waiting[run.stamp].push_back(&unit);
    }
  }
  for (const auto& [stamp, units] : waiting) {
    for (Unit* const unit : units) {
      for (auto& [slot, run] : unit->runs) {
        if (run.state != RunState::kRunning || run.stamp != stamp) continue;
        run.state = RunState::kDone;
        deliver(card, unit->partition, unit->port, stamp, run.data);
      }
    }
  }
  changed_.notify_all();
}

void FakeWorld::hold_ingress(std::uint32_t card, bool held) {
  const std::lock_guard lock(mutex_);
  cards_[card].held = held;
  if (held) return;
  for (auto& [name, unit] : cards_[card].units) {
    if (unit.egress) continue;
    for (auto& [slot, run] : unit.runs)
      if (run.state == RunState::kRunning) run.state = RunState::kDone;
  }
}

bool FakeWorld::cable_is_up(std::uint32_t card, std::uint32_t status_register) {
  const bool udp = std::any_of(cluster_.cables.begin(), cluster_.cables.end(), [](const plan::Cable& cable) {
    return cable.protocol == plan::CableProtocol::kUdp;
  });
  return !udp && !cables_down_ &&
         cards_[card].registers[status_register - abi::kLinkStatus + abi::kLinkEnable] == 1;
}

void FakeWorld::take_cables_down(bool down) {
  const std::lock_guard lock(mutex_);
  cables_down_ = down;
}

void FakeWorld::support_resets(std::uint32_t card, std::set<card::ResetStep> steps) {
  const std::lock_guard lock(mutex_);
  cards_[card].resets = std::move(steps);
}

std::vector<card::ResetStep> FakeWorld::tried_resets(std::uint32_t card) {
  const std::lock_guard lock(mutex_);
  return cards_[card].tried_resets;
}

void FakeWorld::hang(std::uint32_t card) {
  const std::lock_guard lock(mutex_);
  cards_[card].hung = true;
}

void FakeWorld::hang_registers(std::uint32_t card, bool hung) {
  const std::lock_guard lock(mutex_);
  cards_[card].registers_hung = hung;
  changed_.notify_all();
}

void FakeWorld::change_next_trailer(std::uint32_t card, Change change) {
  const std::lock_guard lock(mutex_);
  cards_[card].change_trailer = std::move(change);
}

void FakeWorld::drop_next(std::uint32_t card) {
  const std::lock_guard lock(mutex_);
  cards_[card].drop = true;
}

void FakeWorld::report_fault(std::uint32_t card, const abi::FaultReport& fault, std::uint32_t times) {
  const std::lock_guard lock(mutex_);
  cards_[card].faults = times - 1;
  cards_[card].fault = fault;
  cards_[card].supervised = false;
  changed_.notify_all();
}

void FakeWorld::refuse_loads(std::uint32_t card, std::uint32_t times) {
  const std::lock_guard lock(mutex_);
  cards_[card].refuse = times;
}

std::uint32_t FakeWorld::refusals_left(std::uint32_t card) {
  const std::lock_guard lock(mutex_);
  return cards_[card].refuse;
}

void FakeWorld::die_at(std::uint64_t operation) {
  const std::lock_guard lock(mutex_);
  fatal_ = operation == 0 ? 0 : operations_ + operation;
}

std::uint64_t FakeWorld::operations() {
  const std::lock_guard lock(mutex_);
  return operations_;
}

std::uint32_t FakeWorld::parameter_loads(std::uint32_t card) {
  const std::lock_guard lock(mutex_);
  return cards_[card].parameter_loads;
}

std::uint32_t FakeWorld::loads(std::uint32_t card) {
  const std::lock_guard lock(mutex_);
  return cards_[card].loads;
}

}  // namespace millrace::tests
