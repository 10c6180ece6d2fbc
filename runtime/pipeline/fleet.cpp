#include "runtime/pipeline/fleet.hpp"

#include <algorithm>

#include "runtime/plan/image_abi.hpp"

namespace millrace::runtime::pipeline {

namespace abi = plan::abi;
using card::read_counter;

namespace {

const char* to_text(abi::LinkState state) {
  switch (state) {
    case abi::LinkState::kDown:
      return "down";
    case abi::LinkState::kTraining:
      return "training";
    case abi::LinkState::kUp:
      return "up";
    case abi::LinkState::kDegraded:
      return "degraded";
    case abi::LinkState::kLost:
      return "lost";
  }
  return "";
}

}  // namespace

CardSource xrt_cards() {
  return {[](const plan::ClusterCard& card, std::uint32_t index) {
            return card::open({index, card.bdf});
          },
          [](const plan::ClusterCard& card, std::uint32_t index) {
            return !card::is_open({index, card.bdf});
          },
          [](const plan::ClusterCard& card, std::uint32_t index) {
            return card::image_uuid({index, card.bdf});
          }};
}

Fleet::Fleet(const plan::LoadedDeployment& deployment, const plan::Cluster& cluster, const Schedule& schedule,
             Binding binding, const PipelineOptions& options)
    : deployment_(deployment),
      cluster_(cluster),
      schedule_(schedule),
      binding_(std::move(binding)),
      options_(options),
      cards_(binding_.cards.size()),
      link_errors_(binding_.channels.size()),
      ingresses_(schedule.ingresses.size()),
      egresses_(schedule.egresses.size()) {
  const auto position_of = [this](std::uint32_t endpoint) {
    const auto found = std::find_if(binding_.cards.begin(), binding_.cards.end(),
                                    [&](const BoundCard& bound) { return bound.endpoint == endpoint; });
    assert(found != binding_.cards.end());
    return static_cast<std::uint32_t>(found - binding_.cards.begin());
  };
  for (std::uint32_t index = 0; index < schedule.ingresses.size(); ++index) {
    ingress_positions_.push_back(position_of(schedule.ingresses[index].endpoint));
    cards_[ingress_positions_.back()].ingresses.push_back(index);
  }
  for (std::uint32_t index = 0; index < schedule.egresses.size(); ++index) {
    cards_[position_of(schedule.egresses[index].endpoint)].egresses.push_back(index);
  }
}

Fleet::~Fleet() {
  close();
}

void Fleet::close() {
  for (std::uint32_t position = 0; position < size(); ++position) {
    release(position);
    cards_[position].card.reset();
  }
}

std::string Fleet::describe(std::uint32_t position) const {
  return "endpoint '" + endpoint(position).name + "' (card '" + cluster_card(position).name + "')";
}

Status Fleet::open(const CardSource& source) {
  for (std::uint32_t position = 0; position < size(); ++position) MILLRACE_TRY(open(source, position));
  return {};
}

Status Fleet::open(const CardSource& source, std::uint32_t position) {
  auto opened = source.open(cluster_card(position), binding_.cards[position].card);
  if (!opened.ok()) return opened.error().within(describe(position));
  cards_[position].card = std::move(*opened);
  return {};
}

Status Fleet::load(std::uint32_t position, bool image_stays) {
  OpenCard& open_card = cards_[position];
  const auto changed = open_card.card->load(deployment_.images.at(endpoint(position).image));
  if (!changed.ok()) return released_unless_ok(position, changed.error());
  // If this fleet loads a card for a second time, the card was lost in the meantime.
  if (*changed || (open_card.loaded_before && !image_stays)) {
    open_card.programmed.fetch_add(1);
    if (options_.on_programmed) options_.on_programmed(cluster_card(position).name);
  }
  open_card.loaded_before = true;
  return {};
}

Status Fleet::reset(std::uint32_t position, card::ResetStep step) {
  const Status done = cards_[position].card->reset(step);
  if (!done.ok()) return done.error().within(describe(position) + ", " + to_string(step) + " reset");
  cards_[position].resets[static_cast<std::size_t>(step)].fetch_add(1);
  return {};
}

Status Fleet::set_up(std::uint32_t position) {
  OpenCard& open_card = cards_[position];
  const auto all = [&]() -> Status {
    for (const std::uint32_t index : open_card.ingresses) {
      const Schedule::Ingress& wanted = schedule_.ingresses[index];
      MILLRACE_ASSIGN(ingresses_[index],
                      open_card.card->make_ingress(wanted.unit, wanted.bytes, options_.slots));
    }
    for (const std::uint32_t index : open_card.egresses) {
      const Schedule::Egress& wanted = schedule_.egresses[index];
      MILLRACE_ASSIGN(egresses_[index],
                      open_card.card->make_egress(wanted.unit, wanted.bytes, options_.slots));
    }
    // Write parameters even to a card that already had the image: it may hold another deployment's parameters.
    for (const plan::ImagePartition& partition :
         deployment_.records.at(endpoint(position).image).partitions) {
      if (partition.parameters_unit.empty()) continue;
      MILLRACE_TRY(open_card.card->give_parameters(partition.parameters_unit,
                                                   deployment_.parameters.at(partition.name)));
      open_card.parameters.fetch_add(1);
    }
    MILLRACE_TRY(write_links(position));
    return open_card.card->start_supervisor();
  };
  return released_unless_ok(position, all());
}

Status Fleet::released_unless_ok(std::uint32_t position, Status status) {
  if (status.ok()) return status;
  release(position);
  return status.error().within(describe(position) + ", image '" + endpoint(position).image + "'");
}

void Fleet::release(std::uint32_t position) {
  OpenCard& open_card = cards_[position];
  for (const std::uint32_t index : open_card.ingresses) ingresses_[index].reset();
  for (const std::uint32_t index : open_card.egresses) egresses_[index].reset();
  if (open_card.card) open_card.card->unload();
}

void Fleet::stop_supervisor(std::uint32_t position) {
  card::Card& card = *cards_[position].card;
  if (card.write(abi::kRegSupervisorStop, 1).ok()) {
    static_cast<void>(card.wait_supervisor(std::chrono::milliseconds(100)));
  }
}

Result<std::uint32_t> Fleet::largest_epoch() {
  std::uint32_t largest = 0;
  for (std::uint32_t position = 0; position < size(); ++position) {
    auto epoch = cards_[position].card->read(abi::kRegEpoch);
    if (!epoch.ok()) return epoch.error().within(describe(position));
    largest = std::max(largest, *epoch);
  }
  return largest;
}

Status Fleet::write_epoch(std::uint32_t position, std::uint32_t epoch) {
  Status written = cards_[position].card->write(abi::kRegEpoch, epoch);
  return written.ok() ? written : Status(written.error().within(describe(position)));
}

Status Fleet::write_links(std::uint32_t position) {
  for (const BoundLinkPort& link : binding_.cards[position].links) {
    MILLRACE_TRY(card::write_link_row(*cards_[position].card, link.row_index, link.row));
  }
  return {};
}

Status Fleet::enable_links(std::uint32_t position) {
  for (const BoundLinkPort& link : binding_.cards[position].links) {
    Status enabled = card::enable_link(*cards_[position].card, link.row_index, true);
    if (!enabled.ok()) return enabled.error().within(describe(position));
  }
  return {};
}

std::optional<Fleet::TrainingLink> Fleet::training_link() {
  for (std::uint32_t link = 0; link < binding_.channels.size(); ++link) {
    const BoundChannel& bound = binding_.channels[link];
    const auto status = cards_[bound.producer].card->read(
        abi::kLinkTable + bound.producer_row * abi::kLinkRowBytes + abi::kLinkStatus);
    constexpr std::uint32_t kUp = 3;  // the cable is up and the peer is in service
    if (!status.ok()) return TrainingLink{link, bound.producer, status.error()};
    if ((*status & kUp) != kUp) return TrainingLink{link, bound.producer, {}};
  }
  return std::nullopt;
}

CardStatus Fleet::describe_card(std::uint32_t position) const {
  CardStatus status;
  status.endpoint = endpoint(position).name;
  status.card = cluster_card(position).name;
  status.image = endpoint(position).image;
  status.programmed = cards_[position].programmed.load();
  for (std::size_t step = 0; step < card::kResetSteps; ++step)
    status.resets[step] = cards_[position].resets[step].load();
  status.parameters = cards_[position].parameters.load();
  return status;
}

CardStatus Fleet::card_status(std::uint32_t position) {
  CardStatus status = describe_card(position);
  card::Card& card = *cards_[position].card;
  if (const auto frames = read_counter(card, abi::kRegFramesLow, abi::kRegFramesHigh); frames.ok()) {
    status.frames = *frames;
  }
  if (const auto busy = read_counter(card, abi::kRegBusyLow, abi::kRegBusyHigh); busy.ok()) {
    status.busy_seconds = static_cast<double>(*busy) * 1e-6;
  }
  status.sensors = card.sensors();
  return status;
}

void Fleet::count_link_error(std::uint32_t position, std::uint32_t row) {
  for (std::size_t i = 0; i < binding_.channels.size(); ++i) {
    const BoundChannel& bound = binding_.channels[i];
    if ((bound.producer == position && bound.producer_row == row) ||
        (bound.consumer == position && bound.consumer_row == row)) {
      link_errors_[i].fetch_add(1);
    }
  }
}

LinkStatus Fleet::describe_link(std::uint32_t link) const {
  const BoundChannel& bound = binding_.channels[link];
  LinkStatus status;
  status.errors = link_errors_[link].load();
  status.channel = deployment_.plan.channels[bound.channel].name;
  status.producer_card = cluster_card(bound.producer).name;
  status.consumer_card = cluster_card(bound.consumer).name;
  return status;
}

LinkStatus Fleet::link_status(std::uint32_t link) {
  LinkStatus status = describe_link(link);
  const BoundChannel& bound = binding_.channels[link];
  if (const auto counters = card::read_link(*cards_[bound.producer].card, bound.producer_row);
      counters.ok()) {
    status.packets = counters->packets;
    status.bytes = counters->bytes;
    status.stalls = counters->stalls;
    status.repeats = counters->repeats;
    status.damaged = counters->damaged;
    status.dropped = counters->dropped;
    status.state = to_text(counters->state);
    status.up = counters->cable_present && counters->peer_in_service;
  }
  if (const auto counters = card::read_link(*cards_[bound.consumer].card, bound.consumer_row);
      counters.ok()) {
    status.damaged += counters->damaged;
    status.dropped += counters->dropped;
  }
  return status;
}

Observer::Observer(Fleet& fleet) : fleet_(fleet) {
  for (std::uint32_t position = 0; position < fleet.size(); ++position)
    last_.cards.push_back(fleet.describe_card(position));
  for (std::uint32_t link = 0; link < fleet.links(); ++link) last_.links.push_back(fleet.describe_link(link));
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Observer::~Observer() {
  stop();
}

Observer::Figures Observer::read(std::chrono::milliseconds bound) {
  std::unique_lock lock(mutex_);
  // A reading in progress began before this call, so wait for the next reading.
  const std::uint64_t mine = begun_ + 1;
  wanted_ = mine;
  // If the reading in progress has lasted longer than `bound`, a card hangs; the next reading would hang too.
  const bool hangs = begun_ != done_ && Clock::now() - began_ > bound;
  changed_.notify_all();
  if (!hangs)
    changed_.wait_for(lock, bound,
                      [&] { return done_ >= mine || thread_.get_stop_token().stop_requested(); });
  Figures figures = last_;
  if (done_ >= mine) return figures;
  // Refresh the count of programmings, which needs no access to the card.
  for (std::uint32_t position = 0; position < figures.cards.size(); ++position) {
    figures.cards[position].programmed = fleet_.describe_card(position).programmed;
  }
  return figures;
}

void Observer::begin_stop() {
  thread_.request_stop();
  changed_.notify_all();
}

void Observer::stop() {
  begin_stop();
  if (thread_.joinable()) thread_.join();
}

void Observer::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return wanted_ > begun_; })) {
    begun_ = wanted_;
    began_ = Clock::now();
    lock.unlock();
    observe(stop);
    lock.lock();
    done_ = begun_;
    changed_.notify_all();
  }
}

void Observer::observe(const std::stop_token& stop) {
  for (std::uint32_t position = 0; position < fleet_.size() && !stop.stop_requested(); ++position) {
    {
      const std::lock_guard lock(mutex_);
      last_.cards[position].answers = false;  // set again when the card answers
    }
    CardStatus card = fleet_.card_status(position);
    const std::lock_guard lock(mutex_);
    last_.cards[position] = std::move(card);
  }
  for (std::uint32_t link = 0; link < fleet_.links() && !stop.stop_requested(); ++link) {
    LinkStatus status = fleet_.link_status(link);
    const std::lock_guard lock(mutex_);
    last_.links[link] = std::move(status);
  }
}

}  // namespace millrace::runtime::pipeline
