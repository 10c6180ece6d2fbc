// The server's TLS certificate and private key. Only tls.cpp and transport.hpp use OpenSSL's types.
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

/// A certificate and its key, for TLS 1.2 and 1.3. They can be replaced; a connection keeps the certificate that it
/// began with. Any thread may use it.
class TlsIdentity {
 public:
  /// Loads two PEM files. Returns kNotFound or kEnvironment if a file cannot be read, and kInvalidInput if a file is
  /// not PEM, the key does not fit the certificate, or the certificate is not valid today. Errors name the file.
  static Result<std::shared_ptr<TlsIdentity>> load(const std::string& certificate, const std::string& key);

  /// Replaces certificate and key by those of `by`. Returns false if nothing changes.
  bool replace(const TlsIdentity& by);

  std::shared_ptr<boost::asio::ssl::context> context() const;

  std::chrono::system_clock::time_point expires() const;
  /// Returns when the certificate expires, as text: "2027-03-01 12:00 UTC".
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
