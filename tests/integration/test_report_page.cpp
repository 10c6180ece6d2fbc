// Tests report.html in a real browser. tests/node/report.mjs shows the pages of several plans in Chromium at four
// widths, in light and dark colours and printed. Screenshots are kept in the directory MILLRACE_SHOTS, if set.
#include <gtest/gtest.h>

#include <cstdlib>

#include "compiler/planning/alternatives.hpp"
#include "compiler/report/report.hpp"
#include "runtime/base/file.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/support/tools.hpp"

namespace millrace::tests::test_report_page {
namespace {

using namespace std::chrono_literals;
using compiler::Plan;

const std::filesystem::path kSource = tests::source_dir();

class ReportPage : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(installed({"node", "chromium"}));
    ASSERT_TRUE(node_package_installed("playwright-core"));
  }

  static Plan planned(
      const std::string& cluster, std::optional<std::uint32_t> cards = {}, const std::string& split = "",
      const std::filesystem::path& model = kSource / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx") {
    compiler::PlanOptions options;
    options.model = model;
    options.cluster = kSource / "configs/clusters" / (cluster + ".yaml");
    options.partitions = cards;
    if (!split.empty()) options.splits.push_back({split, 2});
    auto plan = compiler::make_plan(options);
    EXPECT_TRUE(plan.ok()) << plan.error().message();
    return std::move(*plan);
  }

  static std::string page_of(const Plan& plan) {
    const bool predicted = plan.unpredicted().empty();
    return compiler::report::html(plan,
                                  predicted ? compiler::find_alternatives(plan) : compiler::Alternatives());
  }

  void look_at(const Plan& plan, const std::vector<std::string>& more) {
    const auto file = directory_.path() / "report.html";
    ASSERT_TRUE(write_file_atomically(file, page_of(plan)).ok());
    std::vector<std::string> command{"node", kSource / "tests/node/report.mjs", "--file", file};
    if (const char* shots = std::getenv("MILLRACE_SHOTS"); shots != nullptr) {
      const auto* test = testing::UnitTest::GetInstance()->current_test_info();
      command.insert(command.end(), {"--shots", std::filesystem::path(shots) / test->name()});
    }
    command.insert(command.end(), more.begin(), more.end());
    const Outcome outcome = run_program(command, {}, 500s);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  }

  TemporaryDirectory directory_{"millrace-report-page"};
};

TEST_F(ReportPage, IsReadableAtEveryWidthForThreeCards) {
  look_at(planned("three-ku060", 3), {"--expect", "fpga2", "--expect", "gemm_36", "--expect", "limits: "});
}

TEST_F(ReportPage, IsReadableForOneCardAndForBranchesOverCards) {
  look_at(planned("one-ku060"), {"--expect", "conv_5"});
  look_at(planned("nine-ku060", 5, "gemm_24"), {"--expect", "gemm_24_part1"});
}

/// Many layers and large figures make the page's tables as wide as possible.
TEST_F(ReportPage, IsReadableForADeepNetOverCardsOfSeveralKinds) {
  const char* models = std::getenv("MILLRACE_MODELS");
  const auto model =
      std::filesystem::path(models == nullptr ? "" : models) / "resnet8_cifar10/resnet8_int8_qdq.onnx";
  if (!exists(model)) GTEST_SKIP() << model << " is not there (MILLRACE_MODELS)";
  look_at(planned("mixed", 3, "", model), {"--expect", "gemm_70"});
}

TEST_F(ReportPage, ShowsHostileNamesAsText) {
  const std::string evil =
      "</title></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\xe2\x80\xae\xff_" +
      std::string(300, 'W');
  Plan plan = planned("three-ku060", 3);
  compiler::Lowered lowered = *plan.lowered;
  plan.model.info.name = lowered.cluster.name = evil;
  plan.model.assumed = evil;
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
    for (auto& way : operation.implementations) way.name = evil;
  plan.lowered = std::make_shared<const compiler::Lowered>(std::move(lowered));
  look_at(plan, {"--expect", "<script>alert(1)</script>"});
}

TEST_F(ReportPage, ExplainsWhyNoRateIsPredicted) {
  Plan plan = planned("three-ku060", 2);
  compiler::Lowered lowered = *plan.lowered;
  lowered.candidates.without = {{"transpose_3", "block 'transpose_3' has no hardware"}};
  plan.lowered = std::make_shared<const compiler::Lowered>(std::move(lowered));
  look_at(plan, {"--unpredicted", "--expect", "Nothing is predicted: block 'transpose_3' has no hardware"});
}

}  // namespace
}  // namespace millrace::tests::test_report_page
