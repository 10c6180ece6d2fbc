// The host's connection to a keeper (../keeper.hpp), which keeps the cards alive after this process has ended.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace::runtime::emulator {

class KeptCards {
 public:
  /// Connects to the keeper's socket and receives all stored descriptors. The connection lasts until the process ends. If
  /// another process uses the cards, waits for at most two seconds, because a process that was killed takes some time to
  /// end. Returns kEnvironment if no keeper answers, and kResourceExhausted if the other process still runs.
  static Result<std::unique_ptr<KeptCards>> connect(const std::string& path);

  /// Returns the descriptors that a former host stored under the name, which the caller then owns; empty if there are none.
  std::vector<int> take(const std::string& name);

  /// Stores copies of the descriptors under the name and drops those stored before. Any thread may call it.
  void put(const std::string& name, const std::vector<int>& descriptors);

  /// Returns the keeper's standard error, for the messages of card processes, or -1.
  int diagnostics() const { return diagnostics_; }

 private:
  explicit KeptCards(int socket) : socket_(socket) {}

  const int socket_;
  int diagnostics_ = -1;  // constant after connect()
  std::mutex mutex_;
  std::map<std::string, std::vector<int>> stored_;  // by a former host, and not taken yet
};

}  // namespace millrace::runtime::emulator
