#include "tools/clients/http_client.hpp"

#include <sys/un.h>

#include <algorithm>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/span_body.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <charconv>

#include "tools/clients/tls_client.hpp"

namespace millrace::clients {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

/// The longest accepted answer: enough for any model, but a limit on what a hostile server can send.
constexpr std::uint64_t kAnswerLimit = 1ULL << 30U;
constexpr std::size_t kLongestSocketPath = sizeof(sockaddr_un::sun_path) - 1;

beast::string_view view_of(std::string_view text) {
  return {text.data(), text.size()};
}

using Plain = beast::basic_stream<net::generic::stream_protocol>;
using Secure = beast::ssl_stream<Plain>;

class BeastClient final : public HttpClient {
 public:
  BeastClient(const Url& url, std::chrono::milliseconds timeout, const Access& access)
      : url_(url), where_(to_string(url)), timeout_(timeout), access_(access) {}

  /// Prepares TLS if the URL needs it. Must be called before connect().
  Status prepare() {
    MILLRACE_TRY(check_token(access_.token));
    if (url_.scheme != Url::Scheme::kHttps) return {};
    MILLRACE_ASSIGN(const auto context, tls_context(access_));
    ::SSL_CTX_up_ref(context.get());
    tls_.emplace(context.get());  // tls_ releases the added reference
    return {};
  }

  Status connect() {
    secure_.reset();
    plain_.reset();
    if (tls_)
      secure_.emplace(context_, *tls_);
    else
      plain_.emplace(context_);
    error_code error;
    const auto endpoints = find(error);
    if (error) return failed("cannot resolve", error);
    socket().expires_after(timeout_);
    error = net::error::host_not_found;
    for (const auto& endpoint : endpoints) {
      socket().async_connect(endpoint, [&](error_code result) { error = result; });
      run();
      if (!error || error == beast::error::timeout) break;
      socket().socket().close();
    }
    if (error) return failed("cannot connect to", error);
    error_code ignored;
    if (url_.scheme != Url::Scheme::kUnix)
      socket().socket().set_option(net::ip::tcp::no_delay(true), ignored);
    return tls_ ? handshake() : Status();
  }

  void set_timeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }

  Result<Answer> get(std::string_view target) override { return exchange(http::verb::get, target, {}, {}); }
  Result<Answer> post(std::string_view target, std::span<const std::byte> body,
                      const Headers& headers) override {
    return exchange(http::verb::post, target, body, headers);
  }

 private:
  using Endpoint = net::generic::stream_protocol::endpoint;

  void run() {
    context_.restart();
    context_.run();
  }

  Plain& socket() { return secure_ ? secure_->next_layer() : *plain_; }

  std::vector<Endpoint> find(error_code& error) {
    if (url_.scheme == Url::Scheme::kUnix) return {net::local::stream_protocol::endpoint(url_.path)};
    std::vector<Endpoint> out;
    net::ip::tcp::resolver resolver(context_);
    for (const auto& found : resolver.resolve(url_.host, url_.port, error))
      out.emplace_back(found.endpoint());
    return out;
  }

  Status handshake() {
    expect_host(secure_->native_handle(), url_.host);
    error_code error;
    secure_->async_handshake(net::ssl::stream_base::client, [&](error_code result) { error = result; });
    run();
    if (!error) return {};
    if (error == beast::error::timeout) return failed("no TLS with", error);
    return handshake_error(secure_->native_handle(), where_, error.message());
  }

  Error failed(std::string_view doing, const error_code& error) const {
    if (error == beast::error::timeout)
      return Error(ErrorCode::kDeadlineExceeded,
                   where_ + ": no answer within " + std::to_string(timeout_.count()) + " ms");
    return Error(ErrorCode::kUnavailable, std::string(doing) + " " + where_ + ": " + error.message() +
                                              "; is 'millrace serve' running there?");
  }

  /// Returns the error for a failed exchange.
  Error lost(const error_code& error) const {
    if (error == beast::error::timeout || answered_ || url_.scheme != Url::Scheme::kHttp)
      return failed("lost the connection to", error);
    // A TLS listener also gives no HTTP answer to a plain HTTP request, so suggest https in the message.
    return Error(ErrorCode::kUnavailable,
                 where_ + " gave no HTTP answer: " + error.message() + "; does it want https://?");
  }

  Result<Answer> exchange(http::verb verb, std::string_view target, std::span<const std::byte> body,
                          const Headers& headers) {
    const bool kept = used_;
    used_ = true;
    auto answer = try_exchange(verb, target, body, headers);
    // A server may close an idle connection; that does not mean that it refused the request.
    if (answer || !kept || answer.error().code() != ErrorCode::kUnavailable) return answer;
    buffer_.clear();
    MILLRACE_TRY(connect());
    return try_exchange(verb, target, body, headers);
  }

