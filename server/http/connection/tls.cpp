#include "server/http/connection/tls.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <boost/asio/ssl/context.hpp>
#include <ctime>

#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/log.hpp"

namespace millrace::server::http {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

constexpr std::uint64_t kLongestFile = 1U << 20U;
constexpr std::chrono::hours kWarnBefore{14 * 24};

std::string minute_of(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

std::chrono::system_clock::time_point time_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (time == nullptr || ::ASN1_TIME_to_tm(time, &parts) != 1) return {};
  return std::chrono::system_clock::from_time_t(::timegm(&parts));
}

}  // namespace

Result<TlsIdentity::Loaded> TlsIdentity::read(const std::string& certificate, const std::string& key) {
  const auto bad = [](const std::string& file, const std::string& why) {
    return Error(ErrorCode::kInvalidInput, "TLS: " + file + " " + why);
  };
  MILLRACE_ASSIGN(const std::string chain, read_text_file(certificate, kLongestFile));
  MILLRACE_ASSIGN(const std::string secret, read_text_file(key, kLongestFile));
  Loaded out{std::make_shared<ssl::context>(ssl::context::tls_server), {}, sha256_hex(chain + secret)};
  error_code error;
  out.context->set_options(ssl::context::default_workarounds | ssl::context::no_tlsv1 |
                               ssl::context::no_tlsv1_1 | ssl::context::no_compression,
                           error);
  // Without this callback, OpenSSL would ask for the passphrase of an encrypted key on the terminal.
  out.context->set_password_callback(
      [](std::size_t, ssl::context::password_purpose) { return std::string(); }, error);
  out.context->use_certificate_chain(boost::asio::buffer(chain), error);
  if (error) return bad(certificate, "holds no certificate in PEM: " + error.message());
  out.context->use_private_key(boost::asio::buffer(secret), ssl::context::pem, error);
  if (error && ERR_GET_REASON(static_cast<unsigned long>(error.value())) == X509_R_KEY_VALUES_MISMATCH)
    return bad(key, "is not the key of " + certificate);
  if (error && ::SSL_CTX_get0_privatekey(out.context->native_handle()) == nullptr)
    return bad(key, "must hold a private key in PEM that has no passphrase: " + error.message());
  if (::SSL_CTX_check_private_key(out.context->native_handle()) != 1)
    return bad(key, "is not the key of " + certificate);
  const X509* leaf = ::SSL_CTX_get0_certificate(out.context->native_handle());
  out.expires = time_of(::X509_get0_notAfter(leaf));
  const auto begins = time_of(::X509_get0_notBefore(leaf));
  const auto now = std::chrono::system_clock::now();
  if (out.expires <= now) return bad(certificate, "expired on " + minute_of(out.expires) + "; renew it");
  if (begins > now)
    return bad(certificate, "is not valid before " + minute_of(begins) + "; is this machine's clock right?");
  if (out.expires - now < kWarnBefore)
    log::warning("http", "TLS: " + certificate + " expires on " + minute_of(out.expires));
  return out;
}

Result<std::shared_ptr<TlsIdentity>> TlsIdentity::load(const std::string& certificate,
                                                       const std::string& key) {
  auto out = std::make_shared<TlsIdentity>();
  MILLRACE_ASSIGN(out->loaded_, read(certificate, key));
  return out;
}

bool TlsIdentity::replace(const TlsIdentity& by) {
  const std::scoped_lock lock(mutex_, by.mutex_);
  const bool differs = loaded_.digest != by.loaded_.digest;
  loaded_ = by.loaded_;
  return differs;
}

std::shared_ptr<ssl::context> TlsIdentity::context() const {
  const std::lock_guard lock(mutex_);
  return loaded_.context;
}

std::chrono::system_clock::time_point TlsIdentity::expires() const {
  const std::lock_guard lock(mutex_);
  return loaded_.expires;
}

std::string TlsIdentity::expires_text() const {
  return minute_of(expires());
}

}  // namespace millrace::server::http
