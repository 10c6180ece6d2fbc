// What tools/rtl-nets measured, held to what it must show. Committed data: no tool is run here.
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>

#include "compiler/synth/sources.hpp"
#include "runtime/base/file.hpp"
#include "tests/paths/paths.hpp"

namespace millrace::tests {
namespace {

namespace json = boost::json;

const std::set<std::string> kNets = {"jet", "tfc", "lenet5", "mpcnn", "pttdnn"};

class RtlNets : public testing::Test {
 protected:
  void SetUp() override {
    const auto text = read_text_file(std::string(tests::source_dir()) + "/tests/rtl/nets.json");
    ASSERT_TRUE(text.ok()) << text.error().message();
    document_ = json::parse(*text);
  }
  const json::array& rows() const { return document_.at("rows").as_array(); }
  static std::string describe(const json::value& row) {
    return json::serialize(row.at("net")) + " on " + json::serialize(row.at("cards")) + ", interval " +
           json::serialize(row.at("target_interval")) + (cut_down(row) ? " (" + design(row) + ")" : "") +
           ", stall " + json::serialize(row.at("stall"));
  }
  /// Compiled for a card cut down, by its name in tests/golden/synthesis.csv; empty: for a whole one.
  static std::string design(const json::value& row) {
    const json::value* name = row.as_object().if_contains("design");
    return name == nullptr ? "" : std::string(name->as_string());
  }
  static bool cut_down(const json::value& row) { return !design(row).empty(); }
  static double number(const json::value& row, const char* part, const char* key) {
    return row.at(part).at(key).to_number<double>();
  }

