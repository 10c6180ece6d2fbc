// The request that a connection receives, from its first byte to its last. Reads no socket, counts no memory and
// keeps no time: connection.cpp does. Beast's types are used here only.
#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/vector_body.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/http/message.hpp"
#include "server/http/server.hpp"

namespace millrace::server::http {

class Incoming final : public Headers {
 public:
  static constexpr std::size_t kFirstChunk = 8'192;  // an idle connection costs no more
  static constexpr std::size_t kReadChunk = 65'536;

  explicit Incoming(const ServerOptions& options) : options_(options) {}

  /// Prepares for the next request. Buffered bytes stay: they are its beginning.
  void begin();
  /// The request was answered: its header and body go.
  void end();

  /// Where the next bytes go; valid until the buffer is touched again.
  auto room() { return buffer_.prepare(begun_ ? kReadChunk : kFirstChunk); }
  auto room(std::size_t bytes) { return buffer_.prepare(bytes); }
  /// Allocates for `bytes` more bytes. The next room() of at most that size then allocates nothing, unless
  /// discard() comes first.
  void reserve(std::size_t bytes) { buffer_.reserve(buffer_.size() + bytes); }
  void commit(std::size_t bytes) { buffer_.commit(bytes); }
  /// Whether the buffer holds enough: nothing more should be read ahead.
  bool full() const { return buffer_.size() >= kReadChunk; }
  /// Frees the buffer of a long request if it is empty. Not during a read into room().
  void shrink() {
    if (buffer_.size() == 0 && buffer_.capacity() > kReadChunk) buffer_ = {};
  }
  void discard() { buffer_ = {}; }

  /// Parses what is buffered. Returns the answer if the request is refused.
  std::optional<Response> parse();

  bool begun() const { return begun_; }  // its first byte came
  bool done() const { return parser_ && parser_->is_done(); }
  /// True once for a request: when its header is complete.
  bool take_header();
  /// True once for a request, after take_header(): when the client waits for "100 Continue".
  bool take_continue();

  // The following need the header.
  bool has_header() const { return header_read_; }
  /// The header's lines, without the body. Views into this object.
  Request request(const Access& access) const;
  std::string_view find(std::string_view name) const override;
  std::string_view method() const { return view_of(message().method_string()); }
  std::string_view target() const { return view_of(message().target()); }
  bool keep_alive() const { return message().keep_alive(); }
  // False before the header was read.
  bool is(boost::beast::http::verb method) const { return header_read_ && message().method() == method; }
  bool http_1_0() const { return header_read_ && message().version() < 11; }
  /// Content-Encoding, all of its lines as one list (RFC 9110, 5.3).
  std::string content_coding() const;
  /// Sets the request's Inference-Header-Content-Length. Returns the answer if there are several such lines: a
  /// proxy may have looked at another one.
  std::optional<Response> take_inference_header_length(Request& request) const;
  /// The length of the body as the header says it; 0 if it is chunked.
  std::uint64_t announced() const { return parser_->content_length().get_value_or(0); }
  /// The body, as far as it was read.
  std::span<const unsigned char> body() const { return message().body(); }
  void drop_body() {
    if (parser_) Body::value_type().swap(parser_->get().body());
  }

 private:
  using Body = boost::beast::http::vector_body<unsigned char>;
  static std::string_view view_of(boost::beast::string_view text) { return {text.data(), text.size()}; }

  const boost::beast::http::request<Body>& message() const { return parser_->get(); }
  std::optional<Response> framing_fault() const;
  std::optional<Response> host_fault() const;
  Response fault(const boost::system::error_code& error) const;

  const ServerOptions& options_;
  boost::beast::flat_buffer buffer_;  // read and not yet parsed
  std::optional<boost::beast::http::request_parser<Body>> parser_;
  bool begun_ = false, header_read_ = false, header_taken_ = false, continued_ = false;
};

}  // namespace millrace::server::http
