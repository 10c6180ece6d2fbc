// Parses the request that a connection receives. connection.cpp reads the socket, counts the memory and checks
// deadlines. Only incoming.hpp and incoming.cpp use Beast's types.
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
  static constexpr std::size_t kFirstChunk = 8'192;  // the largest buffer of an idle connection
  static constexpr std::size_t kReadChunk = 65'536;

  explicit Incoming(const ServerOptions& options) : options_(options) {}

  /// Prepares for the next request, which starts with the bytes that are left in the buffer.
  void begin();
  /// Frees the header and the body of the request, after it was answered.
  void end();

  /// Returns the memory into which the next bytes are read. It is valid until the buffer's next change.
  auto room() { return buffer_.prepare(begun_ ? kReadChunk : kFirstChunk); }
  auto room(std::size_t bytes) { return buffer_.prepare(bytes); }
  /// Allocates room for `bytes` more bytes. The next room(n) with n <= `bytes` then allocates nothing, unless
  /// discard() is called first.
  void reserve(std::size_t bytes) { buffer_.reserve(buffer_.size() + bytes); }
  void commit(std::size_t bytes) { buffer_.commit(bytes); }
  /// Whether the buffer holds so many bytes that no more should be read ahead.
  bool full() const { return buffer_.size() >= kReadChunk; }
  /// Frees a large buffer if it is empty. Must not be called during a read into room().
  void shrink() {
    if (buffer_.size() == 0 && buffer_.capacity() > kReadChunk) buffer_ = {};
  }
  void discard() { buffer_ = {}; }

  /// Parses the buffered bytes. Returns the answer if the request must be refused.
  std::optional<Response> parse();

  bool begun() const { return begun_; }  // the first byte of the request has arrived
  bool done() const { return parser_ && parser_->is_done(); }
  /// Returns true once for each request: at the first call after its header is complete.
  bool take_header();
  /// Returns true if the client waits for "100 Continue". Returns true only after take_header(), once for each request.
  bool take_continue();

  // The functions from here to body() must be called only after the header was read, unless they say otherwise.
  bool has_header() const { return header_read_; }
  /// Returns the request without its body. Its members are views into this object.
  Request request(const Access& access) const;
  std::string_view find(std::string_view name) const override;
  std::string_view method() const { return view_of(message().method_string()); }
  std::string_view target() const { return view_of(message().target()); }
  bool keep_alive() const { return message().keep_alive(); }
  // is() and http_1_0() return false before the header was read.
  bool is(boost::beast::http::verb method) const { return header_read_ && message().method() == method; }
  bool http_1_0() const { return header_read_ && message().version() < 11; }
  /// Returns the values of all Content-Encoding lines as one list (RFC 9110, 5.3).
  std::string content_coding() const;
  /// Copies the header Inference-Header-Content-Length into `request`. Refuses the request, and returns the answer,
  /// if there are several such lines, because a proxy may have used a different one.
  std::optional<Response> take_inference_header_length(Request& request) const;
  /// Returns the value of Content-Length, or 0 if the body is chunked.
  std::uint64_t announced() const { return parser_->content_length().get_value_or(0); }
  /// Returns the part of the body that was read so far.
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
  boost::beast::flat_buffer buffer_;  // bytes that were read and are not yet parsed
  std::optional<boost::beast::http::request_parser<Body>> parser_;
  bool begun_ = false, header_read_ = false, header_taken_ = false, continued_ = false;
};

}  // namespace millrace::server::http
