#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "runtime/base/digest.hpp"
#include "runtime/plan/image.hpp"
#include "runtime/plan/image_abi.hpp"
#include "runtime/plan/pace.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/seed.hpp"

namespace millrace::runtime::plan::test_image {
namespace {

using kernels::Program;

/// Returns the data of an FPGA image with one partition that computes `program`. The host writes the input and reads
/// the output.
EmulationData sample(const Program& program) {
  EmulationData data;
  data.record.abi_version = abi::kAbiVersion;
  data.record.name = "image0";
  data.record.device = "ku060";
  data.record.clock_mhz = 156.25;
  ImagePartition partition;
  partition.name = "part0";
  partition.region = "all";
  partition.nodes = {"node/conv"};
  partition.program_digest = program_digest(program);
  const auto& in = program.tensors[program.inputs[0]];
  const auto& out = program.tensors[program.outputs[0]];
  partition.ports.push_back(
      {"in0", PortKind::kIngress, "millrace_ingress:{part0_in0}", 0, 0, in.type, in.elements()});
  partition.ports.push_back(
      {"out0", PortKind::kEgress, "millrace_egress:{part0_out0}", 0, 0, out.type, out.elements()});
  partition.ports.push_back({"out0", PortKind::kLinkSend, "", 3, 0, out.type, out.elements()});
  data.record.partitions.push_back(partition);
  data.record.content_digest = compute_content_digest(data.record);
  data.programs.push_back(program);
  return data;
}

EmulationData sealed(EmulationData data) {
  data.record.content_digest = compute_content_digest(data.record);
  return data;
}

std::string message_of(const EmulationData& data) {
  const auto decoded = decode_emulation_data(encode_emulation_data(data));
  return decoded.ok() ? "" : decoded.error().message();
}

TEST(Program, ReadsBackUnchangedWithEveryOperation) {
  const Program program = tests::every_operation_program();
  ASSERT_EQ(kernels::validate(program), "");
  const auto decoded = decode_program(encode_program(program));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message();
  EXPECT_EQ(*decoded, program);
}

TEST(Program, EncodingIsDeterministicAndItsDigestCoversEveryWeight) {
  const Program program = tests::chain_program(2);
  EXPECT_EQ(encode_program(program), encode_program(tests::chain_program(2)));
  Program other = program;
  std::get<kernels::Convolution>(other.blocks[1].operation).weights.edit()[5] ^= 1;
  EXPECT_NE(program_digest(program), program_digest(other));
}

TEST(Program, StoresWeightsSharedByTwoLayersOnce) {
  Program program = tests::chain_program(3);
  const auto untied = encode_program(program).size();
  std::get<kernels::Convolution>(program.blocks[4].operation).weights =
      std::get<kernels::Convolution>(program.blocks[3].operation).weights;
  const auto tied = encode_program(program);
  EXPECT_LT(tied.size(), untied - 100);
  const auto decoded = decode_program(tied);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, program);
}

TEST(Program, WithAnAlteredWeightIsRefusedByItsDigest) {
  const Program program = tests::chain_program(1);
  auto bytes = encode_program(program);
  bytes.back() ^= std::byte{1};  // the last blob is at the end of the file
  const auto decoded = decode_program(bytes);
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.error().code(), ErrorCode::kCorrupt);
  EXPECT_NE(decoded.error().message().find("digest"), std::string::npos) << decoded.error().message();
}

TEST(Program, StoresTranspositionsInTheFormatOfMillraceVersion0Point1) {
  // The bytes that version 0.1 wrote for Permute{{2, 4, 4}, {1, 2, 0}}. The first two bytes are the number (12) and
  // the size of the oneof's field.
  const std::string_view old("\x62\x0a\x0a\x03\x02\x04\x04\x12\x03\x01\x02\x00", 12);
  const Program program = tests::every_operation_program();
  const auto bytes = encode_program(program);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::size_t at = text.find(old);
  ASSERT_NE(at, std::string_view::npos);
  const auto refused = [&](std::size_t byte, unsigned char value) {
    auto changed = bytes;
    changed[at + byte] = std::byte{value};
    const auto decoded = decode_program(changed);
    return !decoded.ok() && decoded.error().message().find("permute") != std::string::npos;
  };
  EXPECT_TRUE(refused(9, 2)) << "perm 2 2 0";
  EXPECT_TRUE(refused(9, 3)) << "perm 3 2 0";
  EXPECT_TRUE(refused(4, 0)) << "dims 0 4 4";
}

