// Counts the memory allocations of a request over emulated cards through the real XRT library, after warm-up.
// The count includes the threads of the server, the pipeline and the cards.
#include <gtest/gtest.h>

#include "runtime/base/file.hpp"
#include "runtime/base/log.hpp"
#include "runtime/emulator/backend.hpp"
#include "runtime/pipeline/pipeline.hpp"
#include "tests/integration/program_deployment.hpp"
#include "tests/integration/real_plans.hpp"
#include "tests/support/file_environment.hpp"
#include "tests/support/programs.hpp"
#include "tests/unit/server/request_allocations.hpp"

namespace millrace::tests::test_request_allocations {
namespace {

using runtime::pipeline::Pipeline;

constexpr std::uint32_t kCards = 3;

class Backend : public testing::Environment {
  void SetUp() override {
    log::configure(log::Level::kOff, false);
    ASSERT_TRUE(runtime::emulator::select_backend(emulated_ring(kCards)).ok());
  }
};
const auto* const kBackend = add_file_environment<Backend>(__FILE__);

std::string binary_header(const runtime::plan::ModelInfo& model) {
  const auto& input = model.inputs[0];
  std::string shape;
  for (const auto dimension : input.shape) shape += (shape.empty() ? "" : ",") + std::to_string(dimension);
  return R"({"inputs":[{"name":")" + input.name + R"(","datatype":")" + input.datatype + R"(","shape":[)" +
         shape + R"(],"parameters":{"binary_data_size":)" + std::to_string(input.bytes()) +
         R"(}}],"parameters":{"binary_data_output":true}})";
}

class RequestAllocations : public testing::TestWithParam<std::uint32_t> {};

TEST_P(RequestAllocations, OnlyTheHttpParserAllocatesMemoryForARequest) {
  const TemporaryDirectory directory("millrace-allocations");
  const auto cluster = emulated_ring(GetParam());
  auto opened =
      Pipeline::open(deploy(chain_program(6), cluster, GetParam(), directory.path() / "d"), cluster, {});
  ASSERT_TRUE(opened.ok()) << opened.error().message();
  const std::shared_ptr<Pipeline> pipeline = std::move(*opened);
  const auto& model = pipeline->deployment().model;
  server::http::test::expect_none_beyond_the_parsers(
      pipeline, server::http::test::request_with(model.name, binary_header(model), model.inputs[0].bytes()));
}

INSTANTIATE_TEST_SUITE_P(Cards, RequestAllocations, testing::Values(1U, 2U, kCards));

}  // namespace
}  // namespace millrace::tests::test_request_allocations
