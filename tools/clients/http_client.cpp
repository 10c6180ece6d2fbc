#include "tools/clients/http_client.hpp"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/span_body.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <charconv>

namespace millrace::clients {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

/// A served model's answer may be large; a hostile server's must still end.
constexpr std::uint64_t kAnswerLimit = 1ULL << 30U;

beast::string_view view_of(std::string_view text) {
  return {text.data(), text.size()};
}

class BeastClient final : public HttpClient {
 public:
  BeastClient(const Url& url, std::chrono::milliseconds timeout)
      : url_(url), timeout_(timeout), stream_(context_) {}

  Status connect() {
    error_code error;
    net::ip::tcp::resolver resolver(context_);
    const auto found = resolver.resolve(url_.host, url_.port, error);
    if (error) return failed("cannot resolve", error);
    stream_.expires_after(timeout_);
    stream_.async_connect(found, [&](error_code result, const net::ip::tcp::endpoint&) { error = result; });
    run();
    if (error) return failed("cannot connect to", error);
    stream_.socket().set_option(net::ip::tcp::no_delay(true), error);
    return {};
  }

  void set_timeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }

  Result<Answer> get(std::string_view target) override { return exchange(http::verb::get, target, {}, {}); }
  Result<Answer> post(std::string_view target, std::span<const std::byte> body,
                      const Headers& headers) override {
    return exchange(http::verb::post, target, body, headers);
  }

 private:
  void run() {
    context_.restart();
    context_.run();
  }

  Error failed(std::string_view doing, const error_code& error) const {
    const std::string where = "http://" +
                              (url_.host.find(':') == std::string::npos ? url_.host : "[" + url_.host + "]") +
                              ":" + url_.port;
    if (error == beast::error::timeout)
      return Error(ErrorCode::kDeadlineExceeded,
                   where + ": no answer within " + std::to_string(timeout_.count()) + " ms");
    return Error(ErrorCode::kUnavailable, std::string(doing) + " " + where + ": " + error.message() +
                                              "; is 'millrace serve' running there?");
  }

  Result<Answer> exchange(http::verb verb, std::string_view target, std::span<const std::byte> body,
                          const Headers& headers) {
    const bool kept = used_;
    used_ = true;
    auto answer = try_exchange(verb, target, body, headers);
    // A server may close a connection that stood idle; that says nothing about the request.
    if (answer || !kept || answer.error().code() != ErrorCode::kUnavailable) return answer;
    error_code ignored;
    stream_.socket().close(ignored);
    buffer_.clear();
    MILLRACE_TRY(connect());
    return try_exchange(verb, target, body, headers);
  }

  Result<Answer> try_exchange(http::verb verb, std::string_view target, std::span<const std::byte> body,
                              const Headers& headers) {
    http::request<http::span_body<const char>> request(verb, view_of(target), 11);
    request.set(http::field::host, url_.host + ":" + url_.port);
    request.set(http::field::user_agent, "millrace");
    for (const auto& [name, value] : headers) request.set(name, value);
    request.body() = beast::span<const char>(reinterpret_cast<const char*>(body.data()), body.size());
    request.prepare_payload();

    error_code error;
    stream_.expires_after(timeout_);
    http::async_write(stream_, request, [&](error_code result, std::size_t) { error = result; });
    run();
    // A server may answer (413, 429) and close before it has read everything: what it said is worth more than
    // the error.
    const error_code write_error = error;
    http::response_parser<http::string_body> parser;
    parser.body_limit(kAnswerLimit);
    http::async_read(stream_, buffer_, parser, [&](error_code result, std::size_t) { error = result; });
    run();
    if (error) return failed("lost the connection to", write_error ? write_error : error);

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

  const Url url_;
  std::chrono::milliseconds timeout_;
  net::io_context context_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  bool used_ = false;
};

}  // namespace

Result<Url> parse_url(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return Error(ErrorCode::kInvalidInput, "--url '" + std::string(text.substr(0, 200)) + "' " +
                                               std::string(why) + "; example: http://127.0.0.1:8000");
  };
  for (const std::string_view scheme : {"https:", "unix:", "udp:"})
    if (text.starts_with(scheme))
      return Error(ErrorCode::kUnsupported,
                   "--url: " + std::string(scheme) + " is not offered; use http://HOST:PORT");
  constexpr std::string_view kScheme = "http://";
  if (!text.starts_with(kScheme)) return bad("does not begin with http://");
  std::string_view rest = text.substr(kScheme.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.find_first_of("/?#@") != std::string_view::npos) return bad("has more than a host and a port");
  Url url{"", "8000"};
  std::string_view host = rest;
  std::optional<std::string_view> port;
  if (rest.starts_with('[')) {
    const auto close = rest.find(']');
    if (close == std::string_view::npos) return bad("lacks a ']'");
    host = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
    if (!rest.empty()) {
      if (rest.front() != ':') return bad("has something behind the address");
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

Result<std::unique_ptr<HttpClient>> HttpClient::connect(const Url& url, std::chrono::milliseconds timeout) {
  auto client = std::make_unique<BeastClient>(url, timeout);
  MILLRACE_TRY(client->connect());
  return std::unique_ptr<HttpClient>(std::move(client));
}

}  // namespace millrace::clients
