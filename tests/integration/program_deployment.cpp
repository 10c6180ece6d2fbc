#include "tests/integration/program_deployment.hpp"

#include <functional>
#include <stdexcept>

#include "compiler/emit/deployment.hpp"
#include "compiler/explore/partition.hpp"
#include "compiler/generators/catalog.hpp"
#include "compiler/generators/design.hpp"
#include "tests/shortcuts/cuts.hpp"
#include "tests/shortcuts/foldings.hpp"

namespace millrace::tests {

namespace plan = runtime::plan;

namespace {

template <class T>
T must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message());
  return std::move(*result);
}

plan::TensorSignature signature_of(const kernels::Tensor& tensor) {
  plan::TensorSignature signature{tensor.name, "FP32", {1}};
  if (tensor.type.is_integer()) {
    const bool is_signed = tensor.type.kind != kernels::ElementType::Kind::kUnsigned;
    signature.datatype = (is_signed ? "INT" : "UINT") + std::to_string(8 * tensor.type.storage_bytes());
  }
  for (const std::uint32_t extent : tensor.shape) signature.shape.push_back(extent);
  return signature;
}

/// Chooses the hardware of every block without a limit on resources, because the tests check computed values
/// and not whether a design fits a card.
compiler::Designs designs_for(const kernels::Program& program, const compiler::explore::Solution& solution,
                              std::uint64_t interval) {
  namespace generators = compiler::generators;
  const auto catalog = must(generators::load_catalog());
  FoldingOptions options;
  options.budget = {1'000'000, 1'000'000, 2'000'000, 10'000, 10'000, 1'000};
  options.target_interval = interval;
  const auto programs = compiler::partition_programs(program, solution);
  compiler::Designs designs;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    if (solution.parts[i].host) continue;
    const auto foldings = must(choose_foldings(catalog, programs[i], options));
    designs.emplace(programs[i].name, must(generators::assemble(catalog, programs[i], foldings)));
  }
  return designs;
}

std::shared_ptr<const plan::LoadedDeployment> write_solution(const kernels::Program& program,
                                                             const compiler::explore::Solution& solution,
                                                             const plan::Cluster& cluster,
                                                             const std::filesystem::path& directory,
                                                             const std::string& description,
                                                             const compiler::Designs& designs) {
  plan::ModelInfo model;
  model.name = program.name;
  model.description = description;
  for (const kernels::TensorIndex index : program.inputs)
    model.inputs.push_back(signature_of(program.tensors[index]));
  for (const kernels::TensorIndex index : program.outputs)
    model.outputs.push_back(signature_of(program.tensors[index]));
  const auto artifacts = must(compiler::emit::build_deployment(program, solution, cluster, model, designs));
  if (const Status written = compiler::emit::write(artifacts, directory); !written.ok()) {
    throw std::runtime_error(written.error().message());
  }
  return std::make_shared<const plan::LoadedDeployment>(must(plan::load_deployment(directory)));
}

std::shared_ptr<const plan::LoadedDeployment> write_deployment(
    const kernels::Program& program, const plan::Cluster& cluster, std::uint32_t partitions,
    const std::filesystem::path& directory, const std::string& description,
    const std::function<compiler::Designs(const compiler::explore::Solution&)>& design) {
  const auto problem = compiler::explore::make_problem(program, cluster, partitions);
  const auto solution = must(cut_by_work(problem));
  return write_solution(program, solution, cluster, directory, description, design(solution));
}

}  // namespace

std::shared_ptr<const plan::LoadedDeployment> deploy_as(const kernels::Program& program,
                                                        const compiler::explore::Solution& solution,
                                                        const plan::Cluster& cluster,
                                                        const std::filesystem::path& directory) {
  return write_solution(program, solution, cluster, directory, {}, {});
}

std::shared_ptr<const plan::LoadedDeployment> deploy(const kernels::Program& program,
                                                     const plan::Cluster& cluster, std::uint32_t partitions,
                                                     const std::filesystem::path& directory,
                                                     const std::string& description) {
  return write_deployment(program, cluster, partitions, directory, description,
                          [](const auto&) { return compiler::Designs(); });
}

std::shared_ptr<const plan::LoadedDeployment> deploy_rtl(const kernels::Program& program,
                                                         const plan::Cluster& cluster,
                                                         std::uint32_t partitions,
                                                         const std::filesystem::path& directory,
                                                         std::uint64_t interval_cycles,
                                                         const kernels::Program& hardware_of) {
  return write_deployment(program, cluster, partitions, directory, {}, [&](const auto& solution) {
    return designs_for(hardware_of, solution, interval_cycles);
  });
}

}  // namespace millrace::tests
