#include "server/udp/socket.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace millrace::server::udp {
namespace {

socklen_t length_of(const Address& a) {
  return a.is_v6() ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

Error system_error(const std::string& what) {
  return Error(ErrorCode::kEnvironment, what + ": " + std::strerror(errno));
}

constexpr int kBufferBytes = 4 << 20;  // requested; the kernel may grant less (net.core.rmem_max)
constexpr std::uint32_t kLookAgain = 16;

}  // namespace

std::string to_string(const Address& a) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(a.system.sin6_family, a.ip().data(), text.data(), text.size());
  const std::string ip = text.data();
  return (a.is_v6() ? "[" + ip + "]" : ip) + ":" + std::to_string(a.port());
}

/// Buffers for kBatch datagrams of any length.
struct Socket::Batch {
  static constexpr std::size_t kRoom = 65536;
  static constexpr std::size_t kControl = 64;
  std::unique_ptr<std::byte[]> bytes = std::make_unique<std::byte[]>(kBatch * kRoom);
  std::array<mmsghdr, kBatch> messages{};
  std::array<iovec, kBatch> parts{};
  std::array<Address, kBatch> from{};
  alignas(cmsghdr) std::array<std::array<std::byte, kControl>, kBatch> control{};

  Batch() {
    for (std::size_t i = 0; i < kBatch; ++i) parts[i] = {bytes.get() + i * kRoom, kRoom};
  }
  void arm(std::size_t i) {
    msghdr& m = messages[i].msg_hdr;
    m.msg_name = &from[i].system;
    m.msg_namelen = sizeof(Address);
    m.msg_iov = &parts[i];
    m.msg_iovlen = 1;
    m.msg_control = control[i].data();
    m.msg_controllen = kControl;
    m.msg_flags = 0;
  }
};

Socket::Socket(int fd, const Address& local, Counters& counters)
    : fd_(fd), local_(local), counters_(counters), batch_(std::make_unique<Batch>()) {
  for (std::size_t i = 0; i < kBatch; ++i) batch_->arm(i);
}

Socket::~Socket() {
  ::close(fd_);
}

Result<Address> Socket::resolve(const std::string& host, std::uint16_t port) {
  std::string name = host;
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') name = name.substr(1, name.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(name.c_str(), nullptr, &hints, &found); error != 0)
    return Error(ErrorCode::kEnvironment,
                 "UDP address '" + host + "' does not resolve: " + gai_strerror(error));
  Address address;
  std::memcpy(&address.system, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  address.set_port(port);
  return address;
}

Result<std::unique_ptr<Socket>> Socket::open(const std::string& host, std::uint16_t port,
                                             Counters& counters) {
  MILLRACE_ASSIGN(Address local, resolve(host, port));
  const int fd = ::socket(local.system.sin6_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return system_error("UDP socket");
  const int on = 1;
  if (local.is_v6()) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kBufferBytes, sizeof kBufferBytes);
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kBufferBytes, sizeof kBufferBytes);
  setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof on);
  // With this timeout, receiving needs no second system call to wait.
  const timeval poll{0, std::chrono::microseconds(kPoll).count()};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &poll, sizeof poll);

  auto* const address = reinterpret_cast<sockaddr*>(&local.system);
  socklen_t length = length_of(local);
  if (::bind(fd, address, length) != 0) {
    const Error error = system_error("UDP address " + to_string(local));
    ::close(fd);
    return error;
  }
  getsockname(fd, address, &length);
  return std::unique_ptr<Socket>(new Socket(fd, local, counters));
}

std::size_t Socket::fetch(std::chrono::nanoseconds limit, bool more) {
  if (limit < kPoll) {
    const auto ns = std::max<std::int64_t>(limit.count(), 0);
    const timespec time{ns / 1000000000, ns % 1000000000};
    pollfd wait{fd_, POLLIN, 0};
    if (ppoll(&wait, 1, &time, nullptr) <= 0) return 0;
  }
  // Checking for a second datagram costs a tenth of receiving one, so check rarely while datagrams come one by one.
  int count = 0;
  if (more || alone_ % kLookAgain == 0) {
    count = recvmmsg(fd_, batch_->messages.data(), kBatch, MSG_WAITFORONE, nullptr);
  } else {
    const auto bytes = recvmsg(fd_, &batch_->messages[0].msg_hdr, 0);
    batch_->messages[0].msg_len = bytes > 0 ? static_cast<unsigned>(bytes) : 0;
    count = bytes >= 0 ? 1 : 0;
  }
  if (count <= 0) return 0;
  alone_ = count == 1 ? alone_ + 1 : 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    msghdr& m = batch_->messages[i].msg_hdr;
    for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SO_RXQ_OVFL) continue;
      std::uint32_t dropped = 0;
      std::memcpy(&dropped, CMSG_DATA(c), sizeof dropped);
      counters_.count(Drop::kKernel, dropped - dropped_);
      dropped_ = dropped;
    }
    // The kernel overwrote the message's lengths, so restore them for the next call.
    m.msg_namelen = sizeof(Address);
    m.msg_controllen = Batch::kControl;
  }
  return static_cast<std::size_t>(count);
}

std::span<const std::byte> Socket::datagram(std::size_t i) const {
  return {batch_->bytes.get() + i * Batch::kRoom, batch_->messages[i].msg_len};
}

Address Socket::sender(std::size_t i) const {
  return batch_->from[i];
}

void Socket::send(const Address& to, std::span<const Piece> pieces) {
  constexpr std::size_t kChunk = wire::kBurst;
  Address address = to;
  std::array<mmsghdr, kChunk> messages;
  std::array<std::array<iovec, 2>, kChunk> parts;
  while (!pieces.empty()) {
    const std::size_t count = std::min(pieces.size(), kChunk);
    for (std::size_t i = 0; i < count; ++i) {
      // sendmsg() does not write to these buffers, although its parameter type would allow it to.
      parts[i][0] = {const_cast<std::byte*>(pieces[i].head.data()), pieces[i].head.size()};
      parts[i][1] = {const_cast<std::byte*>(pieces[i].payload.data()), pieces[i].payload.size()};
      messages[i] = {};
      messages[i].msg_hdr.msg_name = &address.system;
      messages[i].msg_hdr.msg_namelen = length_of(address);
      messages[i].msg_hdr.msg_iov = parts[i].data();
      messages[i].msg_hdr.msg_iovlen = pieces[i].payload.empty() ? 1 : 2;
    }
    const int sent = count == 1 ? (sendmsg(fd_, &messages[0].msg_hdr, MSG_DONTWAIT) >= 0 ? 1 : -1)
                                : sendmmsg(fd_, messages.data(), static_cast<unsigned>(count), MSG_DONTWAIT);
    const std::size_t taken = sent > 0 ? static_cast<std::size_t>(sent) : 0;
    if (taken < count) counters_.count(Drop::kSend, count - taken);
    pieces = pieces.subspan(count);
  }
}

}  // namespace millrace::server::udp
