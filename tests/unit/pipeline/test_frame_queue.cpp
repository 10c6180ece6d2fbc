// Tests the order in which waiting frames get a slot of a pipeline, which is the room for one frame on the cards.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>

#include "runtime/pipeline/frame_queue.hpp"

namespace millrace::runtime::pipeline::test_frame_queue {
namespace {

using namespace std::chrono_literals;

/// Owns the frames to which queue entries point.
class Frames {
 public:
  FrameQueue::Entry entry(std::uint64_t client, std::uint8_t priority = kUsualPriority,
                          Clock::time_point deadline = Clock::time_point::max()) {
    frames_.emplace_back();
    return {&frames_.back(), {}, deadline, priority, client};
  }

 private:
  std::deque<Frame> frames_;
};

std::string clients_in_order(FrameQueue& queue) {
  std::string out;
  while (!queue.empty()) out += static_cast<char>('A' + queue.pop().client);
  return out;
}

TEST(FrameQueue, KeepsTheFramesOfOneClientInOrder) {
  Frames frames;
  FrameQueue queue(3);
  const auto first = frames.entry(7), second = frames.entry(7);
  queue.push(first);
  queue.push(second);
  EXPECT_EQ(queue.pop().frame, first.frame);
  EXPECT_EQ(queue.pop().frame, second.frame);
  EXPECT_TRUE(queue.empty());
}

TEST(FrameQueue, ClientsAreServedInRotationEvenIfOneClientSendsMore) {
  Frames frames;
  FrameQueue queue(16);
  for (int i = 0; i < 6; ++i) queue.push(frames.entry(0));
  queue.push(frames.entry(1));
  queue.push(frames.entry(2));
  queue.push(frames.entry(1));
  EXPECT_EQ(clients_in_order(queue), "ABCABAAAA");
}

TEST(FrameQueue, UrgentFramesLeaveTheQueueFirst) {
  Frames frames;
  FrameQueue queue(8);
  queue.push(frames.entry(0, kLastPriority));
  queue.push(frames.entry(1));
  queue.push(frames.entry(2, kFirstPriority));
  queue.push(frames.entry(3));
  queue.push(frames.entry(2, kFirstPriority));
  EXPECT_EQ(clients_in_order(queue), "CCBDA");
}

TEST(FrameQueue, FullQueueDropsFramesInFavourOfUrgentFramesAndSmallerClients) {
  Frames frames;
  FrameQueue queue(4);
  for (int i = 0; i < 3; ++i) queue.push(frames.entry(0));
  const auto last = frames.entry(0);
  queue.push(last);
  ASSERT_TRUE(queue.full());
  EXPECT_EQ(queue.make_room(frames.entry(0)).frame, nullptr)
      << "the client of the longest list displaces nothing";
  EXPECT_EQ(queue.make_room(frames.entry(1, kUsualPriority + 1)).frame, nullptr)
      << "a less urgent frame displaces nothing";
  EXPECT_EQ(queue.make_room(frames.entry(1)).frame, last.frame)
      << "the newest frame of the client with most frames is displaced";
  queue.push(frames.entry(1));
  EXPECT_TRUE(queue.full());

  FrameQueue even(2);
  even.push(frames.entry(0));
  even.push(frames.entry(1));
  EXPECT_EQ(even.make_room(frames.entry(2)).frame, nullptr) << "every client has one frame";
  EXPECT_EQ(even.make_room(frames.entry(0, kFirstPriority)).client, 0U)
      << "an urgent frame displaces a less urgent one";
}

TEST(FrameQueue, AQueueOfCapacityZeroIsAlwaysFull) {
  Frames frames;
  FrameQueue queue(0);
  EXPECT_TRUE(queue.full());
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.make_room(frames.entry(0, kFirstPriority)).frame, nullptr);
  EXPECT_EQ(queue.earliest_deadline(), Clock::time_point::max());
}

/// Compares the queue with a simple implementation that uses lists.
TEST(FrameQueue, BehavesLikeASimpleModelUnderRandomCalls) {
  for (const unsigned seed : {1U, 2U, 3U, 4U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Frames frames;
    FrameQueue queue(12);
    struct Flow {
      std::uint64_t client;
      std::deque<FrameQueue::Entry> entries;
    };
    std::map<std::uint8_t, std::deque<Flow>> model;  // by priority: clients in the order of their turns
    std::size_t size = 0;
    const auto erase = [&](const Frame* frame) {
      for (auto& [priority, flows] : model)
        for (auto flow = flows.begin(); flow != flows.end(); ++flow)
          for (auto at = flow->entries.begin(); at != flow->entries.end(); ++at)
            if (at->frame == frame) {
              flow->entries.erase(at);
              if (flow->entries.empty()) flows.erase(flow);
              if (flows.empty()) model.erase(priority);
              --size;
              return true;
            }
      return false;
    };
    for (int step = 0; step < 4000; ++step) {
      ASSERT_EQ(queue.size(), size);
      switch (random() % 4) {
        case 0:
        case 1: {
          const auto entry =
              frames.entry(random() % 5, static_cast<std::uint8_t>(kFirstPriority + random() % 3),
                           Clock::time_point(std::chrono::seconds(random() % 100)));
          if (queue.full()) {
            const auto out = queue.make_room(entry);
            if (out.frame == nullptr) break;
            ASSERT_TRUE(erase(out.frame));
            ASSERT_GE(out.priority, entry.priority);
          }
          queue.push(entry);
          auto& flows = model[entry.priority];
          auto flow = std::find_if(flows.begin(), flows.end(),
                                   [&](const Flow& one) { return one.client == entry.client; });
          if (flow == flows.end()) flow = flows.insert(flows.end(), Flow{entry.client, {}});
          flow->entries.push_back(entry);
          ++size;
          break;
        }
        case 2: {
          if (queue.empty()) break;
          auto& flows = model.begin()->second;
          const auto expected = flows.front().entries.front().frame;
          ASSERT_EQ(queue.pop().frame, expected) << "step " << step;
          Flow flow = flows.front();
          flows.pop_front();
          flow.entries.pop_front();
          if (!flow.entries.empty()) flows.push_back(flow);
          if (flows.empty()) model.erase(model.begin());
          --size;
          break;
        }
        default: {
          Clock::time_point earliest = Clock::time_point::max();
          for (const auto& [priority, flows] : model)
            for (const auto& flow : flows)
              for (const auto& entry : flow.entries) earliest = std::min(earliest, entry.deadline);
          ASSERT_EQ(queue.earliest_deadline(), earliest);
          const auto now = Clock::time_point(std::chrono::seconds(random() % 20));
          if (const auto expired = queue.pop_expired(now); expired.frame != nullptr) {
            ASSERT_LE(expired.deadline, now);
            ASSERT_TRUE(erase(expired.frame));
          } else {
            ASSERT_GT(earliest, now);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace millrace::runtime::pipeline::test_frame_queue
