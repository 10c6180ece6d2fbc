#include "server/http/connection/incoming.hpp"

#include <boost/beast/core/string.hpp>
#include <iterator>

#include "server/http/connection/address.hpp"
#include "server/http/json_text.hpp"

namespace millrace::server::http {

namespace http = boost::beast::http;

void Incoming::begin() {
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(options_.max_header_bytes));
  parser_->body_limit(options_.max_body_bytes);
  parser_->eager(true);
  begun_ = header_read_ = header_taken_ = continued_ = false;
}

void Incoming::end() {
  header_read_ = false;
  parser_.reset();
}

std::optional<Response> Incoming::parse() {
  boost::system::error_code error;
  while (buffer_.size() > 0 && !parser_->is_done() && !error) {
    begun_ = true;
    buffer_.consume(parser_->put(buffer_.data(), error));
  }
  // If the announced body is too long, the parser does not report that the header is complete.
  header_read_ = parser_->is_header_done() || error == http::error::body_limit;
  if (error && error != http::error::need_more) return fault(error);
  if (!parser_->is_header_done()) return std::nullopt;
  if (auto no = framing_fault()) return no;
  return header_taken_ ? std::nullopt : host_fault();
}

bool Incoming::take_header() {
  const bool now = parser_->is_header_done() && !header_taken_;
  header_taken_ = header_taken_ || now;
  return now;
}

bool Incoming::take_continue() {
  if (!header_taken_ || continued_ || http_1_0() || !boost::beast::iequals(find("Expect"), "100-continue"))
    return false;
  continued_ = true;
  return true;
}

Request Incoming::request(const Access& access) const {
  using http::verb;
  const verb method = message().method();
  Request request;
  // HEAD is handled as GET; the connection does not send the body (RFC 9110, 9.3.2).
  request.method = method == verb::get || method == verb::head ? Method::kGet
                   : method == verb::post                      ? Method::kPost
                   : method == verb::options                   ? Method::kOptions
                                                               : Method::kOther;
  request.target = target();
  request.headers = this;
  request.access = access;
  return request;
}

std::string_view Incoming::find(std::string_view name) const {
  return view_of(message()[boost::beast::string_view(name.data(), name.size())]);
}

std::string Incoming::content_coding() const {
  std::string all;
  const auto [first, end] = message().equal_range(http::field::content_encoding);
  for (auto line = first; line != end; ++line) {
    if (line != first) all += ", ";
    all += view_of(line->value());
  }
  return all;
}

std::optional<Response> Incoming::take_inference_header_length(Request& request) const {
  const auto [first, end] = message().equal_range("Inference-Header-Content-Length");
  if (first == end) return std::nullopt;
  if (std::next(first) != end)
    return error_response(400, "the header Inference-Header-Content-Length occurs more than once");
  request.inference_header_length = view_of(first->value());
  return std::nullopt;
}

/// Refuses requests that Beast accepts although their end is ambiguous or may never come. With a transfer coding other
/// than "chunked", bytes of the body would be parsed as the next request (RFC 9112, 6.3). Chunk extensions and the
/// trailer are limited in length, because they are buffered until they are complete.
std::optional<Response> Incoming::framing_fault() const {
  const auto [first, end] = message().equal_range(http::field::transfer_encoding);
  if (first != end && (std::next(first) != end || !boost::beast::iequals(first->value(), "chunked")))
    return error_response(501, "Transfer-Encoding '" + std::string(view_of(first->value()).substr(0, 64)) +
                                   "' is not offered; 'chunked' alone is");
  // A proxy that ignores Transfer-Encoding in HTTP/1.0 finds another end of the body (RFC 9112, 6.1).
  if (first != end && http_1_0())
    return error_response(400, "malformed HTTP: HTTP/1.0 does not support Transfer-Encoding");
  if (!parser_->is_done() && buffer_.size() > options_.max_header_bytes)
    return error_response(431, "a chunk's extension or the trailer is over the limit of " +
                                   std::to_string(options_.max_header_bytes) + " bytes");
  return std::nullopt;
}

/// Refuses requests without exactly one Host header (RFC 9112, 3.2), because a proxy may have used the other of two
/// headers. HTTP/1.0 requests may lack the header.
std::optional<Response> Incoming::host_fault() const {
  const auto [first, end] = message().equal_range(http::field::host);
  if (first == end) {
    if (http_1_0()) return std::nullopt;
    return error_response(400, "malformed HTTP: a request over HTTP/1.1 needs the header Host");
  }
  if (std::next(first) != end)
    return error_response(400, "malformed HTTP: the header Host occurs more than once");
  if (const std::string_view host = view_of(first->value()); !is_host(host))
    return error_response(400, "malformed HTTP: '" + std::string(clipped(host, 64)) +
                                   "' in the header Host is not HOST or HOST:PORT");
  return std::nullopt;
}

Response Incoming::fault(const boost::system::error_code& error) const {
  if (error == http::error::body_limit)
    return error_response(
        413, "the body is over the limit of " + std::to_string(options_.max_body_bytes) + " bytes");
  if (error == http::error::header_limit)
    return error_response(
        431, "the header is over the limit of " + std::to_string(options_.max_header_bytes) + " bytes");
  return error_response(400, "malformed HTTP: " + error.message());
}

}  // namespace millrace::server::http
