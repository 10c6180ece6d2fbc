#include "runtime/link/udp_cable.hpp"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

namespace millrace::runtime::link {

namespace {

// The requested size of the socket's buffer. The kernel limits it to net.core.rmem_max.
constexpr int kSocketBufferBytes = 8 << 20;

sockaddr_in to_sockaddr(const Address& address) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(address.host);
  out.sin_port = htons(address.port);
  return out;
}

Address from_sockaddr(const sockaddr_in& address) {
  return {ntohl(address.sin_addr.s_addr), ntohs(address.sin_port)};
}

}  // namespace

Result<Address> parse_address(std::string_view text) {
  const Error wrong(
      ErrorCode::kInvalidInput,
      "address '" + std::string(text) + "' is not an IPv4 address and a port, such as 10.1.2.3:5000");
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong;
  Address address;
  const auto port = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  in_addr host{};
  if (error != std::errc() || end != port.data() + port.size() ||
      inet_pton(AF_INET, std::string(text.substr(0, colon)).c_str(), &host) != 1)
    return wrong;
  address.host = ntohl(host.s_addr);
  return address;
}

std::string to_string(const Address& address) {
  const in_addr host{htonl(address.host)};
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &host, text, sizeof text);
  return std::string(text) + ":" + std::to_string(address.port);
}

Result<std::unique_ptr<UdpCable>> UdpCable::open(const Address& local, std::uint16_t local_endpoint,
                                                 std::uint16_t peer_endpoint, std::uint64_t seed) {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto failed = [&] {
    const int error = errno;
    if (socket >= 0) ::close(socket);
    return Error(ErrorCode::kEnvironment,
                 "cannot open UDP socket " + to_string(local) + ": " + std::strerror(error));
  };
  if (socket < 0) return failed();
  for (const int option : {SO_RCVBUF, SO_SNDBUF})
    setsockopt(socket, SOL_SOCKET, option, &kSocketBufferBytes, sizeof kSocketBufferBytes);
  sockaddr_in address = to_sockaddr(local);
  socklen_t size = sizeof address;
  if (bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return failed();
  return std::unique_ptr<UdpCable>(
      new UdpCable(socket, from_sockaddr(address), local_endpoint, peer_endpoint, seed));
}

UdpCable::UdpCable(int socket, const Address& address, std::uint16_t local_endpoint,
                   std::uint16_t peer_endpoint, std::uint64_t seed)
    : socket_(socket),
      address_(address),
      end_(local_endpoint, peer_endpoint),
      impairer_(seed),
      buffers_(kBatch * kBufferBytes) {}

UdpCable::~UdpCable() {
  ::close(socket_);
}

// The hot path begins here.
std::size_t UdpCable::receive(Time now) {
  std::size_t received = 0;
  for (;;) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      pieces_[i] = {buffers_.data() + i * kBufferBytes, kBufferBytes};
      messages_[i] = {};
      messages_[i].msg_hdr.msg_name = &sources_[i];
      messages_[i].msg_hdr.msg_namelen = sizeof sources_[i];
      messages_[i].msg_hdr.msg_iov = &pieces_[i];
      messages_[i].msg_hdr.msg_iovlen = 1;
    }
    const int count = recvmmsg(socket_, messages_.data(), kBatch, 0, nullptr);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return received;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const std::span<const std::byte> bytes(buffers_.data() + i * kBufferBytes, messages_[i].msg_len);
      end_.receive(bytes, peer_ && from_sockaddr(sources_[i]) == *peer_, now);
    }
    received += static_cast<std::size_t>(count);
    if (static_cast<std::size_t>(count) < kBatch) return received;
  }
}

void UdpCable::send(Time now) {
  if (!peer_) return;
  sockaddr_in to = to_sockaddr(*peer_);
  if (!impairer_.impairment().is_none() || impairer_.next_time() != Time::max()) {
    for (auto bytes = end_.next_datagram(now); !bytes.empty(); bytes = end_.next_datagram(now))
      impairer_.accept(bytes, now);
    for (auto bytes = impairer_.next(now); !bytes.empty(); bytes = impairer_.next(now))
      (void)sendto(socket_, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    return;
  }
  std::size_t count = 0;
  const auto flush = [&] {
    for (std::size_t sent = 0; sent < count;) {
      const int done = sendmmsg(socket_, messages_.data() + sent, static_cast<unsigned>(count - sent), 0);
      if (done < 0 && errno == EINTR) continue;
      sent += done > 0 ? static_cast<std::size_t>(done) : 1;  // a datagram that is not accepted is lost
    }
    count = 0;
  };
  for (auto bytes = end_.next_datagram(now); !bytes.empty(); bytes = end_.next_datagram(now)) {
    pieces_[count] = {const_cast<std::byte*>(bytes.data()), bytes.size()};
    messages_[count] = {};
    messages_[count].msg_hdr.msg_name = &to;
    messages_[count].msg_hdr.msg_namelen = sizeof to;
    messages_[count].msg_hdr.msg_iov = &pieces_[count];
    messages_[count].msg_hdr.msg_iovlen = 1;
    if (++count == kBatch) flush();
  }
  flush();
}
// The hot path ends here.

Time UdpCable::next_time() const {
  return peer_ ? std::min(end_.next_time(), impairer_.next_time()) : Time::max();
}

}  // namespace millrace::runtime::link
