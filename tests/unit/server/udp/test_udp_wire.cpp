#include <gtest/gtest.h>

#include <random>

#include "server/udp/wire/assembly.hpp"
#include "server/udp/wire/bytes.hpp"
#include "server/udp/wire/header.hpp"
#include "server/udp/wire/keys.hpp"
#include "server/udp/wire/messages.hpp"
#include "server/udp/wire/signature.hpp"
#include "tests/support/seed.hpp"
#include "tests/unit/server/udp/fakes.hpp"

namespace millrace::server::udp::wire::test_udp_wire {
namespace {

using tests::Bytes;
using tests::pattern;

Bytes datagram(const Header& header, std::span<const std::byte> payload) {
  Bytes out(header.bytes());
  write_header(header, std::span(out).first<kHeaderBytes>());
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}

Header request(std::uint16_t index, std::uint16_t count, std::uint32_t total) {
  Header h;
  h.client_id = 0x1122334455667788U;
  h.request_id = 9;
  h.frag_index = index;
  h.frag_count = count;
  h.total_len = total;
  h.model = 0x00010002;
  h.time_us = 5000;
  return h;
}

TEST(UdpHeader, HasTheByteLayoutThatTheReadmeSpecifies) {
  Header h = request(2, 3, 0x0A0B);
  h.type = Type::kRsp;
  h.from_server = true;
  h.key_id = 7;
  std::array<std::byte, kHeaderBytes> out;
  write_header(h, out);
  const std::array<unsigned, kHeaderBytes> expected{
      'M', 'R', 1, 2, 3, 7, 56, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 9,    0,    0, 0,
      0,   0,   0, 0, 2, 0, 3,  0, 0x0B, 0x0A, 0,    0,    2,    0,    1,    0,    0x88, 0x13, 0, 0};
  for (std::size_t i = 0; i < out.size(); ++i)
    EXPECT_EQ(std::to_integer<unsigned>(out[i]), expected[i]) << "byte " << i;
}

TEST(UdpHeader, ParsingAWrittenHeaderGivesTheSameFields) {
  for (int type = 1; type <= 10; ++type) {
    for (const bool server : {false, true}) {
      for (const unsigned key : {0U, 1U, 255U}) {
        Header h = request(0, 1, 20);
        h.type = static_cast<Type>(type);
        h.from_server = server;
        h.key_id = static_cast<std::uint8_t>(key);
        Bytes bytes = datagram(h, pattern(20, 1));
        Datagram read;
        ASSERT_EQ(parse(bytes, read), Refusal::kNone);
        EXPECT_EQ(read.header, h);
        EXPECT_EQ(read.payload.size(), 20U);
        EXPECT_EQ(read.tag.size(), key != 0 ? 16U : 0U);
      }
    }
  }
}

TEST(UdpHeader, EveryTruncationIsRefused) {
  Header h = request(0, 1, 30);
  h.key_id = 1;
  const Bytes whole = datagram(h, pattern(30, 1));
  for (std::size_t n = 0; n < whole.size(); ++n) {
    const Bytes cut(whole.begin(),
                    whole.begin() + static_cast<std::ptrdiff_t>(n));  // a copy reveals overreads
    Datagram read;
    EXPECT_NE(parse(cut, read), Refusal::kNone) << n << " bytes";
  }
}

TEST(UdpHeader, EachWrongConstantIsRefusedWithItsOwnReason) {
  const Bytes good = datagram(request(0, 1, 4), pattern(4, 1));
  const auto with = [&](std::size_t at, unsigned value) {
    Bytes bytes = good;
    bytes[at] = static_cast<std::byte>(value);
    Datagram read;
    return parse(bytes, read);
  };
  EXPECT_EQ(with(0, 'm'), Refusal::kBadMagic);
  EXPECT_EQ(with(2, 2), Refusal::kBadVersion);
  EXPECT_EQ(with(3, 0), Refusal::kBadType);
  EXPECT_EQ(with(3, 11), Refusal::kBadType);
  EXPECT_EQ(with(4, 4), Refusal::kBadFlags);
  EXPECT_EQ(with(4, 1), Refusal::kBadFlags);
  EXPECT_EQ(with(5, 1), Refusal::kBadFlags);
  EXPECT_EQ(with(6, 41), Refusal::kBadHeaderLength);
  EXPECT_EQ(with(24, 1), Refusal::kBadFragment);
  EXPECT_EQ(with(26, 0), Refusal::kBadFragment);
  EXPECT_EQ(with(28, 5), Refusal::kBadLength);
  EXPECT_EQ(with(31, 255), Refusal::kBadLength);
}

TEST(UdpHeader, SeveralFragmentsAreRefusedForSingleFragmentMessageTypes) {
  for (int type = 3; type <= 10; ++type) {
    Header h = request(0, 2, 8);
    h.type = static_cast<Type>(type);
    Datagram read;
    EXPECT_EQ(parse(datagram(h, pattern(4, 1)), read), Refusal::kBadFragment);
  }
}

TEST(UdpHeader, FragmentNumbersAreAcceptedIfAndOnlyIfAFragmentSizeFits) {
  // The expected answer comes from a search over all fragment sizes. A header is valid if, for some fragment size, the
  // message has `count` fragments and fragment `index` has `length` bytes.
  for (std::uint32_t total = 1; total <= 40; ++total)
    for (std::uint16_t count = 1; count <= 8; ++count)
      for (std::uint16_t index = 0; index < count; ++index)
        for (std::uint32_t length = 0; length <= 41; ++length) {
          bool exists = false;
          std::uint32_t size_found = 0;
          for (std::uint32_t size = 1; size <= 40; ++size) {
            if ((count - 1U) * size >= total || total > count * size) continue;
            const std::uint32_t expected = index + 1U < count ? size : total - (count - 1U) * size;
            if (expected != length) continue;
            exists = true;
            size_found = size;
          }
          Layout layout;
          ASSERT_EQ(layout_of(request(index, count, total), length, layout), exists)
              << "total " << total << " count " << count << " index " << index << " length " << length;
          if (exists && count > 1) {
            ASSERT_EQ(layout.size, size_found);
          }
        }
}

TEST(UdpHeader, ImpossibleTotalSizesAreRefused) {
  Layout layout;
  EXPECT_FALSE(layout_of(request(0, 65535, 0xFFFFFFFF), 1200, layout));
  EXPECT_FALSE(layout_of(request(65534, 65535, 0xFFFFFFFF), 1200, layout));
  EXPECT_FALSE(layout_of(request(1, 2, 0xFFFFFFFF), 1, layout));
  EXPECT_FALSE(make_layout(0xFFFFFFFF, 1200, layout));
  EXPECT_TRUE(make_layout(65535U * 1200U, 1200, layout));
  EXPECT_EQ(layout.count, 65535);
}

TEST(UdpHeader, RandomBytesNeverParseToAnInconsistentHeader) {
  const unsigned seed = tests::chosen_seed();
  SCOPED_TRACE("MILLRACE_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::size_t accepted = 0;
  for (int i = 0; i < 200000; ++i) {
    Bytes bytes(random() % 120);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    // Give most datagrams the right constants, so that they reach the later checks.
    if (bytes.size() > 7 && i % 4 != 0) {
      const bool tagged = random() % 2 == 0;
      store<std::uint16_t>(bytes, 0, kMagic);
      store<std::uint8_t>(bytes, 2, kVersion);
      store<std::uint8_t>(bytes, 3, static_cast<std::uint8_t>(random() % 12));
      store<std::uint8_t>(bytes, 4, tagged ? 1 : 0);
      store<std::uint8_t>(bytes, 5, tagged ? 3 : 0);
      store<std::uint16_t>(bytes, 6, tagged ? 56 : 40);
      if (bytes.size() > 40 && i % 2 == 0) {
        store<std::uint32_t>(bytes, 24, 0x00010000);
        store<std::uint32_t>(bytes, 28, static_cast<std::uint32_t>(bytes.size() - (tagged ? 56 : 40)));
      }
    }
    Datagram d;
    if (parse(bytes, d) != Refusal::kNone) continue;
    ++accepted;
    ASSERT_LT(d.header.frag_index, d.header.frag_count);
    ASSERT_EQ(d.header.bytes() + d.payload.size(), bytes.size());
    Hello hello;
    CookieReply cookie;
    Nack nack;
    Err err;
    Busy busy;
    Pong pong;
    Signature signature;
    (void)decode(d.payload, hello);
    (void)decode(d.payload, cookie);
    (void)decode(d.payload, nack);
    (void)decode(d.payload, err);
    (void)decode(d.payload, busy);
    (void)decode(d.payload, pong);
    (void)decode(d.payload, signature);
  }
  EXPECT_GT(accepted, 1000U);
}

TEST(UdpMessages, EncodedHelloDecodesUnchangedAndIsNotShorterThanACookie) {
  std::array<std::byte, kMaxHelloBytes> out;
  Hello hello;
  hello.cookie.fill(std::byte{9});
  hello.fragment_bytes = 9000;
  hello.name = "lenet5";
  hello.version = "12";
  const std::size_t n = encode(hello, out);
  EXPECT_EQ(n, kMinHelloBytes);
  EXPECT_GE(kMinHelloBytes, kCookieBytes);
  Hello read;
  ASSERT_TRUE(decode(std::span(out).first(n), read));
  EXPECT_EQ(read.cookie, hello.cookie);
  EXPECT_EQ(read.fragment_bytes, 9000);
  EXPECT_EQ(read.name, "lenet5");
  EXPECT_EQ(read.version, "12");

  const std::string name(255, 'n'), version(64, 'v');
  hello.name = name;
  hello.version = version;
  const std::size_t longest = encode(hello, out);
  EXPECT_EQ(longest, kMaxHelloBytes);
  ASSERT_TRUE(decode(std::span(out).first(longest), read));
  EXPECT_EQ(read.version, version);
  EXPECT_FALSE(decode(std::span(out).first(longest - 1), read));
}

TEST(UdpMessages, HelloRefusesLengthsAndSizesOutOfRange) {
  std::array<std::byte, kMinHelloBytes> body{};
  Hello hello;
  const auto set = [&](std::size_t at, std::uint16_t value) {
    body = {};
    store<std::uint16_t>(body, 16, 1200);
    store<std::uint16_t>(body, at, value);
    return decode(body, hello);
  };
  EXPECT_TRUE(set(16, 256));
  EXPECT_FALSE(set(16, 255));
  EXPECT_FALSE(set(16, 65001));
  EXPECT_TRUE(set(18, 40));
  EXPECT_FALSE(set(18, 41));
  EXPECT_FALSE(set(18, 0xFFFF));
  EXPECT_FALSE(set(20, 65));
  EXPECT_FALSE(set(22, 1));
}

TEST(UdpMessages, CookieAndSignatureDecodeUnchangedAndAreRefusedIfTruncated) {
  Signature signature{{{"image", "FP32", {1, 1, 28, 28}}},
                      {{"logits", "FP32", {1, 10}}, {"extra", "BF16", {}}}};
  const Bytes described = encode(signature);
  CookieReply reply;
  reply.cookie.fill(std::byte{3});
  reply.epoch = 0x0102030405060708U;
  reply.state = CookieState::kOpen;
  reply.fragment_bytes = 1200;
  reply.window = 64;
  reply.model = 0x10001;
  reply.input_bytes = 3136;
  reply.output_bytes = 40;
  reply.signature = described;
  Bytes out(kCookieBytes + described.size());
  ASSERT_EQ(encode(reply, out), out.size());
  CookieReply read;
  ASSERT_TRUE(decode(out, read));
  EXPECT_EQ(read.epoch, reply.epoch);
  EXPECT_EQ(read.state, CookieState::kOpen);
  EXPECT_EQ(read.model, 0x10001U);
  Signature back;
  ASSERT_TRUE(decode(read.signature, back));
  EXPECT_EQ(back, signature);
  for (std::size_t n = 0; n < out.size(); ++n) EXPECT_FALSE(decode(std::span(out).first(n), read)) << n;
  for (std::size_t n = 0; n < described.size(); ++n)
    EXPECT_FALSE(decode(std::span(described).first(n), back)) << n;
}

TEST(UdpMessages, NackDecodesUnchangedAndBitsBeyondItsCountAreRefused) {
  Nack nack;
  nack.base = 130;
  nack.bits = 11;
  nack.want(0);
  nack.want(10);
  std::array<std::byte, kMaxNackBytes> out;
  const std::size_t n = encode(nack, out);
  EXPECT_EQ(n, 6U);
  Nack read;
  ASSERT_TRUE(decode(std::span(out).first(n), read));
  for (unsigned bit = 0; bit < 11; ++bit) EXPECT_EQ(read.wants(bit), bit == 0 || bit == 10);
  EXPECT_FALSE(decode(std::span(out).first(n - 1), read));
  out[5] |= std::byte{8};  // sets bit 11, which stands for no fragment
  EXPECT_FALSE(decode(std::span(out).first(n), read)) << "a bit beyond the map";
  store<std::uint16_t>(out, 2, 0);
  EXPECT_FALSE(decode(std::span(out).first(4), read));
  store<std::uint16_t>(out, 2, 1025);
  EXPECT_FALSE(decode(std::span(out), read));
  store<std::uint16_t>(out, 0, 65000);
  store<std::uint16_t>(out, 2, 1024);
  EXPECT_FALSE(decode(std::span(out), read)) << "base + bits beyond 65,535";
}

TEST(UdpMessages, ErrMessageIsTruncatedToTheDatagram) {
  const std::string message(900, 'x');
  std::array<std::byte, 2000> out;
  EXPECT_EQ(encode(Err{ErrCode::kStale, message}, out), kMaxErrBytes);
  const std::size_t n = encode(Err{ErrCode::kStale, message}, std::span(out).first(10));
  EXPECT_EQ(n, 10U);
  Err read;
  ASSERT_TRUE(decode(std::span(out).first(n), read));
  EXPECT_EQ(read.code, ErrCode::kStale);
  EXPECT_EQ(read.message, "xxxxxx");
  EXPECT_FALSE(decode(std::span(out).first(9), read));
  store<std::uint16_t>(out, 0, 11);
  EXPECT_FALSE(decode(std::span(out).first(10), read));
}

TEST(UdpKeys, TagsMatchRfc4231) {
  // This is test case 3 of RFC 4231: the key is 20 times 0xaa, the data are 50 times 0xdd. Here, the first 40 bytes of
  // the data stand for the header, and the other 10 for the payload.
  KeyRing ring;
  ASSERT_TRUE(ring.add(5, Bytes(20, std::byte{0xaa})).ok());
  const Bytes data(50, std::byte{0xdd});
  for (int again = 0; again < 3; ++again) {
    std::array<std::byte, kTagBytes> tag;
    ring.sign(5, std::span(data).first(40), std::span(data).subspan(40), tag);
    const std::array<unsigned, 16> expected{0x77, 0x3e, 0xa9, 0x1e, 0x36, 0x80, 0x0e, 0x46,
                                            0x85, 0x4d, 0xb8, 0xeb, 0xd0, 0x91, 0x81, 0xa7};
    for (std::size_t i = 0; i < tag.size(); ++i) EXPECT_EQ(std::to_integer<unsigned>(tag[i]), expected[i]);
  }
}

TEST(UdpKeys, EveryFlippedBitBreaksTheTag) {
  KeyRing ring;
  ASSERT_TRUE(ring.add(1, pattern(32, 1)).ok());
  Header h = request(0, 1, 24);
  h.key_id = 1;
  Bytes bytes = datagram(h, pattern(24, 2));
  ring.sign(1, std::span(bytes).first(kHeaderBytes), std::span(bytes).subspan(kMaxHeaderBytes),
            std::span(bytes).subspan<kHeaderBytes, kTagBytes>());
  Datagram d;
  ASSERT_EQ(parse(bytes, d), Refusal::kNone);
  EXPECT_TRUE(ring.verify(d));
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    Bytes flipped = bytes;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    if (parse(flipped, d) == Refusal::kNone) {
      EXPECT_FALSE(ring.verify(d)) << "bit " << bit;
    }
  }
}

TEST(UdpKeys, ErrorNamesTheBadLineOfAKeyFile) {
  auto ring =
      parse_keys("# clients\n\n1 000102030405060708090a0b0c0d0e0f\r\n255 FFfeFFfeFFfeFFfeFFfeFFfeFFfeFFfe");
  ASSERT_TRUE(ring.ok()) << ring.error().message();
  EXPECT_TRUE(ring->has(1));
  EXPECT_TRUE(ring->has(255));
  EXPECT_FALSE(ring->has(2));
  const std::string secret = "00112233445566778899aabbccddeeff";
  for (const std::string& bad :
       std::vector<std::string>{"0 " + secret, "256 " + secret, "x " + secret, "1", "1 ", "1 0011",
                                "1 " + secret + "0", "1 " + secret + "zz", "-1 " + secret, "1  " + secret}) {
    auto refused = parse_keys("# first\n" + bad + "\n");
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_NE(refused.error().message().find("line 2"), std::string::npos) << refused.error().message();
    EXPECT_EQ(refused.error().message().find("00112233"), std::string::npos) << "the secret is shown";
  }
  EXPECT_FALSE(parse_keys("1 " + secret + "\n1 " + secret).ok());
}

class UdpAssembly : public ::testing::Test {
 protected:
  Assembly::Outcome add(std::uint32_t i) {
    return assembly.add(layout, i, std::span(message).subspan(layout.offset(i), layout.length(i)));
  }
  void start(std::uint32_t total, std::uint32_t size) {
    ASSERT_TRUE(make_layout(total, size, layout));
    message = pattern(total, total);
    into.assign(total, std::byte{0});
    assembly.start(layout, into);
  }
  Assembly assembly;
  Layout layout;
  Bytes message, into;
};

TEST_F(UdpAssembly, FragmentsInAnyOrderGiveTheSameBytes) {
  std::vector<std::uint32_t> order{0, 1, 2, 3, 4};
  do {
    start(17, 4);
    for (std::size_t i = 0; i < order.size(); ++i)
      EXPECT_EQ(add(order[i]),
                i + 1 == order.size() ? Assembly::Outcome::kComplete : Assembly::Outcome::kAdded);
    EXPECT_EQ(into, message);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(UdpAssembly, DetectsDuplicatesAndRefusesContradictions) {
  start(17, 4);
  EXPECT_EQ(add(1), Assembly::Outcome::kAdded);
  EXPECT_EQ(add(1), Assembly::Outcome::kDuplicate);
  Bytes other(4, std::byte{0});
  EXPECT_EQ(assembly.add(layout, 1, other), Assembly::Outcome::kConflict);
  Layout different;
  ASSERT_TRUE(make_layout(17, 5, different));
  EXPECT_EQ(assembly.add(different, 0, std::span(message).first(5)), Assembly::Outcome::kConflict);
  ASSERT_TRUE(make_layout(18, 4, different));
  EXPECT_EQ(assembly.add(different, 0, std::span(message).first(4)), Assembly::Outcome::kConflict);
}

TEST_F(UdpAssembly, AsksForMissingFragmentsAndThenForTheNextBurst) {
  start(200 * 4, 4);
  Nack nack;
  for (std::uint32_t i = 0; i < kBurst; ++i)
    if (i != 3 && i != 60) add(i);
  EXPECT_FALSE(assembly.wants_more());
  ASSERT_TRUE(assembly.ask(nack));
  EXPECT_EQ(nack.base, 3);
  EXPECT_EQ(nack.bits, 58);
  for (std::uint32_t i = 0; i < nack.bits; ++i) EXPECT_EQ(nack.wants(i), i == 0 || i == 57) << i;
  add(3);
  EXPECT_FALSE(assembly.wants_more());
  add(60);
  EXPECT_TRUE(assembly.wants_more());
  std::uint32_t rounds = 0;
  while (assembly.ask(nack)) {
    ++rounds;
    std::uint32_t wanted = 0;
    for (std::uint32_t i = 0; i < nack.bits; ++i) {
      if (!nack.wants(i)) continue;
      ++wanted;
      add(nack.base + i);
    }
    EXPECT_LE(wanted, kBurst);
    ASSERT_GT(wanted, 0U);
  }
  EXPECT_EQ(rounds, 3U);
  EXPECT_EQ(into, message);
}

}  // namespace
}  // namespace millrace::server::udp::wire::test_udp_wire
