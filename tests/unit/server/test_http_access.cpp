// Who may reach the server, and how: tokens, origins, listeners, TLS, content codings.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl.hpp>
#include <thread>
#include <vector>

#include "certificate.hpp"
#include "http_server_fixture.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "server/http/connection/coding.hpp"

namespace millrace::server::http {
namespace {

constexpr std::string_view kReader = "reader-token-0123456789", kAsker = "asker-token-0123456789",
                           kMaster = "master-token-0123456789";
const std::string kLoad = "/v2/repository/models/small/load";

std::string bearer(std::string_view token) {
  return "Authorization: Bearer " + std::string(token) + "\r\n";
}

std::string coded(Coding coding, std::string_view text) {
  const auto part = std::as_bytes(std::span(text));
  return encoded(coding, std::span(&part, 1));
}

// Tokens.

class Guarded : public HttpServer {
 protected:
  Guarded() : HttpServer({"https://panel.example"}) {}
  void SetUp() override {
    auto tokens = auth::Tokens::parse("prometheus read " + std::string(kReader) +
                                          "\nweb infer sha256:" + sha256_hex(kAsker) +
                                          " # hashed\n\noperator admin " + std::string(kMaster) + "\n",
                                      "tokens");
    ASSERT_TRUE(tokens.ok()) << tokens.error().message();
    guard.replace(std::make_shared<const auth::Tokens>(std::move(tokens).value()));
    start();
  }
};

TEST_F(Guarded, EveryScopeOpensItsRoutesAndThoseBelow) {
  RawClient to = client();
  const struct {
    std::string_view token;
    int read, infer, admin;
  } cases[] = {{"", 401, 401, 401},
               {"not-a-token-at-all-000", 401, 401, 401},
               {kReader, 200, 403, 403},
               {kAsker, 200, 200, 403},
               {kMaster, 200, 200, 501}};
  for (const auto& one : cases) {
    const std::string header = one.token.empty() ? "" : bearer(one.token);
    EXPECT_EQ(to.exchange(get("/v2/models/small", header)).status, one.read) << one.token;
    EXPECT_EQ(to.exchange(get("/metrics", header)).status, one.read) << one.token;
    EXPECT_EQ(to.exchange(post(kInferTarget, kJsonInput, header)).status, one.infer) << one.token;
    const int admin = to.exchange(post(kLoad, "", header)).status;
    if (one.admin == 501)
      EXPECT_NE(admin / 100, 4) << "let in, whatever the route says then";
    else
      EXPECT_EQ(admin, one.admin) << one.token;
    EXPECT_EQ(to.exchange(get("/v2/health/ready")).status, 200) << "health needs none";
  }
}

TEST_F(Guarded, RefusalNamesTheMissingRightAndNoSecret) {
  RawClient to = client();
  const Answer none = to.exchange(post(kInferTarget, kJsonInput));
  EXPECT_EQ(none.headers.at("www-authenticate"), "Bearer realm=\"millrace\"");
  EXPECT_NE(none.body.find("scope 'infer'"), std::string::npos) << none.body;
  const Answer wrong = to.exchange(post(kInferTarget, kJsonInput, bearer("wrong-token-0123456789")));
  EXPECT_EQ(wrong.headers.at("www-authenticate"), "Bearer realm=\"millrace\", error=\"invalid_token\"");
  EXPECT_EQ(wrong.body.find("wrong-token"), std::string::npos);
  const Answer weak = to.exchange(post(kLoad, "", bearer(kReader)));
  EXPECT_EQ(weak.status, 403);
  EXPECT_EQ(weak.headers.at("www-authenticate"),
            "Bearer realm=\"millrace\", error=\"insufficient_scope\", scope=\"admin\"");
  EXPECT_NE(weak.body.find("'prometheus' lacks the scope 'admin'"), std::string::npos) << weak.body;
  for (const std::string& odd : std::vector<std::string>{
           "Authorization: Basic eDp5\r\n", "Authorization: Bearer\r\n", "Authorization: Bearer  \r\n",
           "Authorization:\r\n", "Authorization: Bearer " + std::string(4000, 'a') + "\r\n"})
    EXPECT_EQ(to.exchange(get("/v2", odd)).status, 401) << odd;
  EXPECT_EQ(to.exchange(get("/v2", "authorization: bearer " + std::string(kReader) + "\r\n")).status, 200);
}

TEST_F(Guarded, RefusesAClientBeforeReadingTheBody) {
  RawClient to = client();
  const Answer answer =
      to.exchange("POST " + kInferTarget + " HTTP/1.1\r\nHost: t\r\nContent-Length: 60000\r\n\r\n");
  EXPECT_EQ(answer.status, 401);
  EXPECT_EQ(answer.headers.at("connection"), "close");
}

TEST_F(Guarded, AnswersHeadAndCorsWhenItRefusesBeforeTheBody) {
  const std::string length = "Content-Length: 60000\r\n",
                    lines = "X-Request-Id: abc-1\r\nOrigin: https://panel.example\r\n";
  const auto post_to = [&](const std::string& target, const std::string& more) {
    return "POST " + target + " HTTP/1.1\r\nHost: t\r\n" + lines + more + "\r\n";
  };
  const std::string asker = bearer(kAsker);
  const struct {
    std::string request;
    int status;
  } cases[] = {{post_to(kLoad, length), 401},
               {post_to(kInferTarget, asker + "Content-Length: 600000000\r\n"), 413},
               {post_to(kInferTarget, asker + "Transfer-Encoding: gzip\r\n"), 501},
               {post_to(kInferTarget, asker + "Transfer-Encoding: chunked\r\n") + "no chunk\r\n", 400},
               {post_to(kInferTarget, length + "Host: other\r\n"), 400},
               {post_to("/nowhere", length), 404},
               {post_to("/metrics", length), 405}};
  for (const auto& one : cases) {
    RawClient to = client();
    Answer answer = to.exchange(one.request);
    EXPECT_EQ(answer.status, one.status) << one.request << answer.body;
    EXPECT_EQ(answer.headers["x-request-id"], "abc-1") << one.request;
    EXPECT_EQ(answer.headers["access-control-allow-origin"], "https://panel.example") << one.request;
    EXPECT_TRUE(to.closed_by_server()) << one.request;
  }
  const std::string told = client().exchange(get("/v2/millrace/errors", bearer(kReader))).body;
  EXPECT_NE(told.find("POST " + kLoad + ": 401 "), std::string::npos) << told;
  EXPECT_EQ(told.find("that was not read"), std::string::npos) << told;

  RawClient head = client();
  head.send("HEAD /metrics HTTP/1.1\r\nHost: t\r\n" + length + "\r\n");
  EXPECT_EQ(head.receive_head()->status, 401);
  EXPECT_TRUE(head.closed_by_server()) << "a body";
  RawClient old = client();
  EXPECT_TRUE(
      old.exchange("POST " + kLoad + " HTTP/1.0\r\n" + length + "\r\n").head.starts_with("HTTP/1.0 401"));

  RawClient unread = client();
  Answer answer = unread.exchange("GET /v2 HTTP/1.1\r\nHost: t\r\n" + lines + "nonsense\r\n\r\n");
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.headers["x-request-id"], "abc-1") << "a header that was not read says nothing";
}

TEST_F(Guarded, NewTokensTakeEffectOnOpenConnections) {
  RawClient to = client();
  EXPECT_EQ(to.exchange(get("/v2", bearer(kReader))).status, 200);
  guard.replace(std::make_shared<const auth::Tokens>(
      auth::Tokens::parse("other read other-token-0123456789\n", "tokens").value()));
  EXPECT_EQ(to.exchange(get("/v2", bearer(kReader))).status, 401);
  EXPECT_EQ(to.exchange(get("/v2", bearer("other-token-0123456789"))).status, 200);
  guard.replace(nullptr);
  EXPECT_EQ(to.exchange(get("/v2")).status, 200);
}

TEST(Tokens, FaultsInTheFileAreReportedByLineWithoutSecrets) {
  const struct {
    std::string text, says;
  } cases[] = {{"", "f: holds no token"},
               {"# only a comment\n", "holds no token"},
               {"a read\n", "f:1: three words"},
               {"a read secretsecretsecret more\n", "f:1: three words"},
               {"\na write secretsecretsecret\n", "f:2: the scope is none of read, infer, admin"},
               {"a read short\n", "f:1: the secret takes 16 to 512"},
               {"a read sha256:12\n", "f:1: sha256: takes 64 hexadecimal digits"},
               {"-a read secretsecretsecret\n", "f:1: the name takes"},
               {"a read secretsecretsecret\na read other-secret-secret\n", "f:2: the name 'a' stands twice"},
               {"a read secretsecretsecret\nb read secretsecretsecret\n", "f:2: 'a' has the same secret"}};
  for (const auto& one : cases) {
    const auto parsed = auth::Tokens::parse(one.text, "f");
    ASSERT_FALSE(parsed.ok()) << one.text;
    EXPECT_NE(parsed.error().message().find(one.says), std::string::npos) << parsed.error().message();
    EXPECT_EQ(parsed.error().message().find("secretsecret"), std::string::npos);
  }
}

TEST(Tokens, AcceptSecretsOf16To512Characters) {
  for (const auto& [length, good] :
       std::vector<std::pair<std::size_t, bool>>{{15, false}, {16, true}, {512, true}, {513, false}}) {
    const std::string secret(length, 's');
    const auto tokens = auth::Tokens::parse("a read " + secret + "\n", "f");
    ASSERT_EQ(tokens.ok(), good) << length;
    if (good) {
      EXPECT_NE(tokens->find("Bearer " + secret), nullptr) << length;
    }
  }
}

TEST(Tokens, CompareEveryByteOfTheDigest) {
  const std::string digest = sha256_hex(kAsker);
  const auto finds = [](const std::string& hashed) {
    const auto tokens = auth::Tokens::parse("web infer sha256:" + hashed + "\n", "f");
    EXPECT_TRUE(tokens.ok());
    return tokens.ok() && tokens->find("Bearer " + std::string(kAsker)) != nullptr;
  };
  EXPECT_TRUE(finds(digest));
  for (std::size_t digit = 0; digit < digest.size(); ++digit) {
    std::string other = digest;
    other[digit] = other[digit] == '0' ? '1' : '0';
    EXPECT_FALSE(finds(other)) << "digit " << digit;
  }
}

// Admin routes and pages of other origins.

TEST_F(HttpServer, AnswersAdminRoutesOnlyOnTheAdminListenerIfThereIsOne) {
  ServerOptions options;
  options.listen = {{}, {}};
  options.listen[1].admin = true;
  start(options);
  const auto addresses = server->addresses();
  ASSERT_EQ(addresses.size(), 2U);
  EXPECT_EQ(addresses[0].kind, "http");
  EXPECT_EQ(addresses[1].kind, "admin");
  RawClient outside(addresses[0].text), inside(addresses[1].text);
  const Answer refused = outside.exchange(post(kLoad, ""));
  EXPECT_EQ(refused.status, 403);
  EXPECT_NE(refused.body.find("admin listener only"), std::string::npos);
  EXPECT_NE(inside.exchange(post(kLoad, "")).status / 100, 4);
  EXPECT_EQ(inside.exchange(post(kInferTarget, kJsonInput)).status, 200) << "it answers all else as well";
}

TEST_F(HttpServer, AdminRoutesWithoutTokensAreOpenToThisMachineOnly) {
  ServerOptions options;
  options.listen = {{HostPort{"0.0.0.0", 0}}};
  start(options);
  const auto port = server->address().substr(server->address().rfind(':'));
  RawClient to("127.0.0.1" + port);
  const Answer refused = to.exchange(post(kLoad, ""));
  EXPECT_EQ(refused.status, 403);
  EXPECT_NE(refused.body.find("http.tokens"), std::string::npos) << refused.body;
  EXPECT_EQ(to.exchange(post(kInferTarget, kJsonInput)).status, 200);
}

TEST_F(HttpServer, RefusesAdminRoutesToPagesOfOtherHosts) {
  start();
  RawClient to = client();
  EXPECT_EQ(to.exchange(post(kLoad, "", "Origin: http://evil.example\r\n")).status, 403);
  const auto page = [&](const std::string& host) {
    return to
        .exchange("POST " + std::string(kLoad) + " HTTP/1.1\r\nHost: " + host + "\r\nOrigin: http://" + host +
                  "\r\nContent-Length: 0\r\n\r\n")
        .status;
  };
  for (const char* own : {"127.0.0.1:8000", "localhost:8000", "localhost", "[::1]:8000", "a.localhost:1"})
    EXPECT_NE(page(own) / 100, 4) << "its own page may: " << own;
  for (const char* strange :
       {"evil.example:8000", "evil.example", "localhost.evil.example", "127.0.0.1.evil"})
    EXPECT_EQ(page(strange), 403) << strange << " may point here for the while";
  EXPECT_EQ(to.exchange(get("/v2", "Origin: http://evil.example\r\n")).headers["vary"], "Accept-Encoding")
      << "CORS is off";
  EXPECT_EQ(to.exchange("OPTIONS /v2 HTTP/1.1\r\nHost: t\r\nOrigin: http://a\r\n\r\n").status, 405);
}

TEST_F(HttpServer, ForbidsOtherPagesToFrameTheConsole) {
  start();
  RawClient to = client();
  for (const char* file : {"/", "/console/main.js"}) {
    Answer answer = to.exchange(get(file));
    EXPECT_EQ(answer.status, 200) << file;
    EXPECT_EQ(answer.headers["x-frame-options"], "DENY") << file;
    EXPECT_EQ(answer.headers["content-security-policy"], "frame-ancestors 'none'") << file;
  }
}

TEST_F(HttpServer, PagesOfConfiguredOriginsMayReadAnswers) {
  const Api open(registry, *metrics, {"9.8.7", 60'000ms, nullptr, {"https://panel.example"}});
  Workspace workspace;
  class Fields final : public Headers {
   public:
    std::string_view origin;
    std::string_view find(std::string_view name) const override {
      return name == "Origin" ? origin : std::string_view();
    }
  } fields;
  Request request;
  request.target = "/v2";
  request.headers = &fields;
  fields.origin = "https://panel.example";
  EXPECT_NE(open.cors_headers(request).find("Access-Control-Allow-Origin: https://panel.example\r\n"),
            std::string::npos);
  request.method = Method::kOptions;
  auto outcome = open.handle(request, workspace, {});
  EXPECT_NE(std::get<Response>(outcome).more_headers.find("Access-Control-Allow-Headers: Authorization"),
            std::string::npos);
  fields.origin = "https://other.example";
  EXPECT_EQ(open.cors_headers(request), "Vary: Origin\r\n");
  outcome = open.handle(request, workspace, {});
  EXPECT_EQ(std::get<Response>(outcome).status, 405U);
}

// Listeners.

TEST_F(HttpServer, ServesOnAUnixSocketAndRemovesItsFile) {
  const TemporaryDirectory directory("millrace-unix");
  const std::string path = directory.path() / "http.sock";
  ServerOptions options;
  options.listen = {parse_listen_address("unix:" + path, "--http").value()};
  start(options);
  EXPECT_EQ(server->address(), "unix:" + path);
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0660U);
  RawClient to("unix:" + path);
  EXPECT_EQ(to.exchange(post(kInferTarget, kJsonInput)).status, 200);

  const auto second = Server::bind(options, api, registry, *metrics);
  ASSERT_FALSE(second.ok()) << "somebody listens there";
  EXPECT_NE(second.error().message().find("in use"), std::string::npos) << second.error().message();
  server->stop(0ms);
  EXPECT_NE(::stat(path.c_str(), &status), 0) << "left behind";
}

TEST_F(HttpServer, ReplacesTheSocketFileOfAKilledServerAndNoOtherFile) {
  const TemporaryDirectory directory("millrace-unix");
  const std::string stale = directory.path() / "stale.sock", file = directory.path() / "file";
  {
    boost::asio::io_context context;
    boost::asio::local::stream_protocol::acceptor dead(context, stale);
  }
  ASSERT_TRUE(write_file_atomically(file, "precious").ok());
  ServerOptions options;
  options.listen = {{UnixPath{stale}}};
  EXPECT_TRUE(Server::bind(options, api, registry, *metrics).ok());
  options.listen = {{UnixPath{file}}};
  EXPECT_FALSE(Server::bind(options, api, registry, *metrics).ok());
  EXPECT_EQ(read_text_file(file).value(), "precious");
}

TEST(ListenAddress, AcceptsEveryDocumentedFormAndNoOther) {
  EXPECT_TRUE(parse_listen_address("tls:[::]:8443", "--http")->tls);
  EXPECT_EQ(std::get<UnixPath>(parse_listen_address("unix:/run/a", "--http")->at).path, "/run/a");
  EXPECT_EQ(std::get<Passed>(parse_listen_address("systemd:http", "--http")->at).name, "http");
  for (const std::string& text :
       {std::string("tls:unix:/x"), std::string("127.0.0.1:80"), std::string("systemd:a")})
    EXPECT_EQ(to_string(*parse_listen_address(text, "--http")), text);
  for (const std::string& bad :
       {std::string("unix:"), "unix:" + std::string(200, 'a'), std::string("systemd:"), std::string("tls:"),
        std::string("tls:tls:a:1"), std::string("nowhere")}) {
    const auto parsed = parse_listen_address(bad, "--http");
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_NE(parsed.error().message().find("--http"), std::string::npos);
  }
}

TEST(ListenAddress, ErrorNamesTheLongestPathOfAUnixSocket) {
  for (const std::string before : {"unix:", "tls:unix:"}) {
    EXPECT_TRUE(parse_listen_address(before + std::string(107, 'a'), "--http").ok());
    const auto parsed = parse_listen_address(before + std::string(108, 'a'), "--http");
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(parsed.error().code(), ErrorCode::kInvalidInput);
    EXPECT_NE(
        parsed.error().message().find("the path has 108 bytes, but that of a Unix socket has at most 107"),
        std::string::npos)
        << parsed.error().message();
  }
}

TEST_F(HttpServer, ListensOnAUnixSocketWithTheLongestPath) {
  const TemporaryDirectory directory("millrace-unix");
  std::string path = directory.path().string() + "/";
  path.append(107 - path.size(), 's');
  ServerOptions options;
  options.listen = {parse_listen_address("unix:" + path, "--http").value()};
  start(options);
  EXPECT_EQ(client().exchange(get("/v2/health/live")).status, 200);
}

TEST_F(HttpServer, NamesASocketThatWasNotPassed) {
  ServerOptions options;
  options.listen = {{Passed{"http"}}};
  const auto bound = Server::bind(options, api, registry, *metrics);
  ASSERT_FALSE(bound.ok());
  EXPECT_NE(bound.error().message().find("no socket named 'http' was passed"), std::string::npos);
}

// TLS.

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

  /// A connection that trusts any certificate.
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
    /// The status line and all up to the end of the body; empty where the connection ended, or nothing came
    /// for too long.
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
        if (context.run_for(20s) == 0) stream.next_layer().close();  // and the read comes back
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

TEST_F(Tls, KeepsARequestThatArrivesDuringAnother) {
  start_tls();
  pipeline->hold();
  Client to(server->address());
  boost::asio::write(to.stream, boost::asio::buffer(post(kInferTarget, kJsonInput)));
  ASSERT_TRUE(pipeline->wait_for_queued(1));
  std::this_thread::sleep_for(1100ms);  // deadlines were looked at, and the connection watched, meanwhile
  boost::asio::write(to.stream, boost::asio::buffer(get("/v2/health/live")));
  std::this_thread::sleep_for(20ms);
  pipeline->release();
  EXPECT_TRUE(to.receive().starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(to.receive().ends_with(R"({"live":true})"));
}

/// Each of these requests has an answer of its own, and all have the same length.
std::string raw_request(int number) {
  return post(kInferTarget, test::bytes_of_values<std::int32_t>({number, -number, number, number}),
              "Inference-Header-Content-Length: 0\r\n");
}
std::string raw_answer(int number) {
  return test::bytes_of_values<std::int32_t>({number, -number, number, number});
}

TEST_F(Tls, AnswersRequestsBehindASlowOneInOrder) {
  start_tls();
  Client to(server->address());
  to.send(get("/metrics") + raw_request(1));  // the connection is watched while metrics are read
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
  // For any number of requests behind a slow one, and wherever their bytes are cut.
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

TEST_F(Tls, KeepsPipelinedRequestsApartBehindALongInference) {
  ServerOptions options;
  options.linger = 20ms;  // deadlines are looked at often, and connections watched
  start_tls(options);
  pipeline->hold();
  Client to(server->address());
  const std::string next = raw_request(2);
  to.send(raw_request(1) + next.substr(0, 50));
  ASSERT_TRUE(pipeline->wait_for_queued(1));
  std::this_thread::sleep_for(100ms);
  to.send(next.substr(50) + raw_request(3));
  std::this_thread::sleep_for(100ms);
  pipeline->release();
  for (int number = 1; number <= 3; ++number)
    EXPECT_TRUE(to.receive().ends_with(raw_answer(number))) << number;
  EXPECT_TRUE(to.exchange(raw_request(4)).ends_with(raw_answer(4)));
}

TEST_F(Tls, BoundsWhatAWaitingClientMaySendAhead) {
  ServerOptions options;
  options.linger = 20ms;
  start_tls(options);
  pipeline->hold();
  Client to(server->address());
  to.send(raw_request(1));
  ASSERT_TRUE(pipeline->wait_for_queued(1));
  // More than the sockets buffer: the rest stays with the client, although the server watches the connection.
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
  ASSERT_TRUE(identity_->reload(certificate_, key_).ok());
  EXPECT_GT(identity_->expires(), before);
  Client to(server->address());
  const std::unique_ptr<X509, decltype(&X509_free)> seen(SSL_get1_peer_certificate(to.stream.native_handle()),
                                                         X509_free);
  std::tm parts{};
  ASSERT_EQ(ASN1_TIME_to_tm(X509_get0_notAfter(seen.get()), &parts), 1);
  EXPECT_EQ(std::chrono::system_clock::from_time_t(::timegm(&parts)), identity_->expires());
}

TEST_F(Tls, RejectsABadCertificateAndKeepsTheOldOne) {
  identity_ = identity(test::make_certificate(-60, 86'400 * 30));
  const auto context = identity_->context();
  const auto expect = [&](const test::Certificate& made, const std::string& says) {
    ASSERT_TRUE(write_file_atomically(certificate_, made.certificate).ok());
    ASSERT_TRUE(write_file_atomically(key_, made.key).ok());
    const Status reloaded = identity_->reload(certificate_, key_);
    ASSERT_FALSE(reloaded.ok()) << says;
    EXPECT_NE(reloaded.error().message().find(says), std::string::npos) << reloaded.error().message();
    EXPECT_EQ(identity_->context(), context);
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

// Content codings.

TEST_F(HttpServer, AcceptsBodiesInGzipAndDeflate) {
  start();
  RawClient to = client();
  for (const auto& [name, coding] : {std::pair("gzip", Coding::kGzip), std::pair("deflate", Coding::kDeflate),
                                     std::pair("GZip", Coding::kGzip)}) {
    const Answer answer = to.exchange(
        post(kInferTarget, coded(coding, kJsonInput), "Content-Encoding: " + std::string(name) + "\r\n"));
    EXPECT_EQ(answer.status, 200) << name << answer.body;
    EXPECT_EQ(answer.headers.count("content-encoding"), 0U);
  }
  // Inference-Header-Content-Length counts decoded bytes, as Triton's client sends it.
  const std::string json =
      R"({"inputs":[{"name":"x","shape":[1,2,2],"datatype":"FP32","parameters":{"binary_data_size":16}}],"outputs":[{"name":"y","parameters":{"binary_data":true}}]})";
  const std::string tensor = test::bytes_of_values({1.F, 2.F, 3.F, 4.F});
  const Answer binary = to.exchange(post(
      kInferTarget, coded(Coding::kGzip, json + tensor),
      "Content-Encoding: gzip\r\nInference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n"));
  ASSERT_EQ(binary.status, 200) << binary.body;
  EXPECT_TRUE(binary.body.ends_with(tensor));
}

TEST_F(HttpServer, RefusesADecompressionBombAndDamagedBodies) {
  ServerOptions options;
  options.max_body_bytes = 100'000;
  start(options);
  RawClient to = client();
  const std::string bomb = coded(Coding::kGzip, std::string(10'000'000, ' '));
  ASSERT_LT(bomb.size(), options.max_body_bytes);
  const Answer refused = to.exchange(post(kInferTarget, bomb, "Content-Encoding: gzip\r\n"));
  EXPECT_EQ(refused.status, 413);
  EXPECT_NE(refused.body.find("more than the limit of 100000 bytes"), std::string::npos) << refused.body;
  const std::string good = coded(Coding::kGzip, kJsonInput);
  for (const std::string& bad : {std::string("nonsense"), std::string(), good.substr(0, good.size() / 2),
                                 good.substr(0, good.size() - 1), good + "more"}) {
    const Answer answer = to.exchange(post(kInferTarget, bad, "Content-Encoding: gzip\r\n"));
    EXPECT_EQ(answer.status, 400) << testing::PrintToString(bad);
  }
  EXPECT_EQ(to.exchange(post(kInferTarget, good, "Content-Encoding: gzip, gzip\r\n")).status, 501);
  EXPECT_EQ(to.exchange(post(kInferTarget, kJsonInput, "Content-Encoding: identity\r\n")).status, 200);
}

TEST_F(HttpServer, ReadsContentEncodingInSeveralLinesAsOneList) {
  start();
  RawClient to = client();
  const std::string zipped = coded(Coding::kGzip, kJsonInput);
  for (const auto& [first, second] :
       {std::pair("identity", "gzip"), std::pair("gzip", "identity"), std::pair("gzip", "deflate"),
        std::pair("gzip", "gzip"), std::pair("identity", "identity"), std::pair("", "gzip"),
        std::pair("gzip", "")})
    for (const std::string& body : {zipped, std::string(kJsonInput)}) {
      const Answer answer =
          to.exchange(post(kInferTarget, body,
                           "Content-Encoding: " + std::string(first) +
                               "\r\nX: y\r\nContent-Encoding: " + std::string(second) + "\r\n"));
      EXPECT_EQ(answer.status, 501) << first << ", " << second << ": " << answer.body;
      EXPECT_NE(answer.body.find("Content-Encoding '" + std::string(first) + ", " + second + "'"),
                std::string::npos)
          << answer.body;
    }
  EXPECT_EQ(to.exchange(post(kInferTarget, zipped, "Content-Encoding: gzip\r\n")).status, 200);
}

TEST_F(HttpServer, CompressesAnswersInTheCodingTheClientPrefers) {
  start();
  RawClient to = client();
  const Answer page = to.exchange(get("/metrics", "Accept-Encoding: deflate;q=0.5, gzip\r\n"));
  ASSERT_EQ(page.status, 200);
  ASSERT_EQ(page.headers.at("content-encoding"), "gzip");
  EXPECT_EQ(page.headers.at("vary"), "Accept-Encoding");
  const auto plain = decoded(Coding::kGzip, std::as_bytes(std::span(page.body)), 1U << 20U);
  ASSERT_TRUE(plain.ok());
  EXPECT_NE(std::string_view(reinterpret_cast<const char*>(plain->data()), plain->size()).find("millrace_"),
            std::string_view::npos);
  EXPECT_EQ(
      to.exchange(get("/metrics", "Accept-Encoding: br, gzip;q=0\r\n")).headers.count("content-encoding"),
      0U);
  EXPECT_EQ(to.exchange(get("/v2", "Accept-Encoding: gzip\r\n")).headers.count("content-encoding"), 0U)
      << "too short to be worth it";
}

TEST(Coding, AcceptsBothFormsOfDeflateAndSeveralGzipMembers) {
  const std::string text(5000, 'a');
  const std::string zlib = coded(Coding::kDeflate, text), gzip = coded(Coding::kGzip, text);
  const auto back = [&](Coding coding, const std::string& bytes) {
    const auto out = decoded(coding, std::as_bytes(std::span(bytes)), 20'000);
    return out.ok() ? std::string(reinterpret_cast<const char*>(out->data()), out->size())
                    : out.error().message();
  };
  EXPECT_EQ(back(Coding::kDeflate, zlib), text);
  EXPECT_EQ(back(Coding::kDeflate, zlib.substr(2, zlib.size() - 6)), text) << "bare, without zlib's frame";
  EXPECT_EQ(back(Coding::kGzip, gzip + gzip), text + text);
  EXPECT_TRUE(decoded(Coding::kGzip, std::as_bytes(std::span(gzip)), 5000).ok()) << "exactly the limit";
  EXPECT_FALSE(decoded(Coding::kGzip, std::as_bytes(std::span(gzip)), 4999).ok());
}

}  // namespace
}  // namespace millrace::server::http
