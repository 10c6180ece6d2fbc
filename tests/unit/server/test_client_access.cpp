// Tests how clients reach a server over TLS, with tokens and through Unix sockets, and their errors if they cannot.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

#include "certificate.hpp"
#include "http_server_fixture.hpp"
#include "millrace/client.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "server/auth/tokens.hpp"
#include "server/http/connection/tls.hpp"
#include "tests/support/process.hpp"
#include "tests/support/python_client.hpp"
#include "tools/clients/http_client.hpp"
#include "tools/load/run.hpp"

namespace millrace::server::http::test_client_access {
namespace {

using client::Client;
using client::Code;

constexpr long kDay = 86'400;
constexpr char kTokens[] = "reader read 0123456789abcdef\nasker infer fedcba9876543210\n";

/// A server that completes TLS handshakes with any certificate, even one with which a Millrace server refuses to start,
/// and then closes the connection.
class Handshaker {
 public:
  Handshaker(const std::string& certificate, const std::string& key)
      : context_(SSL_CTX_new(TLS_server_method()), SSL_CTX_free) {
    ::signal(SIGPIPE, SIG_IGN);  // a client may have closed the connection
    EXPECT_EQ(SSL_CTX_use_certificate_chain_file(context_.get(), certificate.c_str()), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey_file(context_.get(), key.c_str(), SSL_FILETYPE_PEM), 1);
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), bytes), 0);
    EXPECT_EQ(::listen(socket_, 8), 0);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &bytes), 0);
    url = "https://localhost:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::jthread([this] {
      for (int fd = ::accept(socket_, nullptr, nullptr); fd >= 0; fd = ::accept(socket_, nullptr, nullptr)) {
        const std::unique_ptr<SSL, decltype(&SSL_free)> tls(SSL_new(context_.get()), SSL_free);
        SSL_set_fd(tls.get(), fd);
        SSL_accept(tls.get());
        ::close(fd);
      }
    });
  }
  ~Handshaker() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    ::close(socket_);
  }
  std::string url;

 private:
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  int socket_ = -1;
  std::jthread thread_;
};

class ClientAccess : public HttpServer {
 protected:
  void write_certificate(const test::Certificate& made) {
    std::ofstream(certificate_) << made.certificate;
    std::ofstream(key_) << made.key;
  }
  /// Starts a server. `listen` is an address as in the settings; url_ becomes the URL that clients use.
  void serve(const std::string& listen) {
    ServerOptions options;
    auto address = parse_listen_address(listen, "--http");
    ASSERT_TRUE(address.ok()) << address.error().message();
    options.listen = {*address};
    if (address->tls) {
      auto identity = TlsIdentity::load(certificate_, key_);
      ASSERT_TRUE(identity.ok()) << identity.error().message();
      options.tls = *identity;
    }
    start(options);
    const auto at = server->addresses().at(0);
    url_ = at.text.starts_with("unix:") ? at.text
                                        : (address->tls ? "https://localhost" : "http://127.0.0.1") +
                                              at.text.substr(at.text.rfind(':'));
  }
  void want_tokens() {
    auto tokens = auth::Tokens::parse(kTokens, "tokens");
    ASSERT_TRUE(tokens.ok());
    guard.replace(std::make_shared<const auth::Tokens>(std::move(*tokens)));
  }

  client::Status connect(const client::Options& options) {
    client_.reset();
    return client::connect(url_, options, client_);
  }
  client::Options trusting() const {
    client::Options options;
    options.ca_file = certificate_;
    return options;
  }
  Code infer() {
    const client::Status s = client_->infer("small", "", {{input_}}, 10s, outputs_);
    message_ = s.message;
    if (s.ok()) {
      EXPECT_EQ(outputs_.at(0), input_) << "the fake echoes";
    }
    return s.code;
  }
  /// Runs the Python client as a program.
  tests::Outcome python(std::vector<std::string> more, const std::vector<std::string>& environment = {}) {
    const std::string file = directory_.path() / "x.npy";
    EXPECT_TRUE(write_npy(file, {"<f4", {1, 2, 2}, input_}).ok());
    more.insert(more.begin(), {"--url", url_, "--model", "small", "--input", file});
    return tests::run_python_client(more, environment);
  }

  const TemporaryDirectory directory_{"millrace-access"};
  const std::string certificate_ = directory_.path() / "chain.pem", key_ = directory_.path() / "key.pem";
  const std::vector<std::byte> input_ = std::vector<std::byte>(16, std::byte{63});
  std::vector<std::vector<std::byte>> outputs_;
  std::unique_ptr<Client> client_;
  std::string url_, message_;
};

