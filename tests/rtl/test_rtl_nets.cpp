// What tools/rtl-nets measured, held to what it must show. Committed data: no tool is run here.
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "runtime/base/file.hpp"

namespace millrace::tests {
namespace {

namespace json = boost::json;

const std::set<std::string> kNets = {"tfc", "lenet5", "mpcnn", "pttdnn"};

class RtlNets : public testing::Test {
 protected:
  void SetUp() override {
    const auto text = read_text_file(MILLRACE_SOURCE_DIR "/tests/rtl/nets.json");
    ASSERT_TRUE(text.ok()) << text.error().message();
    document_ = json::parse(*text);
  }
  const json::array& rows() const { return document_.at("rows").as_array(); }
  static std::string describe(const json::value& row) {
    return json::serialize(row.at("net")) + " on " + json::serialize(row.at("cards")) + ", interval " +
           json::serialize(row.at("target_interval")) + ", stall " + json::serialize(row.at("stall"));
  }
  static double number(const json::value& row, const char* part, const char* key) {
    return row.at(part).at(key).to_number<double>();
  }

  json::value document_;
};

TEST_F(RtlNets, EveryByteOfEveryRunIsTheReferences) {
  ASSERT_FALSE(rows().empty());
  for (const json::value& row : rows()) {
    EXPECT_EQ(row.at("mismatches").to_number<int>(), 0) << describe(row);
    EXPECT_EQ(row.at("functional_mismatches").to_number<int>(), 0) << describe(row);
    EXPECT_TRUE(row.at("standstill").is_null()) << describe(row);
    EXPECT_GE(row.at("frames").to_number<int>(), 3) << describe(row);
  }
}

TEST_F(RtlNets, EveryNetRanOnOneTwoAndThreeCardsWithAndWithoutStalls) {
  std::set<std::tuple<std::string, int, bool>> ran;
  for (const json::value& row : rows())
    ran.emplace(row.at("net").as_string(), row.at("cards").to_number<int>(),
                row.at("stall").to_number<double>() > 0);
  for (const std::string& net : kNets)
    for (const int cards : {1, 2, 3})
      for (const bool stalls : {false, true})
        EXPECT_TRUE(ran.contains({net, cards, stalls}))
            << net << " on " << cards << " cards, stalls " << stalls;
}

TEST_F(RtlNets, IntervalAndLatencyAreAsPredictedAtThreeFoldingsOfEveryNet) {
  std::map<std::string, std::set<double>> intervals;
  for (const json::value& row : rows()) {
    if (row.at("cards").to_number<int>() != 1 || row.at("stall").to_number<double>() > 0) continue;
    const double interval = number(row, "predicted", "initiation_interval_cycles"),
                 latency = number(row, "predicted", "latency_cycles");
    EXPECT_NEAR(number(row, "measured", "initiation_interval_cycles"), interval, 0.01 * interval)
        << describe(row);
    EXPECT_NEAR(number(row, "measured", "latency_cycles"), latency, 0.05 * latency) << describe(row);
    intervals[std::string(row.at("net").as_string())].insert(interval);
  }
  for (const std::string& net : kNets) EXPECT_GE(intervals[net].size(), 3U) << net;
}

TEST_F(RtlNets, PttdnnOnOneCardKeepsItsPace) {
  double folded = 0, compiled = 0;
  for (const json::value& row : rows()) {
    if (row.at("net") != "pttdnn" || row.at("cards").to_number<int>() != 1 ||
        row.at("stall").to_number<double>() > 0)
      continue;
    const double interval = number(row, "measured", "initiation_interval_cycles");
    if (row.at("target_interval").to_number<int>() == 1046) {
      folded = interval;
      EXPECT_LE(number(row, "measured", "first_output_cycles"), 3000);
    }
    if (row.at("target_interval").to_number<int>() == 0) compiled = interval;
  }
  EXPECT_GT(folded, 0);
  EXPECT_LE(folded, 1046);
  EXPECT_GT(compiled, 0);
  EXPECT_LE(compiled, 600);
}

TEST_F(RtlNets, FifosReachTheIntervalAndNoneIsDeeperThanTwiceWhatItHeld) {
  for (const json::value& row : rows()) {
    if (row.at("stall").to_number<double>() > 0) continue;
    EXPECT_TRUE(row.at("fifos").at("sufficient").as_bool()) << describe(row);
    // On several cards a slower link leaves FIFOs emptier than the partition alone would.
    if (row.at("cards").to_number<int>() == 1) {
      EXPECT_TRUE(row.at("fifos").at("wasteful").as_array().empty()) << describe(row);
    }
  }
}

}  // namespace
}  // namespace millrace::tests
