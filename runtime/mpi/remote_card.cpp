#include "runtime/mpi/remote_card.hpp"

#include <condition_variable>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/mpi/stream.hpp"

namespace millrace::runtime::mpi {

using card::RunState;
using std::chrono::milliseconds;

namespace {

// A hung card takes 5 s to answer, because XRT's driver waits so long. The agent (which drives the card in
// the card's host) answers even later.
constexpr milliseconds kForRegister{6'000};
constexpr milliseconds kForUnit{15'000};
constexpr milliseconds kForImage{
    120'000};  // programming a card takes seconds, and the image must be sent before
constexpr milliseconds kForUuid{2'000};

constexpr milliseconds parameter_timeout(std::size_t bytes) {
  return std::chrono::milliseconds(12'000 + bytes / 50);  // the card's own limit and 2 s for the message
}

/// Starts a request for a card.
Writer request(Operation operation, const std::string& card) {
  Writer out;
  out.put(operation).put_text(card);
  return out;
}

}  // namespace

class RemoteCard final : public card::Card {
 public:
  RemoteCard(RemoteCards& cards, Session& session, int rank, std::string name)
      : cards_(cards), session_(session), rank_(rank), name_(std::move(name)) {}

  ~RemoteCard() override {
    unload();
    static_cast<void>(call(Operation::kClose, kForUnit));
    cards_.closed(*this);
  }

  Result<bool> load(std::span<const std::byte> image) override {
    unload();
    MILLRACE_ASSIGN(
        const Bytes answer,
        session_.call(rank_, request(Operation::kLoad, name_).put_bytes(image).take(), kForImage));
    return Reader(answer).get<bool>();
  }

  void unload() override {
    static_cast<void>(call(Operation::kUnload, kForUnit));
    std::vector<std::shared_ptr<Unit>> units;
    const std::lock_guard lock(mutex_);
    units.swap(units_);  // destroyed after the lock is released: a handler may need it
    supervised_ = false;
  }

  Result<std::unique_ptr<card::Ingress>> make_ingress(const std::string& unit, std::uint64_t bytes,
                                                      std::uint32_t slots) override;
  Result<std::unique_ptr<card::Egress>> make_egress(const std::string& unit, std::uint64_t bytes,
                                                    std::uint32_t slots) override;

  Status give_parameters(const std::string& unit, std::span<const std::byte> file) override {
    const auto answer =
        session_.call(rank_, request(Operation::kGiveParameters, name_).put_text(unit).put_bytes(file).take(),
                      parameter_timeout(file.size()));
    return answer.ok() ? Status() : Status(answer.error());
  }

  Result<std::uint32_t> read(std::uint32_t offset) override {
    MILLRACE_ASSIGN(const Bytes answer,
                    session_.call(rank_, request(Operation::kRead, name_).put(offset).take(), kForRegister));
    return Reader(answer).get<std::uint32_t>();
  }

  Status write(std::uint32_t offset, std::uint32_t value) override {
    const auto answer =
        session_.call(rank_, request(Operation::kWrite, name_).put(offset).put(value).take(), kForRegister);
    return answer.ok() ? Status() : Status(answer.error());
  }

  Status start_supervisor() override {
    {
      const std::lock_guard lock(mutex_);
      supervised_ = true;
      ended_ = RunState::kRunning;
      report_ = {};
    }
    const auto answer = call(Operation::kStartSupervisor, kForUnit);
    return answer.ok() ? Status() : Status(answer.error());
  }

  RunState wait_supervisor(milliseconds bound) override {
    std::unique_lock lock(mutex_);
    ended_changed_.wait_for(lock, bound, [&] { return !running(); });
    return running() ? RunState::kRunning : ended_ == RunState::kDone ? RunState::kDone : RunState::kFailed;
  }
  bool supervisor_ended() override {
    const std::lock_guard lock(mutex_);
    return !running();
  }
  plan::abi::FaultReport fault_report() override {
    const std::lock_guard lock(mutex_);
    return report_;
  }

  /// Supports only kDevice. For the other steps, the threads of the agent, which drives the card in the
  /// card's host, would have to stop waiting for the units.
  Status reset(card::ResetStep step) override {
    if (step != card::ResetStep::kDevice) return card::Card::reset(step);
    const auto answer = call(Operation::kResetDevice, kForImage);
    return answer.ok() ? Status() : Status(answer.error());
  }

  card::CardInfo info() override {
    const auto answer = call(Operation::kInfo, kForRegister);
    if (!answer.ok()) return {};
    Reader in(*answer);
    const auto index = in.get<std::uint32_t>();
    return {index, in.get_text(), in.get_text(), in.get_text()};
  }

  card::Sensors sensors() override {
    const auto answer = call(Operation::kSensors, kForRegister);
    return answer.ok() ? Reader(*answer).get<card::Sensors>() : card::Sensors{};
  }

  int rank() const { return rank_; }
  const std::string& name() const { return name_; }
  bool is_lost() const { return session_.is_lost(rank_); }

  void supervisor_reported(RunState state, const plan::abi::FaultReport& report) {
    const std::lock_guard lock(mutex_);
    if (ended_ != RunState::kRunning) return;
    ended_ = state;
    report_ = report;
    report_.detail[sizeof report_.detail - 1] = 0;
    ended_changed_.notify_all();
  }

  /// Ends all waits, because the card's rank is lost.
  void rank_lost();

 private:
  class Unit;
  class RemoteIngress;
  class RemoteEgress;
  class IngressHandle;
  class EgressHandle;

  bool running() const { return supervised_ && ended_ == RunState::kRunning && !is_lost(); }
  Result<Bytes> call(Operation operation, milliseconds bound) {
    return session_.call(rank_, request(operation, name_).take(), bound);
  }

  RemoteCards& cards_;
  Session& session_;
  const int rank_;
  const std::string name_;

  std::mutex mutex_;
  std::condition_variable ended_changed_;
  // mutex_ protects the members below.
  std::vector<std::shared_ptr<Unit>> units_;
  bool supervised_ = false;
  RunState ended_ = RunState::kRunning;
  plan::abi::FaultReport report_;
};

/// The streams of a port. They stay until the agent on the card's host has closed its ends, even after the engine has
/// destroyed the port.
class RemoteCard::Unit {
 public:
  virtual ~Unit() = default;
  virtual void rank_lost() {}
};

class RemoteCard::RemoteIngress final : public Unit {
 public:
  RemoteIngress(RemoteCard& card, int tag, std::uint64_t bytes, std::uint32_t slots)
      : card_(card), sender_(card.rank_, tag, bytes, slots) {}

  std::span<std::byte> buffer(std::uint32_t slot) { return sender_.payload(slot); }

  Status start(std::uint32_t slot, std::uint32_t epoch, std::uint64_t sequence) {
    if (card_.is_lost())
      return Error(ErrorCode::kUnavailable, card_.session_.describe(card_.rank_) + " is lost");
    MILLRACE_TRY(sender_.send({epoch, slot, sequence, 0, 0}));
    card_.session_.nudge(card_.rank_);
    return {};
  }

  // The agent keeps a frame until the earlier run of the frame's slot (buffer) has ended. So the slot is free as soon
  // as its bytes were sent.
  RunState state(std::uint32_t slot) {
    if (card_.is_lost()) return RunState::kFailed;
    return sender_.busy(slot) ? RunState::kRunning : RunState::kDone;
  }

 private:
  RemoteCard& card_;
  Sender sender_;
};

class RemoteCard::RemoteEgress final : public Unit {
 public:
  RemoteEgress(RemoteCard& card, int orders_tag, int results_tag, std::uint64_t bytes, std::uint32_t slots)
      : card_(card),
        bytes_(bytes),
        slots_(slots),
        orders_(card.rank_, orders_tag, 0, slots),
        results_(card.rank_, results_tag, sizeof(plan::abi::StatusTrailer) + bytes, slots,
                 [this](const FrameHeader& header, std::span<const std::byte>, std::uint32_t buffer) {
                   arrived(header, buffer);
                 }) {
    card_.session_.watch(results_);
  }
  ~RemoteEgress() override { card_.session_.unwatch(results_); }

  Status start(std::uint32_t slot, std::uint32_t epoch, std::uint64_t sequence) {
    if (card_.is_lost())
      return Error(ErrorCode::kUnavailable, card_.session_.describe(card_.rank_) + " is lost");
    {
      const std::lock_guard lock(mutex_);
      Slot& s = slots_[slot];
      if (s.buffer) results_.release(*std::exchange(s.buffer, std::nullopt));
      s.state = RunState::kRunning;
    }
    const auto end = Clock::now() + kForRegister;
    while (orders_.busy(slot)) {  // the slot's last order led to a result, so it was sent
      if (card_.is_lost() || Clock::now() > end)
        return Error(ErrorCode::kUnavailable, card_.session_.describe(card_.rank_) + " takes no order");
    }
    MILLRACE_TRY(orders_.send({epoch, slot, sequence, 0, 0}));
    card_.session_.nudge(card_.rank_);
    return {};
  }

  RunState wait(std::uint32_t slot, milliseconds bound) {
    std::unique_lock lock(mutex_);
    const Slot& s = slots_[slot];
    changed_.wait_for(lock, bound, [&] { return s.state != RunState::kRunning || card_.is_lost(); });
    return s.state == RunState::kRunning && card_.is_lost() ? RunState::kFailed : s.state;
  }

  Result<plan::abi::StatusTrailer> fetch(std::uint32_t slot) {
    const auto message = result(slot);
    plan::abi::StatusTrailer trailer;
    std::memcpy(&trailer, message.data(), sizeof trailer);
    return trailer;
  }
  std::span<const std::byte> payload(std::uint32_t slot) {
    return result(slot).subspan(sizeof(plan::abi::StatusTrailer), bytes_);
  }

  void rank_lost() override {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }

 private:
  struct Slot {
    RunState state = RunState::kDone;
    std::optional<std::uint32_t> buffer;  // the receiver's buffer that holds the slot's result
  };

  void arrived(const FrameHeader& header, std::uint32_t buffer) {
    const std::lock_guard lock(mutex_);
    if (header.slot >= slots_.size()) return results_.release(buffer);
    Slot& s = slots_[header.slot];
    s.state = static_cast<RunState>(header.state);
    s.buffer = buffer;
    changed_.notify_all();
  }

  std::span<const std::byte> result(std::uint32_t slot) {
    const std::lock_guard lock(mutex_);
    return results_.payload(*slots_[slot].buffer);
  }

  RemoteCard& card_;
  const std::uint64_t bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;  // protected by mutex_
  Sender orders_;
  Receiver results_;  // last, because its handler uses the members above
};

/// The ports that the engine owns. They only refer to the card's units, which hold the streams.
class RemoteCard::IngressHandle final : public card::Ingress {
 public:
  explicit IngressHandle(std::shared_ptr<RemoteIngress> unit) : unit_(std::move(unit)) {}
  std::span<std::byte> buffer(std::uint32_t slot) override { return unit_->buffer(slot); }
  Status start(std::uint32_t slot, std::uint32_t epoch, std::uint64_t sequence) override {
    return unit_->start(slot, epoch, sequence);
  }
  RunState state(std::uint32_t slot) override { return unit_->state(slot); }

 private:
  const std::shared_ptr<RemoteIngress> unit_;
};

class RemoteCard::EgressHandle final : public card::Egress {
 public:
  explicit EgressHandle(std::shared_ptr<RemoteEgress> unit) : unit_(std::move(unit)) {}
  Status start(std::uint32_t slot, std::uint32_t epoch, std::uint64_t sequence) override {
    return unit_->start(slot, epoch, sequence);
  }
  RunState wait(std::uint32_t slot, milliseconds bound) override { return unit_->wait(slot, bound); }
  Result<plan::abi::StatusTrailer> fetch(std::uint32_t slot) override { return unit_->fetch(slot); }
  std::span<const std::byte> payload(std::uint32_t slot) const override { return unit_->payload(slot); }

 private:
  const std::shared_ptr<RemoteEgress> unit_;
};

Result<std::unique_ptr<card::Ingress>> RemoteCard::make_ingress(const std::string& unit, std::uint64_t bytes,
                                                                std::uint32_t slots) {
  const int tag = session_.new_tag();
  const auto made = session_.call(
      rank_, request(Operation::kMakeIngress, name_).put_text(unit).put(bytes).put(slots).put(tag).take(),
      kForUnit);
  if (!made.ok()) return made.error();
  auto remote = std::make_shared<RemoteIngress>(*this, tag, bytes, slots);
  const std::lock_guard lock(mutex_);
  units_.push_back(remote);
  return std::unique_ptr<card::Ingress>(std::make_unique<IngressHandle>(std::move(remote)));
}

Result<std::unique_ptr<card::Egress>> RemoteCard::make_egress(const std::string& unit, std::uint64_t bytes,
                                                              std::uint32_t slots) {
  const int orders = session_.new_tag(), results = session_.new_tag();
  // Make the receiving stream before the agent (which drives the card in the card's host) can send.
  auto remote = std::make_shared<RemoteEgress>(*this, orders, results, bytes, slots);
  const auto made = session_.call(rank_,
                                  request(Operation::kMakeEgress, name_)
                                      .put_text(unit)
                                      .put(bytes)
                                      .put(slots)
                                      .put(orders)
                                      .put(results)
                                      .take(),
                                  kForUnit);
  if (!made.ok()) return made.error();
  const std::lock_guard lock(mutex_);
  units_.push_back(remote);
  return std::unique_ptr<card::Egress>(std::make_unique<EgressHandle>(std::move(remote)));
}

void RemoteCard::rank_lost() {
  const std::lock_guard lock(mutex_);
  ended_changed_.notify_all();
  for (const auto& unit : units_) unit->rank_lost();
}

Result<std::unique_ptr<card::Card>> RemoteCards::open(int rank, const std::string& name) {
  MILLRACE_TRY([&]() -> Status {
    const auto opened = session_.call(rank, request(Operation::kOpen, name).take(), kForUnit);
    return opened.ok() ? Status() : Status(opened.error());
  }());
  auto card = std::make_unique<RemoteCard>(*this, session_, rank, name);
  const std::lock_guard lock(mutex_);
  cards_[name] = card.get();
  return std::unique_ptr<card::Card>(std::move(card));
}

bool RemoteCards::is_open(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return cards_.contains(name);
}

std::string RemoteCards::image_uuid(int rank, const std::string& name) {
  const auto answer = session_.call(rank, request(Operation::kImageUuid, name).take(), kForUuid);
  return answer.ok() ? Reader(*answer).get_text() : std::string();
}

void RemoteCards::event(Reader event) {
  const std::string name = event.get_text();
  const auto kind = event.get<CardEvent>();
  const std::lock_guard lock(mutex_);
  const auto found = cards_.find(name);
  if (found == cards_.end()) return;
  if (kind == CardEvent::kFault)
    found->second->supervisor_reported(RunState::kDone, event.get<plan::abi::FaultReport>());
  else
    found->second->supervisor_reported(RunState::kFailed, {});
}

void RemoteCards::lost(int rank) {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, card] : cards_)
    if (card->rank() == rank) card->rank_lost();
}

void RemoteCards::closed(const RemoteCard& card) {
  const std::lock_guard lock(mutex_);
  cards_.erase(card.name());
}

}  // namespace millrace::runtime::mpi
