// Tests parameters that are loaded at run time instead of being part of the FPGA image, on one emulated card
// through the real XRT library.
#include <gtest/gtest.h>

#include "emulated_host.hpp"
#include "kernels/program/parameters.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/emulator/backend.hpp"
#include "runtime/plan/parameters.hpp"
#include "tests/support/file_environment.hpp"

namespace millrace::tests::test_emulated_parameters {
namespace {

namespace plan = runtime::plan;
namespace abi = runtime::plan::abi;
using std::chrono::milliseconds;
using Kind = plan::PortKind;

constexpr std::size_t kElements = 64;

class Backend : public testing::Environment {
  void SetUp() override {
    const auto status = runtime::emulator::select_backend(test_cluster());
    ASSERT_TRUE(status.ok()) << status.error().message();
  }
};
const auto* const kBackend = add_file_environment<Backend>(__FILE__);

/// Returns a program that looks values up in a loaded table. `seed` determines the table's values but not the
/// program's topology.
kernels::Program program(std::uint32_t seed) {
  auto made = lookup_program(kElements, seed);
  made.name = "lookup";
  made.blocks[0].placement = kernels::Placement::kLoaded;
  return made;
}

plan::EmulationData data() {
  auto made =
      image_data(kernels::topology_of(program(1)), {{"in0", Kind::kIngress}, {"out0", Kind::kEgress}});
  made.record.partitions[0].parameters_unit = "millrace_parameters:{p}";
  made.record.content_digest = plan::compute_content_digest(made.record);
  return made;
}

Frame expected(std::uint32_t seed, const Frame& frame) {
  return kernels::reference::run(program(seed), {frame}).front();
}

class ParameterLoader {
 public:
  ParameterLoader(unsigned card, const xrt::uuid& image)
      : card_(card), kernel_(device(card), image, "millrace_parameters:{p}") {}
  ert_cmd_state load(const Bytes& file) { return load(file, file.size()); }
  ert_cmd_state load(const Bytes& file, std::size_t bytes) {
    xrt::bo buffer(device(card_), (std::max<std::size_t>(file.size(), 1) + 4095) / 4096 * 4096,
                   static_cast<xrt::memory_group>(kernel_.group_id(abi::kParametersBuffer)));
    buffer.write(file.data(), file.size(), 0);
    buffer.sync(XCL_BO_SYNC_BO_TO_DEVICE);
    xrt::run run(kernel_);
    run.set_arg(abi::kParametersBuffer, buffer);
    run.set_arg(abi::kParametersBytes, static_cast<std::uint32_t>(bytes));
    for (const int rest :
         {abi::kParametersLoadOffset, abi::kParametersLoadBytes, abi::kParametersStreamedOffset})
      run.set_arg(rest, 0U);
    run.start();
    return run.wait(milliseconds(10'000));
  }

 private:
  unsigned card_;
  xrt::kernel kernel_;
};

struct Opened {
  explicit Opened(const xrt::uuid& image)
      : ingress(0, image, "p_in0", kElements),
        egress(0, image, "p_out0", kElements),
        control(0, image),
        loader(0, image) {
    control.epoch(1);
  }
  IngressUnit ingress;
  EgressUnit egress;
  Control control;
  ParameterLoader loader;
};

TEST(EmulatedParameters, FramesWaitForTheFirstParametersAndUseTheNewestParameters) {
  Opened card(load(0, container(data())));
  const Frame frame = random_frame(kElements, 3);
  card.ingress.start(frame, 1, 0);
  card.egress.start(1, 0);
  EXPECT_EQ(card.egress.wait(milliseconds(50)), ERT_CMD_STATE_TIMEOUT) << "it has no parameters yet";
  // Loading parameters discards the frames that are in the partition. Then the host raises the epoch (the number that
  // discards older frames), which ends the waiting egress run.
  ASSERT_EQ(card.loader.load(plan::encode_parameters(program(1))), ERT_CMD_STATE_COMPLETED);
  card.control.epoch(2);
  ASSERT_EQ(card.egress.wait(), ERT_CMD_STATE_COMPLETED);
  EXPECT_EQ(card.egress.trailer().status, abi::FrameStatus::kDropped);
  ASSERT_EQ(card.ingress.wait(), ERT_CMD_STATE_COMPLETED);
  std::uint32_t epoch = 2;
  for (const std::uint32_t seed : {1U, 2U, 7U, 1U}) {
    ASSERT_EQ(card.loader.load(plan::encode_parameters(program(seed))), ERT_CMD_STATE_COMPLETED);
    card.control.epoch(++epoch);
    for (std::uint32_t n = 0; n < 5; ++n) {
      const Frame in = random_frame(kElements, n);
      card.egress.start(epoch, n);
      card.ingress.start(in, epoch, n);
      ASSERT_EQ(card.egress.wait(), ERT_CMD_STATE_COMPLETED);
      EXPECT_EQ(card.egress.frame(), expected(seed, in)) << "seed " << seed << ", frame " << n;
      EXPECT_EQ(card.ingress.wait(), ERT_CMD_STATE_COMPLETED);
    }
  }
}

TEST(EmulatedParameters, RejectsParametersOfAnotherImageAndKeepsTheOldParameters) {
  Opened card(load(0, container(data())));
  const Bytes good = plan::encode_parameters(program(4));
  ASSERT_EQ(card.loader.load(good), ERT_CMD_STATE_COMPLETED);
  auto strange = program(5);
  strange.tensors[0].name = "other";
  Bytes damaged = good;
  damaged[plan::kParameterAlignment + 10] ^= std::byte{0x40};
  EXPECT_EQ(card.loader.load(plan::encode_parameters(strange)), ERT_CMD_STATE_ERROR);
  EXPECT_EQ(card.loader.load(damaged), ERT_CMD_STATE_ERROR);
  EXPECT_EQ(card.loader.load(Bytes(10)), ERT_CMD_STATE_ERROR);
  EXPECT_EQ(card.loader.load(good, good.size() - 64), ERT_CMD_STATE_ERROR);
  EXPECT_EQ(card.loader.load(good, 0), ERT_CMD_STATE_ERROR);
  EXPECT_EQ(card.loader.load(good, 0xffffffff), ERT_CMD_STATE_ERROR) << "beyond the bank";
  card.control.epoch(2);
  const Frame in = random_frame(kElements, 1);
  card.egress.start(2, 0);
  card.ingress.start(in, 2, 0);
  ASSERT_EQ(card.egress.wait(), ERT_CMD_STATE_COMPLETED);
  EXPECT_EQ(card.egress.frame(), expected(4, in));
}

TEST(EmulatedParameters, RefusesAnImageWhoseRecordContradictsItsProgram) {
  const auto refusal = [](const plan::EmulationData& made) -> std::string {
    try {
      load(0, container(made));
      return "";
    } catch (const std::exception& error) {
      return error.what();
    }
  };
  auto without_unit = data();
  without_unit.record.partitions[0].parameters_unit.clear();
  without_unit.record.content_digest = plan::compute_content_digest(without_unit.record);
  EXPECT_NE(refusal(without_unit).find("no parameters_unit"), std::string::npos) << refusal(without_unit);
  auto baked = image_data(lookup_program(kElements, 1), {{"in0", Kind::kIngress}, {"out0", Kind::kEgress}});
  baked.record.partitions[0].parameters_unit = "millrace_parameters:{p}";
  baked.record.content_digest = plan::compute_content_digest(baked.record);
  EXPECT_NE(refusal(baked).find("takes no parameters"), std::string::npos) << refusal(baked);
  EXPECT_EQ(refusal(data()), "");
}

}  // namespace
}  // namespace millrace::tests::test_emulated_parameters
