// An answer as it goes over the wire: its head as bytes, its body in a content coding.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/connection/coding.hpp"
#include "server/http/message.hpp"

namespace millrace::server::http {

struct HeadOptions {
  std::uint64_t content_length = 0;
  bool http_1_0 = false, keep_alive = true;
  Coding coding = Coding::kIdentity;
  bool varies = false;            // another client might have got it in a coding, and caches may keep it
  std::string_view more_headers;  // whole lines, beside those of the response
  std::string_view request_id;    // empty: none
  std::string_view date;          // now, as DateHeader gives it
};

/// Status line, headers, empty line, in place of what was in `out`. Allocates nothing where `out` has room.
void write_response_head(std::string& out, const Response& response, const HeadOptions& options);

/// What of an answer follows its head.
std::uint64_t body_bytes(const Response& response);

/// Puts an answer of at least `least` bytes into `coding`, where that makes it smaller; the coding it has
/// then.
Coding compressed(Response& response, Coding coding, std::uint64_t least);

}  // namespace millrace::server::http
