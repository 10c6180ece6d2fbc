#include "server/models/registry.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace millrace::server::models {

std::shared_ptr<Model> Snapshot::find(std::string_view name, std::string_view version) const {
  const auto entry = models_.find(name);
  if (entry == models_.end()) return nullptr;
  if (version.empty()) return entry->second.newest;
  const auto found = entry->second.versions.find(version);
  return found == entry->second.versions.end() ? nullptr : found->second;
}

const Snapshot::Versions* Snapshot::versions(std::string_view name) const {
  const auto entry = models_.find(name);
  return entry == models_.end() ? nullptr : &entry->second.versions;
}

std::vector<std::shared_ptr<Model>> Snapshot::all() const {
  std::vector<std::shared_ptr<Model>> out;
  for (const auto& [name, entry] : models_)
    for (const auto& [version, model] : entry.versions) out.push_back(model);
  return out;
}

Registry::Registry() : snapshot_(std::make_shared<Snapshot>()) {}

Status Registry::publish(std::shared_ptr<Model> model) {
  return replace(nullptr, std::move(model));
}

Status Registry::replace(const Model* previous, std::shared_ptr<Model> model) {
  if (model->name().empty())
    return Error(ErrorCode::kInvalidInput, "a model without a name cannot be served");
  auto next = std::make_shared<Snapshot>(*snapshot());
  auto& entry = next->models_[model->name()];
  if (previous != nullptr) entry.versions.erase(previous->version());
  entry.versions[model->version()] = model;
  entry.newest = std::move(model);
  show(std::move(next));
  return {};
}

Status Registry::withdraw(std::string_view name, std::string_view version) {
  auto next = std::make_shared<Snapshot>(*snapshot());
  const auto entry = next->models_.find(name);
  const auto gone = [&] {
    return Error(ErrorCode::kNotFound,
                 "model '" + std::string(name) + "' version '" + std::string(version) + "' is not served");
  };
  if (entry == next->models_.end()) return gone();
  auto& versions = entry->second.versions;
  const auto found = versions.find(version);
  if (found == versions.end()) return gone();
  const bool was_newest = entry->second.newest == found->second;
  versions.erase(found);
  if (versions.empty())
    next->models_.erase(entry);
  else if (was_newest)
    entry->second.newest = versions.rbegin()->second;
  show(std::move(next));
  return {};
}

void Registry::show(std::shared_ptr<const Snapshot> snapshot) {
  const std::lock_guard lock(mutex_);
  snapshot_.swap(snapshot);
  generation_.fetch_add(1, std::memory_order_release);
}

const Snapshot& Registry::refresh(View& view) const {
  if (generation_.load(std::memory_order_acquire) != view.generation_) {
    const std::lock_guard lock(mutex_);
    view.snapshot_ = snapshot_;
    view.generation_ = generation_.load(std::memory_order_relaxed);
  }
  return *view.snapshot_;
}

std::shared_ptr<const Snapshot> Registry::snapshot() const {
  const std::lock_guard lock(mutex_);
  return snapshot_;
}

void Registry::stop(std::chrono::milliseconds bound) {
  const auto end = std::chrono::steady_clock::now() + bound;
  for (const auto& model : snapshot()->all()) {
    model->set_state(ModelState::kUnloading);
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    model->pipeline().stop(std::max(left, std::chrono::milliseconds(0)));
    model->set_state(ModelState::kUnavailable);
  }
}

