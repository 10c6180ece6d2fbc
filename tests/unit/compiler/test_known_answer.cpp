// Tests the known answers that the compiler writes into deployments, against the reference implementation.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "compiler/emit/deployment.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/base/digest.hpp"
#include "runtime/plan/known_answer.hpp"
#include "tests/paths/paths.hpp"
#include "tests/shortcuts/cuts.hpp"
#include "tests/support/programs.hpp"

namespace millrace::compiler::emit::test_known_answer {
namespace {

using namespace runtime::plan;

ModelInfo model_info(const kernels::Program& program) {
  ModelInfo info;
  info.name = "net";
  const auto signature = [&](kernels::TensorIndex index) {
    TensorSignature made{program.tensors[index].name, "FP32", {1}};
    for (const auto axis : program.tensors[index].shape) made.shape.push_back(axis);
    return made;
  };
  for (const auto index : program.inputs) info.inputs.push_back(signature(index));
  for (const auto index : program.outputs) info.outputs.push_back(signature(index));
  return info;
}

Deployment deployment_of(const kernels::Program& program, const std::string& clusters) {
  const Cluster cluster =
      load_cluster(std::filesystem::path(tests::source_dir()) / "configs" / "clusters" / clusters).value();
  const auto solution = millrace::tests::cut_by_work(explore::make_problem(program, cluster, {}));
  EXPECT_TRUE(solution.ok()) << solution.error().message();
  auto artifacts = build_deployment(program, *solution, cluster, model_info(program));
  EXPECT_TRUE(artifacts.ok()) << artifacts.error().message();
  return artifacts->plan;
}

/// Computes the known frame with the reference implementation and compares the digests of the tensors that the host reads
/// from cards. Returns how many it compared.
std::size_t compare_with_reference(const kernels::Program& program, const Deployment& plan) {
  std::map<std::string, std::string> digests;  // by tensor
  (void)kernels::reference::run(program, known_inputs(plan),
                                [&](kernels::TensorIndex tensor, const auto& bytes) {
                                  digests[program.tensors[tensor].name] = sha256_hex(bytes);
                                });
  for (const KnownAnswer::Result& result : plan.known_answer->results) {
    const Partition& partition = *plan.find_partition(result.port.partition);
    const auto port = std::find_if(partition.outputs.begin(), partition.outputs.end(),
                                   [&](const Port& one) { return one.name == result.port.port; });
    EXPECT_EQ(result.sha256, digests.at(port->tensor)) << port->tensor;
  }
  return plan.known_answer->results.size();
}

TEST(KnownAnswer, EqualsTheReferenceOnOneCardAndOnSeveral) {
  for (const auto& program : {tests::chain_program(4), tests::skip_program(4), tests::branch_program()}) {
    for (const std::string cluster : {"one-ku060.yaml", "three-ku060.yaml"}) {
      const Deployment plan = deployment_of(program, cluster);
      ASSERT_TRUE(plan.known_answer.has_value());
      EXPECT_GE(compare_with_reference(program, plan), 1U);
    }
  }
}

TEST(KnownAnswer, InputsAreValuesThatTheQuantiserNeitherRoundsNorClamps) {
  const auto program = tests::chain_program(2);
  const Deployment plan = deployment_of(program, "one-ku060.yaml");
  const auto& quantise = std::get<kernels::Quantise>(program.blocks.front().operation);
  const KnownAnswer::Input& input = plan.known_answer->inputs.at(0);
  const auto type = program.tensors[program.blocks.front().outputs.front()].type;
  EXPECT_EQ(input.step, quantise.scale.front());
  EXPECT_EQ(input.lowest, type.lowest() - quantise.zero_point);
  EXPECT_EQ(input.highest, type.highest() - quantise.zero_point);
}

TEST(KnownAnswer, LeavesOutResultsThatDependOnFloatOperatorsOfTheHost) {
  const auto program = tests::interrupted_program();
  const Deployment plan = deployment_of(program, "one-ku060.yaml");
  ASSERT_TRUE(plan.known_answer.has_value());
  std::size_t read = 0;
  for (const Channel& channel : plan.channels) {
    const Partition* const producer = plan.find_partition(channel.producer.partition);
    read += producer != nullptr && producer->kind != PartitionKind::kHost ? 1U : 0U;
  }
  EXPECT_LT(plan.known_answer->results.size(), read);
  EXPECT_GE(compare_with_reference(program, plan), 1U);
}

TEST(KnownAnswer, IsRefusedIfItContradictsThePlan) {
  Deployment plan = deployment_of(tests::chain_program(2), "one-ku060.yaml");
  ASSERT_TRUE(validate(plan).ok());
  const auto refused = [&](auto change, const std::string& reason) {
    Deployment changed = plan;
    change(*changed.known_answer);
    changed.digest = compute_digest(changed);
    const Status status = validate(changed);
    ASSERT_FALSE(status.ok()) << reason;
    EXPECT_NE(status.error().message().find(reason), std::string::npos) << status.error().message();
  };
  refused([](KnownAnswer& known) { known.inputs.clear(); }, "known_answer.inputs");
  refused([](KnownAnswer& known) { known.inputs[0].lowest = known.inputs[0].highest + 1; }, "lowest");
  refused([](KnownAnswer& known) { known.results[0].port.port = "out9"; }, "'part0.out9'");
  refused([](KnownAnswer& known) { known.results[0].sha256.pop_back(); }, "is no SHA-256 digest");
  refused([](KnownAnswer& known) { known.results.clear(); }, "known_answer.results: there is none");
}

TEST(KnownAnswer, SurvivesJson) {
  const Deployment plan = deployment_of(tests::chain_program(2), "one-ku060.yaml");
  const auto parsed = parse_deployment(to_json(plan));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  EXPECT_EQ(parsed->known_answer, plan.known_answer);
}

}  // namespace
}  // namespace millrace::compiler::emit::test_known_answer