TEST(Program, OfANewerSchemaIsRefusedWithTheSchemaNumber) {
  std::vector<std::byte> bytes = {std::byte{0x08}, std::byte{0x07}};  // field 1, schema_version, is 7
  const auto decoded = decode_program(bytes);
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.error().code(), ErrorCode::kUnsupported);
  EXPECT_NE(decoded.error().message().find("schema_version 7"), std::string::npos)
      << decoded.error().message();
}

TEST(EmulationData, ReadsBackUnchanged) {
  const EmulationData data = sample(tests::every_operation_program());
  const auto decoded = decode_emulation_data(encode_emulation_data(data));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message();
  EXPECT_EQ(decoded->record, data.record);
  EXPECT_EQ(decoded->programs, data.programs);
}

TEST(EmulationData, InconsistentDataAreRefusedWithTheInconsistentField) {
  const EmulationData good = sample(tests::chain_program(2));
  ASSERT_EQ(message_of(good), "");
  const auto with = [&](auto change) {
    EmulationData data = good;
    change(data);
    return message_of(sealed(data));
  };
  const auto record_of = [](EmulationData& data) -> ImagePartition& { return data.record.partitions[0]; };
  EXPECT_NE(with([&](auto& d) { record_of(d).program_digest = sha256_hex("other"); }).find("program_digest"),
            std::string::npos);
  EXPECT_NE(with([&](auto& d) { record_of(d).ports.erase(record_of(d).ports.begin()); }).find("input"),
            std::string::npos);
  EXPECT_NE(with([&](auto& d) { record_of(d).ports.resize(1); }).find("output"), std::string::npos);
  EXPECT_NE(with([&](auto& d) { record_of(d).ports[0].elements += 1; }).find("in0"), std::string::npos);
  EXPECT_NE(with([&](auto& d) { record_of(d).ports[1].type.bits = 9; }).find("bits"), std::string::npos);
  EXPECT_NE(with([&](auto& d) { record_of(d).ports[2].link_index = 32; }).find("link_index"),
            std::string::npos);
  EXPECT_NE(with([&](auto& d) { record_of(d).ports[1].compute_unit = "x"; }).find("compute_unit"),
            std::string::npos);
  EXPECT_NE(with([&](auto& d) { record_of(d).ports[2].name = "in0"; }).find("more ports"), std::string::npos);
  EXPECT_NE(with([&](auto& d) { d.record.partitions.clear(); }).find("partitions"), std::string::npos);
  EXPECT_NE(with([&](auto& d) { d.programs.clear(); }).find("programs"), std::string::npos);
  EXPECT_NE(with([&](auto& d) { d.record.abi_version = 9; }).find("abi_version 9"), std::string::npos);
  EXPECT_NE(with([&](auto& d) { d.record.clock_mhz = -1; }).find("clock_mhz"), std::string::npos);
  EmulationData renamed = good;
  renamed.record.device = "other";
  EXPECT_NE(message_of(renamed).find("content_digest"), std::string::npos);
}

TEST(EmulationData, PredictedTimesReadBackUnchangedAndAreAbsentIfNothingWasPredicted) {
  const EmulationData data = sample(tests::every_operation_program());
  const std::vector<Pace> paces = {{8500, 12'345}};
  const auto bytes = encode_emulation_data(data, paces);
  const auto decoded = decode_emulation_data(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message();
  EXPECT_EQ(decoded->record, data.record);
  EXPECT_EQ(decoded->programs, data.programs);
  EXPECT_EQ(decode_paces(bytes).value(), paces);
  EXPECT_EQ(decode_paces(encode_emulation_data(data)).value(), std::vector<Pace>(1));
}

TEST(EmulationData, PredictedTimesAreRefusedIfTheirNumberDiffersFromThatOfThePartitions) {
  const EmulationData data = sample(tests::every_operation_program());
  const auto decoded = decode_paces(encode_emulation_data(data, {{1, 2}, {3, 4}}));
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.error().code(), ErrorCode::kCorrupt);
  EXPECT_NE(decoded.error().message().find("2 paces for 1 partitions"), std::string::npos);
}

TEST(EmulationData, MutatedDataNeverParseToAnInvalidProgram) {
  const auto valid = encode_emulation_data(sample(tests::every_operation_program()));
  const unsigned seed = tests::chosen_seed();
  std::mt19937 random(seed);
  for (int round = 0; round < 3000; ++round) {
    auto bytes = valid;
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < changes; ++i) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    const auto decoded = decode_emulation_data(bytes);
    if (!decoded.ok()) continue;
    ASSERT_EQ(decoded->programs.size(), decoded->record.partitions.size()) << "MILLRACE_SEED=" << seed;
  }
  // Mutate the encoded program alone, without digests, so that mutants reach the checks of the decoder.
  const auto program = encode_program(tests::every_operation_program());
  for (int round = 0; round < 3000; ++round) {
    auto bytes = program;
    bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    const auto decoded = decode_program(bytes);
    if (!decoded.ok()) continue;
    ASSERT_EQ(kernels::validate(*decoded), "") << "MILLRACE_SEED=" << seed;
  }
}

TEST(ImageRecord, ReadsBackFromJsonUnchanged) {
  const ImageRecord record = sample(tests::chain_program(2)).record;
  const auto parsed = parse_image_record(to_json(record));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  EXPECT_EQ(*parsed, record);
}

TEST(ImageRecord, WithAnUnknownFieldIsRefusedByFieldName) {
  std::string json = to_json(sample(tests::chain_program(1)).record);
  json.insert(1, "\"peers\": [],");
  const auto parsed = parse_image_record(json);
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.error().message().find("peers"), std::string::npos) << parsed.error().message();
}

