#include <gtest/gtest.h>

#include "kernels/program/packing.hpp"
#include "random_program.hpp"
#include "small_program.hpp"

namespace millrace::tests::test_packing {
namespace {

using namespace kernels;
using Kind = ElementType::Kind;
using reference::Buffer;

Buffer packed(ElementType type, const Buffer& storage) {
  Buffer wire(packed_bytes(type, storage.size() / type.storage_bytes()));
  pack(type, storage, wire);
  return wire;
}

TEST(Packing, PutsTheFirstElementIntoTheLowestBits) {
  EXPECT_EQ(packed({Kind::kUnsigned, 4}, bytes_of<std::uint8_t>({1, 2, 15})),
            bytes_of<std::uint8_t>({0x21, 0x0f}));
  EXPECT_EQ(packed({Kind::kSigned, 3}, bytes_of<std::int8_t>({-1, 2, -4})),
            bytes_of<std::uint8_t>({0b00010111, 0b1}));
  EXPECT_EQ(packed(kBipolar, bytes_of<std::int8_t>({1, -1, 1, 1, -1, -1, -1, -1, 1})),
            bytes_of<std::uint8_t>({0b00001101, 1}));
  EXPECT_EQ(packed({Kind::kUnsigned, 12}, bytes_of<std::uint16_t>({0xabc, 0x123})),
            bytes_of<std::uint8_t>({0xbc, 0x3a, 0x12}));
  EXPECT_EQ(packed(kInt16, bytes_of<std::int16_t>({-2, 3})), bytes_of<std::int16_t>({-2, 3}));
}

TEST(Packing, CountsBytesWithoutOverflow) {
  EXPECT_EQ(packed_bytes(kBipolar, 0), 0U);
  EXPECT_EQ(packed_bytes(kBipolar, 9), 2U);
  EXPECT_EQ(packed_bytes({Kind::kUnsigned, 3}, 8), 3U);
  EXPECT_EQ(packed_bytes({Kind::kUnsigned, 3}, 9), 4U);
  EXPECT_EQ(packed_bytes(kInt32, std::uint64_t{1} << 61), std::uint64_t{1} << 63);
}

TEST(Packing, UnpackingRestoresEveryType) {
  std::vector<ElementType> types = {kBipolar, kFloat};
  for (std::uint8_t bits = 1; bits <= 32; ++bits) {
    types.push_back({Kind::kSigned, bits});
    types.push_back({Kind::kUnsigned, bits});
  }
  for (const std::uint64_t seed : seeds(20)) {
    Chance chance(seed);
    for (const ElementType type : types) {
      Program program;
      program.tensors = {{"x", type, {static_cast<std::uint32_t>(chance.between(1, 40))}, {}, 0}};
      program.inputs = {0};
      const Buffer storage = random_inputs(chance, program)[0];
      const Buffer wire = packed(type, storage);
      Buffer back(storage.size(), std::byte{0x55});
      unpack(type, wire, back);
      EXPECT_EQ(back, storage) << to_string(type) << ", seed " << seed;
    }
  }
}

TEST(Packing, UnpacksAnyBytesToValuesOfTheType) {
  for (std::uint8_t bits = 1; bits <= 7; ++bits) {
    const ElementType type{Kind::kSigned, bits};
    Buffer wire(packed_bytes(type, 64), std::byte{0xa7}), storage(64);
    unpack(type, wire, storage);
    for (const std::int8_t value : values_of<std::int8_t>(storage)) {
      EXPECT_GE(value, type.lowest());
      EXPECT_LE(value, type.highest());
    }
  }
}

}  // namespace
}  // namespace millrace::tests::test_packing
