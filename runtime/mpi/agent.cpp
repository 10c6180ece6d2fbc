#include "runtime/mpi/agent.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/mpi/stream.hpp"

namespace millrace::runtime::mpi {

using card::RunState;
using std::chrono::milliseconds;

namespace {

// How long a card's thread waits in XRT before it looks for other work. A result of the card ends the wait early.
constexpr milliseconds kForResult{50};
constexpr milliseconds kForFault{2};
constexpr std::uint32_t kMostSlots = 1024;

/// An input port of a card, fed by a stream from rank 0.
class IngressPort final : public Pollable {
 public:
  IngressPort(Session& session, std::unique_ptr<card::Ingress> unit, int tag, std::uint64_t bytes,
              std::uint32_t slots, std::function<void()> lost)
      : session_(session),
        unit_(std::move(unit)),
        slots_(slots),
        lost_(std::move(lost)),
        receiver_(0, tag, bytes, slots,
                  [this](const FrameHeader& header, std::span<const std::byte>, std::uint32_t buffer) {
                    waiting_.push_back({header, buffer});
                  }) {
    session_.watch(*this);
  }
  ~IngressPort() override { session_.unwatch(*this); }

  bool poll() override {
    const bool arrived = receiver_.poll();
    // Usually the earlier run of the frame's slot (buffer) ended long ago. If it has not ended, the frame waits here.
    while (!waiting_.empty()) {
      const Waiting next = waiting_.front();
      if (next.header.slot >= slots_) {
        lost_();
      } else if (unit_->state(next.header.slot) == RunState::kRunning) {
        break;
      } else {
        const auto from = receiver_.payload(next.buffer);
        std::memcpy(unit_->buffer(next.header.slot).data(), from.data(), from.size());
        if (!unit_->start(next.header.slot, next.header.epoch, next.header.sequence).ok()) lost_();
      }
      waiting_.pop_front();
      receiver_.release(next.buffer);
    }
    return arrived || !waiting_.empty();
  }

 private:
  struct Waiting {
    FrameHeader header;
    std::uint32_t buffer = 0;
  };

  Session& session_;
  const std::unique_ptr<card::Ingress> unit_;
  const std::uint32_t slots_;
  const std::function<void()> lost_;
  std::deque<Waiting> waiting_;  // used by the progress thread only
  Receiver receiver_;
};

/// An output port of a card. A stream from rank 0 brings the orders to receive a frame, in order; another stream brings
/// the results to rank 0.
class EgressPort {
 public:
  EgressPort(Session& session, std::unique_ptr<card::Egress> unit, int orders_tag, int results_tag,
             std::uint64_t bytes, std::uint32_t slots)
      : session_(session),
        unit_(std::move(unit)),
        bytes_(bytes),
        slots_(slots),
        results_(0, results_tag, sizeof(plan::abi::StatusTrailer) + bytes, slots),
        orders_(0, orders_tag, 0, slots,
                [this](const FrameHeader& header, std::span<const std::byte>, std::uint32_t buffer) {
                  order(header);
                  orders_.release(buffer);
                }) {
    session_.watch(orders_);
  }
  ~EgressPort() { session_.unwatch(orders_); }

  /// Returns the oldest order of rank 0 that is not yet carried out (an order says to receive a frame), or nothing.
  std::optional<FrameHeader> next() {
    const std::lock_guard lock(mutex_);
    if (ordered_.empty()) return std::nullopt;
    return ordered_.front();
  }

  /// Waits for the result of the next order, and sends it. Returns false if the result did not come within `bound`.
  bool serve(FrameHeader order, milliseconds bound) {
    RunState state = unit_->wait(order.slot, bound);
    if (state == RunState::kRunning) return false;
    while (results_.busy(order.slot) && !session_.is_lost(0)) std::this_thread::yield();
    const auto to = results_.payload(order.slot);
    if (state == RunState::kDone) {
      const auto trailer = unit_->fetch(order.slot);
      if (trailer.ok()) {
        std::memcpy(to.data(), &*trailer, sizeof *trailer);
        std::memcpy(to.data() + sizeof *trailer, unit_->payload(order.slot).data(), bytes_);
      } else {
        state = RunState::kFailed;
      }
    }
    send(order, state);
    const std::lock_guard lock(mutex_);
    ordered_.pop_front();
    return true;
  }

