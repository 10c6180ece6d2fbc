// This process's part in an MPI job: messages to and from other ranks, and the news that a rank is lost.
//
// A session has two threads. The progress thread receives all messages and calls the handlers. It polls quickly while
// frames pass, and 800 times a second after half a second without messages. The heartbeat thread tells the other ranks that
// this one lives: rank 0 exchanges heartbeats with every other rank. A process has at most one session, because MPI
// can be started only once.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/mpi/ranks.hpp"
#include "runtime/mpi/wire.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::runtime::mpi {

using Clock = std::chrono::steady_clock;

struct SessionOptions {
  // For all ranks to start MPI. Ranks may start at different times, because each first reads its deployments.
  std::chrono::milliseconds start_within{60'000};
  std::chrono::milliseconds join_within{5'000};  // for all ranks to exchange their identities afterwards
  std::chrono::milliseconds heartbeat{100};      // time between two heartbeats
  std::chrono::milliseconds lost_after{4'000};   // a rank that is silent for so long is lost
  // How long the progress thread polls without a pause after a message. If empty, the time is the one in README.md,
  // "Idle ranks".
  std::optional<std::chrono::microseconds> spin = {};
};

/// Something that the progress thread polls, such as the receiving end of a stream.
class Pollable {
 public:
  virtual ~Pollable() = default;
  /// Handles what has arrived, without waiting. Returns whether anything had arrived.
  virtual bool poll() = 0;
};

class Session {
 public:
  /// Starts MPI and exchanges identities with the other ranks. Returns check_ranks()'s error, kEnvironment if MPI does
  /// not start or has no support for threads, and kUnavailable, with the ranks, if ranks do not answer in time. If there
  /// is no error, start() must be called next. MPI cannot give up a start. So if a rank does not start MPI in time, this
  /// function logs an error and ends the process with exit code 3.
  static Result<std::unique_ptr<Session>> join(const Identity& own, const plan::Cluster& cluster,
                                               const SessionOptions& options = {});
  /// Calls stop(). Ends MPI if the job ended (end_job(), wait_for_end()) and no rank was lost. Otherwise the process
  /// must end with an exit code other than 0.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  const Identity& identity(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  /// Returns text for messages: "rank 1 (host 'b')".
  std::string describe(int rank) const;

  /// Answers a request of rank 0. `reply` may be called on any thread, once.
  using Reply = std::function<void(Result<Bytes>)>;
  using RequestHandler = std::function<void(Bytes request, Reply reply)>;
  using EventHandler = std::function<void(int from, Reader event)>;
  using LossHandler = std::function<void(int rank)>;
  struct Handlers {  // called on the progress thread; must not block; may be empty
    RequestHandler request;
    EventHandler event;
    LossHandler lost;
  };
  /// Starts the threads.
  void start(Handlers handlers);
  /// Ends the threads. No handler is called afterwards. Idempotent.
  void stop();

  /// Sends a request and waits for its answer, at most for `bound`. Returns the answer's error, kUnavailable if the
  /// rank is lost or becomes lost, and kDeadlineExceeded. Any thread except the progress thread may call it.
  Result<Bytes> call(int rank, Bytes request, std::chrono::milliseconds bound);
  /// Sends an event to rank 0. Any thread may call it.
  void report(Bytes event);

  /// Returns a message tag that no other stream uses. Rank 0 alone chooses tags.
  int new_tag();

  /// From now on, the progress thread polls `pollable`. Any thread may call it, except inside poll().
  void watch(Pollable& pollable);
  /// Stops the polling of `pollable`, and blocks until the progress thread is outside of it. Does nothing if
  /// `pollable` is not watched.
  void unwatch(Pollable& pollable);

  /// Tells the progress thread that an answer will come soon. Called after each message of a stream to `rank`. If
  /// that rank may be idle, rank 0 wakes it; if all may be idle, rank 0 wakes all at once. Any thread may call it.
  void nudge(int rank);

  bool is_lost(int rank) const { return peers_[static_cast<std::size_t>(rank)]->lost.load(); }
  /// Returns the first lost rank, or -1.
  int lost_rank() const;
  /// Returns the longest time for which a rank with which this rank exchanges heartbeats has been silent.
  std::chrono::nanoseconds longest_silence() const;
  /// Waits until every rank has sent something since this call, at most for `bound`. Ranks that have sent nothing count
  /// as lost. `bound` must be longer than two heartbeats. Called at signals that a launcher sends after another rank was
  /// killed.
  void probe(std::chrono::milliseconds bound);

  /// Rank 0: tells the other ranks to end. Other ranks: waits for this message, until rank 0 is lost or `stop` returns
  /// true, and returns kUnavailable if rank 0 was lost.
  Status end_job();
  Status wait_for_end(const std::function<bool()>& stop);

 private:
  struct Peer {
    std::atomic<Clock::time_point> heard{};
    std::atomic<Clock::time_point>
        woken{};  // when something other than a heartbeat was last sent to the rank
    std::atomic<bool> lost{false};
  };
  struct Call {
    bool done = false;
    Result<Bytes> answer = Bytes();
  };
  struct Mail;  // messages that are being sent

  Session(std::vector<Identity> ranks, int rank, const SessionOptions& options);

  enum class Kind : std::uint32_t { kHeartbeat, kWake, kEnd, kRequest, kReply, kEvent };
  void post(int rank, Kind kind, std::uint64_t id, std::span<const std::byte> body);
  void run();
  void send_heartbeats(const std::stop_token& stop);
  bool receive();  // receives at most one message
  void deliver(int from, Bytes message);
  void finish_sends();
  void rest();
  bool poll_streams();
  void check_peers();
  void lose(int rank, const std::string& why);
  bool exchanges_heartbeats_with(int rank) const { return rank != rank_ && (rank_ == 0 || rank == 0); }

  // The members below are constant after start().
  const std::vector<Identity> ranks_;
  const int rank_;
  const SessionOptions options_;
  Handlers handlers_;
  std::chrono::microseconds spin_{0};  // how long the progress thread polls without a pause after a message
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank

  std::atomic<Clock::time_point>
      active_{};  // when a message other than a heartbeat was last sent or received
  std::atomic<bool> asleep_{false}, stopping_{false}, ended_{false}, left_{false};
  std::atomic<std::uint64_t> next_call_{1};
  std::atomic<int> next_tag_{0};

  std::mutex sleep_mutex_;
  std::condition_variable_any woken_;  // notified by nudge(), by the end of the job and of the session

  std::mutex polled_mutex_;
  std::vector<Pollable*> polled_;  // protected by polled_mutex_

  std::mutex calls_mutex_;
  std::condition_variable answered_;
  std::map<std::uint64_t, Call> calls_;  // protected by calls_mutex_

  std::mutex mail_mutex_;
  std::unique_ptr<Mail> mail_;  // protected by mail_mutex_

  std::jthread heartbeats_;
  std::thread progress_;
};

}  // namespace millrace::runtime::mpi
