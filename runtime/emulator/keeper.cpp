#include "runtime/emulator/keeper.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace millrace::runtime::emulator {

namespace {

constexpr std::size_t kAncillaryBytes = CMSG_SPACE(KeeperMessage::kMostDescriptors * sizeof(int));

}  // namespace

bool send_message(int socket, const KeeperMessage& message, const std::vector<int>& descriptors) {
  KeeperMessage copy = message;
  iovec part{&copy, sizeof copy};
  alignas(cmsghdr) char control[kAncillaryBytes] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    const std::size_t bytes = descriptors.size() * sizeof(int);
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* const attached = CMSG_FIRSTHDR(&header);
    attached->cmsg_level = SOL_SOCKET;
    attached->cmsg_type = SCM_RIGHTS;
    attached->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(attached), descriptors.data(), bytes);
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof copy);
}

bool receive_message(int socket, KeeperMessage& message, std::vector<int>& descriptors) {
  iovec part{&message, sizeof message};
  alignas(cmsghdr) char control[kAncillaryBytes] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t received = 0;
  do {
    received = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received >= 0) {
    for (cmsghdr* one = CMSG_FIRSTHDR(&header); one != nullptr; one = CMSG_NXTHDR(&header, one)) {
      if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_RIGHTS) continue;
      const std::size_t count = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      const std::size_t before = descriptors.size();
      descriptors.resize(before + count);
      std::memcpy(descriptors.data() + before, CMSG_DATA(one), count * sizeof(int));
    }
  }
  message.name[sizeof message.name - 1] = '\0';
  const bool complete = (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  return complete && received == static_cast<ssize_t>(sizeof message);
}

}  // namespace millrace::runtime::emulator
