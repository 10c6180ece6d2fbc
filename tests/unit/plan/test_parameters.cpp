// Tests parameters that are not part of an FPGA image: their topology, their file format, and damaged files.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "kernels/program/parameters.hpp"
#include "runtime/plan/image.hpp"
#include "runtime/plan/parameters.hpp"
#include "tests/support/programs.hpp"

namespace millrace::runtime::plan::test_parameters {
namespace {

using kernels::Placement;
using kernels::Program;
using Bytes = std::vector<std::byte>;

Program placed(Program program, Placement placement = Placement::kLoaded) {
  for (auto& block : program.blocks)
    if (kernels::has_parameters(block.operation)) block.placement = placement;
  return program;
}

std::string topology_digest(const Program& program) {
  return program_digest(kernels::topology_of(program));
}

std::string message_of(const Bytes& bytes, const std::string& topology) {
  const auto decoded = decode_parameters(bytes, topology);
  return decoded.ok() ? "" : decoded.error().message();
}

TEST(Topology, TopologyDigestCoversEverythingExceptWeightsAndScales) {
  const Program program = placed(tests::every_operation_program());
  ASSERT_EQ(kernels::validate(program), "");
  const Program topology = kernels::topology_of(program);
  EXPECT_EQ(kernels::validate(topology), "");
  EXPECT_EQ(kernels::topology_of(topology), topology);

  Program trained = program;
  for (auto& tensor : trained.tensors)
    for (auto& scale : tensor.scale) scale *= 2;
  for (auto& block : trained.blocks)
    if (auto* layer = std::get_if<kernels::Convolution>(&block.operation)) {
      for (auto& weight : layer->weights.edit()) weight = static_cast<std::int16_t>(-weight);
      for (auto& bias : layer->bias) ++bias;
    }
  EXPECT_NE(encode_program(trained), encode_program(program));
  EXPECT_EQ(topology_digest(trained), topology_digest(program));

  Program baked = program;
  for (auto& block : baked.blocks) block.placement = Placement::kBaked;
  EXPECT_EQ(kernels::topology_of(baked), baked);
  EXPECT_NE(topology_digest(baked), topology_digest(program));
  EXPECT_NE(topology_digest(placed(baked, Placement::kStreamed)), topology_digest(program));
  Program strided = program;
  for (auto& block : strided.blocks)
    if (auto* layer = std::get_if<kernels::Convolution>(&block.operation)) ++layer->window.pad_value;
  EXPECT_NE(topology_digest(strided), topology_digest(program));
}

TEST(Topology, RefusesAWeightLocationForABlockWithoutParameters) {
  Program program = tests::every_operation_program();
  for (auto& block : program.blocks)
    if (std::holds_alternative<kernels::MaxPool>(block.operation)) block.placement = Placement::kLoaded;
  EXPECT_NE(kernels::validate(program).find("placement is loaded"), std::string::npos)
      << kernels::validate(program);
}

TEST(Topology, AcceptsBipolarWeightsAndThresholds) {
  Program program;
  program.name = "bipolar";
  program.tensors = {{"in", {kernels::ElementType::Kind::kBipolar, 1}, {1, 1, 4}, {}, 0},
                     {"out", {kernels::ElementType::Kind::kBipolar, 1}, {1, 1, 2}, {}, 0}};
  program.inputs = {0};
  program.outputs = {1};
  kernels::Convolution layer;
  layer.out_channels = 2;
  layer.weight_type = {kernels::ElementType::Kind::kBipolar, 1};
  layer.weights = {1, -1, 1, 1, -1, -1, 1, 1};
  layer.accumulator = {kernels::ElementType::Kind::kSigned, 4};
  layer.requantise = kernels::Requantise{};
  layer.requantise->form = kernels::Requantise::Form::kThresholds;
  layer.requantise->thresholds = {1, 1};
  layer.requantise->lowest = -1;
  layer.requantise->highest = 1;
  program.blocks = {{"fc", {}, {0}, {1}, layer, Placement::kLoaded}};
  ASSERT_EQ(kernels::validate(program), "");
  EXPECT_EQ(kernels::validate(kernels::topology_of(program)), "");
}

TEST(Parameters, ReadBackUnchanged) {
  const Program program = placed(tests::every_operation_program(), Placement::kStreamed);
  const Bytes load(130, std::byte{7}), streamed(5000, std::byte{9});
  const Bytes bytes = encode_parameters(program, load, streamed);
  EXPECT_EQ(bytes, encode_parameters(program, load, streamed));
  EXPECT_EQ(bytes.size() % 64, 0U);
  const auto header = read_parameter_header(bytes);
  ASSERT_TRUE(header.ok()) << header.error().message();
  EXPECT_EQ(header->topology, topology_digest(program));
  for (const auto& section : {header->program, header->load, header->streamed})
    EXPECT_EQ(section.offset % kParameterAlignment, 0U);
  EXPECT_EQ(header->load.bytes, load.size());
  EXPECT_EQ(bytes[header->streamed.offset + 4999], std::byte{9});
  const auto decoded = decode_parameters(bytes, topology_digest(program));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message();
  EXPECT_EQ(*decoded, program);
}

TEST(Parameters, OfAnotherTopologyAreRefused) {
  const Bytes bytes = encode_parameters(placed(tests::chain_program(2)));
  EXPECT_NE(message_of(bytes, topology_digest(placed(tests::chain_program(3)))).find("are for topology"),
            std::string::npos);
  // The topology of the encoded program decides, even if the header names another topology.
  const Program other = placed(tests::chain_program(3));
  Bytes forged = bytes;
  std::memcpy(forged.data() + 16, topology_digest(other).data(), 64);
  EXPECT_NE(message_of(forged, topology_digest(other)).find("does not have the topology"), std::string::npos);
}

TEST(Parameters, OfAProgramWithConstantWeightsAreRefused) {
  const Program baked = tests::chain_program(2);
  EXPECT_NE(message_of(encode_parameters(baked), program_digest(baked)), "");
}

TEST(Parameters, TruncatedAnywhereAreRefused) {
  const Program program = placed(tests::chain_program(2));
  const std::string topology = topology_digest(program);
  const Bytes whole = encode_parameters(program, Bytes(200), Bytes(100));
  ASSERT_EQ(message_of(whole, topology), "");
  for (std::size_t size = 0; size < whole.size(); size += 61)
    EXPECT_NE(message_of({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}, topology), "")
        << size;
  Bytes longer = whole;
  longer.resize(whole.size() + 64);
  EXPECT_NE(message_of(longer, topology).find("bytes long"), std::string::npos);
}

TEST(Parameters, OfANewerSchemaAreRefusedWithTheSchemaNumber) {
  Bytes bytes = encode_parameters(placed(tests::chain_program(1)));
  bytes[8] = std::byte{7};
  const auto header = read_parameter_header(bytes);
  ASSERT_FALSE(header.ok());
  EXPECT_EQ(header.error().code(), ErrorCode::kUnsupported);
  EXPECT_NE(header.error().message().find("schema 7"), std::string::npos);
}

TEST(Parameters, MutatedFilesNeverParseToAnInvalidProgram) {
  const Program program = placed(tests::every_operation_program());
  const std::string topology = topology_digest(program);
  const Bytes whole = encode_parameters(program, Bytes(64));
  constexpr unsigned kSeed = 20261120;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 300; ++round) {
    Bytes bytes = whole;
    // Half of the mutations change the header, because its few bytes have the most effects.
    const std::size_t room = round % 2 == 0 ? 128 : bytes.size();
    for (int i = 0; i < 3; ++i) bytes[random() % room] = static_cast<std::byte>(random());
    const auto decoded = decode_parameters(bytes, topology);
    if (decoded.ok()) {
      EXPECT_EQ(kernels::validate(*decoded), "") << "seed " << kSeed << ", round " << round;
    }
  }
}

}  // namespace
}  // namespace millrace::runtime::plan::test_parameters
