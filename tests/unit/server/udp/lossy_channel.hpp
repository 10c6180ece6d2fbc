// Simulates a bad network between clients and a server on this machine: it loses, repeats, delays, reorders and
// corrupts datagrams at random.
#pragma once

#include <cstdint>
#include <memory>

namespace millrace::tests {

struct Badness {
  double loss = 0;       // the probability that a datagram is lost
  double duplicate = 0;  // the probability that a datagram arrives twice
  double delay = 0;      // the probability that a datagram is delayed, by up to max_delay_us
  double corrupt = 0;    // the probability that one bit of a datagram flips
  std::uint32_t max_delay_us = 3000;
  // Of the datagrams to the server, the first `lose_from` pass and the next `lose_count` are lost, as if the server had
  // stopped for a while.
  std::uint32_t lose_from = 0, lose_count = 0;
};

class LossyChannel {
 public:
  /// Forwards datagrams between clients and 127.0.0.1:`server_port`. The server sees each client on a separate port.
  /// Throws std::runtime_error if a socket cannot be opened.
  static std::unique_ptr<LossyChannel> open(std::uint16_t server_port, const Badness& badness,
                                            std::uint64_t seed);
  virtual ~LossyChannel() = default;

  /// Returns the port to which clients send.
  virtual std::uint16_t port() const = 0;

  /// These functions return how many datagrams were disturbed, so that a test can check that the network was bad.
  virtual std::uint64_t lost() const = 0;
  virtual std::uint64_t duplicated() const = 0;
  virtual std::uint64_t delayed() const = 0;
  virtual std::uint64_t corrupted() const = 0;

  /// Returns the number of bytes forwarded to the server, or from the server to clients.
  virtual std::uint64_t bytes_to_server() const = 0;
  virtual std::uint64_t bytes_from_server() const = 0;
};

}  // namespace millrace::tests
