// Tests the rows of a card's link table on a fake card that has only registers.
#include "runtime/card/link_table.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "runtime/plan/image_abi.hpp"

namespace millrace::runtime::card::test_link_table {
namespace {

namespace abi = plan::abi;

class Registers final : public Card {
 public:
  std::map<std::uint32_t, std::uint32_t> values;
  std::set<std::uint32_t> stuck;  // offsets of registers whose value never changes
  std::function<void()> after_read = [] {};

  Result<std::uint32_t> read(std::uint32_t offset) override {
    const std::uint32_t value = values[offset];
    after_read();
    return value;
  }
  Status write(std::uint32_t offset, std::uint32_t value) override {
    if (!stuck.contains(offset)) values[offset] = value;
    return {};
  }

  Result<bool> load(std::span<const std::byte>) override { return none(); }
  void unload() override {}
  Result<std::unique_ptr<Ingress>> make_ingress(const std::string&, std::uint64_t, std::uint32_t) override {
    return none();
  }
  Result<std::unique_ptr<Egress>> make_egress(const std::string&, std::uint64_t, std::uint32_t) override {
    return none();
  }
  Status start_supervisor() override { return none(); }
  RunState wait_supervisor(std::chrono::milliseconds) override { return RunState::kFailed; }
  bool supervisor_ended() override { return true; }
  abi::FaultReport fault_report() override { return {}; }
  CardInfo info() override { return {}; }

 private:
  static Error none() { return Error(ErrorCode::kUnsupported, "this card has registers only"); }
};

TEST(LinkTable, CounterIsCorrectWhenACarryOccursBetweenReadingItsTwoHalves) {
  constexpr std::uint32_t kLow = abi::kLinkTable + abi::kLinkBytesLow,
                          kHigh = abi::kLinkTable + abi::kLinkBytesHigh;
  Registers card;
  std::uint64_t counter = 0xFFFF'FFFF;
  const auto show = [&] {
    card.values[kLow] = static_cast<std::uint32_t>(counter);
    card.values[kHigh] = static_cast<std::uint32_t>(counter >> 32U);
  };
  show();
  card.after_read = [&] {
    ++counter;
    show();
  };
  const auto read = read_counter(card, kLow, kHigh);
  ASSERT_TRUE(read.ok());
  EXPECT_GE(*read, 0x1'0000'0000U);
  EXPECT_LE(*read, counter);
}

TEST(LinkTable, DisablesALinkBeforeItsRowIsWritten) {
  Registers card;
  const std::uint32_t base = abi::kLinkTable + 3 * abi::kLinkRowBytes;
  card.values[base + abi::kLinkEnable] = 1;
  ASSERT_TRUE(write_link_row(card, 3, {1, 2, 1024, 8}).ok());
  EXPECT_EQ(card.values[base + abi::kLinkEnable], 0U);
  EXPECT_EQ(card.values[base + abi::kLinkConnector], 1U);
  EXPECT_EQ(card.values[base + abi::kLinkTag], 2U);
  EXPECT_EQ(card.values[base + abi::kLinkPacketBytes], 1024U);
  EXPECT_EQ(card.values[base + abi::kLinkCredits], 8U);
  ASSERT_TRUE(enable_link(card, 3, true).ok());
  EXPECT_EQ(card.values[base + abi::kLinkEnable], 1U);
}

TEST(LinkTable, RegisterThatReadsBackADifferentValueIsAnError) {
  Registers card;
  card.stuck.insert(abi::kLinkTable + abi::kLinkCredits);
  const Status written = write_link_row(card, 0, {1, 2, 1024, 8});
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().code(), ErrorCode::kEnvironment);
}

TEST(LinkTable, ARowBeyondTheTableIsRefused) {
  Registers card;
  EXPECT_TRUE(write_link_row(card, abi::kMaxLinkPorts - 1, {}).ok());
  card.values.clear();
  for (const auto& refused :
       {write_link_row(card, abi::kMaxLinkPorts, {}), enable_link(card, abi::kMaxLinkPorts, true)}) {
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), ErrorCode::kInvalidInput);
  }
  EXPECT_FALSE(read_link(card, abi::kMaxLinkPorts).ok());
  EXPECT_TRUE(card.values.empty()) << "no register was touched";
}

}  // namespace
}  // namespace millrace::runtime::card::test_link_table
