#include <gtest/gtest.h>

#include "runtime/base/text.hpp"

namespace millrace::test_text {
namespace {

TEST(Text, IsNameRejectsPathsCommandLineFlagsAndLongNames) {
  for (const char* good : {"a", "fpga0", "LeNet-5_v1.2", "_x"}) EXPECT_TRUE(is_name(good)) << good;
  for (const char* bad : {"", ".", "..", "-o", "a/b", "a b", "a;b", "caf\xc3\xa9", "a\n"})
    EXPECT_FALSE(is_name(bad)) << bad;
  EXPECT_TRUE(is_name(std::string(64, 'a'), 64));
  EXPECT_FALSE(is_name(std::string(65, 'a'), 64));
}

TEST(Text, IsUtf8RejectsTruncatedAndOverlongSequences) {
  for (const char* good : {"", "cat", "caf\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x90\x88", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(is_utf8(good)) << good;
  // The malformed strings are a stray continuation byte, Latin-1, a truncated sequence, three overlong encodings, a
  // surrogate, and a code point above U+10FFFF.
  for (const char* bad : {"\x80", "caf\xe9", "\xe2\x82", "\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf",
                          "\xed\xa0\x80", "\xf4\x90\x80\x80"})
    EXPECT_FALSE(is_utf8(bad));
}

TEST(Text, FunctionPrintableEscapesControlCharactersAndInvalidUtf8) {
  EXPECT_EQ(printable("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x88"),
            "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x88");
  EXPECT_EQ(printable("a\x1b[2J\x7f\tb\n"), "a\\x1b[2J\\x7f\\tb\\n");
  EXPECT_EQ(printable("a\nb", true), "a\nb");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");  // a C1 control character in UTF-8
  EXPECT_EQ(printable("\x9b"
                      "1m"),
            "\\x9b1m");  // the same character as a single byte
  EXPECT_EQ(printable("caf\xe9!\xe2\x82"), "caf\\xe9!\\xe2\\x82");
  EXPECT_EQ(printable(std::string_view("\0x", 2)), "\\x00x");
}

TEST(Text, NumbersInMessagesHaveAtMostEightDigits) {
  EXPECT_EQ(number_text(161.1328125), "161.13281");
  EXPECT_EQ(number_text(300), "300");
  EXPECT_EQ(number_text(1e9), "1e+09");
}

}  // namespace
}  // namespace millrace::test_text
