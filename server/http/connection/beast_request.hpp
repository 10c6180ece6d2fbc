// A request as Beast parsed it -> as the handlers see it. Internal to the folder: for session.cpp.
#pragma once

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/vector_body.hpp>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/connection/address.hpp"
#include "server/http/json_text.hpp"
#include "server/http/message.hpp"

namespace millrace::server::http {

using Body = boost::beast::http::vector_body<unsigned char>;

inline std::string_view view_of(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

class FieldsView final : public Headers {
 public:
  explicit FieldsView(const boost::beast::http::fields& fields) : fields_(fields) {}
  std::string_view find(std::string_view name) const override {
    return view_of(fields_[boost::beast::string_view(name.data(), name.size())]);
  }

 private:
  const boost::beast::http::fields& fields_;
};

/// Why the end of a request that is being read cannot be told, or be waited for: what Beast lets pass. A
/// transfer coding that is not taken off would make a request of what is its body (RFC 9112, 6.3); a chunk's
/// extension and the trailer are parsed once they are there as a whole, and `unread` bytes wait for that.
inline std::optional<Response> framing_fault(const boost::beast::http::request_parser<Body>& parser,
                                             std::uint64_t unread, std::uint64_t limit) {
  namespace http = boost::beast::http;
  if (!parser.is_header_done()) return std::nullopt;
  const auto [first, end] = parser.get().equal_range(http::field::transfer_encoding);
  if (first != end && (std::next(first) != end || !boost::beast::iequals(first->value(), "chunked")))
    return error_response(501, "Transfer-Encoding '" + std::string(view_of(first->value()).substr(0, 64)) +
                                   "' is not offered; 'chunked' alone is");
  // What stands in front may have told the body's end another way (RFC 9112, 6.1).
  if (first != end && parser.get().version() < 11)
    return error_response(400, "malformed HTTP: HTTP/1.0 knows no Transfer-Encoding");
  if (!parser.is_done() && unread > limit)
    return error_response(
        431, "a chunk's extension or the trailer is over the limit of " + std::to_string(limit) + " bytes");
  return std::nullopt;
}

/// Whether a request names its host as RFC 9112 (3.2) wants it: two lines may mean two servers to what stands
/// in front of this one. HTTP/1.0 knows no Host.
inline std::optional<Response> host_fault(const boost::beast::http::request<Body>& message) {
  const auto [first, end] = message.equal_range(boost::beast::http::field::host);
  if (first == end) {
    if (message.version() < 11) return std::nullopt;
    return error_response(400, "malformed HTTP: a request over HTTP/1.1 needs the header Host");
  }
  if (std::next(first) != end)
    return error_response(400, "malformed HTTP: the header Host is there more than once");
  if (const std::string_view host = view_of(first->value()); !is_host(host))
    return error_response(400, "malformed HTTP: '" + std::string(clipped(host, 64)) +
                                   "' in the header Host is not HOST or HOST:PORT");
  return std::nullopt;
}

/// Without the body. Views into both.
inline Request request_of(const boost::beast::http::request<Body>& message, const FieldsView& headers,
                          Gate gate) {
  using boost::beast::http::verb;
  Request request;
  const verb method = message.method();
  // HEAD is GET without the body (RFC 9110, 9.3.2), which the session leaves out.
  request.method = method == verb::get       ? Method::kGet
                   : method == verb::head    ? Method::kGet
                   : method == verb::post    ? Method::kPost
                   : method == verb::options ? Method::kOptions
                                             : Method::kOther;
  request.target = view_of(message.target());
  request.headers = &headers;
  request.gate = gate;
  return request;
}

/// What Content-Encoding says, all of its lines as one list (RFC 9110, 5.3); empty where it is not there.
inline std::string content_coding(const boost::beast::http::request<Body>& message) {
  std::string all;
  const auto [first, end] = message.equal_range(boost::beast::http::field::content_encoding);
  for (auto line = first; line != end; ++line) {
    if (line != first) all += ", ";
    all += view_of(line->value());
  }
  return all;
}

/// Inference-Header-Content-Length into the request; the answer where there are several: what stands in front
/// of this server may have looked at another one.
inline std::optional<Response> take_inference_header_length(const boost::beast::http::request<Body>& message,
                                                            Request& request) {
  const auto [first, end] = message.equal_range("Inference-Header-Content-Length");
  if (first == end) return std::nullopt;
  if (std::next(first) != end)
    return error_response(400, "the header Inference-Header-Content-Length is there more than once");
  request.inference_header_length = view_of(first->value());
  return std::nullopt;
}

}  // namespace millrace::server::http
