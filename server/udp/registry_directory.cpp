#include "server/udp/registry_directory.hpp"

#include <array>
#include <utility>

#include "runtime/base/log.hpp"
#include "server/udp/wire/bytes.hpp"
#include "server/udp/wire/keys.hpp"

namespace millrace::server::udp {
namespace {

std::uint16_t random_generation() {
  std::array<std::byte, 2> bytes;
  wire::random_bytes(bytes);
  return wire::load<std::uint16_t>(bytes, 0);
}

constexpr std::size_t kMaxHandles = 65535;  // a handle has sixteen bits for the index
constexpr auto kUdp = metrics::Transport::kUdp;

}  // namespace

/// Keeps the model alive and counts for it.
class RegistryDirectory::RegistryModel final : public ServedModel {
 public:
  RegistryModel(std::uint32_t model_handle, std::shared_ptr<models::Model> model, bool newest)
      : ServedModel(model_handle, model->pipeline(), model->info()),
        model_(std::move(model)),
        newest_(newest) {}

  Status submit(runtime::pipeline::Frame& frame, models::Passage& passage) override {
    passage = {model_, newest_};
    return model_->submit(frame, passage);
  }

  void begun() override { model_->begun(); }
  void succeeded(const models::Passage& passage, const runtime::pipeline::FrameTimes& times,
                 std::chrono::nanoseconds request) override {
    passage.model->succeeded(kUdp, {request, times.queue, times.input, times.compute, times.output});
  }
  void failed(const models::Passage& passage, ErrorCode reason, std::chrono::nanoseconds request) override {
    passage.model->failed(kUdp, reason, request);
  }
  void not_taken(const models::Passage& passage, ErrorCode reason) override {
    passage.model->not_taken(kUdp, reason);
  }
  void refused(ErrorCode reason) override { model_->refused(kUdp, reason); }

 private:
  const std::shared_ptr<models::Model> model_;
  const bool newest_;
};

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
      log::warning("udp", "more model versions serve than there are handles for (" +
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
  if (const Status served = ServedModel::check(model->info()); !served) {
    entry->model = model.get();
    if (!version.empty()) log::warning("udp", "model '" + model->name() + "': " + served.error().message());
    return;
  }
  const auto place = static_cast<std::uint32_t>(entry - handles_.data()) + 1U;
  entry->served = std::make_shared<RegistryModel>(std::uint32_t{entry->generation} << 16U | place, model,
                                                  version.empty());
  entry->model = model.get();
}

ModelDirectory::Outcome RegistryDirectory::by_handle(std::uint32_t handle,
                                                     std::shared_ptr<ServedModel>& out) {
  refresh();
  const std::size_t place = handle & 0xFFFFU;
  if (place == 0 || place > handles_.size()) return Outcome::kUnknown;
  const Handle& entry = handles_[place - 1];
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