 private:
  void order(const FrameHeader& header) {
    if (header.slot >= slots_) return;
    // A run that cannot be started fails at once, because the card is lost.
    const bool started = unit_->start(header.slot, header.epoch, header.sequence).ok();
    if (!started) return send(header, RunState::kFailed);
    const std::lock_guard lock(mutex_);
    ordered_.push_back(header);
  }

  void send(FrameHeader header, RunState state) {
    header.state = static_cast<std::uint32_t>(state);
    static_cast<void>(results_.send(header));  // if it fails, rank 0 is lost, and the session ends
    session_.nudge(0);
  }

  Session& session_;
  const std::unique_ptr<card::Egress> unit_;
  const std::uint64_t bytes_;
  const std::uint32_t slots_;
  Sender results_;
  std::mutex mutex_;
  std::deque<FrameHeader> ordered_;  // runs that were started and not yet served; protected by mutex_
  Receiver orders_;                  // last, because its handler uses the members above
};

Bytes nothing() {
  return {};
}

template <class T>
Result<Bytes> packed(const Result<T>& value) {
  if (!value.ok()) return value.error();
  return Writer().put(*value).take();
}

Result<Bytes> packed(const Status& status) {
  if (!status.ok()) return status.error();
  return nothing();
}

}  // namespace

/// A card that rank 0 has opened.
class Agent::OpenCard {
 public:
  OpenCard(Session& session, std::string name, std::unique_ptr<card::Card> card)
      : session_(session), name_(std::move(name)), card_(std::move(card)) {}

  ~OpenCard() {
    worker_.reset();
    unload();
  }

  void enqueue(Bytes request, Session::Reply reply) {
    worker_->add([this, request = std::move(request), reply = std::move(reply)] {
      Reader in(request);
      const auto operation = in.get<Operation>();
      in.get_text();  // the card's name
      reply(execute(operation, in));
    });
  }

 private:
  Result<Bytes> execute(Operation operation, Reader& in) {
    switch (operation) {
      case Operation::kLoad: {
        const auto image = in.get_bytes();
        return packed(card_->load(image));
      }
      case Operation::kUnload:
        unload();
        return nothing();
      case Operation::kMakeIngress:
        return make_ingress(in);
      case Operation::kMakeEgress:
        return make_egress(in);
      case Operation::kGiveParameters: {
        const std::string unit = in.get_text();
        return packed(card_->give_parameters(unit, in.get_bytes()));
      }
      case Operation::kRead:
        return packed(card_->read(in.get<std::uint32_t>()));
      case Operation::kWrite: {
        const auto offset = in.get<std::uint32_t>();
        return packed(card_->write(offset, in.get<std::uint32_t>()));
      }
      case Operation::kStartSupervisor:
        MILLRACE_TRY(card_->start_supervisor());
        watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
        return nothing();
      case Operation::kInfo: {
        const card::CardInfo info = card_->info();
        return Writer()
            .put(info.index)
            .put_text(info.bdf)
            .put_text(info.name)
            .put_text(info.image_uuid)
            .take();
      }
      case Operation::kSensors:
        return Writer().put(card_->sensors()).take();
      case Operation::kResetDevice:
        unload();  // ends the threads that wait for units
        MILLRACE_TRY(card_->reset(card::ResetStep::kDevice));
        return nothing();
      default:
        return Error(ErrorCode::kInternal, "the agent of a rank received an unknown request");
    }
  }

  Result<Bytes> make_ingress(Reader& in) {
    const std::string unit = in.get_text();
    const auto bytes = in.get<std::uint64_t>();
    const auto slots = std::clamp(in.get<std::uint32_t>(), 1U, kMostSlots);
    const int tag = in.get<int>();
    MILLRACE_ASSIGN(auto made, card_->make_ingress(unit, bytes, slots));
    ingresses_.push_back(std::make_unique<IngressPort>(session_, std::move(made), tag, bytes, slots,
                                                       [this] { send_event(CardEvent::kLost); }));
    return nothing();
  }

