// Checks the committed figures in nets.json, which tools/rtl-nets measured. This test needs no tool.
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>

#include "runtime/base/file.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/readme.hpp"
#include "tools/calibrate/digests.hpp"

namespace millrace::tests::test_rtl_nets {
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
           json::serialize(row.at("target_interval")) +
           (cut_down(row) || !variant(row).empty() ? " (" + design(row) + variant(row) + ")" : "") +
           ", stall " + json::serialize(row.at("stall"));
  }
  /// Returns the name of a design for a cut-down card in tests/golden/synthesis.csv. It is empty for whole cards.
  static std::string design(const json::value& row) {
    const json::value* name = row.as_object().if_contains("design");
    return name == nullptr ? "" : std::string(name->as_string());
  }
  static bool cut_down(const json::value& row) { return !design(row).empty(); }
  /// Returns the name of a special compilation of LeNet-5 in tools/rtl-nets. It is empty for other rows of nets.json.
  static std::string variant(const json::value& row) {
    const json::value* name = row.as_object().if_contains("variant");
    return name == nullptr ? "" : std::string(name->as_string());
  }
  static bool stalls(const json::value& row) { return row.at("stall").to_number<double>() > 0; }
  /// Whether the row is for the fastest design on one card, which `millrace compile` makes without options.
  static bool chosen(const json::value& row) {
    return row.at("target_interval").to_number<int>() == 0 && row.at("cards").to_number<int>() == 1 &&
           !cut_down(row) && variant(row).empty() && !stalls(row);
  }
  /// Whether the row is for the design of the net PTTDNN that may use about a third of a card's DSP slices.
  static bool third_of_slices(const json::value& row) {
    return row.at("net") == "pttdnn" && row.at("cards").to_number<int>() == 1 &&
           row.at("target_interval").to_number<int>() == 1046 && !stalls(row);
  }
  static double number(const json::value& row, const char* part, const char* key) {
    return row.at(part).at(key).to_number<double>();
  }

  json::value document_;
};

/// When a module of the library changes, its figures must be measured again, which takes tens of minutes. The test does
/// not notice that `compile` emits other hardware for a net; only tools/rtl-nets can tell.
TEST_F(RtlNets, StoredFiguresWereMeasuredOnTheCurrentSystemVerilogLibrary) {
  namespace calibrate = tools::calibrate;
  for (const json::value& row : rows()) {
    const json::value* sources = row.as_object().if_contains("sources");
    ASSERT_NE(sources, nullptr) << describe(row) << ": no sources; run tools/rtl-nets";
    const json::object& modules = sources->at("library").as_object();
    EXPECT_FALSE(modules.empty()) << describe(row);
    for (const auto& module : modules) {
      const auto now = calibrate::library().find(std::string(module.key()) + ".sv");
      EXPECT_TRUE(now != calibrate::library().end() &&
                  calibrate::digest_of(now->second) == module.value().as_string())
          << describe(row) << ": measured with other SystemVerilog of " << module.key()
          << "; run tools/rtl-nets";
    }
  }
}

TEST_F(RtlNets, EveryOutputByteOfEverySimulationEqualsTheReference) {
  ASSERT_FALSE(rows().empty());
  for (const json::value& row : rows()) {
    EXPECT_EQ(row.at("mismatches").to_number<int>(), 0) << describe(row);
    EXPECT_EQ(row.at("functional_mismatches").to_number<int>(), 0) << describe(row);
    EXPECT_TRUE(row.at("standstill").is_null()) << describe(row);
    EXPECT_GE(row.at("frames").to_number<int>(), 3) << describe(row);
  }
}

TEST_F(RtlNets, EveryNetWasSimulatedOnOneTwoAndThreeCardsWithAndWithoutStalls) {
  std::set<std::tuple<std::string, int, bool>> ran;
  for (const json::value& row : rows())
    ran.emplace(row.at("net").as_string(), row.at("cards").to_number<int>(), stalls(row));
  for (const std::string& net : kNets)
    for (const int cards : {1, 2, 3})
      for (const bool stalls : {false, true})
        EXPECT_TRUE(ran.contains({net, cards, stalls}))
            << net << " on " << cards << " cards, stalls " << stalls;
}

TEST_F(RtlNets, EveryNetWasSimulatedWithThreeOrMoreFoldings) {
  std::map<std::string, std::set<double>> intervals;
  for (const json::value& row : rows())
    if (row.at("cards").to_number<int>() == 1 && !stalls(row))
      intervals[std::string(row.at("net").as_string())].insert(
          number(row, "predicted", "initiation_interval_cycles"));
  for (const std::string& net : kNets) EXPECT_GE(intervals[net].size(), 3U) << net;
}

