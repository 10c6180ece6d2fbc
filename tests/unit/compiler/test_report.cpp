#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <set>

#include "compiler/generators/catalog.hpp"
#include "compiler/planning/alternatives.hpp"
#include "compiler/planning/plan.hpp"
#include "compiler/report/figures.hpp"
#include "compiler/report/report.hpp"
#include "tests/paths/paths.hpp"

namespace millrace::compiler::test_report {
namespace {

namespace json = boost::json;

const std::filesystem::path kSource = tests::source_dir();

PlanOptions lenet(const std::string& cluster, std::uint32_t cards) {
  PlanOptions options;
  options.model = kSource / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx";
  options.cluster = kSource / "configs/clusters" / (cluster + ".yaml");
  options.partitions = cards;
  return options;
}

Plan planned(std::uint32_t cards = 3) {
  auto plan = make_plan(lenet("three-ku060", cards));
  EXPECT_TRUE(plan.ok()) << plan.error().message();
  return std::move(*plan);
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Template, EscapesHtmlInValues) {
  const std::string in_attribute = "\"><script>alert(1)</script>' onload='x";
  const std::string in_text = "</p><script>&amp;\x1b[31m\xff\xc3({{a}}";
  EXPECT_EQ(report::fill("<p title=\"{{a}}\">{{b}}</p>", {{"a", in_attribute}, {"b", in_text}}),
            "<p title=\"&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&#39; "
            "onload=&#39;x\">&lt;/p&gt;&lt;script&gt;&amp;amp;\\x1b[31m\xef\xbf\xbd\xef\xbf\xbd({{a}}</p>");
}

TEST(Template, RepeatsASectionForEachElement) {
  const json::value values = {{"name", "outer"}, {"rows", {{{"n", 1}}, {{"n", 2}, {"name", "inner"}}}}};
  EXPECT_EQ(report::fill("{{#rows}}{{n}} {{name}};{{/rows}}", values), "1 outer;2 inner;");
  EXPECT_EQ(report::fill("{{#list}}{{.}},{{/list}}", {{"list", {"a", "b"}}}), "a,b,");
}

TEST(Template, LeavesOutSectionsWithoutAValue) {
  const char* text = "{{#x}}{{#y}}there{{/y}}{{/x}}{{^x}}not there{{/x}}";
  for (const json::value& x : {json::value(nullptr), json::value(false), json::value(0), json::value(""),
                               json::value(json::array())})
    EXPECT_EQ(report::fill(text, {{"x", x}, {"y", true}}), "not there");
  EXPECT_EQ(report::fill(text, {{"y", true}}), "not there");
  EXPECT_EQ(report::fill(text, {{"x", json::object{{"y", true}}}}), "there");
  EXPECT_EQ(report::fill("{{#x.y}}{{.}}{{/x.y}}", {{"x", json::object{{"y", 3}}}}), "3");
}

TEST(Template, FiltersFormatNumbersWithUnitsAndThousandsSeparators) {
  const json::value values = {{"n", 1234567.0}, {"none", nullptr}};
  EXPECT_EQ(report::fill("{{n|commas}} {{n|short}} {{n|bytes}} {{n|us}} {{n|joules}} {{none|short}}", values),
            "1,234,567 1.2 M 1.2 MB 1.23 s 1.23 J -");
}

TEST(ReportText, FormatsNumbersWithUnitsAndFewDigits) {
  EXPECT_EQ(report::with_commas(1234567), "1,234,567");
  EXPECT_EQ(report::short_number(99999), "99,999");
  EXPECT_EQ(report::short_number(10416666), "10.4 M");
  EXPECT_EQ(report::short_number(INFINITY), "-");
  EXPECT_EQ(report::percent(0.027), "2.7 %");
  EXPECT_EQ(report::percent(0.34), "34 %");
  EXPECT_EQ(report::bytes(84), "84 B");
  EXPECT_EQ(report::bytes(1.25e9), "1.2 GB");
  EXPECT_EQ(report::duration(8.0032e-6), "8.00 us");
  EXPECT_EQ(report::duration(0.0125), "12.5 ms");
  EXPECT_EQ(report::shortened("conv_12345", 6), "conv_…");
  EXPECT_EQ(report::shortened("größe", 5), "größe");
  EXPECT_EQ(report::shortened("größe", 4), "grö…");
}

TEST(Report, PageHasEverySectionAndLoadsNothingFromTheNetwork) {
  const Plan plan = planned();
  const std::string page = report::html(plan, find_alternatives(plan));
  for (const char* id :
       {"pipeline", "roofline", "alternatives", "latency", "layers", "bandwidth", "resources", "energy"})
    EXPECT_EQ(count(page, std::string("<section id=\"") + id + "\""), 1U) << id;
  EXPECT_EQ(count(page, "<svg"), count(page, "</svg>"));
  for (const char* never : {"http:", "https:", "<script", "src=", "@import", "url(http", "nan", "inf "})
    EXPECT_EQ(count(page, never), 0U) << never;
  EXPECT_EQ(count(page, "default-src 'none'"), 1U);
  EXPECT_EQ(count(page, "{{"), 0U);
}

TEST(Report, PagesOfTheSamePlanDifferOnlyInTheSearchTimes) {
  Plan a = planned(), b = planned();
  const Alternatives alternatives = find_alternatives(a);
  b.times.exploration_ms = a.times.exploration_ms + 1;
  EXPECT_EQ(report::html(a, alternatives, {false}), report::html(b, find_alternatives(b), {false}));
  EXPECT_NE(report::html(a), report::html(b));
}

TEST(Report, PageDrawsTheMessagesAndTheLoadOfTheCables) {
  const std::string page = report::html(planned());
  // LeNet-5 is cut between its fully connected layers, of 120 and 84 results. On the cable, a packet also has 40 bytes
  // of header and CRC.
  EXPECT_EQ(count(page,
                  "<title>part0.out0 to part1.in0: 120 bytes a frame in 1 packet, 2 credits, "
                  "240 bytes of buffer, "),
            1U);
  EXPECT_EQ(count(page, "<title>part1.out0 to part2.in0: 84 bytes a frame in 1 packet, "), 1U);
  EXPECT_EQ(count(page, "<title>part2.out0 to output.in0: 10 bytes a frame</title>"), 1U)
      << "through the host's memory";
  EXPECT_EQ(count(page, "data-label=\"Cable\" class=\"text\">fpga0-fpga1</td>"), 1U);
  EXPECT_EQ(count(page, "<td data-label=\"Bytes a frame\">160</td>"), 1U);
  EXPECT_EQ(count(report::html(planned(1)), "id=\"cables\""), 0U);
}

TEST(Report, PageShowsHostileNamesAsText) {
  const std::string evil =
      "</title></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\x1b]0;x\x07";
  Plan plan = planned();
  Lowered lowered = *plan.lowered;
  plan.model.info.name = lowered.cluster.name = plan.model.assumed = evil;
  lowered.changes.splits = {{evil, 2}};
  plan.analysis.bottleneck = evil;
  plan.analysis.lifts = {evil};
  for (auto& card : lowered.problem.cards) {
    card.name = card.device = evil;
    for (auto& region : card.regions) region.name = evil;
  }
  for (auto& place : plan.analysis.places)
    for (auto& region : place.regions) region.name = evil;
  for (auto* program : {&lowered.program, &plan.placed.program})
    for (auto& block : program->blocks) block.name = evil;
  for (auto& operation : lowered.problem.operations)
    for (auto& implementation : operation.implementations) implementation.name = evil;
  for (const bool predicted : {true, false}) {
    if (!predicted) lowered.candidates.without = {{evil, evil}};
    plan.lowered = std::make_shared<const Lowered>(lowered);
    const std::string page = report::html(plan, {{}, evil});
    EXPECT_EQ(count(page, "<script"), 0U);
    EXPECT_EQ(count(page, "<img"), 0U);
    EXPECT_EQ(count(page, "</style>"), 1U);
    EXPECT_EQ(count(page, "\x1b"), 0U);
    EXPECT_GT(count(page, "&lt;script&gt;alert(1)"), 5U);
  }
}

TEST(Report, JsonHasTheFiguresThatThePageDraws) {
  const Plan plan = planned();
  const auto root = json::parse(report::json(plan, lenet("three-ku060", 3), find_alternatives(plan)));
  EXPECT_EQ(root.at("schema").as_int64(), 1);
  const auto& waterfall = root.at("waterfall").as_array();
  ASSERT_EQ(waterfall.size(), 7U);
  double before = 0;
  for (const auto& work : waterfall) {
    EXPECT_LE(work.at("begin_us").to_number<double>(), work.at("first_us").to_number<double>());
    EXPECT_LE(work.at("first_us").to_number<double>(), work.at("last_us").to_number<double>());
    EXPECT_LE(before, work.at("last_us").to_number<double>());
    before = work.at("last_us").to_number<double>();
  }
  EXPECT_DOUBLE_EQ(before, plan.solution.latency_seconds * 1e6);
  EXPECT_TRUE(root.at("energy").at("assumed").as_bool());
  EXPECT_GT(root.at("energy").at("microjoules_per_frame").to_number<double>(), 0);
  for (const auto& term : root.at("energy").at("terms").as_array())
    EXPECT_FALSE(term.at("from").as_string().empty());
  EXPECT_GT(root.at("partitions").at(0).at("blocks").at(0).at("input_bytes").to_number<double>(), 0);
  std::set<std::int64_t> cards;
  for (const auto& alternative : root.at("alternatives").as_array())
    cards.insert(alternative.at("cards").as_int64());
  EXPECT_EQ(cards, (std::set<std::int64_t>{1, 2, 3}));
}

TEST(Report, UnknownOptimalityGapIsNullInJsonAndNoPercentageInText) {
  Plan plan = planned();
  const auto gap = [&] { return json::parse(report::json(plan, {})).at("predicted").at("gap"); };
  plan.solution.exact = false;
  plan.solution.gap = 0.25;
  EXPECT_EQ(gap(), 0.25);
  EXPECT_EQ(count(report::terminal(plan, false), "at most 25.0 %"), 1U);
  plan.solution.gap = INFINITY;
  EXPECT_TRUE(gap().is_null());
  EXPECT_EQ(count(report::terminal(plan, false), "it is not known how far from"), 1U);
  EXPECT_EQ(count(report::terminal(plan, false), "at most"), 0U);
  plan.solution.gap = 0;  // no better plan is searched for if the plan is from a file
  plan.followed.emplace();
  EXPECT_TRUE(gap().is_null());
}

TEST(Report, ListsCostTermsThatNoMeasurementSupports) {
  Plan plan = planned(2);
  EXPECT_EQ(plan.extrapolated, std::vector<generators::Extrapolation>{});
  EXPECT_EQ(count(report::terminal(plan, false), "extrapolated"), 0U);
  EXPECT_EQ(json::parse(report::json(plan, lenet("three-ku060", 2))).at("extrapolated").as_array().size(),
            0U);
  generators::Catalog catalog = generators::load_catalog().value();
  catalog.modules.at("mr_ingress").lut.coefficients.erase("ingress");
  catalog.modules.at("mr_egress").ff.coefficients.clear();
  catalog.modules.at("mr_mvu").lut.coefficients.erase("tree");
  catalog.modules.at("mr_mvu").lut.coefficients.erase("counter");
  catalog.modules.at("mr_concat").lut.coefficients.clear();  // the plan has no such module
  plan.extrapolated = extrapolations(catalog, plan);
  const auto named = [&](const char* module, const char* figure, const char* term) {
    return std::count(plan.extrapolated.begin(), plan.extrapolated.end(),
                      generators::Extrapolation{module, figure, term});
  };
  EXPECT_EQ(named("mr_ingress", "lut", "ingress"), 1);
  EXPECT_EQ(named("mr_egress", "ff", "egress"), 1);
  EXPECT_EQ(named("mr_mvu", "lut", "tree"), 1);
  for (const auto& one : plan.extrapolated) EXPECT_NE(one.module, "mr_concat");
  const auto in_json = json::parse(report::json(plan, lenet("three-ku060", 2))).at("extrapolated").as_array();
  EXPECT_EQ(in_json.size(), plan.extrapolated.size());
  EXPECT_EQ(in_json.back(), (json::value{{"module", "mr_mvu"}, {"figure", "lut"}, {"term", "tree"}}));
  EXPECT_EQ(count(report::terminal(plan, false), "mr_mvu in LUT (counter, tree)"), 1U);
  EXPECT_EQ(count(report::html(plan), "mr_mvu in LUT (counter, tree)"), 1U);
}

TEST(Report, AlternativesUseReplicasWhereReplicasAreFaster) {
  const Plan plan = planned();
  const Alternatives alternatives = find_alternatives(plan);
  double one = 0;
  for (const auto& alternative : alternatives.found)
    if (alternative.cards == 1) one = std::max(one, alternative.frames_per_second());
  std::uint32_t most = 1;
  for (const auto& alternative : alternatives.found) {
    EXPECT_EQ(alternative.cards % alternative.replicas, 0U);
    if (alternative.objective != explore::Objective::kThroughput) continue;
    most = std::max(most, alternative.replicas);
    EXPECT_GE(alternative.frames_per_second() * (1 + 1e-9),
              one * alternative.cards);  // one replica on each card would fit
  }
  EXPECT_GT(most, 1U);
  const auto root = json::parse(report::json(plan, lenet("three-ku060", 3), alternatives));
  const auto& last = root.at("alternatives").as_array();
  EXPECT_TRUE(std::any_of(last.begin(), last.end(), [](const json::value& alternative) {
    return alternative.at("replicas").to_number<int>() > 1;
  }));
  EXPECT_EQ(count(report::html(plan, alternatives), " replicas, throughput</th>") > 0, true);
}

TEST(Report, NoAlternativeBeatsTheThroughputOrLatencyOptimum) {
  const auto alternatives = find_alternatives(planned(2)).found;
  for (const auto& a : alternatives)
    for (const auto& b : alternatives) {
      if (a.cards != b.cards) continue;
      if (a.objective == explore::Objective::kThroughput && a.exact) {
        EXPECT_GE(a.frames_per_second() * (1 + 1e-9), b.frames_per_second());
      }
      if (a.objective == explore::Objective::kLatency && a.exact) {
        EXPECT_LE(a.latency_seconds, b.latency_seconds * (1 + 1e-9));
      }
    }
}

TEST(Report, SaysThatAlternativesAreNotComputedForALargeModel) {
  Plan plan = planned();
  Lowered lowered = *plan.lowered;
  auto& operations = lowered.problem.operations;
  const auto one = operations;
  while (operations.size() < 500) operations.insert(operations.end(), one.begin(), one.end());
  plan.lowered = std::make_shared<const Lowered>(lowered);
  const Alternatives alternatives = find_alternatives(plan);
  EXPECT_TRUE(alternatives.found.empty());
  EXPECT_NE(alternatives.left_out.find("--partitions"), std::string::npos);
}

TEST(Report, TerminalNamesTheBusiestCableInEightyColumns) {
  const Plan plan = planned();
  const std::string text = report::terminal(plan, false, find_alternatives(plan));
  EXPECT_NE(text.find("the cable fpga0-fpga1 is at "), std::string::npos) << text;
  EXPECT_NE(text.find("best for"), std::string::npos) << text;
  EXPECT_NE(text.find("exclude the transfers between host and cards"), std::string::npos) << text;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    EXPECT_LE(end - at, 80U) << text.substr(at, end - at);
    at = end + 1;
  }
}

/// The first pool of LeNet-5 reads 6 channels of 28 by 28 bytes and gives 6 channels of 14 by 14 bytes.
TEST(Report, ShowsTimeAndBytesOfTheHostsBlocksBetweenCards) {
  PlanOptions options = lenet("three-ku060", 1);
  options.host_blocks = {"maxpool_9"};
  const auto plan = make_plan(options);
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  const std::string text = report::terminal(*plan, false);
  const auto at = text.find("on the host, between cards");
  ASSERT_NE(at, std::string::npos) << text;
  const std::string rest = text.substr(at);
  EXPECT_NE(rest.find("\n  maxpool_9 "), std::string::npos) << text;
  EXPECT_LT(rest.find("4,704         1,176\n"), rest.find("frames/s limit")) << text;
  const json::value facts = json::parse(report::json(*plan, options));
  for (const auto& block : facts.at("host_times").as_array())
    if (block.at("block").as_string() == "maxpool_9") {
      EXPECT_EQ(block.at("input_bytes").as_int64(), 4704);
      EXPECT_EQ(block.at("output_bytes").as_int64(), 1176);
      return;
    }
  FAIL() << "host_times lacks the block";
}

TEST(Report, OmitsTheHostTableIfTheHostOnlyConvertsInputsAndOutputs) {
  EXPECT_EQ(report::terminal(planned(), false).find("on the host, between cards"), std::string::npos);
}

}  // namespace
}  // namespace millrace::compiler::test_report
