// A bad network between clients and a server on this machine: it loses, repeats, delays, reorders and
// corrupts datagrams at random, from a seed.
#pragma once

#include <cstdint>
#include <memory>

namespace millrace::tests {

struct Badness {
  double loss = 0;       // chance that a datagram is lost
  double duplicate = 0;  // chance that it comes twice
  double delay = 0;      // chance that it is held back, up to max_delay_us
  double corrupt = 0;    // chance that one bit of it flips
  std::uint32_t max_delay_us = 3000;
  // The first `lose_from` datagrams to the server pass and the next `lose_count` are lost, as if the server
  // did not run for a while.
  std::uint32_t lose_from = 0, lose_count = 0;
};

class LossyChannel {
 public:
  /// Forwards between clients and 127.0.0.1:`server_port`, each client from a port of its own. Throws
  /// std::runtime_error.
  static std::unique_ptr<LossyChannel> open(std::uint16_t server_port, const Badness& badness,
                                            std::uint64_t seed);
  virtual ~LossyChannel() = default;

  /// The port that clients send to.
  virtual std::uint16_t port() const = 0;

  /// Damaged datagrams by kind, so that a test can check that there were some.
  virtual std::uint64_t lost() const = 0;
  virtual std::uint64_t duplicated() const = 0;
  virtual std::uint64_t delayed() const = 0;
  virtual std::uint64_t corrupted() const = 0;

  /// Bytes forwarded to the server, and from it.
  virtual std::uint64_t bytes_to_server() const = 0;
  virtual std::uint64_t bytes_from_server() const = 0;
};

}  // namespace millrace::tests
