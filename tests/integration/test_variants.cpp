// Tests `millrace compile --variants N`: several deployments in one directory, their index, and the requests
// that the command refuses.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>

#include "runtime/base/file.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/process.hpp"

namespace millrace::tests::test_variants {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

class VariantsCommand : public ::testing::Test {
 protected:
  Outcome compile(const std::string& output, std::vector<std::string> more,
                  const std::string& cluster = "two-ku060") {
    std::vector<std::string> command{
        millrace_binary(),
        "compile",
        (kSource / "tests/vectors/lenet5_mnist/lenet5_qdq_s8_pow2.onnx").string(),
        "--cluster",
        (kSource / "configs/clusters" / (cluster + ".yaml")).string(),
        "-o",
        file(output)};
    command.insert(command.end(), more.begin(), more.end());
    return run_program(command);
  }
  std::string file(const std::string& name) const { return (directory_.path() / name).string(); }
  std::string text(const std::string& name) const {
    const auto read = read_text_file(file(name));
    return read.ok() ? *read : "";
  }

  const fs::path kSource = tests::source_dir();
  TemporaryDirectory directory_{"millrace-variants"};
};

TEST_F(VariantsCommand, BuildsDeploymentsNoneOfWhichIsBetterThanAnotherInEveryFigure) {
  const Outcome outcome = compile("d", {"--variants", "3", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto root = json::parse(outcome.out);
  EXPECT_EQ(root.at("kind").as_string(), "variants");
  EXPECT_EQ(root.at("schema").as_int64(), 1);
  const auto& variants = root.at("variants").as_array();
  ASSERT_EQ(variants.size(), 3U);
  const auto number = [](const json::value& v, const char* key) { return v.at(key).to_number<double>(); };
  int own = 0;
  for (const auto& a : variants) {
    own += a.at("own").as_bool() ? 1 : 0;
    for (const auto& b : variants) {
      if (&a == &b || b.at("own").as_bool()) continue;
      EXPECT_FALSE(number(a, "cards") <= number(b, "cards") &&
                   number(a.at("predicted"), "frames_per_second") >=
                       number(b.at("predicted"), "frames_per_second") &&
                   number(a.at("predicted"), "latency_us") <= number(b.at("predicted"), "latency_us") &&
                   number(a, "fullest") <= number(b, "fullest"))
          << a << " beats " << b;
    }
    const std::string place = file("d/" + std::string(a.at("directory").as_string()));
    EXPECT_TRUE(fs::exists(place + "/report.html"));
    const Outcome verified = run_program({millrace_binary(), "verify", place, "--frames", "2", "--json"});
    EXPECT_EQ(verified.exit_code, 0) << verified.err;
    EXPECT_EQ(json::parse(verified.out).at("mismatches").to_number<int>(), 0);
    const Outcome inspected = run_program({millrace_binary(), "inspect", place, "--json"});
    EXPECT_EQ(json::parse(inspected.out).at("digest"), a.at("digest"));
  }
  EXPECT_EQ(own, 1);
  for (const char* command : {"inspect", "verify", "synth"}) {
    const Outcome refused = run_program({millrace_binary(), command, file("d")});
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_NE(
        refused.err.find("d: this directory holds variants of a deployment; name one of the variants: "),
        std::string::npos)
        << refused.err;
  }
  auto index = json::parse(text("d/variants.json")).as_object();
  EXPECT_EQ(index.at("variants"), root.at("variants"));
}

TEST_F(VariantsCommand, VariantsAreDeterministicAndOverwriteOnlyOlderVariants) {
  ASSERT_EQ(compile("one", {"--variants", "2", "--quiet"}).exit_code, 0);
  ASSERT_EQ(compile("two", {"--variants", "2", "--quiet"}).exit_code, 0);
  EXPECT_FALSE(text("one/variants.json").empty());
  EXPECT_EQ(text("one/variants.json"), text("two/variants.json"));
  for (const char* sums : {"/variant1/CHECKSUMS", "/variant2/CHECKSUMS"})
    EXPECT_EQ(text("one" + std::string(sums)), text("two" + std::string(sums)));
  EXPECT_EQ(compile("one", {"--variants", "1", "--quiet"}).exit_code, 0);
  EXPECT_FALSE(fs::exists(file("one/variant2")));
  EXPECT_EQ(compile("one", {"--quiet"}).exit_code, 2) << "a deployment takes the place of deployments only";
  std::ofstream(file("two/variant1/notes")) << "mine";
  const Outcome refused = compile("two", {"--variants", "2"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("variant1/notes"), std::string::npos) << refused.err;
}

TEST_F(VariantsCommand, ReportsIfFewerVariantsThanRequestedAreWorthBuilding) {
  const Outcome outcome = compile("d", {"--variants", "32"}, "one-ku060");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("no other variant is worth building"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("as without --variants"), std::string::npos) << outcome.out;
}

TEST_F(VariantsCommand, RefusesBadCountsAndAPlanFile) {
  EXPECT_EQ(compile("d", {"--variants", "0"}).exit_code, 2);
  EXPECT_EQ(compile("d", {"--variants", "many"}).exit_code, 2);
  const Outcome plan = compile("d", {"--variants", "2", "--plan", "plan.yaml"});
  EXPECT_EQ(plan.exit_code, 2);
  EXPECT_NE(plan.err.find("--variants and --plan"), std::string::npos) << plan.err;
  const Outcome target = compile("d", {"--variants", "2", "--target-fps", "1e9"});
  EXPECT_EQ(target.exit_code, 1);
  EXPECT_FALSE(fs::exists(file("d")));
}

}  // namespace
}  // namespace millrace::tests::test_variants