TEST_F(RtlNets, LatencyAcrossCardsEqualsThePrediction) {
  bool quick = false;
  for (const json::value& row : rows()) {
    if (row.at("cards").to_number<int>() == 1 || stalls(row)) continue;
    EXPECT_FALSE(row.at("predicted").at("latency_is_bound").as_bool()) << describe(row);
    quick = quick || row.at("target_interval").to_number<int>() == 400;
  }
  EXPECT_TRUE(quick) << "a frame of two packets as fast as it can be made";
}

TEST_F(RtlNets, DefaultDesignOfEveryNetWasSimulated) {
  std::set<std::string> nets;
  for (const json::value& row : rows())
    if (chosen(row)) nets.emplace(row.at("net").as_string());
  EXPECT_EQ(nets, kNets);
}

/// Interval and latency must equal the predictions in all simulations without stalls. With streamed weights, the
/// latency may be shorter, because the simulation reads the first weights before the first frame arrives.
TEST_F(RtlNets, MeasuredCyclesEqualPredictedCyclesExactly) {
  for (const json::value& row : rows()) {
    if (stalls(row)) continue;
    SCOPED_TRACE(describe(row));
    EXPECT_EQ(number(row, "measured", "initiation_interval_cycles"),
              number(row, "predicted", "initiation_interval_cycles"));
    if (variant(row) == "streamed" || variant(row) == "mixed")
      EXPECT_LE(number(row, "measured", "latency_cycles"), number(row, "predicted", "latency_cycles"));
    else
      EXPECT_EQ(number(row, "measured", "latency_cycles"), number(row, "predicted", "latency_cycles"));
  }
}

TEST_F(RtlNets, ReadmeHasTheSimulatedFigures) {
  std::set<std::string> variants;
  for (const json::value& row : rows()) {
    if (stalls(row) || cut_down(row)) continue;
    if (!variant(row).empty()) variants.insert(variant(row));
    if (!chosen(row) && variant(row).empty() && !third_of_slices(row)) continue;
    const auto cycles = [&](const char* part, const char* key) {
      return grouped(static_cast<std::uint64_t>(number(row, part, key)));
    };
    const std::string name = "`" + std::string(row.at("net").as_string()) + "`" +
                             (third_of_slices(row)                             ? ", a third of the slices"
                              : variant(row).empty() || variant(row) == "form" ? ""
                                                                               : ", " + variant(row));
    const std::string line = table_row(
        {name, std::to_string(row.at("cards").to_number<int>()),
         cycles("measured", "initiation_interval_cycles"), cycles("predicted", "initiation_interval_cycles"),
         cycles("measured", "latency_cycles"), cycles("predicted", "latency_cycles")});
    EXPECT_TRUE(has_line("tests/rtl/README.md", line)) << "tests/rtl/README.md lacks the line\n" << line;
  }
  EXPECT_EQ(variants, (std::set<std::string>{"form", "loaded", "mixed", "regions", "streamed"}));
}

/// The nets of tools/rtl-nets that were chosen for their form: residual branches, depthwise layers, QONNX, weights of
/// one, two and four bits, and weights of uint8.
TEST_F(RtlNets, ResidualDepthwiseAndNarrowWeightNetsWereSimulated) {
  std::set<std::string> nets;
  for (const json::value& row : rows())
    if (variant(row) == "form") nets.emplace(row.at("net").as_string());
  EXPECT_EQ(nets, (std::set<std::string>{"jet_qonnx", "kws_dscnn", "resnet8", "tfc_w1a1", "tfc_w2a2",
                                         "tfc_w4a4", "weights_u8"}));
}

/// Simulations and Yosys measurements must cover the same designs: four nets with three foldings (degrees of
/// parallelism) each.
TEST_F(RtlNets, EveryDesignThatWasSynthesisedWasAlsoSimulated) {
  std::set<std::string> simulated, synthesised;
  for (const json::value& row : rows())
    if (cut_down(row)) simulated.insert(design(row));
  const auto csv = read_text_file(std::string(tests::source_dir()) + "/tests/golden/synthesis.csv");
  ASSERT_TRUE(csv.ok());
  std::istringstream lines(*csv);
  std::string line;
  for (int i = 0; i < 2; ++i) std::getline(lines, line);
  while (std::getline(lines, line)) synthesised.insert(line.substr(0, line.find(',')));
  // Other tests in this file check the designs for whole cards.
  for (const char* whole :
       {"jet_1", "tfc_32", "lenet5_392", "mpcnn_1033", "ptt_512", "ptt_1046", "lenet5_cards"})
    synthesised.erase(whole);
  EXPECT_EQ(simulated, synthesised);
  EXPECT_EQ(simulated.size(), 12U);
}

