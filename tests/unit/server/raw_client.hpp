// The HTTP client of tests/support, except that a missing answer is an Answer with status 0 instead of nullopt.
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

  /// Waits for an answer. Returns status 0 if the connection ends first.
  Answer receive() { return HttpConnection::receive().value_or(Answer{}); }
  Answer exchange(std::string_view bytes) {
    send(bytes);
    return receive();
  }
  void shutdown_send() { half_close(); }
};

}  // namespace millrace::server::test
