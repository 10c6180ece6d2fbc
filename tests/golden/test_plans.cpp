// Compares plans with golden files: the text for the terminal, the JSON and the plan file. After an intended change,
// run MILLRACE_UPDATE_GOLDEN=1 test_plans and read the difference. The golden files omit the time that planning took,
// and figures in the JSON have six digits.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "compiler/planning/alternatives.hpp"
#include "compiler/planning/plan.hpp"
#include "compiler/planning/plan_file.hpp"
#include "compiler/report/report.hpp"
#include "tests/paths/paths.hpp"

namespace millrace::compiler::test_plans {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using explore::Objective;

const fs::path kSource = tests::source_dir();

struct Case {
  const char* name;
  const char* model;    // a path below tests/vectors or below the folder of shared models
  const char* cluster;  // the name of a file in configs/clusters
  Objective objective = Objective::kCards;
  std::optional<std::uint32_t> partitions = {};
  std::optional<double> frames_per_second = {};
  const char* assume = "";
  const char* split = "";  // the block that is split in two, if any
  bool alternatives = false;
};

constexpr char kLenet[] = "lenet5_mnist/lenet5_qdq_s8_pow2.onnx";
const Case kCases[] = {
    {"lenet5_one_card", kLenet, "one-ku060"},
    {"lenet5_three_cards", kLenet, "three-ku060", Objective::kCards, 3, {}, "", "", true},
    {"lenet5_target_of_nine", kLenet, "nine-ku060", Objective::kCards, {}, 5000},
    {"lenet5_latency", kLenet, "three-ku060", Objective::kLatency},
    {"lenet5_mixed_cards", kLenet, "mixed", Objective::kThroughput, 2},
    {"lenet5_split_layer", kLenet, "three-ku060", Objective::kCards, 3, {}, "", "gemm_24"},
    {"ptt_one_card", "pttdnn_cifar10/ptt_qdq_s8_pow2.onnx", "one-ku060", Objective::kThroughput},
    {"tfc_three_cards", "tfc_mnist/tfc_qdq_s8_pow2.onnx", "three-ku060", Objective::kCards, 3},
    {"jet_two_cards", "jet_hls4ml_16_64_32_32_5/jet_int8_qdq.onnx", "two-ku060", Objective::kCards, 2},
    {"dosa_mpcnn_int8", "dosa_originals/MPCNN.onnx", "nine-ku060", Objective::kCards, {}, 5000, "int8"},
    {"kws_one_u280", "kws_dscnn/kws_int8_qop.onnx", "one-u280", Objective::kCards, {}, 10000},
};

std::optional<fs::path> find(const std::string& model) {
  if (const fs::path own = kSource / "tests/vectors" / model; fs::exists(own)) return own;
  const char* shared = std::getenv("MILLRACE_MODELS");
  if (shared == nullptr || !fs::exists(fs::path(shared) / model)) return std::nullopt;
  return fs::path(shared) / model;
}

/// Prints each JSON value on its own line, so that a difference of two files shows single values.
void print(const json::value& value, const std::string& indent, std::string& out) {
  const auto list = [&](const auto& items, char open, char close, const auto& one) {
    if (items.empty()) {
      out += {open, close};
      return;
    }
    out += open;
    bool first = true;
    for (const auto& item : items) {
      out += (first ? "\n" : ",\n") + indent + "  ";
      first = false;
      one(item);
    }
    out += "\n" + indent + close;
  };
  if (value.is_object()) {
    list(value.as_object(), '{', '}', [&](const json::key_value_pair& pair) {
      out += json::serialize(json::string(pair.key())) + ": ";
      print(pair.value(), indent + "  ", out);
    });
  } else if (value.is_array()) {
    list(value.as_array(), '[', ']', [&](const json::value& item) { print(item, indent + "  ", out); });
  } else if (value.is_double()) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", value.as_double());
    out += text;
  } else {
    out += json::serialize(value);
  }
}

std::string json_of(const Plan& plan, const PlanOptions& options, const Alternatives& alternatives = {}) {
  auto root = json::parse(report::json(plan, options, alternatives)).as_object();
  for (const char* time : {"exploration_ms", "prediction_ms", "steps"}) root.erase(time);
  std::string out;
  print(root, "", out);
  return out + "\n";
}

std::string text_of(const Plan& plan, const Alternatives& alternatives) {
  const std::string text = report::terminal(plan, false, alternatives);
  return text.substr(0, text.rfind("\n  explored in "));
}

std::string golden(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(kSource / "tests/golden/plans" / name, std::ios::binary).rdbuf();
  return text.str();
}

void compare(const std::string& name, const std::string& text) {
  const fs::path file = kSource / "tests/golden/plans" / name;
  if (std::getenv("MILLRACE_UPDATE_GOLDEN") != nullptr) {
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return;
  }
  EXPECT_EQ(text, golden(name)) << name << "; if the change is intended: MILLRACE_UPDATE_GOLDEN=1 test_plans";
}

