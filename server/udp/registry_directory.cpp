#include "server/udp/registry_directory.hpp"

#include <algorithm>
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

constexpr std::size_t kMaxEntries = 65535;

}  // namespace

/// Keeps the model alive and counts for it.
class RegistryDirectory::RegistryModel final : public ServedModel {
 public:
  RegistryModel(std::uint32_t model_handle, std::shared_ptr<models::Model> model)
      : ServedModel(model_handle, model->pipeline(), model->info()), model_(std::move(model)) {}

  void begun() override { model_->begun(); }
  void succeeded(const runtime::pipeline::FrameTimes& times, std::chrono::nanoseconds request) override {
    model_->succeeded({request, times.queue, times.input, times.compute, times.output});
  }
  void failed(ErrorCode reason, std::chrono::nanoseconds request) override {
    model_->failed(reason, request);
  }
  void refused(ErrorCode reason) override { model_->refused(reason); }

 private:
  const std::shared_ptr<models::Model> model_;
};

RegistryDirectory::RegistryDirectory(const models::Registry& registry)
    : registry_(registry), first_generation_(random_generation()) {}

void RegistryDirectory::refresh() {
  const models::Snapshot& snapshot = registry_.refresh(view_);
  if (&snapshot != built_from_) rebuild(snapshot);
}

RegistryDirectory::Entry* RegistryDirectory::entry_for(const models::Model& model) {
  for (Entry& entry : entries_)
    if (entry.name == model.name() && entry.version == model.version()) return &entry;
  if (entries_.size() == kMaxEntries) return nullptr;
  entries_.push_back({model.name(), model.version(), first_generation_, nullptr, nullptr});
  return &entries_.back();
}

void RegistryDirectory::rebuild(const models::Snapshot& snapshot) {
  const auto all = snapshot.all();
  for (Entry& entry : entries_) {
    const bool still =
        std::any_of(all.begin(), all.end(), [&](const auto& model) { return model.get() == entry.model; });
    if (entry.model == nullptr || still) continue;
    entry.served.reset();
    entry.model = nullptr;
    ++entry.generation;
  }
  for (const auto& model : all) {
    Entry* entry = entry_for(*model);
    if (entry == nullptr || entry->model == model.get()) continue;
    entry->model = model.get();
    if (const Status served = ServedModel::check(model->info()); !served) {
      log::warning("udp", "model '" + model->name() + "': " + served.error().message());
      continue;
    }
    const auto place = static_cast<std::uint32_t>(entry - entries_.data()) + 1U;
    entry->served = std::make_shared<RegistryModel>(std::uint32_t{entry->generation} << 16U | place, model);
  }
  built_from_ = &snapshot;
}

ModelDirectory::Outcome RegistryDirectory::by_handle(std::uint32_t handle,
                                                     std::shared_ptr<ServedModel>& out) {
  refresh();
  const std::size_t place = handle & 0xFFFFU;
  if (place == 0 || place > entries_.size()) return Outcome::kUnknown;
  const Entry& entry = entries_[place - 1];
  if (entry.generation != handle >> 16U) return entry.served ? Outcome::kStale : Outcome::kUnknown;
  if (!entry.served) return Outcome::kUnknown;
  out = entry.served;
  return Outcome::kFound;
}

std::shared_ptr<ServedModel> RegistryDirectory::by_name(std::string_view name, std::string_view version) {
  refresh();
  const std::shared_ptr<models::Model> model = registry_.refresh(view_).find(name, version);
  if (!model) return nullptr;
  for (const Entry& entry : entries_)
    if (entry.model == model.get()) return entry.served;
  return nullptr;
}

}  // namespace millrace::server::udp
