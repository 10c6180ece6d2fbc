// The client's side of TLS: trusted certificates, and messages for failed handshakes. Hides OpenSSL from its users.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/result.hpp"
#include "tools/clients/http_client.hpp"

struct ssl_ctx_st;
struct ssl_st;

namespace millrace::clients {

/// Creates a context for TLS 1.2 and later. Returns kNotFound if the CA file cannot be read, and kInvalidInput if it
/// holds no certificate.
Result<std::shared_ptr<ssl_ctx_st>> tls_context(const Access& access);

/// Sets the host name or address that the server's certificate must name. Must be called before the handshake.
void expect_host(ssl_st* connection, const std::string& host);

/// Returns the error of a failed handshake: kEnvironment if the certificate was rejected, otherwise kUnavailable. The
/// message contains the server `where` and the transport's message `detail`.
Error handshake_error(const ssl_st* connection, const std::string& where, const std::string& detail);

}  // namespace millrace::clients