class Plans : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const Case& one = GetParam();
    const auto model = find(one.model);
    if (!model)
      GTEST_SKIP() << one.model << " is not there: set MILLRACE_MODELS to the folder of shared models";
    options_.model = *model;
    options_.cluster = kSource / "configs/clusters" / (std::string(one.cluster) + ".yaml");
    options_.partitions = one.partitions;
    options_.targets.objective = one.objective;
    options_.targets.frames_per_second = one.frames_per_second;
    options_.assume = one.assume;
  }

  PlanOptions options_;  // the options of the case, except splits
};

TEST_P(Plans, MatchTheGoldenFiles) {
  const Case& one = GetParam();
  PlanOptions options = options_;
  if (*one.split != '\0') options.splits.push_back({one.split, 2});
  auto plan = make_plan(options);
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  const Alternatives alternatives = one.alternatives ? find_alternatives(*plan) : Alternatives();
  // The time at which the last block ends must lie within the bounds that compiler/report/README.md states.
  double last = 0;
  for (const auto& work : plan->analysis.works) last = std::max(last, work.last);
  ASSERT_TRUE(plan->placed.played);
  EXPECT_LE(last, plan->latency_seconds);
  EXPECT_GE(last, plan->latency_seconds * 0.75);
  const std::string name = one.name;
  compare(name + ".txt", text_of(*plan, alternatives));
  compare(name + ".json", json_of(*plan, options, alternatives));
  compare(name + ".yaml", plan_file(*plan));
}

/// Returns a plan's JSON without the fields that only a search fills. A plan that was read from a file lacks them.
std::string followed(const std::string& text) {
  auto root = json::parse(text).as_object();
  for (const char* key : {"unedited", "alternatives", "alternatives_left_out"}) root.erase(key);
  for (const char* key : {"gap", "gap_given", "exact"}) root["predicted"].as_object().erase(key);
  std::string out;
  print(root, "", out);
  return out;
}

/// Plans that are read from a plan file must equal the golden files. The plan file also says which layers are split.
TEST_P(Plans, PlansReadBackFromPlanFilesMatchTheGoldenFiles) {
  const std::string name = GetParam().name;
  options_.plan = kSource / "tests/golden/plans" / (name + ".yaml");
  const auto plan = make_plan(options_);
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  EXPECT_EQ(followed(json_of(*plan, options_)), followed(golden(name + ".json")));
  EXPECT_EQ(plan_file(*plan), golden(name + ".yaml"));
}

/// The rate of a plan without simulation is an estimate. The estimate must be within 2 % of the simulated rate.
TEST_P(Plans, RateEstimatedWithoutSimulationIsWithinTwoPercentOfTheSimulatedRate) {
  options_.plan = kSource / "tests/golden/plans" / (std::string(GetParam().name) + ".yaml");
  const auto played = make_plan(options_);
  options_.play = Play::kNone;
  const auto reckoned = make_plan(options_);
  ASSERT_TRUE(played.ok()) << played.error().message();
  ASSERT_TRUE(reckoned.ok()) << reckoned.error().message();
  ASSERT_TRUE(played->placed.played);
  ASSERT_FALSE(reckoned->placed.played);
  EXPECT_NEAR(reckoned->interval_seconds, played->interval_seconds, 0.02 * played->interval_seconds);
}

/// Applies `change` to a copy of the plan and returns the error message of verify(), or an empty string if verify()
/// accepts the plan.
template <class Change>
std::string verdict(Plan plan, Change change) {
  change(plan);
  const Status status = verify(plan);
  return status.ok() ? "" : status.error().message();
}

TEST_P(Plans, VerifyRefusesAPlanWithAnAlteredFigure) {
  const auto plan = make_plan(options_);
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  EXPECT_EQ(verdict(*plan, [](Plan&) {}), "");
  const auto names = [&](const char* figure, auto change) {
    EXPECT_NE(verdict(*plan, change).find(std::string("its ") + figure + " "), std::string::npos)
        << figure << ": " << verdict(*plan, change);
  };
  names("interval", [](Plan& p) { p.interval_seconds *= 0.999; });
  names("interval", [](Plan& p) { p.placed.designs.begin()->second.interval_cycles *= 1000; });
  names("latency", [](Plan& p) { p.latency_seconds *= 0.999; });
  names("gap", [](Plan& p) {
    p.solution.exact = p.bound.exact = false;
    p.solution.gap += 0.01;
  });
  names("exactness", [](Plan& p) { p.solution.exact = !p.solution.exact; });
  if (plan->solution.exact) names("exactness", [](Plan& p) { p.bound.seconds *= 0.99; });
  if (plan->solution.gap > 0) names("gap", [](Plan& p) { p.solution.gap *= 0.5; });
}

INSTANTIATE_TEST_SUITE_P(Golden, Plans, testing::ValuesIn(kCases),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace millrace::compiler::test_plans
