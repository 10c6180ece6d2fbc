// Tests the server over TLS, and changes of its certificate.

#include <gtest/gtest.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <thread>

#include "certificate.hpp"
#include "http_server_fixture.hpp"
#include "runtime/base/file.hpp"

namespace millrace::server::http::test_http_tls {
namespace {

class Tls : public HttpServer {
 protected:
  std::shared_ptr<TlsIdentity> identity(const test::Certificate& made) {
    EXPECT_TRUE(write_file_atomically(certificate_, made.certificate).ok());
    EXPECT_TRUE(write_file_atomically(key_, made.key).ok());
    auto loaded = TlsIdentity::load(certificate_, key_);
    EXPECT_TRUE(loaded.ok()) << loaded.error().message();
    return loaded.ok() ? loaded.value() : nullptr;
  }
  void start_tls(ServerOptions options = {}) {
    options.tls = identity_ = identity(test::make_certificate(-60, 86'400 * 30));
    options.listen = {{HostPort{"127.0.0.1", 0}, true, false}};
    start(options);
  }

  /// A TLS connection that trusts any certificate.
  struct Client {
    boost::asio::io_context context;
    boost::asio::ssl::context tls{boost::asio::ssl::context::tls_client};
    boost::asio::ssl::stream<boost::asio::ip::tcp::socket> stream{context, tls};
    std::string buffered;

    explicit Client(const std::string& address) {
      const auto colon = address.rfind(':');
      stream.next_layer().connect({boost::asio::ip::make_address(address.substr(0, colon)),
                                   static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1)))});
      stream.handshake(boost::asio::ssl::stream_base::client);
    }
    std::string exchange(const std::string& request) {
      send(request);
      return receive();
    }
    void send(const std::string& bytes) { boost::asio::write(stream, boost::asio::buffer(bytes)); }
    /// Waits for an answer and returns its head and body. Returns an empty string if the connection ends, or if nothing
    /// arrives for 20 s.
    std::string receive() {
      while (true) {
        const auto end = buffered.find("\r\n\r\n");
        if (end != std::string::npos) {
          const auto length = buffered.find("Content-Length: ");
          const auto whole = end + 4 + std::stoul(buffered.substr(length + 16));
          if (buffered.size() >= whole) {
            std::string out = buffered.substr(0, whole);
            buffered.erase(0, whole);
            return out;
          }
        }
        char bytes[4096];
        boost::system::error_code failed;
        std::size_t got = 0;
        stream.async_read_some(boost::asio::buffer(bytes),
                               [&](const boost::system::error_code& error, std::size_t read) {
                                 failed = error;
                                 got = read;
                               });
        context.restart();
        if (context.run_for(20s) == 0) stream.next_layer().close();  // makes the read end
        context.run();
        if (failed) return {};
        buffered.append(bytes, got);
      }
    }
  };

