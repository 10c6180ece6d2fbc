#include "runtime/mpi/session.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/mpi/communicator.hpp"
#include "runtime/mpi/join.hpp"

namespace millrace::runtime::mpi {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// How long the progress thread polls without a pause after a message: long if the machine has cores to spare, and
// otherwise hardly at all, because the cards' processes need the cores.
constexpr microseconds kLongSpin{100};
constexpr microseconds kShortSpin{5};
constexpr std::ptrdiff_t kCoresForSpinning = 4;  // of each rank on the machine
// How long the progress thread pauses between two polls when it no longer polls without a pause. After kBusy without a
// message, the session is idle.
constexpr milliseconds kBusy{500};
constexpr microseconds kShortPause{20};
constexpr microseconds kLongPause{1'200};
constexpr milliseconds kPollEnd{100};
constexpr milliseconds kMayBeIdle{400};   // a rank without a message for so long may be idle, or will be soon
constexpr std::uint32_t kIdleTurns = 16;  // an idle session polls streams once in so many turns
constexpr std::uint32_t kStreamTurns = 8;  // polls of the streams for each look for other messages

// MPI guarantees that tags up to 32,767 exist.
constexpr int kFirstTag = 16, kLastTag = 32'000;

struct Envelope {
  std::uint32_t kind = 0, reserved = 0;
  std::uint64_t id = 0;
};

}  // namespace

/// Messages that MPI has not sent completely yet. Their bytes must not be moved or freed until then.
struct Session::Mail {
  struct Message {
    Bytes bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  std::list<Message> messages;
};

Result<std::unique_ptr<Session>> Session::join(const Identity& own, const plan::Cluster& cluster,
                                               const SessionOptions& options) {
  int rank = 0;
  MILLRACE_ASSIGN(auto ranks, join_job(own, options.start_within, options.join_within, rank));
  if (const Status good = check_ranks(ranks, cluster); !good.ok()) {
    MPI_Finalize();  // every rank finds the same error and comes here
    return good.error();
  }
  const std::string machine = ranks[static_cast<std::size_t>(rank)].machine;
  const auto here = std::count_if(ranks.begin(), ranks.end(),
                                  [&](const Identity& other) { return other.machine == machine; });
  std::unique_ptr<Session> session(new Session(std::move(ranks), rank, options));
  const bool idle_cores = std::thread::hardware_concurrency() >= kCoresForSpinning * here;
  session->spin_ = options.spin.value_or(idle_cores ? kLongSpin : kShortSpin);
  return session;
}

Session::Session(std::vector<Identity> ranks, int rank, const SessionOptions& options)
    : ranks_(std::move(ranks)), rank_(rank), options_(options), mail_(std::make_unique<Mail>()) {
  for (int other = 0; other < size(); ++other) peers_.push_back(std::make_unique<Peer>());
}

void Session::start(Handlers handlers) {
  handlers_ = std::move(handlers);
  active_.store(Clock::now());
  for (const auto& peer : peers_) peer->heard.store(Clock::now());
  progress_ = std::thread([this] { run(); });
  heartbeats_ = std::jthread([this](const std::stop_token& stop) { send_heartbeats(stop); });
}

void Session::stop() {
  if (heartbeats_.joinable()) {
    heartbeats_.request_stop();
    heartbeats_.join();
  }
  stopping_.store(true);
  woken_.notify_all();
  {
    const std::lock_guard lock(calls_mutex_);
    answered_.notify_all();
  }
  if (progress_.joinable()) progress_.join();
}

Session::~Session() {
  stop();
  // MPI_Finalize waits for all ranks, so it must not be called after a failure. If a process ends without it, the
  // launcher ends the job; if no launcher does, the other ranks notice that this rank sends no heartbeats any more.
  if (!left_.load() || lost_rank() >= 0) return;
  finish_sends();
  MPI_Finalize();
}

std::string Session::describe(int rank) const {
  return "rank " + std::to_string(rank) + " (host '" + identity(rank).host + "')";
}

int Session::lost_rank() const {
  for (int rank = 0; rank < size(); ++rank)
    if (is_lost(rank)) return rank;
  return -1;
}

std::chrono::nanoseconds Session::longest_silence() const {
  std::chrono::nanoseconds longest{0};
  for (int rank = 0; rank < size(); ++rank)
    if (exchanges_heartbeats_with(rank))
      longest = std::max<std::chrono::nanoseconds>(
          longest, Clock::now() - peers_[static_cast<std::size_t>(rank)]->heard.load());
  return longest;
}

int Session::new_tag() {
  return kFirstTag + next_tag_.fetch_add(1) % (kLastTag - kFirstTag);
}

void Session::post(int rank, Kind kind, std::uint64_t id, std::span<const std::byte> body) {
  if (is_lost(rank)) return;
  Writer out;
  out.put(Envelope{static_cast<std::uint32_t>(kind), 0, id});
  Bytes bytes = out.take();
  bytes.insert(bytes.end(), body.begin(), body.end());
  const std::lock_guard lock(mail_mutex_);
  auto& message = mail_->messages.emplace_back(Mail::Message{std::move(bytes), MPI_REQUEST_NULL});
  const int code = MPI_Isend(message.bytes.data(), static_cast<int>(message.bytes.size()), MPI_BYTE, rank,
                             kMessageTag, communicator(), &message.request);
  if (code != MPI_SUCCESS)
    mail_->messages.pop_back();  // the missing heartbeats will show that the rank is lost
}

void Session::finish_sends() {
  const std::lock_guard lock(mail_mutex_);
  mail_->messages.remove_if([](Mail::Message& message) {
    int done = 0;
    return MPI_Test(&message.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
  });
}

void Session::nudge(int rank) {
  const auto now = Clock::now();
  const bool was_idle = now - active_.exchange(now) > kMayBeIdle;
  auto& woken = peers_[static_cast<std::size_t>(rank)]->woken;
  const bool was_asleep = now - woken.exchange(now) > kMayBeIdle;
  if (asleep_.load()) {
    const std::lock_guard lock(sleep_mutex_);
    woken_.notify_all();
  }
  if (rank_ != 0) return;
  for (int other = 1; other < size(); ++other)
    if (was_idle || (was_asleep && other == rank)) post(other, Kind::kWake, 0, {});
}

Result<Bytes> Session::call(int rank, Bytes request, milliseconds bound) {
  const std::uint64_t id = next_call_.fetch_add(1);
  std::unique_lock lock(calls_mutex_);
  Call& mine = calls_[id];
  lock.unlock();
  post(rank, Kind::kRequest, id, request);
  nudge(rank);
  lock.lock();
  const bool answered =
      answered_.wait_for(lock, bound, [&] { return mine.done || is_lost(rank) || stopping_.load(); });
  Result<Bytes> answer =
      mine.done ? std::move(mine.answer)
      : answered
          ? Result<Bytes>(Error(ErrorCode::kUnavailable, describe(rank) + " is lost"))
          : Result<Bytes>(Error(ErrorCode::kDeadlineExceeded, describe(rank) + " did not answer within " +
                                                                  std::to_string(bound.count()) + " ms"));
  calls_.erase(id);
  return answer;
}

void Session::report(Bytes event) {
  post(0, Kind::kEvent, 0, event);
  nudge(0);
}

void Session::watch(Pollable& pollable) {
  const std::lock_guard lock(polled_mutex_);
  polled_.push_back(&pollable);
}

void Session::unwatch(Pollable& pollable) {
  const std::lock_guard lock(polled_mutex_);
  std::erase(polled_, &pollable);
}

void Session::run() {
  ::prctl(PR_SET_TIMERSLACK, 1'000UL);  // ns, so that short pauses are not rounded up to 50 us and more
  for (std::uint32_t turn = 0; !stopping_.load(); ++turn) {
    const auto silent = Clock::now() - active_.load();
    // Before a frame comes, rank 0 wakes an idle session with a message outside of streams. So an idle session rarely
    // polls its streams.
    bool busy = (silent < kBusy || turn % kIdleTurns == 0) && poll_streams();
    // Frames travel in streams, so streams are polled more often than other messages while frames pass.
    const bool streams_only = turn % kStreamTurns != 0 && silent < spin_;
    if (!streams_only) {
      busy = receive() || busy;
      finish_sends();
      check_peers();
    }
    if (busy)
      active_.store(Clock::now());
    else if (!streams_only)
      rest();
  }
}

bool Session::poll_streams() {
  bool busy = false;
  const std::lock_guard lock(polled_mutex_);
  for (Pollable* const pollable : polled_) busy = pollable->poll() || busy;
  return busy;
}

void Session::rest() {
  const auto silent = Clock::now() - active_.load();
  if (silent < spin_) return;
  std::unique_lock lock(sleep_mutex_);
  asleep_.store(true);
  if (Clock::now() - active_.load() >= spin_)
    woken_.wait_for(lock, silent < kBusy ? kShortPause : kLongPause);
  asleep_.store(false);
}

bool Session::receive() {
  int there = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  if (MPI_Improbe(MPI_ANY_SOURCE, kMessageTag, communicator(), &there, &message, &status) != MPI_SUCCESS ||
      there == 0)
    return false;
  int length = 0;
  MPI_Get_count(&status, MPI_BYTE, &length);
  Bytes bytes(static_cast<std::size_t>(length));
  if (MPI_Mrecv(bytes.data(), length, MPI_BYTE, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
  if (bytes.size() < sizeof(Envelope)) return false;
  Envelope envelope;
  std::memcpy(&envelope, bytes.data(), sizeof envelope);
  peers_[static_cast<std::size_t>(status.MPI_SOURCE)]->heard.store(Clock::now());
  if (envelope.kind == static_cast<std::uint32_t>(Kind::kHeartbeat)) return false;  // does not end idleness
  deliver(status.MPI_SOURCE, std::move(bytes));
  return true;
}

void Session::deliver(int from, Bytes message) {
  Envelope envelope;
  std::memcpy(&envelope, message.data(), sizeof envelope);
  const auto body = std::span<const std::byte>(message).subspan(sizeof envelope);
  switch (static_cast<Kind>(envelope.kind)) {
    case Kind::kHeartbeat:
    case Kind::kWake:
      return;
    case Kind::kEnd:
      ended_.store(true);
      return;
    case Kind::kEvent:
      if (handlers_.event) handlers_.event(from, Reader(body));
      return;
    case Kind::kRequest:
      if (handlers_.request)
        handlers_.request(
            Bytes(body.begin(), body.end()), [this, from, id = envelope.id](Result<Bytes> answer) {
              Writer out;
              out.put(answer.ok() ? std::uint32_t{0} : 1 + static_cast<std::uint32_t>(answer.error().code()));
              if (answer.ok())
                out.put_bytes(*answer);
              else
                out.put_text(answer.error().message());
              post(from, Kind::kReply, id, out.take());
              nudge(from);
            });
      return;
    case Kind::kReply: {
      Reader in(body);
      const auto code = in.get<std::uint32_t>();
      const auto content = in.get_bytes();
      const std::lock_guard lock(calls_mutex_);
      const auto found = calls_.find(envelope.id);
      if (found == calls_.end()) return;  // the caller did not wait so long
      if (code == 0)
        found->second.answer = Bytes(content.begin(), content.end());
      else
        found->second.answer =
            Error(static_cast<ErrorCode>(code - 1),
                  std::string(reinterpret_cast<const char*>(content.data()), content.size()));
      found->second.done = true;
      answered_.notify_all();
      return;
    }
  }
}

void Session::send_heartbeats(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    for (int rank = 0; rank < size(); ++rank)
      if (exchanges_heartbeats_with(rank)) post(rank, Kind::kHeartbeat, 0, {});
    never.wait_for(lock, stop, options_.heartbeat, [] { return false; });
  }
}

void Session::check_peers() {
  const auto now = Clock::now();
  for (int rank = 0; rank < size(); ++rank)
    if (exchanges_heartbeats_with(rank) &&
        now - peers_[static_cast<std::size_t>(rank)]->heard.load() > options_.lost_after)
      lose(rank, "no heartbeat for " + std::to_string(options_.lost_after.count()) + " ms");
}

void Session::lose(int rank, const std::string& why) {
  if (ended_.load() || peers_[static_cast<std::size_t>(rank)]->lost.exchange(true)) return;
  log::error("mpi", describe(rank) + " is lost (" + why + "); the job ends");
  {
    const std::lock_guard lock(calls_mutex_);
    answered_.notify_all();
  }
  if (handlers_.lost) handlers_.lost(rank);
}

void Session::probe(milliseconds bound) {
  const auto begin = Clock::now();
  const auto silent = [&](int rank) {
    return exchanges_heartbeats_with(rank) && !is_lost(rank) &&
           peers_[static_cast<std::size_t>(rank)]->heard.load() < begin;
  };
  const auto any = [&] {
    for (int rank = 0; rank < size(); ++rank)
      if (silent(rank)) return true;
    return false;
  };
  while (any() && Clock::now() < begin + bound) std::this_thread::sleep_for(milliseconds(5));
  for (int rank = 0; rank < size(); ++rank)
    if (silent(rank))
      lose(rank, "silent for " + std::to_string(bound.count()) + " ms after a signal of the launcher");
}

Status Session::end_job() {
  if (const int rank = lost_rank(); rank >= 0)
    return Error(ErrorCode::kEnvironment, describe(rank) + " was lost");
  ended_.store(true);
  for (int rank = 1; rank < size(); ++rank) post(rank, Kind::kEnd, 0, {});
  left_.store(true);
  return {};
}

Status Session::wait_for_end(const std::function<bool()>& stop) {
  while (!ended_.load() && !is_lost(0) && !stop()) std::this_thread::sleep_for(kPollEnd);
  if (ended_.load()) {
    left_.store(true);
    return {};
  }
  return Error(ErrorCode::kEnvironment,
               is_lost(0) ? describe(0) + " was lost" : "stopped before " + describe(0) + " ended the job");
}

}  // namespace millrace::runtime::mpi
