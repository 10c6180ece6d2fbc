// The request a connection receives, from its first byte to its last: bytes -> a parsed request, or the
// answer that refuses it. Reads no socket, counts no memory, keeps no time: session.cpp does. Internal to the
// folder: Beast here, in beast_request, session.cpp and response_head.cpp only.
#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "server/http/connection/beast_request.hpp"
#include "server/http/message.hpp"
#include "server/http/server.hpp"

namespace millrace::server::http {

class Incoming {
 public:
  static constexpr std::size_t kFirstChunk = 8'192;  // an idle connection costs no more
  static constexpr std::size_t kReadChunk = 65'536;

  explicit Incoming(const ServerOptions& options) : options_(options) {}

  /// For the next request. What is buffered stays, as its beginning.
  void begin() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(options_.max_header_bytes));
    parser_->body_limit(options_.max_body_bytes);
    parser_->eager(true);
    begun_ = header_read_ = header_taken_ = continued_ = false;
  }

  /// The request was answered: its header and body go.
  void end() {
    header_read_ = false;
    parser_.reset();
  }

  // Bytes.

  /// Where the next bytes go; valid until the buffer is touched again.
  auto room() { return buffer_.prepare(begun_ ? kReadChunk : kFirstChunk); }
  auto room(std::size_t bytes) { return buffer_.prepare(bytes); }
  void commit(std::size_t bytes) { buffer_.commit(bytes); }
  /// So that room(kFirstChunk) will need no memory; false where so much is buffered that no more is wanted.
  bool make_room_ahead() {
    if (buffer_.size() >= kReadChunk) return false;
    buffer_.reserve(buffer_.size() + kFirstChunk);
    return true;
  }
  /// Gives the memory of long requests back, where nothing is buffered. Not during a read into room().
  void shrink() {
    if (buffer_.size() == 0 && buffer_.capacity() > kReadChunk) buffer_ = {};
  }
  void discard() { buffer_ = {}; }

  /// Feeds the parser with what is buffered; the answer where that refuses the request.
  std::optional<Response> parse();

  // The request.

  bool begun() const { return begun_; }  // a byte of it came
  bool done() const { return parser_->is_done(); }
  /// Whether the header is there, and was not there at the last call.
  bool take_header() {
    const bool now = parser_->is_header_done() && !header_taken_;
    header_taken_ = header_taken_ || now;
    return now;
  }
  /// As far as it was read; null where not even its header was.
  const boost::beast::http::request<Body>* asked() const { return header_read_ ? &parser_->get() : nullptr; }
  bool asks_by(boost::beast::http::verb method) const {
    return asked() != nullptr && asked()->method() == method;
  }
  /// With done() or after take_header().
  const boost::beast::http::request<Body>& message() const { return parser_->get(); }
  std::span<const unsigned char> body() const { return parser_->get().body(); }
  /// What the header says of the body's length; 0 where it is chunked.
  std::uint64_t announced() const;
  void drop_body() {
    if (parser_) Body::value_type().swap(parser_->get().body());
  }
  /// Whether the client waits for "100 Continue"; once for a request.
  bool take_continue();

 private:
  std::optional<Response> fault(const boost::system::error_code& error) const;

  const ServerOptions& options_;
  boost::beast::flat_buffer buffer_;  // read and not yet parsed
  std::optional<boost::beast::http::request_parser<Body>> parser_;
  bool begun_ = false, header_read_ = false, header_taken_ = false, continued_ = false;
};

}  // namespace millrace::server::http
