#include <gtest/gtest.h>

#include <fstream>
#include <span>

#include "compiler/compile.hpp"
#include "compiler/passes/passes.hpp"
#include "onnx_model.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "tests/paths/paths.hpp"

namespace millrace::compiler::test_compile {
namespace {

class Compile : public testing::Test {
 protected:
  Compile() {
    tests::OnnxModel m;
    m.input("x", {1, 4});
    m.pair("x", 0.5F, 0, "xq");
    m.weights("w", {4, 3}, std::vector<std::int64_t>(12, 5), {0.25F});
    m.node("MatMul", {"xq", "w"}, "product");
    m.pair("product", 1.0F, 0, "y");
    m.output("y");
    bytes_ = m.bytes();
    options_.model = directory_.path() / "net.onnx";
    options_.cluster = std::filesystem::path(tests::source_dir()) / "configs/clusters/one-ku060.yaml";
    options_.output = directory_.path() / "out";
    std::ofstream(options_.model, std::ios::binary) << bytes_;
  }

  TemporaryDirectory directory_{"millrace-compile"};
  std::string bytes_;
  CompileOptions options_;
};

TEST_F(Compile, OptionDumpAfterAllPrintsTheGraphAfterEveryStep) {
  options_.dump_after = {"all"};
  testing::internal::CaptureStderr();
  const auto report = compile(options_);
  const std::string dumped = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(report.ok()) << report.error().message();
  std::size_t at = dumped.find("--- after import\n");
  ASSERT_NE(at, std::string::npos);
  for (const auto& pass : passes::standard_passes()) {
    at = dumped.find(std::string("--- after ") + pass.name + "\n", at);
    ASSERT_NE(at, std::string::npos) << pass.name;
  }
}

TEST_F(Compile, OptionDumpAfterWithAnUnknownStepListsAllSteps) {
  options_.dump_after = {"everything"};
  const auto report = compile(options_);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code(), ErrorCode::kInvalidInput);
  for (const char* part : {"--dump-after everything", "import", "fuse_requantise", "all"})
    EXPECT_NE(report.error().message().find(part), std::string::npos) << report.error().message();
}

TEST_F(Compile, SourceDigestEqualsTheDigestOfTheModelFile) {
  const auto report = compile(options_);
  ASSERT_TRUE(report.ok()) << report.error().message();
  EXPECT_EQ(report->plan.model.source_digest,
            sha256_hex(std::as_bytes(std::span(bytes_.data(), bytes_.size()))));
}

TEST_F(Compile, ErrorNamesAFileThatIsNotAModel) {
  std::ofstream(options_.model, std::ios::binary) << "no model";
  const auto report = compile(options_);
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().message().find("net.onnx"), std::string::npos) << report.error().message();
}

}  // namespace
}  // namespace millrace::compiler::test_compile
