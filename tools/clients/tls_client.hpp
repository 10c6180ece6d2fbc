// The client's side of TLS: whom to trust, and what went wrong, in words. OpenSSL stays behind it.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/result.hpp"
#include "tools/clients/http_client.hpp"

struct ssl_ctx_st;
struct ssl_st;

namespace millrace::clients {

/// TLS 1.2 and later. kNotFound, kInvalidInput where the CA file cannot be read or holds no certificate.
Result<std::shared_ptr<ssl_ctx_st>> tls_context(const Access& access);

/// Before the handshake: whom the certificate must name (a host's name or address), where it is verified.
void expect_host(ssl_st* connection, const std::string& host);

/// Of a handshake that failed: kEnvironment where the certificate is not accepted, else kUnavailable. `where`
/// is the server, `detail` what the transport said.
Error handshake_error(const ssl_st* connection, const std::string& where, const std::string& detail);

}  // namespace millrace::clients