  Result<Answer> try_exchange(http::verb verb, std::string_view target, std::span<const std::byte> body,
                              const Headers& headers) {
    http::request<http::span_body<const char>> request(verb, view_of(target), 11);
    request.set(http::field::host, host_header(url_));
    request.set(http::field::user_agent, "millrace");
    if (!access_.token.empty()) request.set(http::field::authorization, "Bearer " + access_.token);
    for (const auto& [name, value] : headers) request.set(name, value);
    request.body() = beast::span<const char>(reinterpret_cast<const char*>(body.data()), body.size());
    request.prepare_payload();
    http::response_parser<http::string_body> parser;
    parser.body_limit(kAnswerLimit);
    if (const error_code error =
            secure_ ? transfer(*secure_, request, parser) : transfer(*plain_, request, parser))
      return lost(error);
    answered_ = true;

    Answer answer;
    const auto& message = parser.get();
    answer.status = message.result_int();
    answer.body = message.body();
    if (const auto found = message.find("Inference-Header-Content-Length"); found != message.end()) {
      std::size_t length = 0;
      const auto text = found->value();
      if (std::from_chars(text.data(), text.data() + text.size(), length).ec == std::errc())
        answer.inference_header_length = length;
    }
    return answer;
  }

  template <class Stream, class Request, class Parser>
  error_code transfer(Stream& stream, const Request& request, Parser& parser) {
    error_code error;
    socket().expires_after(timeout_);
    http::async_write(stream, request, [&](error_code result, std::size_t) { error = result; });
    run();
    // A server may answer (413, 429) and close before it has read the whole request. Prefer its answer to the
    // write error.
    const error_code write_error = error;
    http::async_read(stream, buffer_, parser, [&](error_code result, std::size_t) { error = result; });
    run();
    return error && write_error ? write_error : error;
  }

  const Url url_;
  const std::string where_;
  std::chrono::milliseconds timeout_;
  const Access access_;
  net::io_context context_;
  std::optional<net::ssl::context> tls_;  // set only for https
  std::optional<Plain> plain_;            // either plain_ or secure_ is the connection
  std::optional<Secure> secure_;
  beast::flat_buffer buffer_;
  bool used_ = false, answered_ = false;
};

}  // namespace

Result<Url> parse_url(std::string_view text, Udp udp) {
  const auto bad = [&](std::string_view why) {
    return Error(ErrorCode::kInvalidInput, "URL '" + std::string(text.substr(0, 200)) + "' " +
                                               std::string(why) + "; example: http://127.0.0.1:8000");
  };
  if (udp == Udp::kNotTaken && text.starts_with("udp:"))
    return Error(ErrorCode::kUnsupported, "URL: this command does not support udp:; use http://HOST:PORT");
  Url url{Url::Scheme::kHttp, "", "8000"};
  std::string_view rest = text;
  if (rest.starts_with("unix:")) {
    url = {Url::Scheme::kUnix, "localhost", "", std::string(rest.substr(5))};
    if (url.path.empty() || url.path.find('\0') != std::string::npos) return bad("names no socket");
    if (url.path.size() > kLongestSocketPath)
      return bad("has a path of " + std::to_string(url.path.size()) +
                 " bytes; "
                 "the path of a Unix socket has at most " +
                 std::to_string(kLongestSocketPath));
    return url;
  }
  if (rest.starts_with("https://")) url.scheme = Url::Scheme::kHttps;
  if (url.scheme == Url::Scheme::kHttp && !rest.starts_with("http://"))
    return bad(udp == Udp::kNotTaken ? "does not begin with http://, https:// or unix:"
                                     : "does not begin with http://, https://, unix: or udp://");
  rest.remove_prefix(rest.find("//") + 2);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.find_first_of("/?#@") != std::string_view::npos) return bad("has more than a host and a port");
  std::string_view host = rest;
  std::optional<std::string_view> port;
  if (rest.starts_with('[')) {
    const auto close = rest.find(']');
    if (close == std::string_view::npos) return bad("lacks a ']'");
    host = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
    if (!rest.empty()) {
      if (rest.front() != ':') return bad("has text after the address");
      port = rest.substr(1);
    }
  } else if (const auto colon = rest.find(':'); colon != std::string_view::npos) {
    host = rest.substr(0, colon);
    port = rest.substr(colon + 1);
  }
  if (host.empty()) return bad("names no host");
  if (port) {
    unsigned number = 0;
    const auto [end, code] = std::from_chars(port->data(), port->data() + port->size(), number);
    if (code != std::errc() || end != port->data() + port->size() || number == 0 || number > 65'535)
      return bad("has no port from 1 to 65535");
    url.port = *port;
  }
  url.host = host;
  return url;
}

std::string host_header(const Url& url) {
  if (url.scheme == Url::Scheme::kUnix) return url.host;
  return (url.host.find(':') == std::string::npos ? url.host : "[" + url.host + "]") + ":" + url.port;
}

std::string to_string(const Url& url) {
  if (url.scheme == Url::Scheme::kUnix) return "unix:" + url.path;
  return (url.scheme == Url::Scheme::kHttps ? "https://" : "http://") + host_header(url);
}

Status check_token(std::string_view token) {
  const bool good = std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (good) return {};
  return Error(ErrorCode::kInvalidInput, "the token contains a space or a character beyond ASCII");
}

std::string percent_encoded(std::string_view segment) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : segment) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += kHex[static_cast<unsigned char>(c) >> 4U];
      out += kHex[static_cast<unsigned char>(c) & 15U];
    }
  }
  return out;
}

Result<std::unique_ptr<HttpClient>> HttpClient::connect(const Url& url, std::chrono::milliseconds timeout,
                                                        const Access& access) {
  auto client = std::make_unique<BeastClient>(url, timeout, access);
  MILLRACE_TRY(client->prepare());
  MILLRACE_TRY(client->connect());
  return std::unique_ptr<HttpClient>(std::move(client));
}

}  // namespace millrace::clients
