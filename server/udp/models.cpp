#include "server/udp/models.hpp"

#include <array>
#include <limits>

#include "runtime/base/log.hpp"
#include "server/udp/wire/bytes.hpp"
#include "server/udp/wire/keys.hpp"
#include "server/udp/wire/signature.hpp"

namespace millrace::server::udp {
namespace {

using runtime::plan::TensorSignature;

constexpr std::size_t kMaxHandles = 65535;  // a handle has 16 bits for the index

std::uint16_t random_generation() {
  std::array<std::byte, 2> bytes;
  wire::random_bytes(bytes);
  return wire::load<std::uint16_t>(bytes, 0);
}

/// Stores each tensor's size and description, and the total of the sizes.
Status measure(const std::vector<TensorSignature>& tensors, std::vector<std::uint32_t>& each,
               std::uint32_t& total, std::vector<wire::TensorDescription>& described) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  std::uint64_t sum = 0;
  for (const TensorSignature& tensor : tensors) {
    auto& shape = described.emplace_back(wire::TensorDescription{tensor.name, tensor.datatype, {}}).shape;
    std::uint64_t bytes = wire::datatype_bytes(tensor.datatype);  // 0: the size is not fixed, or is too large
    for (const std::int64_t n : tensor.shape) {
      const auto elements = static_cast<std::uint64_t>(n);
      bytes = n <= 0 || bytes > kMost / elements ? 0 : bytes * elements;
      shape.push_back(static_cast<std::uint32_t>(n));
    }
    sum += bytes;
    if (bytes == 0 || sum > kMost)
      return Error(ErrorCode::kUnsupported,
                   "tensor '" + tensor.name + "' (" + tensor.datatype +
                       ") has no fixed size below 4 GiB, so the model cannot be served over UDP");
    each.push_back(static_cast<std::uint32_t>(bytes));
  }
  if (sum == 0)
    return Error(ErrorCode::kUnsupported, "a model without inputs or outputs cannot be served over UDP");
  total = static_cast<std::uint32_t>(sum);
  return {};
}

}  // namespace

Result<std::shared_ptr<ServedModel>> ServedModel::make(std::uint32_t handle,
                                                       runtime::pipeline::Pipeline& pipeline,
                                                       std::shared_ptr<models::Model> model, bool newest) {
  std::shared_ptr<ServedModel> made(new ServedModel(handle, pipeline, std::move(model), newest));
  const runtime::plan::ModelInfo& info = pipeline.deployment().model;
  wire::Signature described;
  MILLRACE_TRY(measure(info.inputs, made->inputs, made->input_bytes, described.inputs));
  MILLRACE_TRY(measure(info.outputs, made->outputs, made->output_bytes, described.outputs));
  made->signature = wire::encode(described);
  return made;
}

RegistryDirectory::RegistryDirectory(const models::Registry& registry, Loading loading)
    : registry_(registry), loading_(std::move(loading)), first_generation_(random_generation()) {}

void RegistryDirectory::refresh() {
  const models::Snapshot& snapshot = registry_.refresh(view_);
  if (&snapshot != built_from_) rebuild(snapshot);
}

RegistryDirectory::Handle* RegistryDirectory::handle_for(std::string_view name, std::string_view version) {
  for (Handle& entry : handles_)
    if (entry.name == name && entry.version == version) return &entry;
  if (handles_.size() >= kKeptHandles) {
    Handle* oldest = nullptr;
    for (Handle& entry : handles_)
      if (entry.model == nullptr && (oldest == nullptr || entry.left < oldest->left)) oldest = &entry;
    if (oldest != nullptr) {
      oldest->name = name;
      oldest->version = version;
      return oldest;
    }
  }
  if (handles_.size() == kMaxHandles) {
    if (!std::exchange(full_logged_, true))
      log::warning("udp", "more model versions are served than there are UDP handles (" +
                              std::to_string(kMaxHandles) + "); the rest cannot be named over UDP");
    return nullptr;
  }
  handles_.push_back({std::string(name), std::string(version), first_generation_, nullptr, nullptr, 0});
  return &handles_.back();
}

void RegistryDirectory::rebuild(const models::Snapshot& snapshot) {
  for (Handle& entry : handles_) {
    if (entry.model == nullptr || snapshot.find(entry.name, entry.version).get() == entry.model) continue;
    entry.served.reset();
    entry.model = nullptr;
    entry.left = ++withdrawals_;
    ++entry.generation;
  }
  for (const auto& model : snapshot.all()) {
    show(model->version(), model);
    if (snapshot.find(model->name(), {}) == model) show({}, model);
  }
  built_from_ = &snapshot;
}

void RegistryDirectory::show(std::string_view version, const std::shared_ptr<models::Model>& model) {
  Handle* const entry = handle_for(model->name(), version);
  if (entry == nullptr || entry->model == model.get()) return;
  entry->model = model.get();
  const auto index = static_cast<std::uint32_t>(entry - handles_.data()) + 1U;
  auto served = ServedModel::make(std::uint32_t{entry->generation} << 16U | index, model->pipeline(), model,
                                  version.empty());
  if (served.ok())
    entry->served = *std::move(served);
  else if (!version.empty())
    log::warning("udp", "model '" + model->name() + "': " + served.error().message());
}

ModelDirectory::Outcome RegistryDirectory::by_handle(std::uint32_t handle,
                                                     std::shared_ptr<ServedModel>& out) {
  refresh();
  const std::size_t index = handle & 0xFFFFU;
  if (index == 0 || index > handles_.size()) return Outcome::kUnknown;
  const Handle& entry = handles_[index - 1];
  if (entry.generation != handle >> 16U) return entry.served ? Outcome::kStale : Outcome::kUnknown;
  if (!entry.served) return Outcome::kUnknown;
  out = entry.served;
  return Outcome::kFound;
}

std::shared_ptr<ServedModel> RegistryDirectory::by_name(std::string_view name, std::string_view version) {
  refresh();
  for (const Handle& entry : handles_)
    if (entry.name == name && entry.version == version) return entry.served;
  return nullptr;
}

}  // namespace millrace::server::udp