TEST_F(RtlNets, TheNetPttdnnOnOneCardReachesItsTargetFrameRate) {
  double folded = 0, compiled = 0;
  for (const json::value& row : rows()) {
    if (row.at("net") != "pttdnn" || row.at("cards").to_number<int>() != 1 || cut_down(row) || stalls(row))
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

/// The number of busy cycles must equal the prediction in every simulation that counted them. This includes simulations
/// with stalls, because a stalled unit does not multiply again.
TEST_F(RtlNets, MultipliersAreBusyForThePredictedNumberOfCycles) {
  std::size_t counted = 0;
  for (const json::value& row : rows())
    for (const json::value& partition : row.at("partitions").as_array())
      for (const json::value& layer : partition.at("layers").as_array()) {
        if (layer.at("busy_cycles").is_null()) continue;
        ++counted;
        EXPECT_EQ(layer.at("busy_cycles").to_number<double>(),
                  layer.at("predicted_busy_cycles").to_number<double>())
            << describe(row) << ", " << layer.at("name");
      }
  EXPECT_GT(counted, 20U);
}

/// Returns how many DSP slices Yosys used for a block of PTTDNN, in the design of third_of_slices().
double slices_by_yosys(const std::string& block) {
  const auto csv = read_text_file(std::string(source_dir()) + "/tests/golden/synthesis.csv");
  if (!csv.ok()) return 0;
  std::istringstream lines(*csv);
  double slices = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("ptt_1046,dataflow," + block + "_")) continue;
    std::istringstream fields(line);
    std::string field;
    for (int i = 0; i <= 10; ++i) std::getline(fields, field, ',');
    slices += std::stod(field);
  }
  return slices;
}

std::string two_places(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

/// Computes the multiply-accumulates per DSP slice and cycle for the layers that are convolutions in the model. Layers
/// named gemm_… are left out: they are matrix products in the model, although the hardware computes them as convolutions.
/// The multiplications come from the model, the DSP slices from Yosys, and the busy cycles from the simulation.
TEST_F(RtlNets, ConvolutionsOfTheNetPttdnnKeepTheirDspSlicesBusy) {
  const auto row = std::find_if(rows().begin(), rows().end(), third_of_slices);
  ASSERT_NE(row, rows().end());
  const json::value& partition = row->at("partitions").at(0);
  const double interval = partition.at("measured").at("initiation_interval_cycles").to_number<double>();
  double work = 0, slices = 0, busy = 0;
  std::set<std::string> names;
  const auto expect_line = [&](const std::string& name, const std::string& cycles) {
    const auto whole = [](double value) { return grouped(static_cast<std::uint64_t>(value)); };
    const std::string line = table_row({name, whole(work), whole(slices), cycles, two_places(work / busy),
                                        two_places(work / slices / interval)});
    EXPECT_TRUE(has_line("tests/rtl/README.md", line)) << "tests/rtl/README.md lacks the line\n" << line;
  };
  double all_work = 0, all_slices = 0, all_busy = 0;
  for (const json::value& layer : partition.at("layers").as_array()) {
    const std::string name(layer.at("name").as_string());
    if (!name.starts_with("conv_")) continue;
    names.insert(name);
    ASSERT_TRUE(layer.at("busy_cycles").is_number()) << "not counted; run tools/rtl-nets";
    const double cycles = layer.at("busy_cycles").to_number<double>();
    work = layer.at("multiply_accumulates").to_number<double>();
    slices = slices_by_yosys(name);
    ASSERT_GT(slices, 0);
    busy = slices * cycles;
    expect_line("`" + name + "`", grouped(static_cast<std::uint64_t>(cycles)));
    all_work += work;
    all_slices += slices;
    all_busy += busy;
  }
  EXPECT_EQ(names, (std::set<std::string>{"conv_5", "conv_14", "conv_23"})) << "all on DSP slices";
  work = all_work;
  slices = all_slices;
  busy = all_busy;
  expect_line("all three", "");
  EXPECT_GE(work / slices / interval, 1.6);
  EXPECT_GE(work / busy, 1.95);
}

TEST_F(RtlNets, NoFifoIsDeeperThanTwiceItsHighWaterMark) {
  for (const json::value& row : rows()) {
    if (stalls(row)) continue;
    EXPECT_TRUE(row.at("fifos").at("sufficient").as_bool()) << describe(row);
    EXPECT_TRUE(row.at("fifos").at("wasteful").as_array().empty()) << describe(row);
  }
}

}  // namespace
}  // namespace millrace::tests::test_rtl_nets
