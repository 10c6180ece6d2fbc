#include <gtest/gtest.h>

#include "tools/load/response.hpp"

namespace millrace::load::test_response {
namespace {

using State = ResponseReader::State;

const std::string kAnswer = "HTTP/1.1 200 OK\r\nContent-Type: x\r\ncontent-LENGTH:  5 \r\n\r\nhello";

TEST(ResponseReader, FindsTheEndOfAResponseHoweverTheBytesAreSplit) {
  for (std::size_t cut = 0; cut <= kAnswer.size(); ++cut) {
    ResponseReader reader;
    const State first = cut == 0 ? State::kMore : reader.feed(kAnswer.substr(0, cut));
    if (cut == kAnswer.size()) {
      EXPECT_EQ(first, State::kDone);
    } else {
      ASSERT_EQ(first, State::kMore) << cut;
      ASSERT_EQ(reader.feed(kAnswer.substr(cut)), State::kDone) << cut;
    }
    EXPECT_EQ(reader.status(), 200U);
    EXPECT_FALSE(reader.closes());
  }
}

TEST(ResponseReader, CanBeReusedAfterReset) {
  ResponseReader reader;
  ASSERT_EQ(reader.feed("HTTP/1.1 503 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"), State::kDone);
  EXPECT_EQ(reader.status(), 503U);
  EXPECT_TRUE(reader.closes());
  reader.reset();
  ASSERT_EQ(reader.feed(kAnswer), State::kDone);
  EXPECT_EQ(reader.status(), 200U);
  EXPECT_FALSE(reader.closes());
}

TEST(ResponseReader, RefusesMalformedResponses) {
  for (const std::string& text :
       {std::string("SSH-2.0-OpenSSH\r\n\r\n"), std::string("HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n"),
        std::string("\r\n\r\n"), std::string("HTTP/1.1 200 OK\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nnothing\r\n\r\n"),
        std::string("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab"), std::string(100'000, 'x')}) {
    ResponseReader reader;
    EXPECT_EQ(reader.feed(text), State::kMalformed) << text.substr(0, 60);
  }
}

}  // namespace
}  // namespace millrace::load::test_response
