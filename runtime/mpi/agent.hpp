// What a rank other than 0 does: drives the cards of its host for rank 0. RemoteCard (remote_card.hpp) is the other
// end.
//
// Threads. The session's progress thread copies inputs to the cards and starts their runs. One thread opens and closes
// cards. Each open card has a worker, which answers rank 0's requests in order, and, while an image runs, a thread that
// waits for results and for the supervisor, and sends results to rank 0.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/base/result.hpp"
#include "runtime/card/card.hpp"
#include "runtime/mpi/session.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::runtime::mpi {

/// A thread that does work in order.
class Worker {
 public:
  Worker();
  ~Worker();  // does the work that was added before, then ends
  void add(std::function<void()> work);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> work_;  // protected by mutex_
  bool closing_ = false;                    // protected by mutex_
  std::thread thread_;                      // last, because it uses all members above
};

class Agent {
 public:
  /// Opens a card of this rank's host by its name.
  using CardSource = std::function<Result<std::unique_ptr<card::Card>>(const std::string& name)>;
  /// Returns the uuid of the image that a card holds.
  using ImageSource = std::function<std::string(const std::string& name)>;

  /// The session must outlive the agent.
  Agent(Session& session, CardSource cards, ImageSource images);
  ~Agent();  // releases all cards

  /// Handles a request that rank 0 sent to this rank. Called on the session's progress thread.
  void request(Bytes request, Session::Reply reply);

 private:
  class OpenCard;

  Result<Bytes> open(const std::string& name);
  Result<Bytes> close(const std::string& name);

  Session& session_;
  const CardSource cards_;
  const ImageSource images_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<OpenCard>> open_;  // by the card's name; protected by mutex_
  Worker opener_;                                          // last, because its work uses all members above
};

}  // namespace millrace::runtime::mpi
