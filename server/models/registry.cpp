#include "server/models/registry.hpp"

#include <algorithm>
#include <utility>

namespace millrace::server::models {

std::shared_ptr<Model> Snapshot::find(std::string_view name, std::string_view version) const {
  const auto found = models_.find(name);
  if (found == models_.end() || (!version.empty() && found->second->version() != version)) return nullptr;
  return found->second;
}

std::vector<std::shared_ptr<Model>> Snapshot::all() const {
  std::vector<std::shared_ptr<Model>> out;
  for (const auto& [name, model] : models_) out.push_back(model);
  return out;
}

Status Registry::publish(std::shared_ptr<Model> model) {
  if (model->name().empty())
    return Error(ErrorCode::kInvalidInput, "a model without a name cannot be served");
  auto next = std::make_shared<Snapshot>(*snapshot());
  next->models_[model->name()] = std::move(model);
  show(std::move(next));
  return {};
}

void Registry::withdraw(const Model& model) {
  auto next = std::make_shared<Snapshot>(*snapshot());
  std::erase_if(next->models_, [&](const auto& entry) { return entry.second.get() == &model; });
  show(std::move(next));
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

/// Reports metric samples, adding the same labels to each sample.
struct Labelled {
  metrics::Samples& samples;
  metrics::Labels labels;

  Labelled with(metrics::Labels more) const {
    more.insert(more.begin(), labels.begin(), labels.end());
    return {samples, std::move(more)};
  }
  void counter(const char* name, const char* help, auto value) const {
    samples.counter(name, help, labels, static_cast<double>(value));
  }
  void gauge(const char* name, const char* help, auto value) const {
    samples.gauge(name, help, labels, static_cast<double>(value));
  }
};

void sample_partitions(const Labelled& of_model, Model& model, const runtime::pipeline::CardStatus& card) {
  const auto& plan = model.deployment();
  const auto on_card = [&](const auto& partition) { return partition.endpoint == card.endpoint; };
  const auto count = std::count_if(plan.partitions.begin(), plan.partitions.end(), on_card);
  const double ratio = model.busy().of(card.card, card.busy_seconds, BusyRatios::Clock::now());
  for (const auto& partition : plan.partitions) {
    if (!on_card(partition)) continue;
    const Labelled of_partition = of_model.with({{"partition", partition.name}, {"card", card.card}});
    // The card has one counter for the frames of all its partitions, so divide its value by their number.
    of_partition.counter("millrace_partition_frames_total",
                         "Frames that the partition computed since an image was last loaded on its card.",
                         static_cast<double>(card.frames) / static_cast<double>(count));
    of_partition.gauge(
        "millrace_partition_busy_ratio",
        "Fraction of recent time (at least one second) during which the partition's card computed.", ratio);
  }
}

void sample_card(const Labelled& of_card, const runtime::pipeline::CardStatus& card) {
  const auto& celsius = card.sensors.temperature_celsius;
  const auto& watts = card.sensors.power_watts;
  const bool up = card.state == runtime::pipeline::CardState::kUp && card.answers;
  of_card.gauge("millrace_card_up", "1 if the card is programmed and responds.", up);
  of_card.counter("millrace_card_restarts_total", "Times the card failed and was reloaded.", card.restarts);
  of_card.counter("millrace_card_programmed_total", "Times an image was loaded on the card.",
                  card.programmed);
  for (std::size_t step = 0; step < card.resets.size(); ++step)
    of_card.with({{"step", to_string(static_cast<runtime::card::ResetStep>(step))}})
        .counter("millrace_card_resets_total",
                 "Number of times that recovery reset the card, by what was reset.", card.resets[step]);
  of_card.counter("millrace_card_frames_total",
                  "Frames that the card computed since an image was last loaded.", card.frames);
  of_card.counter("millrace_card_busy_seconds_total",
                  "Time that the card spent computing since an image was last loaded.", card.busy_seconds);
  if (celsius)
    of_card.gauge("millrace_card_temperature_celsius", "The hottest sensor of the board.", *celsius);
  if (watts) of_card.gauge("millrace_card_power_watts", "Power drawn by the board.", *watts);
}

void sample_link(const Labelled& of_link, const runtime::pipeline::LinkStatus& link) {
  of_link.gauge("millrace_link_up", "1 if both ends see the link.", link.up);
  of_link.counter("millrace_link_bytes_total", "Payload bytes that the link carried.", link.bytes);
  of_link.counter("millrace_link_packets_total", "Packets that the link carried.", link.packets);
  of_link.counter("millrace_link_stalls_total", "Times a sender waited for a credit.", link.stalls);
  of_link.counter("millrace_link_repeats_total", "Packets that the sender sent again.", link.repeats);
  of_link.counter("millrace_link_damaged_total",
                  "Packets dropped because of a wrong CRC, on the whole cable.", link.damaged);
  of_link.counter("millrace_link_dropped_total",
                  "Packets dropped for reasons other than a wrong CRC, on the whole cable.", link.dropped);
  of_link.gauge("millrace_link_degraded", "1 if packets had to be sent again within the last second.",
                link.state == "degraded");
  of_link.counter("millrace_link_errors_total", "Number of times that a card reported a fault of the link.",
                  link.errors);
}

}  // namespace

void Registry::sample(metrics::Samples& samples) const {
  for (const auto& model : snapshot()->all()) {
    const auto status = model->pipeline().status();
    const Labelled of_model{samples, {{"model", model->name()}, {"version", model->version()}}};
    of_model.with({{"digest", model->deployment().digest}})
        .gauge("millrace_model_info", "Constant 1; the labels name the deployment of a model version.", 1);
    of_model.gauge("millrace_model_ready",
                   "1 if every card of the model, or of one of its replicas, is running.", status.ready);
    of_model.gauge("millrace_replicas", "Pipelines of the model, each on its own cards.", status.replicas);
    of_model.gauge("millrace_replicas_wanted",
                   "Pipelines the model should have; fewer are running if some did not start after a swap.",
                   model->pipeline().wanted());
    of_model.gauge("millrace_replicas_ready", "Pipelines of the model whose cards are all running.",
                   status.replicas_ready);
    of_model.counter("millrace_recoveries_total",
                     "Times a replica of the model served again after it had lost a card or link.",
                     status.recoveries);
    of_model.counter("millrace_recovery_seconds_total",
                     "Time that recoveries took, summed over the model's replicas.", status.recovery_seconds);
    of_model.gauge("millrace_bring_up_seconds",
                   "Time that the model's cards took to start: programming, cables and a test frame.",
                   status.bring_up_seconds);
    of_model.gauge("millrace_frames_in_flight", "Frames on the cards.", status.in_flight);
    of_model.gauge("millrace_slots", "Largest number of frames that can be on the cards at once.",
                   status.slots);
    of_model.gauge("millrace_queue_depth", "Frames waiting for a slot.", status.queued);
    of_model.gauge("millrace_queue_capacity", "Largest number of frames that may wait for a slot.",
                   status.queue_capacity);
    for (const auto& card : status.cards) {
      sample_card(of_model.with({{"endpoint", card.endpoint}, {"card", card.card}}), card);
      sample_partitions(of_model, *model, card);
    }
    for (const auto& link : status.links)
      sample_link(of_model.with({{"channel", link.channel},
                                 {"producer", link.producer_card},
                                 {"consumer", link.consumer_card}}),
                  link);
  }
}

}  // namespace millrace::server::models
