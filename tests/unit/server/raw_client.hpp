// The client of tests/support, but an answer that does not come has status 0 instead of being an error.
#pragma once

#include "tests/support/http.hpp"

namespace millrace::server::test {

using Answer = tests::HttpResponse;
using tests::bytes_of_values;
using tests::get;
using tests::post;

class RawClient : public tests::HttpConnection {
 public:
  explicit RawClient(const std::string& address) : HttpConnection(address, std::chrono::seconds(60)) {}

  /// One answer; status 0 where the connection ended first.
  Answer receive() { return HttpConnection::receive().value_or(Answer{}); }
  Answer exchange(std::string_view bytes) {
    send(bytes);
    return receive();
  }
  void shutdown_send() { half_close(); }
};

}  // namespace millrace::server::test
