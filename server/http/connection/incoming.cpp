#include "server/http/connection/incoming.hpp"

#include <string>
#include <utility>

namespace millrace::server::http {

namespace bhttp = boost::beast::http;

std::optional<Response> Incoming::parse() {
  boost::system::error_code error;
  while (buffer_.size() > 0 && !parser_->is_done() && !error) {
    begun_ = true;
    buffer_.consume(parser_->put(buffer_.data(), error));
  }
  // Where too long a body is announced, the parser stops short of saying that it has the header.
  header_read_ = parser_->is_header_done() || error == bhttp::error::body_limit;
  if (error && error != bhttp::error::need_more) return fault(error);
  if (auto no = framing_fault(*parser_, buffer_.size(), options_.max_header_bytes)) return no;
  if (parser_->is_header_done() && !header_taken_) return host_fault(parser_->get());
  return std::nullopt;
}

std::uint64_t Incoming::announced() const {
  return parser_->content_length().get_value_or(0);
}

bool Incoming::take_continue() {
  if (continued_ || parser_->get().version() < 11 ||
      !boost::beast::iequals(parser_->get()[bhttp::field::expect], "100-continue"))
    return false;
  continued_ = true;
  return true;
}

std::optional<Response> Incoming::fault(const boost::system::error_code& error) const {
  if (error == bhttp::error::body_limit)
    return error_response(
        413, "the body is over the limit of " + std::to_string(options_.max_body_bytes) + " bytes");
  if (error == bhttp::error::header_limit)
    return error_response(
        431, "the header is over the limit of " + std::to_string(options_.max_header_bytes) + " bytes");
  return error_response(400, "malformed HTTP: " + error.message());
}

}  // namespace millrace::server::http