  json::value document_;
};

/// Renewing takes tens of minutes: figures of another library are told, and the rest is held all the same.
/// What compile would emit otherwise today, only the tool can tell.
TEST_F(RtlNets, TellWhichAreOfAnotherLibrary) {
  namespace synth = compiler::synth;
  bool stale = false;
  for (const json::value& row : rows()) {
    std::string others;
    const json::value* sources = row.as_object().if_contains("sources");
    if (sources == nullptr) {
      std::printf("STALE?: %s: measured before rows named their sources\n", describe(row).c_str());
      stale = true;
      continue;
    }
    const json::object& modules = sources->at("library").as_object();
    EXPECT_FALSE(modules.empty()) << describe(row);
    for (const auto& module : modules) {
      const auto now = synth::library().find(std::string(module.key()) + ".sv");
      if (now == synth::library().end() || synth::digest_of(now->second) != module.value().as_string())
        others += " " + std::string(module.key());
    }
    if (others.empty()) continue;
    std::printf("STALE: %s: measured with another%s\n", describe(row).c_str(), others.c_str());
    stale = true;
  }
  if (stale) std::printf("renew them: tools/rtl-nets\n");
}

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

TEST_F(RtlNets, IntervalAndLatencyAcrossCardsAreAsPredicted) {
  std::set<std::tuple<std::string, int>> compared;
  bool quick = false;
  for (const json::value& row : rows()) {
    const int cards = row.at("cards").to_number<int>();
    if (cards == 1 || row.at("stall").to_number<double>() > 0) continue;
    const double interval = number(row, "predicted", "initiation_interval_cycles"),
                 latency = number(row, "predicted", "latency_cycles");
    EXPECT_FALSE(row.at("predicted").at("latency_is_bound").as_bool()) << describe(row);
    EXPECT_NEAR(number(row, "measured", "initiation_interval_cycles"), interval, 0.01 * interval)
        << describe(row);
    EXPECT_NEAR(number(row, "measured", "latency_cycles"), latency, 0.05 * latency) << describe(row);
    compared.emplace(row.at("net").as_string(), cards);
    quick = quick || row.at("target_interval").to_number<int>() == 400;
  }
  EXPECT_EQ(compared.size(), 2 * kNets.size());
  EXPECT_TRUE(quick) << "a frame of two packets as fast as it can be made";
}

/// As `millrace compile` makes them where it is told nothing: the fastest that fits one card.
TEST_F(RtlNets, WhatIsChosenForANetWasSimulatedToo) {
  std::set<std::string> chosen;
  for (const json::value& row : rows())
    if (row.at("target_interval").to_number<int>() == 0 && row.at("cards").to_number<int>() == 1 &&
        !cut_down(row) && row.at("stall").to_number<double>() == 0)
      chosen.emplace(row.at("net").as_string());
  EXPECT_EQ(chosen, kNets);
}

/// Time is predicted of the same designs as resources are: four nets at three foldings each.
TEST_F(RtlNets, TheDesignsWhoseResourcesAreComparedWereSimulatedToo) {
  std::set<std::string> simulated, synthesised;
  for (const json::value& row : rows())
    if (cut_down(row)) simulated.insert(design(row));
  const auto csv = read_text_file(std::string(tests::source_dir()) + "/tests/golden/synthesis.csv");
  ASSERT_TRUE(csv.ok());
  std::istringstream lines(*csv);
  std::string line;
  for (int i = 0; i < 2; ++i) std::getline(lines, line);
  while (std::getline(lines, line)) synthesised.insert(line.substr(0, line.find(',')));
  // As compiled for whole cards: rows of their own above.
  for (const char* whole :
       {"jet_1", "tfc_32", "lenet5_392", "mpcnn_1033", "ptt_512", "ptt_1046", "lenet5_cards"})
    synthesised.erase(whole);
  EXPECT_EQ(simulated, synthesised);
  EXPECT_EQ(simulated.size(), 12U);
}

TEST_F(RtlNets, PttdnnOnOneCardKeepsItsPace) {
  double folded = 0, compiled = 0;
  for (const json::value& row : rows()) {
    if (row.at("net") != "pttdnn" || row.at("cards").to_number<int>() != 1 || cut_down(row) ||
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

/// Multiply-accumulates a DSP slice and cycle, of the layers the net has as convolutions; its matrix products
/// (gemm_…) are convolutions of one pixel in hardware, but not in the model.
TEST_F(RtlNets, PttdnnsConvolutionsKeepTheirDspSlicesBusy) {
  std::size_t found = 0;
  for (const json::value& row : rows()) {
    if (row.at("net") != "pttdnn" || row.at("cards").to_number<int>() != 1 ||
        row.at("target_interval").to_number<int>() != 1046 || row.at("stall").to_number<double>() > 0)
      continue;
    ++found;
    const json::value& partition = row.at("partitions").at(0);
    const double interval = partition.at("measured").at("initiation_interval_cycles").to_number<double>();
    double work = 0, slices = 0, busy = 0;
    std::set<std::string> names;
    for (const json::value& layer : partition.at("layers").as_array()) {
      const std::string name(layer.at("name").as_string());
      const double macs = layer.at("multiply_accumulates").to_number<double>(),
                   dsp = layer.at("dsp").to_number<double>(),
                   cycles = layer.at("busy_cycles").to_number<double>();
      std::printf("%-8s %8.0f MACs on %3.0f DSP: %.3f a slice and cycle of the interval, %.3f while busy\n",
                  name.c_str(), macs, dsp, macs / dsp / interval, macs / dsp / cycles);
      EXPECT_NEAR(layer.at("macs_per_dsp_cycle").at("interval").to_number<double>(), macs / dsp / interval,
                  1e-6);
      if (!name.starts_with("conv_")) continue;
      names.insert(name);
      work += macs;
      slices += dsp;
      busy += dsp * cycles;
    }
    EXPECT_EQ(names, (std::set<std::string>{"conv_5", "conv_14", "conv_23"})) << "all on DSP slices";
    std::printf("all convolutions: %.3f of the interval, %.3f while busy\n", work / slices / interval,
                work / busy);
    EXPECT_GE(work / slices / interval, 1.6);
    EXPECT_GE(work / busy, 1.95);
  }
  EXPECT_EQ(found, 1U);
}

TEST_F(RtlNets, FifosReachTheIntervalAndNoneIsDeeperThanTwiceWhatItHeld) {
  for (const json::value& row : rows()) {
    if (row.at("stall").to_number<double>() > 0) continue;
    EXPECT_TRUE(row.at("fifos").at("sufficient").as_bool()) << describe(row);
    EXPECT_TRUE(row.at("fifos").at("wasteful").as_array().empty()) << describe(row);
  }
}

}  // namespace
}  // namespace millrace::tests