TEST(ImageRecord, ContentDigestCoversEveryFieldExceptTheName) {
  ImageRecord record = sample(tests::chain_program(1)).record;
  const auto digest = compute_content_digest(record);
  record.name = "another";
  EXPECT_EQ(compute_content_digest(record), digest);
  record.partitions[0].ports[0].memory_bank = 1;
  EXPECT_NE(compute_content_digest(record), digest);
}

TEST(Uuid, IsAVersion8UuidOfTheDigestsFirstBytes) {
  EXPECT_EQ(uuid_from_digest("00112233445566778899aabbccddeeff" + std::string(32, '0')),
            "00112233-4455-8677-8899-aabbccddeeff");
  EXPECT_EQ(uuid_from_digest(std::string(64, 'f')), "ffffffff-ffff-8fff-bfff-ffffffffffff");
}

/// Returns an xclbin file made by hand: a header, a table with one section, and the section's bytes.
std::vector<std::byte> container() {
  std::vector<std::byte> bytes(512 + 16);
  std::memcpy(bytes.data(), "xclbin2", 8);
  const auto put = [&](std::size_t offset, auto value) {
    std::memcpy(bytes.data() + offset, &value, sizeof value);
  };
  put(8, std::int32_t{-1});
  std::fill_n(bytes.begin() + 40, 256, std::byte{0xff});
  put(304, static_cast<std::uint64_t>(bytes.size()));
  std::memcpy(bytes.data() + 352, "plat", 5);
  put(416, std::uint64_t{0x1122334455667788});
  put(448, std::uint32_t{1});
  put(456, std::uint32_t{21});
  std::memcpy(bytes.data() + 460, "emulation", 9);
  put(480, std::uint64_t{512});
  put(488, std::uint64_t{16});
  std::memcpy(bytes.data() + 512, "sixteen bytes...", 16);
  return bytes;
}

TEST(Xclbin, ParsesSectionsAndUuid) {
  const auto bytes = container();
  const auto view = parse_xclbin(bytes);
  ASSERT_TRUE(view.ok()) << view.error().message();
  EXPECT_EQ(view->uuid, "88776655-4433-2211-0000-000000000000");
  EXPECT_EQ(view->platform, "plat");
  ASSERT_NE(view->find(21), nullptr);
  EXPECT_EQ(view->find(21)->name, "emulation");
  EXPECT_EQ(view->find(21)->bytes.size(), 16U);
  EXPECT_EQ(view->find(16), nullptr);
}

TEST(Xclbin, TruncatedAnywhereIsRefused) {
  auto bytes = container();
  seal_xclbin(bytes);
  ASSERT_TRUE(parse_xclbin(bytes).ok());
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(parse_xclbin(std::span(bytes).first(length)).ok()) << length;
  EXPECT_NE(parse_xclbin(std::span(bytes).first(520)).error().message().find("truncated"), std::string::npos);
}

TEST(Xclbin, WithAnyBitFlippedIsRefused) {
  auto bytes = container();
  seal_xclbin(bytes);
  for (std::size_t i = 0; i < bytes.size() * 8; ++i) {
    bytes[i / 8] ^= static_cast<std::byte>(1U << (i % 8));
    EXPECT_FALSE(parse_xclbin(bytes).ok()) << "bit " << i;
    bytes[i / 8] ^= static_cast<std::byte>(1U << (i % 8));
  }
}

