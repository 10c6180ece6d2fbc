// The host's connection to a keeper (../keeper.hpp), which keeps the cards alive after this process has ended.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/emulator/keeper.hpp"

namespace millrace::runtime::emulator {

class KeptCards {
 public:
  /// Connects to the keeper's socket and receives all stored descriptors. The connection lasts until the process ends. If
  /// another process uses the cards, waits for at most two seconds, because a process that was killed takes some time to
  /// end. Returns kInvalidInput if the path is too long for a socket, kEnvironment if no keeper of this user answers in
  /// time, and kResourceExhausted if the other process still runs.
  static Result<std::unique_ptr<KeptCards>> connect(const std::string& path);

  /// Closes the connection and the descriptors that nobody took. The keeper keeps its own copies.
  ~KeptCards();
  KeptCards(const KeptCards&) = delete;
  KeptCards& operator=(const KeptCards&) = delete;

  /// Returns the descriptors that a former host stored under the name, which the caller then owns; empty if there are none.
  std::vector<int> take(const std::string& name);

  /// Stores copies of the descriptors under the name and drops those stored before. Any thread may call it. If the keeper
  /// is gone, the cards end with this process; the first such call says so on standard error.
  void put(const std::string& name, const std::vector<int>& descriptors);

  /// Returns the keeper's standard error, for the messages of card processes, or -1.
  int diagnostics() const { return diagnostics_; }

 private:
  KeptCards(std::string path, int socket) : path_(std::move(path)), socket_(socket) {}

  /// Receives what the keeper sends to a new host. Returns its last message: kEnd, or kBusy, or nothing if it does not answer.
  std::optional<KeeperMessage> receive_all();

  const std::string path_;
  const int socket_;
  bool gone_ = false;     // the keeper no longer answers
  int diagnostics_ = -1;  // constant after connect()
  std::mutex mutex_;
  std::map<std::string, std::vector<int>> stored_;  // by a former host, and not taken yet
};

}  // namespace millrace::runtime::emulator
