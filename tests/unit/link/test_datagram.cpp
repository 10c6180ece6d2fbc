#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/link/checksum.hpp"
#include "runtime/link/datagram.hpp"
#include "tests/paths/paths.hpp"

namespace millrace::runtime::link::test_datagram {

namespace {

std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> bytes;
  if (text == "-") return bytes;
  for (std::size_t i = 0; i < text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoul(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

struct Vector {
  std::string name;
  Refusal refusal = Refusal::kNone;
  Datagram fields;
  std::vector<std::byte> bytes;
};

std::vector<Vector> read_vectors() {
  const std::map<std::string, Refusal> refusals = {{"none", Refusal::kNone},
                                                   {"too_short", Refusal::kTooShort},
                                                   {"magic", Refusal::kMagic},
                                                   {"version", Refusal::kVersion},
                                                   {"header_crc", Refusal::kHeaderCrc},
                                                   {"type", Refusal::kType},
                                                   {"field", Refusal::kField},
                                                   {"length", Refusal::kLength},
                                                   {"payload_crc", Refusal::kPayloadCrc}};
  std::ifstream file(tests::source_dir() + std::string("/tests/vectors/link_datagrams/datagrams.txt"));
  std::vector<Vector> vectors;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    Vector& v = vectors.emplace_back();
    std::string refusal, hex;
    unsigned type = 0, tag = 0;
    Datagram& d = v.fields;
    words >> v.name >> refusal >> type >> tag >> d.channel.source >> d.channel.destination >> d.generation >>
        d.epoch >> d.number >> d.sequence >> d.incarnation >> d.offset >> d.last >> d.packet_bytes >>
        d.credits >> d.next >> d.limit >> d.arrived >> hex;
    EXPECT_TRUE(words) << line;
    v.refusal = refusals.at(refusal);
    d.type = static_cast<Type>(type);
    d.channel.tag = static_cast<std::uint8_t>(tag);
    v.bytes = from_hex(hex);
  }
  return vectors;
}

}  // namespace

TEST(LinkDatagram, ParserReadsOrRefusesTheTestVectors) {
  const auto vectors = read_vectors();
  ASSERT_GE(vectors.size(), 40u);
  for (const Vector& v : vectors) {
    Datagram read;
    EXPECT_EQ(parse(v.bytes, read), v.refusal) << v.name;
    if (v.refusal != Refusal::kNone) continue;
    const Datagram& d = v.fields;
    EXPECT_EQ(read.type, d.type) << v.name;
    EXPECT_EQ(read.channel, d.channel) << v.name;
    EXPECT_EQ(read.generation, d.generation) << v.name;
    EXPECT_EQ(read.epoch, d.epoch) << v.name;
    EXPECT_EQ(read.number, d.number) << v.name;
    EXPECT_EQ(read.sequence, d.sequence) << v.name;
    EXPECT_EQ(read.incarnation, d.incarnation) << v.name;
    EXPECT_EQ(read.offset, d.offset) << v.name;
    EXPECT_EQ(read.last, d.last) << v.name;
    EXPECT_EQ(read.packet_bytes, d.packet_bytes) << v.name;
    EXPECT_EQ(read.credits, d.credits) << v.name;
    EXPECT_EQ(read.next, d.next) << v.name;
    EXPECT_EQ(read.limit, d.limit) << v.name;
    EXPECT_EQ(read.arrived, d.arrived) << v.name;
    EXPECT_EQ(read.payload.data(), v.bytes.data() + kHeaderBytes) << v.name;
    EXPECT_EQ(read.payload.size(), v.bytes.size() - kHeaderBytes) << v.name;
  }
}

TEST(LinkDatagram, EncoderWritesTheTestVectors) {
  for (const Vector& v : read_vectors()) {
    if (v.refusal != Refusal::kNone) continue;
    Datagram fields = v.fields;
    fields.payload = std::span(v.bytes).subspan(kHeaderBytes);
    std::array<std::byte, kHeaderBytes> header{};
    encode_header(fields, header);
    EXPECT_TRUE(std::equal(header.begin(), header.end(), v.bytes.begin())) << v.name;
  }
}

TEST(LinkDatagram, ParserRefusesEveryInvertedBit) {
  for (const Vector& v : read_vectors()) {
    if (v.refusal != Refusal::kNone || v.bytes.size() > 200) continue;
    for (std::size_t bit = 0; bit < v.bytes.size() * 8; ++bit) {
      auto damaged = v.bytes;
      damaged[bit / 8] ^= std::byte{1} << (bit % 8);
      Datagram read;
      EXPECT_NE(parse(damaged, read), Refusal::kNone) << v.name << ", bit " << bit;
    }
  }
}

// The value is the check value of CRC-32C in the catalogue of parametrised CRC algorithms.
TEST(LinkChecksum, BothImplementationsHaveTheCheckValueOfCrc32c) {
  const auto digits = std::as_bytes(std::span("123456789", 9));
  EXPECT_EQ(crc32c(digits), 0xe3069283u);
  EXPECT_EQ(crc32c_by_table(digits), 0xe3069283u);
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(LinkChecksum, BothImplementationsAgreeOnEveryLength) {
  std::vector<std::byte> bytes(300);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + i / 7);
  for (std::size_t length = 0; length <= bytes.size(); ++length)
    EXPECT_EQ(crc32c(std::span(bytes).first(length)), crc32c_by_table(std::span(bytes).first(length)));
}

TEST(LinkDatagram, SerialNumbersAreComparedCorrectlyWhenTheyWrapAroundAfter32Bits) {
  EXPECT_TRUE(precedes(1, 2));
  EXPECT_FALSE(precedes(2, 2));
  EXPECT_FALSE(precedes(3, 2));
  EXPECT_TRUE(precedes(0xffffffffu, 0));
  EXPECT_FALSE(precedes(0, 0xffffffffu));
}

}  // namespace millrace::runtime::link::test_datagram
