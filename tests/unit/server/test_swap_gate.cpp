// Tests what happens to frames while another version of their model starts.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "fake_pipeline.hpp"
#include "server/metrics/metrics.hpp"
#include "server/models/model.hpp"
#include "tests/support/wait.hpp"

namespace millrace::server::models::test_swap_gate {
namespace {

using runtime::pipeline::Clock;
using runtime::pipeline::Frame;
using test::FakePipeline;
using namespace std::chrono_literals;
constexpr auto kHttp = metrics::Transport::kHttp;

/// A request with one frame for small_model(). It counts how often the frame is completed.
class Request {
 public:
  explicit Request(std::shared_ptr<Model> model, bool any_version = true)
      : passage{std::move(model), any_version} {
    frame.inputs.emplace_back(in_);
    frame.outputs.emplace_back(out_);
    frame.context = this;
    frame.on_complete = [](Frame&, void* context) {
      auto* self = static_cast<Request*>(context);
      self->completions.fetch_add(1);
      self->completions.notify_all();
    };
  }
  /// Submits the frame with the same calls as the class Inference.
  Status submit() {
    const auto model = passage.model;
    model->begun();
    return model->submit(frame, passage);
  }
  bool done() const { return completions.load() != 0; }
  Status wait() {
    completions.wait(0);
    return frame.status;
  }

  Frame frame;
  Passage passage;
  std::atomic<int> completions{0};

