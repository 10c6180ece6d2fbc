// The client's side of TLS: the trusted certificates, and the text for a failed handshake. Hides OpenSSL.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/result.hpp"
#include "tools/clients/http_client.hpp"

struct ssl_ctx_st;
struct ssl_st;

namespace millrace::clients {

/// Makes a context for TLS 1.2 and later. kNotFound if the CA file cannot be read, kInvalidInput if it holds
/// no certificate.
Result<std::shared_ptr<ssl_ctx_st>> tls_context(const Access& access);

/// Call before the handshake: sets the host name or address that a verified certificate must name.
void expect_host(ssl_st* connection, const std::string& host);

/// The error of a failed handshake: kEnvironment if the certificate was rejected, otherwise kUnavailable. The
/// message contains `where`, the server, and `detail`, the transport's message.
Error handshake_error(const ssl_st* connection, const std::string& where, const std::string& detail);

}  // namespace millrace::clients