TEST_F(ClientAccess, TrustsACertificateSignedByTheCaFile) {
  write_certificate(test::make_certificate(-kDay, kDay));
  serve("tls:127.0.0.1:0");
  ASSERT_TRUE(connect(trusting()).ok());
  EXPECT_TRUE(client_->ready().ok());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(infer(), Code::kOk) << message_;
  const auto run = python({"--ca-file", certificate_});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  url_ = "https://127.0.0.1" + url_.substr(url_.rfind(':'));
  EXPECT_TRUE(connect(trusting()).ok()) << "by its address as well";
}

TEST_F(ClientAccess, RefusesAnUntrustedCertificateUnlessAllowed) {
  write_certificate(test::make_certificate(-kDay, kDay));
  serve("tls:127.0.0.1:0");
  const client::Status unknown = connect({});
  EXPECT_EQ(unknown.code, Code::kUntrusted);
  EXPECT_NE(unknown.message.find("certificate is not accepted: self"), std::string::npos) << unknown.message;
  EXPECT_NE(unknown.message.find("CA file"), std::string::npos) << unknown.message;
  client::Options options;
  options.verify = false;
  ASSERT_TRUE(connect(options).ok());
  EXPECT_EQ(infer(), Code::kOk) << message_;
  const auto refused = python({});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("certificate is not accepted: self"), std::string::npos) << refused.err;
  EXPECT_EQ(python({"--insecure"}).exit_code, 0);
}

TEST_F(ClientAccess, RefusesExpiredCertificatesAndOtherHosts) {
  struct Case {
    long begins, ends;
    const char* names;
    std::string_view says;
    bool by_address = false;
  };
  for (const Case& one : {Case{-2 * kDay, -kDay, "DNS:localhost", "expired"},
                          Case{kDay, 2 * kDay, "DNS:localhost", "not yet valid"},
                          Case{-kDay, kDay, "DNS:elsewhere.example", "ostname mismatch"},
                          Case{-kDay, kDay, "DNS:localhost,IP:127.0.0.2", "IP address mismatch", true}}) {
    write_certificate(test::make_certificate(one.begins, one.ends, one.names));
    const Handshaker other(certificate_, key_);
    url_ = one.by_address ? "https://127.0.0.1" + other.url.substr(other.url.rfind(':')) : other.url;
    const client::Status refused = connect(trusting());
    EXPECT_EQ(refused.code, Code::kUntrusted) << one.says;
    EXPECT_NE(refused.message.find(one.says), std::string::npos) << refused.message;
    const auto run = python({"--ca-file", certificate_});
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_NE(run.err.find("certificate is not accepted"), std::string::npos) << run.err;
  }
}

TEST_F(ClientAccess, ErrorNamesABadCaFile) {
  write_certificate(test::make_certificate(-kDay, kDay));
  serve("tls:127.0.0.1:0");
  client::Options options;
  options.ca_file = directory_.path() / "nowhere.pem";
  client::Status s = connect(options);
  EXPECT_EQ(s.code, Code::kInvalid);
  EXPECT_NE(s.message.find("nowhere.pem"), std::string::npos) << s.message;
  options.ca_file = key_;
  s = connect(options);
  EXPECT_EQ(s.code, Code::kInvalid);
  EXPECT_NE(s.message.find("holds no certificate"), std::string::npos) << s.message;
  const auto run = python({"--ca-file", key_});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("holds no certificate"), std::string::npos) << run.err;
}

TEST(ClientUrl, ErrorListsTheAcceptedUrlSchemes) {
  for (const char* url : {"127.0.0.1:8001", "ftp://127.0.0.1:8001", "udp:127.0.0.1:8001", ""}) {
    std::unique_ptr<client::Client> none;
    const client::Status refused = client::connect(url, {}, none);
    EXPECT_EQ(refused.code, client::Code::kInvalid) << url;
    for (const char* kind : {"http://", "https://", "unix:", "udp://"})
      EXPECT_NE(refused.message.find(kind, refused.message.find("does not begin with")), std::string::npos)
          << refused.message;
  }
}

TEST_F(ClientAccess, ErrorAdvisesHttpsIfTheListenerUsesTls) {
  write_certificate(test::make_certificate(-kDay, kDay));
  serve("tls:127.0.0.1:0");
  url_ = "http" + url_.substr(5);
  ASSERT_TRUE(connect({}).ok()) << "nothing is said before the first request";
  const client::Status bare = client_->ready();
  EXPECT_EQ(bare.code, Code::kUnavailable);
  EXPECT_NE(bare.message.find("https://"), std::string::npos) << bare.message;
}

TEST_F(ClientAccess, ErrorAdvisesHttpIfTheListenerHasNoTls) {
  write_certificate(test::make_certificate(-kDay, kDay));
  serve("127.0.0.1:0");
  url_ = "https" + url_.substr(4);
  const client::Status s = connect(trusting());
  EXPECT_EQ(s.code, Code::kUnavailable);
  EXPECT_NE(s.message.find("http://"), std::string::npos) << s.message;
}

