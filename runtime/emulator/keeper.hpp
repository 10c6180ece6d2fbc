// A keeper is a process that keeps emulated cards alive from one host process to the next. It stores file descriptors under
// names and gives them to the next host. README.md, "Cards that outlive their host", describes it.
//
// A host connects to the keeper's Unix socket and stays connected while it uses the cards. The keeper serves one host at a
// time. Messages are datagrams of the type KeeperMessage, with descriptors attached (SCM_RIGHTS):
//   host to keeper: kPut stores the attached descriptors under the name and closes those stored before.
//   keeper to host, once after the host has connected: kPut for each stored name, then kEnd; or only kBusy.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace millrace::runtime::emulator {

struct KeeperMessage {
  enum class Kind : std::uint32_t { kPut = 1, kEnd, kBusy };
  static constexpr std::size_t kMostDescriptors = 8;

  Kind kind = Kind::kEnd;
  std::int32_t process = 0;  // kBusy: the process that uses the cards
  char name[32] = {};        // zero-terminated
};

/// Sends a message with at most kMostDescriptors descriptors, which stay open. Returns false if the other end is gone.
bool send_message(int socket, const KeeperMessage& message, const std::vector<int>& descriptors);

/// Waits for a message, and appends its descriptors, which the caller must close, to `descriptors`. Returns false if the
/// other end is gone or sends something else.
bool receive_message(int socket, KeeperMessage& message, std::vector<int>& descriptors);

}  // namespace millrace::runtime::emulator
