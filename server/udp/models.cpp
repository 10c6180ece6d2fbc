#include "server/udp/models.hpp"

#include <limits>

#include "server/udp/wire/signature.hpp"

namespace millrace::server::udp {
namespace {

using runtime::plan::TensorSignature;

/// 0 where it has none or too many.
std::uint64_t bytes_of(const TensorSignature& tensor) {
  std::uint64_t bytes = wire::datatype_bytes(tensor.datatype);
  for (const std::int64_t n : tensor.shape) {
    if (n <= 0 || bytes > std::numeric_limits<std::uint32_t>::max() / static_cast<std::uint64_t>(n)) return 0;
    bytes *= static_cast<std::uint64_t>(n);
  }
  return bytes;
}

Status check(const std::vector<TensorSignature>& tensors) {
  std::uint64_t total = 0;
  for (const TensorSignature& tensor : tensors) {
    const std::uint64_t bytes = bytes_of(tensor);
    total += bytes;
    if (bytes == 0 || total > std::numeric_limits<std::uint32_t>::max())
      return Error(ErrorCode::kUnsupported,
                   "tensor '" + tensor.name + "' (" + tensor.datatype +
                       ") has no fixed size below 4 GiB, so the model cannot be served over UDP");
  }
  if (total == 0)
    return Error(ErrorCode::kUnsupported, "a model without inputs or outputs cannot be served over UDP");
  return {};
}

std::uint32_t measure(const std::vector<TensorSignature>& tensors, std::vector<std::uint32_t>& each,
                      std::vector<wire::TensorDescription>& described) {
  std::uint32_t total = 0;
  for (const TensorSignature& tensor : tensors) {
    each.push_back(static_cast<std::uint32_t>(bytes_of(tensor)));
    total += each.back();
    wire::TensorDescription d{tensor.name, tensor.datatype, {}};
    for (const std::int64_t n : tensor.shape) d.shape.push_back(static_cast<std::uint32_t>(n));
    described.push_back(std::move(d));
  }
  return total;
}

}  // namespace

Status ServedModel::check(const runtime::plan::ModelInfo& info) {
  MILLRACE_TRY(udp::check(info.inputs));
  return udp::check(info.outputs);
}

ServedModel::ServedModel(std::uint32_t model_handle, runtime::pipeline::Pipeline& model_pipeline,
                         const runtime::plan::ModelInfo& info)
    : handle(model_handle), pipeline(model_pipeline) {
  wire::Signature described;
  input_bytes = measure(info.inputs, inputs, described.inputs);
  output_bytes = measure(info.outputs, outputs, described.outputs);
  signature = wire::encode(described);
}

}  // namespace millrace::server::udp
