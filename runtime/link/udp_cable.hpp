// One end of a cable on a real UDP socket. The caller's thread waits for descriptor() until next_time(), and calls
// receive() and send().
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/base/socket_address.hpp"
#include "runtime/link/cable_end.hpp"
#include "runtime/link/impairment.hpp"

namespace millrace::runtime::link {

/// One thread at a time may use a UdpCable.
class UdpCable {
 public:
  /// Opens a socket at `local`; port 0 stands for any free port. Returns kEnvironment if the address is not available.
  static Result<std::unique_ptr<UdpCable>> open(const SocketAddress& local, std::uint16_t local_endpoint,
                                                std::uint16_t peer_endpoint, std::uint64_t seed = 1);
  ~UdpCable();
  UdpCable(const UdpCable&) = delete;
  UdpCable& operator=(const UdpCable&) = delete;

  /// Returns the address of the socket, with the port that the system chose if open() was given port 0.
  const SocketAddress& address() const { return address_; }
  /// Sets the neighbour's address. Before the first call, nothing is sent, and every datagram is dropped.
  void set_peer(const SocketAddress& peer) { peer_ = peer; }
  const std::optional<SocketAddress>& peer() const { return peer_; }

  CableEnd& end() { return end_; }
  const CableEnd& end() const { return end_; }
  /// Returns the faults of the emulated network in the direction away from this end.
  Impairer& impairer() { return impairer_; }

  int descriptor() const { return socket_; }
  /// Reads some of the datagrams that wait in the socket, and returns how many it has read. Returns 0 if none waits.
  /// Does not block.
  std::size_t receive(Time now);
  /// Sends all datagrams that are due. Does not block: what the socket does not accept is lost, as in a network.
  void send(Time now);
  /// Returns the time at which send() must be called again if nothing else happens.
  Time next_time() const;

 private:
  UdpCable(int socket, const SocketAddress& address, std::uint16_t local_endpoint,
           std::uint16_t peer_endpoint, std::uint64_t seed);

  static constexpr unsigned kBatch = 16;
  static constexpr std::size_t kBufferBytes = 65'536;  // longer than any UDP datagram

  const int socket_;
  const SocketAddress address_;
  std::optional<SocketAddress> peer_;
  CableEnd end_;
  Impairer impairer_;
  std::vector<std::byte> buffers_;
  std::array<mmsghdr, kBatch> arrivals_{}, departures_{};
  std::array<iovec, kBatch> arrival_pieces_{}, departure_pieces_{};
  std::array<sockaddr_in, kBatch> sources_{};
  unsigned expected_ = 1;  // datagrams that receive() asks for
};

}  // namespace millrace::runtime::link
