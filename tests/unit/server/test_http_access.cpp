// Tests who may reach the server: tokens, origins of web pages, and listeners.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <vector>

#include "http_server_fixture.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"

namespace millrace::server::http::test_http_access {
namespace {

constexpr std::string_view kReader = "reader-token-0123456789", kAsker = "asker-token-0123456789",
                           kMaster = "master-token-0123456789";
const std::string kLoad = "/v2/repository/models/small/load";

std::string bearer(std::string_view token) {
  return "Authorization: Bearer " + std::string(token) + "\r\n";
}

class GuardedHttpServer : public HttpServer {
 protected:
  GuardedHttpServer() : HttpServer({"https://panel.example"}) {}
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

TEST_F(GuardedHttpServer, EveryScopeAllowsItsRoutesAndThoseOfLowerScopes) {
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

TEST_F(GuardedHttpServer, RefusalNamesTheMissingRightButRevealsNoSecret) {
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

TEST_F(GuardedHttpServer, RefusesAClientBeforeReadingTheBody) {
  RawClient to = client();
  const Answer answer =
      to.exchange("POST " + kInferTarget + " HTTP/1.1\r\nHost: t\r\nContent-Length: 60000\r\n\r\n");
  EXPECT_EQ(answer.status, 401);
  EXPECT_EQ(answer.headers.at("connection"), "close");
}

TEST_F(GuardedHttpServer, RefusalBeforeTheBodyArrivesHasCorsHeadersAndNoBodyForHead) {
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

TEST_F(GuardedHttpServer, NewTokensTakeEffectOnOpenConnections) {
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
  } cases[] = {
      {"", "f: holds no token"},
      {"# only a comment\n", "holds no token"},
      {"a read\n", "f:1: three words"},
      {"a read secretsecretsecret more\n", "f:1: three words"},
      {"\na write secretsecretsecret\n", "f:2: the scope is none of read, infer, admin"},
      {"a read short\n", "f:1: the secret must have 16 to 512"},
      {"a read sha256:12\n", "f:1: sha256: must be followed by 64 hexadecimal digits"},
      {"-a read secretsecretsecret\n", "f:1: the name must have"},
      {"a read secretsecretsecret\na read other-secret-secret\n", "f:2: the name 'a' is listed twice"},
      {"a read secretsecretsecret\nb read secretsecretsecret\n", "f:2: 'a' has the same secret"}};
  for (const auto& one : cases) {
    const auto parsed = auth::Tokens::parse(one.text, "f");
    ASSERT_FALSE(parsed.ok()) << one.text;
    EXPECT_NE(parsed.error().message().find(one.says), std::string::npos) << parsed.error().message();
    EXPECT_EQ(parsed.error().message().find("secretsecret"), std::string::npos);
  }
}

TEST(Tokens, HaveSecretsOf16To512Characters) {
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

TEST(Tokens, MatchOnlyIfEveryDigitOfTheDigestIsEqual) {
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

// The following tests are about admin routes and web pages of other origins.

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

TEST_F(HttpServer, RefusesAdminRequestsFromPagesOfOtherHosts) {
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

TEST_F(HttpServer, ForbidsOtherPagesToShowTheConsoleInAFrame) {
  start();
  RawClient to = client();
  for (const char* file : {"/", "/console/main.js"}) {
    Answer answer = to.exchange(get(file));
    EXPECT_EQ(answer.status, 200) << file;
    EXPECT_EQ(answer.headers["x-frame-options"], "DENY") << file;
    EXPECT_EQ(answer.headers["content-security-policy"], "frame-ancestors 'none'") << file;
  }
}

TEST_F(HttpServer, OnlyPagesOfConfiguredOriginsMayReadAnswers) {
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

TEST(ListenAddress, AcceptsOnlyTheDocumentedAddressFormats) {
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
    EXPECT_NE(parsed.error().message().find("the path has 108 bytes; a Unix socket's path has at most 107"),
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

TEST_F(HttpServer, ErrorNamesASystemdSocketThatWasNotPassed) {
  ServerOptions options;
  options.listen = {{Passed{"http"}}};
  const auto bound = Server::bind(options, api, registry, *metrics);
  ASSERT_FALSE(bound.ok());
  EXPECT_NE(bound.error().message().find("no socket named 'http' was passed"), std::string::npos);
}

}  // namespace
}  // namespace millrace::server::http::test_http_access
