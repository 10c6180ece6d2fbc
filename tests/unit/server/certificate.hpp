// Makes self-signed elliptic-curve certificates. The test chooses their names and the time for which they are valid.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

namespace millrace::server::test {

struct Certificate {
  std::string certificate, key;  // in PEM format
};

inline Certificate make_certificate(long begins_in_seconds, long ends_in_seconds,
                                    const char* names = "DNS:localhost,IP:127.0.0.1") {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> x509(X509_new(), X509_free);
  X509_set_version(x509.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(x509.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(x509.get()), begins_in_seconds);
  X509_gmtime_adj(X509_getm_notAfter(x509.get()), ends_in_seconds);
  X509_set_pubkey(x509.get(), key.get());
  X509_NAME* name = X509_get_subject_name(x509.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"),
                             -1, -1, 0);
  X509_set_issuer_name(x509.get(), name);
  X509_EXTENSION* const whom = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names);
  X509_add_ext(x509.get(), whom, -1);
  X509_EXTENSION_free(whom);
  X509_sign(x509.get(), key.get(), EVP_sha256());
  const auto text = [](auto write) {
    const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), BIO_free);
    write(bio.get());
    char* data = nullptr;
    const long bytes = BIO_get_mem_data(bio.get(), &data);
    return std::string(data, static_cast<std::size_t>(bytes));
  };
  return {text([&](BIO* bio) { PEM_write_bio_X509(bio, x509.get()); }), text([&](BIO* bio) {
            PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

}  // namespace millrace::server::test