  Result<Bytes> make_egress(Reader& in) {
    const std::string unit = in.get_text();
    const auto bytes = in.get<std::uint64_t>();
    const auto slots = std::clamp(in.get<std::uint32_t>(), 1U, kMostSlots);
    const int orders = in.get<int>(), results = in.get<int>();
    MILLRACE_ASSIGN(auto made, card_->make_egress(unit, bytes, slots));
    egresses_.push_back(
        std::make_unique<EgressPort>(session_, std::move(made), orders, results, bytes, slots));
    return nothing();
  }

  void unload() {
    if (watcher_.joinable()) {
      watcher_.request_stop();
      watcher_.join();
    }
    ingresses_.clear();
    egresses_.clear();
    card_->unload();
  }

  /// Waits for results and for the supervisor (the unit that reports faults), as the pipeline's thread of a local card
  /// does.
  void watch(const std::stop_token& stop) {
    bool reported = false;
    const auto check_supervisor = [&] {
      if (reported || !card_->supervisor_ended()) return;
      reported = true;
      report_fault(card_->wait_supervisor(milliseconds(1)));
    };
    while (!stop.stop_requested()) {
      EgressPort* port = nullptr;
      std::optional<FrameHeader> order;
      for (const auto& candidate : egresses_) {
        const auto next = candidate->next();
        if (!next || (order && order->sequence <= next->sequence)) continue;
        order = next;
        port = candidate.get();
      }
      if (order) {
        if (!port->serve(*order, kForResult)) check_supervisor();
      } else if (reported) {
        std::this_thread::sleep_for(kForFault);
      } else if (card_->wait_supervisor(kForFault) != RunState::kRunning) {
        check_supervisor();
      }
    }
  }

  void report_fault(RunState state) {
    if (state != RunState::kDone) return send_event(CardEvent::kLost);
    session_.report(Writer().put_text(name_).put(CardEvent::kFault).put(card_->fault_report()).take());
  }
  void send_event(CardEvent event) { session_.report(Writer().put_text(name_).put(event).take()); }

  Session& session_;
  const std::string name_;
  const std::unique_ptr<card::Card> card_;
  std::vector<std::unique_ptr<IngressPort>>
      ingresses_;                                      // changed by the worker while `watcher_` does not run
  std::vector<std::unique_ptr<EgressPort>> egresses_;  // likewise
  std::jthread watcher_;

  std::unique_ptr<Worker> worker_ = std::make_unique<Worker>();
};

Worker::Worker() : thread_([this] { run(); }) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    wake_.notify_all();
  }
  thread_.join();
}

void Worker::add(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  wake_.notify_all();
}

void Worker::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return closing_ || !work_.empty(); });
    if (work_.empty()) return;
    const auto next = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    next();
    lock.lock();
  }
}

Agent::Agent(Session& session, CardSource cards, ImageSource images)
    : session_(session), cards_(std::move(cards)), images_(std::move(images)) {}

Agent::~Agent() = default;

Result<Bytes> Agent::open(const std::string& name) {
  MILLRACE_ASSIGN(auto opened, cards_(name));
  auto card = std::make_shared<OpenCard>(session_, name, std::move(opened));
  const std::lock_guard lock(mutex_);
  open_[name] = std::move(card);
  return nothing();
}

Result<Bytes> Agent::close(const std::string& name) {
  std::shared_ptr<OpenCard> card;  // destroyed after the lock is released, because that can take seconds
  const std::lock_guard lock(mutex_);
  if (const auto found = open_.find(name); found != open_.end()) {
    card = std::move(found->second);
    open_.erase(found);
  }
  return nothing();
}

void Agent::request(Bytes request, Session::Reply reply) {
  Reader in(request);
  const auto operation = in.get<Operation>();
  const std::string name = in.get_text();
  switch (operation) {
    case Operation::kOpen:
      return opener_.add([this, name, reply = std::move(reply)] { reply(open(name)); });
    case Operation::kClose:
      return opener_.add([this, name, reply = std::move(reply)] { reply(close(name)); });
    case Operation::kImageUuid:
      return opener_.add(
          [this, name, reply = std::move(reply)] { reply(Writer().put_text(images_(name)).take()); });
    default:
      break;
  }
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(name);
  if (found == open_.end())
    return reply(Error(ErrorCode::kUnavailable, "card '" + name + "' is not open on this rank"));
  found->second->enqueue(std::move(request), std::move(reply));
}

}  // namespace millrace::runtime::mpi
