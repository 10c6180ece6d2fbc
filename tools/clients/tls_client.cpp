#include "tools/clients/tls_client.hpp"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "runtime/base/file.hpp"

namespace millrace::clients {
namespace {

constexpr std::uint64_t kLongestFile = 4U << 20U;

bool is_address(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, host.c_str(), bytes) == 1 || ::inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

}  // namespace

Result<std::shared_ptr<ssl_ctx_st>> tls_context(const Access& access) {
  const std::shared_ptr<SSL_CTX> context(::SSL_CTX_new(::TLS_client_method()), ::SSL_CTX_free);
  if (context == nullptr) return Error(ErrorCode::kEnvironment, "TLS: OpenSSL cannot make a context");
  ::SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  ::SSL_CTX_set_verify(context.get(), access.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (!access.verify) return context;
  if (access.ca_file.empty()) {
    ::SSL_CTX_set_default_verify_paths(context.get());
    return context;
  }
  // Read the file separately, to distinguish a missing file from a file without a certificate.
  MILLRACE_ASSIGN([[maybe_unused]] const std::string text, read_text_file(access.ca_file, kLongestFile));
  ::ERR_clear_error();
  if (::SSL_CTX_load_verify_file(context.get(), access.ca_file.c_str()) != 1)
    return Error(ErrorCode::kInvalidInput, "TLS: " + access.ca_file + " holds no certificate in PEM");
  return context;
}

void expect_host(ssl_st* connection, const std::string& host) {
  X509_VERIFY_PARAM* const wanted = ::SSL_get0_param(connection);
  if (is_address(host)) {
    ::X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str());
    return;
  }
  ::X509_VERIFY_PARAM_set1_host(wanted, host.c_str(), host.size());
  ::SSL_set_tlsext_host_name(connection, host.c_str());
}

Error handshake_error(const ssl_st* connection, const std::string& where, const std::string& detail) {
  const long verified = ::SSL_get_verify_result(connection);
  if (verified != X509_V_OK)
    return Error(ErrorCode::kEnvironment,
                 where + ": its certificate is not accepted: " + ::X509_verify_cert_error_string(verified) +
                     "; give a CA file (PEM) with the certificates to trust");
  return Error(ErrorCode::kUnavailable,
               where + ": the TLS handshake failed: " + detail + "; is it an http:// listener?");
}

}  // namespace millrace::clients