 private:
  std::array<std::byte, 16> in_{}, out_{};
};

/// Hands waiting frames over to the version `to`, with the same call as the class Swapper.
void hand_over(const std::shared_ptr<Model>& from, const std::shared_ptr<Model>& to) {
  from->pipeline().hand_over(std::make_shared<SwapGate>(*from, to));
}

struct SwapGateTest : testing::Test {
  struct Version {
    std::shared_ptr<FakePipeline> pipeline;
    std::shared_ptr<Model> model;
  };
  Version make(const std::string& version, runtime::plan::ModelInfo info = test::small_model(),
               std::uint32_t waiting = 4) {
    auto pipeline = std::make_shared<FakePipeline>(std::move(info));
    return {pipeline, std::make_shared<Model>("m", version, pipeline, metrics->model("m", version), waiting)};
  }
  std::unique_ptr<metrics::Metrics> metrics = metrics::Metrics::create("1");
  std::string in_flight(const std::string& version) {
    const std::string page = metrics->serialise();
    const std::string key = "millrace_requests_in_flight{model=\"m\",version=\"" + version + "\"} ";
    const auto at = page.find(key);
    return at == std::string::npos ? "" : page.substr(at + key.size(), page.find('\n', at) - at - key.size());
  }
};

TEST_F(SwapGateTest, FramesForTheServingVersionDoNotWait) {
  const auto one = make("1");
  Request request(one.model);
  ASSERT_TRUE(request.submit().ok());
  EXPECT_TRUE(request.wait().ok());
  EXPECT_EQ(request.passage.model, one.model);
}

TEST_F(SwapGateTest, HandsHeldFramesToTheNextVersionInOrder) {
  const auto one = make("1"), two = make("2");
  std::vector<const Frame*> order;
  two.pipeline->compute = [&](Frame& frame) { order.push_back(&frame); };
  one.model->pipeline().hold();
  EXPECT_TRUE(one.model->pipeline().ready()) << "requests are taken";
  std::vector<std::unique_ptr<Request>> requests;
  for (int i = 0; i < 4; ++i) {
    requests.push_back(std::make_unique<Request>(one.model));
    ASSERT_TRUE(requests.back()->submit().ok());
    EXPECT_FALSE(requests.back()->done());
  }
  EXPECT_EQ(one.model->pipeline().status().queued, 4U);
  hand_over(one.model, two.model);
  for (const auto& request : requests) {
    EXPECT_TRUE(request->wait().ok());
    EXPECT_EQ(request->passage.model, two.model);
    request->passage.model->succeeded(kHttp, {});
  }
  ASSERT_EQ(order.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(order[i], &requests[i]->frame);
  Request late(one.model);  // this request got the old version before the new one was published
  ASSERT_TRUE(late.submit().ok());
  EXPECT_TRUE(late.wait().ok());
  EXPECT_EQ(late.passage.model, two.model);
  late.passage.model->succeeded(kHttp, {});
  EXPECT_EQ(in_flight("1"), "0");
  EXPECT_EQ(in_flight("2"), "0");
}

TEST_F(SwapGateTest, UrgentFrameReplacesALessUrgentHeldFrame) {
  const auto one = make("1"), two = make("2");
  std::vector<const Frame*> order;
  two.pipeline->compute = [&](Frame& frame) { order.push_back(&frame); };
  one.model->pipeline().hold();
  std::vector<std::unique_ptr<Request>> idle;
  for (int i = 0; i < 4; ++i) {
    idle.push_back(std::make_unique<Request>(one.model));
    idle.back()->frame.priority = runtime::pipeline::kLastPriority;
    ASSERT_TRUE(idle.back()->submit().ok());
  }
  Request urgent(one.model), late(one.model);
  urgent.frame.priority = runtime::pipeline::kFirstPriority;
  ASSERT_TRUE(urgent.submit().ok());
  ASSERT_TRUE(idle[3]->done()) << "the newest of the least urgent makes way";
  EXPECT_EQ(idle[3]->wait().error().code(), ErrorCode::kResourceExhausted);
  late.frame.priority = runtime::pipeline::kLastPriority;
  EXPECT_EQ(late.submit().error().code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(one.model->pipeline().status().queued, 4U);
  hand_over(one.model, two.model);
  for (Request* const goes_on : {&urgent, idle[0].get(), idle[1].get(), idle[2].get()})
    EXPECT_TRUE(goes_on->wait().ok());
  const std::vector<const Frame*> expected = {&urgent.frame, &idle[0]->frame, &idle[1]->frame,
                                              &idle[2]->frame};
  EXPECT_EQ(order, expected);
}

TEST_F(SwapGateTest, OneClientCannotFillTheQueueOfHeldFrames) {
  const auto one = make("1"), two = make("2");
  std::vector<std::uint64_t> order;
  two.pipeline->compute = [&](Frame& frame) { order.push_back(frame.client); };
  one.model->pipeline().hold();
  std::vector<std::unique_ptr<Request>> greedy, modest;
  const auto submit = [&](auto& requests, std::uint64_t client) {
    requests.push_back(std::make_unique<Request>(one.model));
    requests.back()->frame.client = client;
    return requests.back()->submit();
  };
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(submit(greedy, 7).ok());
  ASSERT_TRUE(submit(modest, 8).ok());
  ASSERT_TRUE(submit(modest, 8).ok());
  EXPECT_EQ(submit(modest, 8).error().code(), ErrorCode::kResourceExhausted) << "it has as many as the other";
  for (const int i : {2, 3}) {
    ASSERT_TRUE(greedy[static_cast<std::size_t>(i)]->done());
    EXPECT_EQ(greedy[static_cast<std::size_t>(i)]->wait().error().code(), ErrorCode::kResourceExhausted);
  }
  hand_over(one.model, two.model);
  for (const std::size_t i : {0U, 1U}) {
    EXPECT_TRUE(greedy[i]->wait().ok());
    EXPECT_TRUE(modest[i]->wait().ok());
  }
  EXPECT_EQ(order, (std::vector<std::uint64_t>{7, 8, 7, 8}));
}

TEST_F(SwapGateTest, FrameThatWaitsForAFullQueueOfTheNextVersionExpiresAndCanBeCancelled) {
  const auto one = make("1", test::small_model(), 64), two = make("2", test::small_model(), 1);
  two.pipeline->lets_wait = true;
  two.pipeline->hold();  // its queue has room for 4 frames
  one.model->pipeline().hold();
  std::vector<std::unique_ptr<Request>> first;
  for (int i = 0; i < 4; ++i) {
    first.push_back(std::make_unique<Request>(one.model));
    ASSERT_TRUE(first.back()->submit().ok());
  }
  Request gone(one.model), hurried(one.model), last(one.model);
  ASSERT_TRUE(gone.submit().ok());
  hurried.frame.deadline = Clock::now() + 200ms;
  const Status in_time = hurried.submit();  // fails if this thread was delayed for 200 ms
  ASSERT_TRUE(last.submit().ok());
  hand_over(one.model, two.model);
  one.model->pipeline().cancel(gone.frame);
  EXPECT_EQ(gone.wait().error().code(), ErrorCode::kCancelled);
  if (in_time.ok()) {
    EXPECT_EQ(hurried.wait().error().code(), ErrorCode::kDeadlineExceeded);
  }
  EXPECT_FALSE(last.done());
  two.pipeline->release();
  for (const auto& request : first) EXPECT_TRUE(request->wait().ok());
  EXPECT_TRUE(last.wait().ok());
}

TEST_F(SwapGateTest, FramesAcceptedBeforeTheSwapCompleteOnTheOldVersion) {
  const auto one = make("1"), two = make("2");
  one.pipeline->hold();
  Request before(one.model);
  ASSERT_TRUE(before.submit().ok());
  one.model->pipeline().hold();
  hand_over(one.model, two.model);
  EXPECT_FALSE(before.done());
  one.pipeline->release();
  EXPECT_TRUE(before.wait().ok());
  EXPECT_EQ(before.passage.model, one.model);
}

TEST_F(SwapGateTest, WaitingFramesAreBoundedInNumberAndTime) {
  const auto one = make("1");
  one.model->pipeline().hold();
  Request patient(one.model), second(one.model), third(one.model), fourth(one.model), fifth(one.model);
  for (Request* const waits : {&patient, &second, &third, &fourth}) ASSERT_TRUE(waits->submit().ok());
  EXPECT_EQ(fifth.submit().error().code(), ErrorCode::kResourceExhausted);
  one.model->pipeline().cancel(second.frame);
  EXPECT_EQ(second.wait().error().code(), ErrorCode::kCancelled);
  Request hurried(one.model);
  Status taken = Error(ErrorCode::kDeadlineExceeded, "not submitted yet");
  for (auto within = 20ms; !taken.ok() && within < 1min; within *= 2) {  // more time for a busy machine
    EXPECT_EQ(taken.error().code(), ErrorCode::kDeadlineExceeded);
    hurried.frame.deadline = Clock::now() + within;
    taken = hurried.submit();
  }
  ASSERT_TRUE(taken.ok()) << taken.error().message();
  EXPECT_EQ(hurried.wait().error().code(), ErrorCode::kDeadlineExceeded);
  Request past(one.model);
  past.frame.deadline = Clock::now() - 1ms;
  EXPECT_EQ(past.submit().error().code(), ErrorCode::kDeadlineExceeded);
  EXPECT_FALSE(patient.done());
  one.model->pipeline().refuse(Error(ErrorCode::kUnavailable, "gone"));
  EXPECT_EQ(patient.wait().error().message(), "gone");
  EXPECT_EQ(patient.completions, 1);
  Request after(one.model);
  EXPECT_EQ(after.submit().error().message(), "gone");
}

TEST_F(SwapGateTest, AWaitingFrameCanBeCancelled) {
  const auto one = make("1"), two = make("2");
  one.model->pipeline().hold();
  Request gone(one.model), stays(one.model);
  ASSERT_TRUE(gone.submit().ok());
  ASSERT_TRUE(stays.submit().ok());
  one.model->pipeline().cancel(gone.frame);
  EXPECT_EQ(gone.wait().error().code(), ErrorCode::kCancelled);
  two.pipeline->hold();
  hand_over(one.model, two.model);
  one.model->pipeline().cancel(stays.frame);  // by now the frame waits in the next version
  EXPECT_EQ(stays.wait().error().code(), ErrorCode::kCancelled);
}

TEST_F(SwapGateTest, RequestForOneVersionIsNotAnsweredByAnotherVersion) {
  const auto one = make("1"), two = make("2"), one_again = make("1");
  one.model->pipeline().hold();
  Request particular(one.model, false);
  ASSERT_TRUE(particular.submit().ok());
  hand_over(one.model, two.model);
  EXPECT_EQ(particular.wait().error().code(), ErrorCode::kNotFound);
  EXPECT_NE(particular.frame.status.error().message().find("it has 2"), std::string::npos);

  two.model->pipeline().hold();
  Request same(two.model, false);
  ASSERT_TRUE(same.submit().ok());
  const auto two_again = make("2");
  hand_over(two.model, two_again.model);
  EXPECT_TRUE(same.wait().ok()) << "it failed to be replaced, and came back";
}

TEST_F(SwapGateTest, FrameThatMayNotChangeVersionGoesOnlyToTheSameDeployment) {
  const auto one = make("1"), again = make("1");
  const auto other_pipeline = std::make_shared<FakePipeline>();
  other_pipeline->set_digest("another");
  const auto other = std::make_shared<Model>("m", "1", other_pipeline, metrics->model("m", "1"));
  one.model->pipeline().hold();
  Request request(one.model);
  ASSERT_TRUE(one.model->pipeline().submit(request.frame).ok());
  hand_over(one.model, again.model);
  EXPECT_TRUE(request.wait().ok());
  again.model->pipeline().hold();
  Request stranger(again.model);
  ASSERT_TRUE(again.model->pipeline().submit(stranger.frame).ok());
  hand_over(again.model, other);
  EXPECT_EQ(stranger.wait().error().code(), ErrorCode::kUnavailable);
}

TEST_F(SwapGateTest, VersionWithDifferentTensorsReceivesNoWaitingFrames) {
  auto info = test::small_model();
  info.outputs.front().shape = {1, 2, 2};
  const auto one = make("1"), two = make("2", info);
  one.model->pipeline().hold();
  Request request(one.model);
  ASSERT_TRUE(request.submit().ok());
  hand_over(one.model, two.model);
  EXPECT_EQ(request.wait().error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(request.passage.model, one.model);
}

TEST_F(SwapGateTest, HandsOverMoreFramesThanTheNextVersionsQueueHolds) {
  const auto one = make("1", test::small_model(), 64), two = make("2");
  two.pipeline->lets_wait = true;
  one.model->pipeline().hold();
  std::vector<std::unique_ptr<Request>> requests;
  for (int i = 0; i < 40; ++i) {  // the next version has room for only 4
    requests.push_back(std::make_unique<Request>(one.model));
    ASSERT_TRUE(requests.back()->submit().ok());
  }
  hand_over(one.model, two.model);
  for (const auto& request : requests) EXPECT_TRUE(request->wait().ok());
}

TEST_F(SwapGateTest, LosesAndRepeatsNoFrameDuringSwapsUnderLoad) {
  auto current = make("0", test::small_model(), 1000);
  std::mutex mutex;
  std::vector<Version> all{current};  // keeps all versions alive, as requests would
  std::atomic<bool> stop{false};
  std::atomic<int> good{0}, bad{0}, twice{0};
  std::vector<std::jthread> clients;
  for (int c = 0; c < 3; ++c)
    clients.emplace_back([&] {
      while (!stop) {
        std::shared_ptr<Model> model;
        {
          const std::lock_guard lock(mutex);
          model = current.model;
        }
        Request request(model);
        const Status taken = request.submit();
        const Status status = taken.ok() ? request.wait() : taken;
        (status.ok() || status.error().code() == ErrorCode::kResourceExhausted ? good : bad)++;
        if (taken.ok() && request.completions != 1) ++twice;
      }
    });
  for (int swap = 1; swap <= 50; ++swap) {
    current.model->pipeline().hold();
    current.model->pipeline().finish(60s);
    Version next = make(std::to_string(swap), test::small_model(), 1000);
    hand_over(current.model, next.model);
    const std::lock_guard lock(mutex);
    current = next;
    all.push_back(next);
  }
  EXPECT_TRUE(tests::wait_until([&] { return good >= 100; }));
  stop = true;
  clients.clear();
  EXPECT_EQ(bad, 0);
  EXPECT_EQ(twice, 0);
}

}  // namespace
}  // namespace millrace::server::models::test_swap_gate