TEST_F(ClientAccess, TokensAllowOnlyTheRequestsOfTheirScope) {
  serve("127.0.0.1:0");
  want_tokens();
  client::Options options;
  ASSERT_TRUE(connect(options).ok());
  EXPECT_EQ(infer(), Code::kDenied);
  EXPECT_NE(message_.find("401"), std::string::npos) << message_;
  options.token = "0123456789abcdef";
  ASSERT_TRUE(connect(options).ok());
  EXPECT_EQ(infer(), Code::kDenied);
  EXPECT_NE(message_.find("lacks the scope 'infer'"), std::string::npos) << message_;
  options.token = "fedcba9876543210";
  ASSERT_TRUE(connect(options).ok());
  EXPECT_EQ(infer(), Code::kOk) << message_;
  options.token = "bad\r\nInjected: header";
  EXPECT_EQ(connect(options).code, Code::kInvalid);

  const std::string file = directory_.path() / "token";
  std::ofstream(file) << "fedcba9876543210\n";
  EXPECT_EQ(python({"--token-file", file}).exit_code, 0);
  EXPECT_EQ(python({}, {"MILLRACE_TOKEN=fedcba9876543210"}).exit_code, 0);
  const auto denied = python({}, {"MILLRACE_TOKEN=0000000000000000"});
  EXPECT_EQ(denied.exit_code, 2);
  EXPECT_NE(denied.err.find("401"), std::string::npos) << denied.err;
}

TEST_F(ClientAccess, InfersThroughUnixSockets) {
  serve("unix:" + (directory_.path() / "s").string());
  ASSERT_TRUE(connect({}).ok());
  EXPECT_EQ(infer(), Code::kOk) << message_;
  const auto run = python({});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  url_ = "unix:" + (directory_.path() / "none").string();
  EXPECT_EQ(connect({}).code, Code::kUnavailable);
  url_ = "unix:/" + std::string(107, 'x');
  const auto refused = connect({});
  EXPECT_EQ(refused.code, Code::kInvalid);
  const std::string limit = "a path of 108 bytes; the path of a Unix socket has at most 107";
  EXPECT_NE(refused.message.find(limit), std::string::npos) << refused.message;
  EXPECT_NE(python({}).err.find(limit), std::string::npos);
}

TEST_F(ClientAccess, ReconnectsOverTlsAfterARestart) {
  write_certificate(test::make_certificate(-kDay, kDay));
  serve("tls:127.0.0.1:0");
  ASSERT_TRUE(connect(trusting()).ok());
  EXPECT_EQ(infer(), Code::kOk) << message_;
  const std::string port = url_.substr(url_.rfind(':'));
  server->stop(0ms);
  server.reset();
  EXPECT_EQ(infer(), Code::kUnavailable);
  pipeline = nullptr;
  serve("tls:127.0.0.1" + port);
  EXPECT_EQ(infer(), Code::kUnavailable);
  EXPECT_NE(message_.find("status 503: the server is draining"), std::string::npos)
      << "an answer, by an Api that drains for good: " << message_;
}

/// Tests how `millrace bench` reaches a server: over TLS, with tokens, and through a Unix socket. run() sends a load to
/// the server.
class LoadAccess : public ClientAccess {
 protected:
  load::Tally run(const clients::Access& access) {
    const load::Address address{clients::parse_url(url_).value(), access};
    client::ModelInfo model;
    model.name = "small";
    model.inputs = {{"x", "FP32", {1, 2, 2}}};
    const std::vector<std::string> requests = {
        load::infer_request(address, model, std::vector<std::vector<std::byte>>{input_}, false)};
    load::Settings settings;
    settings.connections = 4;
    settings.duration = 200ms;
    auto tally = load::run_http(address, requests, settings);
    EXPECT_TRUE(tally.ok()) << tally.error().message();
    return tally.ok() ? std::move(*tally) : load::Tally{};
  }
};

TEST_F(LoadAccess, LoadGeneratorRunsOverTlsWithAToken) {
  write_certificate(test::make_certificate(-kDay, kDay));
  serve("tls:127.0.0.1:0");
  want_tokens();
  const load::Tally tally = run({certificate_, true, "fedcba9876543210"});
  EXPECT_GT(tally.latency.count(), 0U);
  EXPECT_TRUE(tally.errors.empty());
  const load::Tally denied = run({certificate_, true, ""});
  EXPECT_EQ(denied.latency.count(), 0U);
  EXPECT_EQ(denied.errors.count("401"), 1U);
}

TEST_F(LoadAccess, LoadGeneratorRunsThroughUnixSockets) {
  serve("unix:" + (directory_.path() / "s").string());
  const load::Tally tally = run({});
  EXPECT_GT(tally.latency.count(), 0U);
  EXPECT_TRUE(tally.errors.empty());
}

}  // namespace
}  // namespace millrace::server::http::test_client_access
