#include "runtime/link/udp_cable.hpp"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace millrace::runtime::link {

namespace {

// The requested size of the socket's buffer. The kernel limits it to net.core.rmem_max.
constexpr int kSocketBufferBytes = 8 << 20;

sockaddr_in to_sockaddr(const SocketAddress& address) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(address.host);
  out.sin_port = htons(address.port);
  return out;
}

SocketAddress from_sockaddr(const sockaddr_in& address) {
  return {ntohl(address.sin_addr.s_addr), ntohs(address.sin_port)};
}

}  // namespace

Result<std::unique_ptr<UdpCable>> UdpCable::open(const SocketAddress& local, std::uint16_t local_endpoint,
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

UdpCable::UdpCable(int socket, const SocketAddress& address, std::uint16_t local_endpoint,
                   std::uint16_t peer_endpoint, std::uint64_t seed)
    : socket_(socket),
      address_(address),
      end_(local_endpoint, peer_endpoint),
      impairer_(seed),
      buffers_(kBatch * kBufferBytes) {
  for (std::size_t i = 0; i < kBatch; ++i) {
    arrival_pieces_[i] = {buffers_.data() + i * kBufferBytes, kBufferBytes};
    arrivals_[i].msg_hdr.msg_name = &sources_[i];
    arrivals_[i].msg_hdr.msg_namelen = sizeof sources_[i];
    arrivals_[i].msg_hdr.msg_iov = &arrival_pieces_[i];
    arrivals_[i].msg_hdr.msg_iovlen = 1;
  }
}

UdpCable::~UdpCable() {
  ::close(socket_);
}

// The hot path begins here.
std::size_t UdpCable::receive(Time now) {
  for (;;) {
    const int count = recvmmsg(socket_, arrivals_.data(), expected_, 0, nullptr);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const std::span<const std::byte> bytes(buffers_.data() + i * kBufferBytes, arrivals_[i].msg_len);
      arrivals_[i].msg_hdr.msg_namelen = sizeof sources_[i];
      end_.receive(bytes, peer_ && from_sockaddr(sources_[i]) == *peer_, now);
    }
    // The call takes longer if the kernel looks for a further datagram and finds none. So ask for about as
    // many datagrams as arrived together last time.
    const auto got = static_cast<unsigned>(count);
    expected_ = got < expected_ ? got : std::min(2 * expected_, kBatch);
    return got;
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
      const int done = sendmmsg(socket_, departures_.data() + sent, static_cast<unsigned>(count - sent), 0);
      if (done < 0 && errno == EINTR) continue;
      sent += done > 0 ? static_cast<std::size_t>(done) : 1;  // a datagram that is not accepted is lost
    }
    count = 0;
  };
  for (auto bytes = end_.next_datagram(now); !bytes.empty(); bytes = end_.next_datagram(now)) {
    departure_pieces_[count] = {const_cast<std::byte*>(bytes.data()), bytes.size()};
    departures_[count] = {};
    departures_[count].msg_hdr.msg_name = &to;
    departures_[count].msg_hdr.msg_namelen = sizeof to;
    departures_[count].msg_hdr.msg_iov = &departure_pieces_[count];
    departures_[count].msg_hdr.msg_iovlen = 1;
    if (++count == kBatch) flush();
  }
  flush();
}
// The hot path ends here.

Time UdpCable::next_time() const {
  return peer_ ? std::min(end_.next_time(), impairer_.next_time()) : Time::max();
}

}  // namespace millrace::runtime::link
