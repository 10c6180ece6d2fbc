// The server's certificate and key. OpenSSL's types are used in tls.cpp and transport.hpp only.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/base/result.hpp"

namespace boost::asio::ssl {
class context;
}

namespace millrace::server::http {

/// For TLS 1.2 and 1.3. Any thread. Connections keep the certificate that they began with.
class TlsIdentity {
 public:
  /// kNotFound, kEnvironment (a file cannot be read) or kInvalidInput (no PEM, the key of another certificate,
  /// expired, not valid yet), naming the file.
  static Result<std::shared_ptr<TlsIdentity>> load(const std::string& certificate, const std::string& key);

  /// Takes over what `by` loaded. Returns false if that is the same certificate and key.
  bool replace(const TlsIdentity& by);

  std::shared_ptr<boost::asio::ssl::context> context() const;

  std::chrono::system_clock::time_point expires() const;
  /// "2027-03-01 12:00 UTC".
  std::string expires_text() const;

 private:
  struct Loaded {
    std::shared_ptr<boost::asio::ssl::context> context;
    std::chrono::system_clock::time_point expires;
    std::string digest;  // SHA-256 of both files
  };
  static Result<Loaded> read(const std::string& certificate, const std::string& key);

  mutable std::mutex mutex_;
  Loaded loaded_;
};

}  // namespace millrace::server::http