  const TemporaryDirectory directory_{"millrace-tls"};
  const std::string certificate_ = directory_.path() / "chain.pem", key_ = directory_.path() / "key.pem";
  std::shared_ptr<TlsIdentity> identity_;
};

TEST_F(Tls, AnswersOverTlsAndRefusesPlainHttp) {
  start_tls();
  EXPECT_EQ(server->addresses()[0].kind, "https");
  Client to(server->address());
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(to.exchange(post(kInferTarget, kJsonInput)).starts_with("HTTP/1.1 200")) << i;
  EXPECT_TRUE(to.exchange(get("/metrics")).starts_with("HTTP/1.1 200"));
  EXPECT_EQ(client().exchange(get("/v2")).status, 0);
  EXPECT_TRUE(
      to.exchange("GET /v2 HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").starts_with("HTTP/1.1 200"));
  char byte = 0;
  boost::system::error_code error;
  to.stream.read_some(boost::asio::buffer(&byte, 1), error);
  EXPECT_EQ(error, boost::asio::error::eof) << "a goodbye, not a cut: " << error.message();
}

TEST_F(Tls, CancelsAQueuedRequestWhenItsClientClosesTls) {
  start_tls();
  pipeline->hold();
  {
    Client to(server->address());
    boost::asio::write(to.stream, boost::asio::buffer(post(kInferTarget, kJsonInput)));
    ASSERT_TRUE(pipeline->wait_for_queued(1));
    boost::system::error_code ignored;
    to.stream.next_layer().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
    EXPECT_TRUE(pipeline->wait_for_cancelled(1));
  }
  pipeline->release();
}

TEST_F(Tls, KeepsARequestThatArrivesWhileAnotherRequestIsComputed) {
  start_tls();
  pipeline->hold();
  Client to(server->address());
  boost::asio::write(to.stream, boost::asio::buffer(post(kInferTarget, kJsonInput)));
  ASSERT_TRUE(pipeline->wait_for_queued(1));
  std::this_thread::sleep_for(1100ms);  // meanwhile the server checks deadlines and watches the connection
  boost::asio::write(to.stream, boost::asio::buffer(get("/v2/health/live")));
  std::this_thread::sleep_for(20ms);  // meanwhile the server reads the request
  pipeline->release();
  EXPECT_TRUE(to.receive().starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(to.receive().ends_with(R"({"live":true})"));
}

/// Returns a request whose answer depends on `number`. All these requests have the same length.
std::string raw_request(int number) {
  return post(kInferTarget, test::bytes_of_values<std::int32_t>({number, -number, number, number}),
              "Inference-Header-Content-Length: 0\r\n");
}
std::string raw_answer(int number) {
  return test::bytes_of_values<std::int32_t>({number, -number, number, number});
}

TEST_F(Tls, AnswersRequestsBehindASlowRequestInOrder) {
  start_tls();
  Client to(server->address());
  to.send(get("/metrics") + raw_request(1));  // the server watches the connection during /metrics
  EXPECT_NE(to.receive().find("millrace_build_info"), std::string::npos);
  EXPECT_TRUE(to.receive().ends_with(raw_answer(1)));
  EXPECT_TRUE(to.exchange(raw_request(2)).ends_with(raw_answer(2)));
  to.send(get("/metrics") + get("/v2/health/live"));
  EXPECT_NE(to.receive().find("millrace_build_info"), std::string::npos);
  EXPECT_TRUE(to.receive().ends_with(R"({"live":true})"));
  EXPECT_NE(to.exchange(get("/v2")).find("\"name\":\"millrace\""), std::string::npos)
      << "a request of another length";
}

TEST_F(Tls, AnswersPipelinedRequestsInOrder) {
  start_tls();
  // Send different numbers of requests after a slow one, and cut the bytes at different positions.
  for (int behind = 1; behind <= 12; ++behind) {
    Client to(server->address());
    std::string all = get("/metrics");
    for (int i = 0; i < behind; ++i) all += (i % 4 == 3 ? get("/metrics") : raw_request(behind + i));
    const std::size_t cut = all.size() * static_cast<std::size_t>(behind) / 13;
    to.send(all.substr(0, cut));
    to.send(all.substr(cut));
    EXPECT_NE(to.receive().find("millrace_build_info"), std::string::npos);
    for (int i = 0; i < behind; ++i) {
      const std::string answer = to.receive();
      EXPECT_TRUE(i % 4 == 3 ? answer.find("millrace_build_info") != std::string::npos
                             : answer.ends_with(raw_answer(behind + i)))
          << i << " of " << behind;
    }
    EXPECT_TRUE(to.exchange(raw_request(1000)).ends_with(raw_answer(1000))) << behind;
  }
}

TEST_F(Tls, AnswersRequestsSeparatelyThatArriveInPiecesDuringALongInference) {
  ServerOptions options;
  options.linger = 20ms;  // the server often checks deadlines and watches connections
  start_tls(options);
  pipeline->hold();
  Client to(server->address());
  const std::string next = raw_request(2);
  to.send(raw_request(1) + next.substr(0, 50));
  ASSERT_TRUE(pipeline->wait_for_queued(1));
  std::this_thread::sleep_for(100ms);  // meanwhile the server reads a part of the next request
  to.send(next.substr(50) + raw_request(3));
  std::this_thread::sleep_for(100ms);  // meanwhile the server reads the rest
  pipeline->release();
  for (int number = 1; number <= 3; ++number)
    EXPECT_TRUE(to.receive().ends_with(raw_answer(number))) << number;
  EXPECT_TRUE(to.exchange(raw_request(4)).ends_with(raw_answer(4)));
}

TEST_F(Tls, BoundsTheBytesThatAClientMaySendWhileItWaitsForAnAnswer) {
  ServerOptions options;
  options.linger = 20ms;
  start_tls(options);
  pipeline->hold();
  Client to(server->address());
  to.send(raw_request(1));
  ASSERT_TRUE(pipeline->wait_for_queued(1));
  // Send more bytes than the sockets can buffer. While the server works on the request, it must read only a bounded
  // number of these bytes ahead, so the client cannot send all of them.
  to.stream.next_layer().set_option(boost::asio::socket_base::send_buffer_size(65'536));
  const std::string much(1U << 20U, 'x');
  bool sent = false;
  boost::asio::async_write(to.stream, boost::asio::buffer(much),
                           [&](const boost::system::error_code&, std::size_t) { sent = true; });
  to.context.run_for(1500ms);
  EXPECT_FALSE(sent);
  pipeline->release();
}

TEST_F(Tls, ClosesAConnectionWithoutAHandshake) {
  ServerOptions options;
  options.header_timeout = 100ms;
  start_tls(options);
  RawClient silent = client();
  EXPECT_TRUE(silent.closed_by_server());
}

TEST_F(Tls, NewConnectionsGetTheLatestCertificate) {
  start_tls();
  const auto before = identity_->expires();
  const auto fresh = test::make_certificate(-60, 86'400 * 90);
  ASSERT_TRUE(write_file_atomically(certificate_, fresh.certificate).ok());
  ASSERT_TRUE(write_file_atomically(key_, fresh.key).ok());
  const auto loaded = TlsIdentity::load(certificate_, key_);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message();
  EXPECT_TRUE(identity_->replace(**loaded));
  EXPECT_FALSE(identity_->replace(**loaded)) << "nothing changed";
  EXPECT_GT(identity_->expires(), before);
  Client to(server->address());
  const std::unique_ptr<X509, decltype(&X509_free)> seen(SSL_get1_peer_certificate(to.stream.native_handle()),
                                                         X509_free);
  std::tm parts{};
  ASSERT_EQ(ASN1_TIME_to_tm(X509_get0_notAfter(seen.get()), &parts), 1);
  EXPECT_EQ(std::chrono::system_clock::from_time_t(::timegm(&parts)), identity_->expires());
}

TEST_F(Tls, RejectsABadCertificate) {
  const auto expect = [&](const test::Certificate& made, const std::string& says) {
    ASSERT_TRUE(write_file_atomically(certificate_, made.certificate).ok());
    ASSERT_TRUE(write_file_atomically(key_, made.key).ok());
    const auto loaded = TlsIdentity::load(certificate_, key_);
    ASSERT_FALSE(loaded.ok()) << says;
    EXPECT_NE(loaded.error().message().find(says), std::string::npos) << loaded.error().message();
  };
  const auto good = test::make_certificate(-60, 3600), other = test::make_certificate(-60, 3600);
  expect(test::make_certificate(-7200, -3600), "expired on 2");
  expect(test::make_certificate(3600, 7200), "is not valid before");
  expect({good.certificate, other.key}, "key.pem");
  expect({"nonsense", good.key}, "holds no certificate in PEM");
  expect({good.certificate, "nonsense"}, "key.pem");
  expect({"", ""}, "holds no certificate");
  EXPECT_EQ(TlsIdentity::load(directory_.path() / "absent", key_).error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace millrace::server::http::test_http_tls
