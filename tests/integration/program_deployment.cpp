#include "tests/integration/program_deployment.hpp"

#include <stdexcept>

#include "compiler/emit/deployment.hpp"
#include "compiler/explore/partition.hpp"

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

}  // namespace

std::shared_ptr<const plan::LoadedDeployment> deploy(const kernels::Program& program,
                                                     const plan::Cluster& cluster, std::uint32_t partitions,
                                                     const std::filesystem::path& directory) {
  plan::ModelInfo model;
  model.name = program.name;
  for (const kernels::TensorIndex index : program.inputs)
    model.inputs.push_back(signature_of(program.tensors[index]));
  for (const kernels::TensorIndex index : program.outputs)
    model.outputs.push_back(signature_of(program.tensors[index]));
  const auto problem = compiler::explore::make_problem(program, cluster, partitions);
  const auto solution = must(compiler::explore::solve(problem));
  const auto artifacts = must(compiler::emit::build_deployment(program, solution, cluster, model));
  if (const Status written = compiler::emit::write(artifacts, directory); !written.ok()) {
    throw std::runtime_error(written.error().message());
  }
  return std::make_shared<const plan::LoadedDeployment>(must(plan::load_deployment(directory)));
}

}  // namespace millrace::tests
