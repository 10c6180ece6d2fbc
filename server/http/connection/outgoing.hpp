// The answer a connection sends: a handler's Response -> buffers to write, head first. Writes no socket,
// counts no memory: session.cpp does. Internal to the folder.
#pragma once

#include <boost/asio/buffer.hpp>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "server/http/connection/coding.hpp"
#include "server/http/message.hpp"
#include "server/http/connection/response_head.hpp"

namespace millrace::server::http {

/// Asio copies the sequence it is given, several times: this costs nothing, where a vector would be allocated
/// anew.
struct BufferView {
  using value_type = boost::asio::const_buffer;
  using const_iterator = const boost::asio::const_buffer*;
  const_iterator first, last;
  const_iterator begin() const { return first; }
  const_iterator end() const { return last; }
};

class Outgoing {
 public:
  Response response;

  /// Takes `coding` for the body where that pays (from `from_bytes`). Once for an answer; a second time does
  /// nothing.
  void compress(Coding coding, std::size_t from_bytes) {
    if (coding_ == Coding::kIdentity) coding_ = compressed(response, coding, from_bytes);
  }

  /// Another answer in the place of the one there is, with its body's memory given back.
  void replace(Response other) {
    std::string().swap(response.body);
    response = std::move(other);
    coding_ = Coding::kIdentity;
  }

  /// The bytes to write, until end(). `head` lacks the length and the coding of the body.
  BufferView serialise(HeadOptions head, bool head_only) {
    head.content_length = body_bytes(response);
    head.coding = coding_;
    write_response_head(head_, response, head);
    buffers_.clear();
    buffers_.push_back(boost::asio::buffer(head_));
    if (head_only) {
      std::string().swap(response.body);
    } else {
      buffers_.push_back(boost::asio::buffer(response.body));
      for (const auto part : response.binary)
        buffers_.push_back(boost::asio::buffer(part.data(), part.size()));
    }
    return {buffers_.data(), buffers_.data() + buffers_.size()};
  }

  void end() { replace({}); }

 private:
  std::string head_;
  std::vector<boost::asio::const_buffer> buffers_;
  Coding coding_ = Coding::kIdentity;
};

}  // namespace millrace::server::http