TEST(Xclbin, WithSectionsBeyondTheEndOfFileIsRefused) {
  const auto with = [](std::size_t offset, auto value) {
    auto bytes = container();
    std::memcpy(bytes.data() + offset, &value, sizeof value);
    const auto view = parse_xclbin(bytes);
    return view.ok() ? std::string() : view.error().message();
  };
  EXPECT_NE(with(480, std::uint64_t{520}).find("section 0"), std::string::npos);
  EXPECT_NE(with(480, ~std::uint64_t{0}).find("section 0"), std::string::npos);
  EXPECT_NE(with(480, std::uint64_t{100}).find("section 0"), std::string::npos);
  EXPECT_NE(with(488, ~std::uint64_t{0}).find("section 0"), std::string::npos);
  EXPECT_NE(with(448, ~std::uint32_t{0}).find("section table"), std::string::npos);
  EXPECT_NE(with(448, std::uint32_t{50}).find("section table"), std::string::npos);
  EXPECT_NE(with(304, ~std::uint64_t{0}).find("truncated"), std::string::npos);
  EXPECT_NE(with(8, std::int32_t{100}).find("truncated"), std::string::npos);
}

TEST(Xclbin, MutatedHeaderNeverYieldsSectionsBeyondTheEndOfFile) {
  const unsigned seed = tests::chosen_seed();
  std::mt19937 random(seed);
  for (int round = 0; round < 20000; ++round) {
    auto bytes = container();
    for (int i = 0; i < 3; ++i) bytes[296 + random() % 216] = static_cast<std::byte>(random());
    const auto view = parse_xclbin(bytes);
    if (!view.ok()) continue;
    for (const auto& section : view->sections)
      ASSERT_LE(section.bytes.data() + section.bytes.size(), bytes.data() + bytes.size())
          << "MILLRACE_SEED=" << seed;
  }
}

/// A memory bank of a MEM_TOPOLOGY section.
struct Bank {
  std::uint8_t type = 1, used = 1;
  std::uint64_t kibibytes = 0;
};

std::vector<std::byte> topology(const std::vector<Bank>& banks) {
  std::vector<std::byte> bytes(8 + 40 * banks.size());
  const auto count = static_cast<std::int32_t>(banks.size());
  std::memcpy(bytes.data(), &count, sizeof count);
  for (std::size_t i = 0; i < banks.size(); ++i) {
    bytes[8 + 40 * i] = std::byte{banks[i].type};
    bytes[9 + 40 * i] = std::byte{banks[i].used};
    std::memcpy(bytes.data() + 16 + 40 * i, &banks[i].kibibytes, sizeof(std::uint64_t));
  }
  return bytes;
}

Result<std::uint64_t> memory_of(std::span<const std::byte> section) {
  XclbinView view;
  view.sections.push_back({kSectionMemoryTopology, "mem_topology", section});
  return memory_bytes(view);
}

TEST(Xclbin, MemoryIsTheSumOfTheUsedBanks) {
  constexpr std::uint8_t kDdr4 = 1, kStreaming = 3, kHbm = 6, kProcessor = 11;
  EXPECT_EQ(memory_of(topology({{kDdr4, 1, 1U << 24U}, {kDdr4, 0, 1U << 24U}, {kHbm, 1, 1U << 18U}})).value(),
            (std::uint64_t{16} << 30U) + (std::uint64_t{256} << 20U));
  EXPECT_EQ(
      memory_of(topology({{kStreaming, 1, ~std::uint64_t{0}}, {kProcessor, 1, 77}, {kDdr4, 1, 3}})).value(),
      3072U);
  EXPECT_EQ(memory_of({}).value(), 0U);
  EXPECT_EQ(memory_bytes(XclbinView{}).value(), 0U);
}

TEST(Xclbin, WithTruncatedOrHugeMemoryBanksIsRefused) {
  const auto two = topology({{1, 1, 8}, {1, 1, 8}});
  for (std::size_t length = 4; length < two.size(); ++length)
    EXPECT_EQ(memory_of(std::span(two).first(length)).error().code(), ErrorCode::kCorrupt) << length;
  for (const std::uint64_t size : {~std::uint64_t{0}, std::uint64_t{1} << 54U})
    EXPECT_EQ(memory_of(topology({{1, 1, 8}, {1, 1, size}})).error().code(), ErrorCode::kCorrupt) << size;
}

}  // namespace
}  // namespace millrace::runtime::plan::test_image