namespace {

metrics::Labels with(const metrics::Labels& labels, metrics::Labels more) {
  more.insert(more.begin(), labels.begin(), labels.end());
  return more;
}

void sample_partitions(metrics::Samples& samples, const metrics::Labels& labels, Model& model,
                       const runtime::pipeline::CardStatus& card) {
  const auto& plan = model.deployment();
  const auto on_card = [&](const auto& partition) { return partition.endpoint == card.endpoint; };
  const auto count = std::count_if(plan.partitions.begin(), plan.partitions.end(), on_card);
  const double ratio = model.busy().of(card.card, card.busy_seconds, BusyRatios::Clock::now());
  for (const auto& partition : plan.partitions) {
    if (!on_card(partition)) continue;
    const auto of_partition = with(labels, {{"partition", partition.name}, {"card", card.card}});
    // The card counts the frames of all its partitions together.
    samples.counter("millrace_partition_frames_total", "Frames computed since its card's last load.",
                    of_partition, static_cast<double>(card.frames) / static_cast<double>(count));
    samples.gauge("millrace_partition_busy_ratio",
                  "Fraction of the last second or more that its card computed.", of_partition, ratio);
  }
}

void sample_card(metrics::Samples& samples, const metrics::Labels& labels,
                 const runtime::pipeline::CardStatus& card) {
  const auto of_card = with(labels, {{"endpoint", card.endpoint}, {"card", card.card}});
  const bool up = card.state == runtime::pipeline::CardState::kUp && card.answers;
  const auto counter = [&](const char* name, const char* help, auto value) {
    samples.counter(name, help, of_card, static_cast<double>(value));
  };
  const auto gauge = [&](const char* name, const char* help, std::optional<double> value) {
    if (value) samples.gauge(name, help, of_card, *value);
  };
  gauge("millrace_card_up", "1 if the card is programmed and answers.", up ? 1 : 0);
  counter("millrace_card_restarts_total", "Times the card was lost and brought back.", card.restarts);
  counter("millrace_card_programmed_total", "Times an image was loaded.", card.programmed);
  counter("millrace_card_frames_total", "Frames computed since the last load.", card.frames);
  counter("millrace_card_busy_seconds_total", "Time computing since the last load.", card.busy_seconds);
  gauge("millrace_card_temperature_celsius", "The hottest sensor of the board.",
        card.sensors.temperature_celsius);
  gauge("millrace_card_power_watts", "Power drawn by the board.", card.sensors.power_watts);
}

void sample_link(metrics::Samples& samples, const metrics::Labels& labels,
                 const runtime::pipeline::LinkStatus& link) {
  const auto of_link =
      with(labels,
           {{"channel", link.channel}, {"producer", link.producer_card}, {"consumer", link.consumer_card}});
  const auto counter = [&](const char* name, const char* help, auto value) {
    samples.counter(name, help, of_link, static_cast<double>(value));
  };
  samples.gauge("millrace_link_up", "1 if both ends see the link.", of_link, link.up ? 1 : 0);
  counter("millrace_link_bytes_total", "Payload carried.", link.bytes);
  counter("millrace_link_packets_total", "Packets carried.", link.packets);
  counter("millrace_link_stalls_total", "Times a sender waited for a credit.", link.stalls);
  counter("millrace_link_errors_total", "Times a card reported a fault of the link.", link.errors);
}

}  // namespace

void Registry::sample(metrics::Samples& samples) const {
  for (const auto& model : snapshot()->all()) {
    const auto status = model->pipeline().status();
    const metrics::Labels labels = {{"model", model->name()}, {"version", model->version()}};
    const auto gauge = [&](const char* name, const char* help, auto value) {
      samples.gauge(name, help, labels, static_cast<double>(value));
    };
    samples.gauge("millrace_model_info", "Constant 1; the labels name the deployment of a model version.",
                  with(labels, {{"digest", model->deployment().digest}}), 1);
    gauge("millrace_model_ready", "1 if every card of the model, or of one of its replicas, is up.",
          status.ready ? 1 : 0);
    gauge("millrace_replicas", "Pipelines of the model, each on cards of its own.", status.replicas);
    gauge("millrace_replicas_wanted",
          "Pipelines the model should have; more than there are if some did not come up after a swap.",
          model->pipeline().wanted());
    gauge("millrace_replicas_ready", "Pipelines of the model whose cards are all up.", status.replicas_ready);
    gauge("millrace_frames_in_flight", "Frames on the cards.", status.in_flight);
    gauge("millrace_slots", "Most frames that can be on the cards at once.", status.slots);
    gauge("millrace_queue_depth", "Frames waiting for a slot.", status.queued);
    gauge("millrace_queue_capacity", "Most frames that may wait for a slot.", status.queue_capacity);
    for (const auto& card : status.cards) {
      sample_card(samples, labels, card);
      sample_partitions(samples, labels, *model, card);
    }
    for (const auto& link : status.links) sample_link(samples, labels, link);
  }
}

}  // namespace millrace::server::models
