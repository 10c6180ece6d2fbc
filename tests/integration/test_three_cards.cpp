// Tests one model on three cards. The partitioner cuts the model, XRT loads the FPGA images, and every output
// must equal the reference's.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <random>
#include <set>
#include <thread>

#include "kernels/reference/reference.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/log.hpp"
#include "runtime/emulator/backend.hpp"
#include "runtime/pipeline/dispatcher.hpp"
#include "tests/integration/card_process.hpp"
#include "tests/integration/pipeline_status.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/support/file_environment.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/wait.hpp"

namespace millrace::tests::test_three_cards {
namespace {

using namespace runtime;
using namespace std::chrono_literals;
using pipeline::Pipeline;

constexpr std::uint32_t kLayers = 6;

class Backend : public testing::Environment {
  void SetUp() override {
    log::configure(log::Level::kOff, false);
    ASSERT_TRUE(emulator::select_backend(emulated_ring(3)).ok());
  }
};
const auto* const kBackend = add_file_environment<Backend>(__FILE__);

std::vector<std::byte> random_floats(std::uint64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> value(-40.0F, 40.0F);
  std::vector<std::byte> bytes(count * sizeof(float));
  for (std::uint64_t i = 0; i < count; ++i) {
    const float x = value(random);
    std::memcpy(bytes.data() + i * sizeof x, &x, sizeof x);
  }
  return bytes;
}

Result<std::vector<std::byte>> infer(Pipeline& pipeline, const std::vector<std::byte>& input) {
  std::vector<std::byte> output(pipeline.deployment().model.outputs[0].bytes());
  pipeline::Frame frame;
  frame.inputs.emplace_back(input);
  frame.outputs.emplace_back(output);
  MILLRACE_TRY(pipeline.infer(frame));
  return output;
}

class ThreeCards : public testing::TestWithParam<bool> {
 protected:
  ThreeCards() : program_(GetParam() ? skip_program(kLayers) : chain_program(kLayers)) {
    deployment_ = deploy(program_, cluster_, 3, directory_.path() / "deployment");
  }
  std::vector<std::byte> input(std::uint32_t seed) const { return random_floats(8 * 8 * 2, seed); }
  std::vector<std::byte> expected(const std::vector<std::byte>& in) const {
    return kernels::reference::run(program_, {in}).front();
  }

  TemporaryDirectory directory_{"millrace-three-cards"};
  const plan::Cluster cluster_ = emulated_ring(3);
  const kernels::Program program_;
  std::shared_ptr<const plan::LoadedDeployment> deployment_;
};

TEST_P(ThreeCards, EachImageContainsOnlyItsOwnLayers) {
  ASSERT_EQ(deployment_->images.size(), 3U);
  std::set<std::string> convolutions;
  for (const auto& [name, bytes] : deployment_->images) {
    const auto view = plan::parse_xclbin(bytes);
    ASSERT_TRUE(view.ok());
    const auto data = plan::decode_emulation_data(view->find(plan::kSectionEmulationData)->bytes);
    ASSERT_TRUE(data.ok()) << data.error().message();
    ASSERT_EQ(data->programs.size(), 1U);
    std::size_t own = 0;
    for (const kernels::Block& block : data->programs[0].blocks) {
      if (!std::holds_alternative<kernels::Convolution>(block.operation)) continue;
      ++own;
      EXPECT_TRUE(convolutions.insert(block.name).second) << block.name << " is in two images";
    }
    EXPECT_GT(own, 0U) << name;
    EXPECT_LT(own, kLayers) << name;
  }
  EXPECT_EQ(convolutions.size(), kLayers);
}

TEST_P(ThreeCards, OutputsEqualTheReferenceAndEveryChannelTransfersBytes) {
  const auto opened = pipeline::Dispatcher::open(deployment_, cluster_, {});
  ASSERT_TRUE(opened.ok()) << opened.error().message();
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const auto in = input(seed);
    const auto out = infer(**opened, in);
    ASSERT_TRUE(out.ok()) << out.error().message();
    ASSERT_EQ(*out, expected(in)) << "seed " << seed;
  }
  const auto status = status_when(
      **opened, [](const auto& card) { return card.frames == 40; },
      [](const auto& link) { return link.bytes > 0 && link.bytes % 40 == 0; });
  ASSERT_GE(status.links.size(), 2U);
  for (const auto& link : status.links) {
    EXPECT_GT(link.bytes, 0U) << link.channel;
    EXPECT_EQ(link.bytes % 40, 0U) << link.channel;
  }
  for (const auto& card : status.cards) EXPECT_EQ(card.frames, 40U) << card.card;
}

TEST_P(ThreeCards, EachOfManyThreadsReceivesItsOwnOutputs) {
  const auto opened = pipeline::Dispatcher::open(deployment_, cluster_, {});
  ASSERT_TRUE(opened.ok());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint32_t i = 0; i < 60; ++i) {
        const auto in = input(t * 1000 + i);
        const auto out = infer(**opened, in);
        if (!out.ok() || *out != expected(in)) wrong.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(ThreeCards, NoFrameSucceedsWhileOneCardIsDown) {
  pipeline::PipelineOptions options;
  options.restart_backoff_initial = 1s;  // long enough for the test to send a frame while the card is down
  const auto opened = pipeline::Dispatcher::open(deployment_, cluster_, options);
  ASSERT_TRUE(opened.ok());
  const auto in = input(7);
  ASSERT_TRUE(infer(**opened, in).ok());
  ASSERT_TRUE(signal_card("fpga2", SIGKILL));
  int refused = 0;
  ASSERT_TRUE(wait_until([&] {
    const auto out = infer(**opened, in);
    if (out.ok()) {
      EXPECT_EQ(*out, expected(in));
      return true;
    }
    EXPECT_EQ(out.error().code(), ErrorCode::kUnavailable) << out.error().message();
    ++refused;
    return false;
  }));
  EXPECT_GT(refused, 0);
  EXPECT_EQ((*opened)->status().cards[2].restarts, 1U);
}

TEST_P(ThreeCards, OneAndTwoCardsGiveTheSameBytes) {
  const auto in = input(3);
  for (const std::uint32_t cards : {1U, 2U}) {
    const auto fewer =
        deploy(program_, cluster_, cards, directory_.path() / ("deployment" + std::to_string(cards)));
    const auto opened = pipeline::Dispatcher::open(fewer, cluster_, {});
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    EXPECT_EQ((*opened)->status().cards.size(), cards);
    const auto out = infer(**opened, in);
    ASSERT_TRUE(out.ok()) << out.error().message();
    EXPECT_EQ(*out, expected(in));
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, ThreeCards, testing::Bool(),
                         [](const auto& test) { return test.param ? "Skip" : "Chain"; });

}  // namespace
}  // namespace millrace::tests::test_three_cards
