// Reads and writes the bytes of a non-blocking connection, with or without TLS.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct ssl_ctx_st;
struct ssl_st;

namespace millrace::load {

/// Owns a file descriptor and closes it.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void reset(int fd = -1);
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

class Channel {
 public:
  enum class Outcome { kDone, kWantsRead, kWantsWrite, kClosed };

  /// Takes ownership of a non-blocking socket. If `context` is not null, the connection uses TLS: handshake() must be
  /// called first, and the certificate must name `host`.
  void open(int socket, ssl_ctx_st* context, const std::string& host);
  void close();
  int socket() const { return socket_.get(); }
  bool secure() const { return tls_ != nullptr; }

  Outcome handshake();

  /// kDone means that `count` bytes, at least one, were written or read. kClosed means that the connection ended.
  Outcome write(std::string_view bytes, std::size_t& count);
  Outcome read(std::span<char> room, std::size_t& count);

  /// Whether TLS has decrypted bytes that can be read although polling the socket reports none.
  bool holds_bytes() const;

 private:
  struct Free {
    void operator()(ssl_st* tls) const;
  };
  Outcome outcome_of(int result) const;

  Descriptor socket_;
  std::unique_ptr<ssl_st, Free> tls_;
};

}  // namespace millrace::load
