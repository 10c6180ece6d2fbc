#include "runtime/pipeline/preflight.hpp"

#include <algorithm>
#include <cassert>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "runtime/card/link_table.hpp"
#include "runtime/pipeline/binding.hpp"
#include "runtime/pipeline/fleet.hpp"
#include "runtime/pipeline/schedule.hpp"
#include "runtime/plan/image_abi.hpp"

namespace millrace::runtime::pipeline {

namespace abi = plan::abi;

namespace {

constexpr std::chrono::milliseconds kLinkPoll{1};
constexpr std::uint32_t kCable = 1, kPeer = 2;  // bits of kLinkStatus

// The settings of all ports while plugs are traced. Every link port supports them, whatever its channel.
constexpr std::uint32_t kTracePacketBytes = 64, kTraceCredits = 2;

/// A card of the deployment, in one of its replicas.
struct Member {
  Fleet* fleet = nullptr;
  std::uint32_t position = 0;  // in the fleet
  const plan::ClusterCard* card = nullptr;
  std::uint32_t connectors = 0;
  std::vector<std::uint32_t> sending, receiving;  // its rows of the link table
  bool ready = false;

  card::Card& opened() const { return fleet->card(position); }
};

/// A link port on a connector.
struct Port {
  std::size_t member = 0;
  std::uint32_t row = 0, connector = 0;
};

struct Channel {
  std::size_t cable = 0;  // index into Cluster::cables
  Port from, to;
  bool up = false;
};

std::string name_of(const Member& member, std::uint32_t connector) {
  return member.card->name + "/" + std::to_string(connector);
}

class Check {
 public:
  Check(const plan::LoadedDeployment& deployment, const plan::Cluster& cluster,
        const PipelineOptions& options, const PreflightBounds& bounds)
      : deployment_(deployment), cluster_(cluster), options_(options), bounds_(bounds) {}

  Status choose_cards(std::uint32_t copies, const CardSource& source);
  Preflight run(const CardSource& source);

 private:
  void add_replica(std::unique_ptr<Fleet> fleet);
  std::uint32_t connectors_of(const plan::ClusterCard& card) const;
  void program(const CardSource& source);
  Status load(Member& member);
  void fail(std::size_t member, const Error& error);
  void raise_epoch();
  void await_channels();
  void judge_cables();
  void disable_all();
  bool enable(const Port& port);
  std::uint32_t status_of(const Port& port);
  std::optional<Port> trace(const Port& port, bool from_sender);
  void diagnose(const Channel& channel, CableCheck& check);
  std::string without_answer(const Channel& channel, const plan::Cable& cable);
  std::string fault_of(std::size_t member);

  const plan::LoadedDeployment& deployment_;
  const plan::Cluster& cluster_;
  const PipelineOptions& options_;
  const PreflightBounds& bounds_;
  Schedule schedule_;
  std::vector<std::unique_ptr<Fleet>> fleets_;  // one for each replica
  std::vector<Member> members_;
  std::vector<Channel> channels_;
  Preflight result_;  // `cards` begins with the members_, in their order
};

Status Check::choose_cards(std::uint32_t copies, const CardSource& source) {
  MILLRACE_ASSIGN(schedule_, derive_schedule(deployment_.plan, deployment_.records));
  for (const plan::Cable& cable : cluster_.cables) {
    result_.cables.emplace_back();
    result_.cables.back().cable = cable.name;
  }
  std::set<std::string> taken;
  const auto index_of = [&](const plan::ClusterCard& card) {
    return static_cast<std::uint32_t>(&card - cluster_.cards.data());
  };
  for (std::uint32_t copy = 0; copy < copies; ++copy) {
    MILLRACE_ASSIGN(Binding binding, bind_endpoints(
                                         deployment_.plan, deployment_.records, cluster_,
                                         [&](const plan::ClusterCard& card) {
                                           return !taken.contains(card.name) &&
                                                  source.is_free(card, index_of(card));
                                         },
                                         [&](const plan::ClusterCard& card, const plan::Image& image) {
                                           return source.image_uuid(card, index_of(card)) == image.uuid;
                                         },
                                         copies - copy));
    for (const BoundCard& bound : binding.cards) taken.insert(cluster_.cards[bound.card].name);
    add_replica(std::make_unique<Fleet>(deployment_, cluster_, schedule_, std::move(binding), options_));
  }
  for (const plan::ClusterCard& card : cluster_.cards) {
    if (taken.contains(card.name)) continue;
    result_.cards.emplace_back();
    result_.cards.back().card = card.name;
    result_.cards.back().state = CardCheck::State::kUnused;
  }
  return {};
}

void Check::add_replica(std::unique_ptr<Fleet> fleet) {
  const Binding& binding = fleet->binding();
  const std::size_t first = members_.size();
  const auto connector_of = [&](std::uint32_t position, std::uint32_t row) {
    const auto& links = binding.cards[position].links;
    return std::find_if(links.begin(), links.end(), [&](const auto& link) { return link.row_index == row; })
        ->row.connector;
  };
  for (std::uint32_t position = 0; position < binding.cards.size(); ++position) {
    const plan::ClusterCard& card = cluster_.cards[binding.cards[position].card];
    const plan::Endpoint& endpoint = deployment_.plan.endpoints[binding.cards[position].endpoint];
    members_.push_back({fleet.get(), position, &card, connectors_of(card), {}, {}, false});
    CardCheck check;
    check.card = card.name;
    check.endpoint = endpoint.name;
    check.image = endpoint.image;
    check.replica = static_cast<std::uint32_t>(fleets_.size());
    result_.cards.push_back(std::move(check));
  }
  for (const BoundChannel& bound : binding.channels) {
    Channel channel;
    channel.from = {first + bound.producer, bound.producer_row,
                    connector_of(bound.producer, bound.producer_row)};
    channel.to = {first + bound.consumer, bound.consumer_row,
                  connector_of(bound.consumer, bound.consumer_row)};
    const auto ends_here = [&](const plan::Cable& cable) {
      const std::string& card = members_[channel.from.member].card->name;
      return (cable.a.card == card && cable.a.connector == channel.from.connector) ||
             (cable.b.card == card && cable.b.connector == channel.from.connector);
    };
    channel.cable = static_cast<std::size_t>(
        std::find_if(cluster_.cables.begin(), cluster_.cables.end(), ends_here) - cluster_.cables.begin());
    assert(channel.cable < result_.cables.size());
    ++result_.cables[channel.cable].channels;
    members_[channel.from.member].sending.push_back(channel.from.row);
    members_[channel.to.member].receiving.push_back(channel.to.row);
    channels_.push_back(channel);
  }
  fleets_.push_back(std::move(fleet));
}

/// Returns how many connectors a plug of the card may be in.
std::uint32_t Check::connectors_of(const plan::ClusterCard& card) const {
  const auto device = cluster_.devices.find(card.device);
  std::uint32_t connectors = device == cluster_.devices.end() ? 0 : device->second.connectors;
  for (const plan::Cable& cable : cluster_.cables)
    for (const plan::CableEnd* const end : {&cable.a, &cable.b})
      if (end->card == card.name) connectors = std::max(connectors, end->connector + 1);
  return connectors;
}

Preflight Check::run(const CardSource& source) {
  program(source);
  raise_epoch();
  await_channels();
  judge_cables();
  for (const Member& member : members_)
    if (member.ready) member.fleet->stop_supervisor(member.position);
  for (const auto& fleet : fleets_) fleet->close();
  return std::move(result_);
}

void Check::fail(std::size_t member, const Error& error) {
  CardCheck& check = result_.cards[member];
  const bool missing = error.code() == ErrorCode::kNotFound;
  check.state = missing ? CardCheck::State::kMissing : CardCheck::State::kFailed;
  check.problem = error.message();
}

/// Opens and programs all cards at once, because programming a real card takes seconds. Then sets them up one by one.
void Check::program(const CardSource& source) {
  std::vector<std::future<Status>> loads(members_.size());
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (const Status opened = member.fleet->open(source, member.position); !opened.ok()) {
      fail(i, opened.error());
      continue;
    }
    result_.cards[i].info = member.opened().info();
    loads[i] = std::async(std::launch::async, [this, &member] { return load(member); });
  }
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!loads[i].valid()) continue;
    Status done = loads[i].get();
    if (done.ok()) done = members_[i].fleet->set_up(members_[i].position);
    if (!done.ok()) {
      fail(i, done.error());
      continue;
    }
    members_[i].ready = true;
    result_.cards[i].info = members_[i].opened().info();
    result_.cards[i].host_memory_bytes = members_[i].opened().host_memory_bytes();
  }
}

/// Loads the image. Resets a card that its driver has taken out of use, as a pipeline does when it starts.
Status Check::load(Member& member) {
  const Status loaded = member.fleet->load(member.position);
  if (loaded.ok() || loaded.error().code() != ErrorCode::kUnavailable) return loaded;
  const Status reset = member.fleet->reset(member.position, card::ResetStep::kDevice);
  if (reset.ok()) return member.fleet->load(member.position);
  return reset.error().code() == ErrorCode::kUnsupported ? loaded : reset;
}

/// Gives all cards the same new epoch, because links pass only frames and packets of the cards' epoch.
void Check::raise_epoch() {
  std::uint32_t largest = 0;
  for (const Member& member : members_)
    if (member.ready)
      if (const auto epoch = member.opened().read(abi::kRegEpoch); epoch.ok())
        largest = std::max(largest, *epoch);
  for (const Member& member : members_)
    if (member.ready) static_cast<void>(member.fleet->write_epoch(member.position, largest + 1));
}

/// Enables all links and waits until they are up, at most for the bound.
void Check::await_channels() {
  for (const Member& member : members_) {
    if (!member.ready) continue;
    // A card may refuse to enable a link, for example if nothing is plugged into the connector. diagnose() finds it.
    for (const auto* rows : {&member.sending, &member.receiving})
      for (const std::uint32_t row : *rows) static_cast<void>(card::enable_link(member.opened(), row, true));
  }
  const auto begin = Clock::now();
  for (bool all = false; !all;) {
    all = true;
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    for (Channel& channel : channels_) {
      if (channel.up || !members_[channel.from.member].ready || !members_[channel.to.member].ready) continue;
      channel.up = status_of(channel.from) == (kCable | kPeer) && status_of(channel.to) == (kCable | kPeer);
      if (channel.up) result_.cables[channel.cable].up_after = took;
      all = all && channel.up;
    }
    if (took > bounds_.up) return;
    if (!all) std::this_thread::sleep_for(kLinkPoll);
  }
}

void Check::judge_cables() {
  bool traces = false;
  for (const Channel& channel : channels_) {
    CableCheck& check = result_.cables[channel.cable];
    const auto unready = [&](const Port& port) { return !members_[port.member].ready; };
    if (unready(channel.from) || unready(channel.to)) {
      const Member& member = members_[(unready(channel.from) ? channel.from : channel.to).member];
      check.state = CableCheck::State::kUntested;
      check.problem = "card '" + member.card->name + "' is not ready";
    } else if (!channel.up) {
      if (!std::exchange(traces, true)) disable_all();
      if (check.state != CableCheck::State::kDown && check.state != CableCheck::State::kMisplugged)
        diagnose(channel, check);
    } else if (check.state == CableCheck::State::kUnused) {
      check.state = CableCheck::State::kUp;
    }
  }
}

void Check::disable_all() {
  for (const Member& member : members_)
    for (const auto* rows : {&member.sending, &member.receiving})
      for (const std::uint32_t row : *rows)
        if (member.ready) static_cast<void>(card::enable_link(member.opened(), row, false));
}

/// Enables a port with the settings of traces. Returns false if the card refuses it.
bool Check::enable(const Port& port) {
  card::Card& card = members_[port.member].opened();
  return card::write_link_row(card, port.row, {port.connector, 0, kTracePacketBytes, kTraceCredits}).ok() &&
         card::enable_link(card, port.row, true).ok();
}

std::uint32_t Check::status_of(const Port& port) {
  const auto read =
      members_[port.member].opened().read(abi::kLinkTable + port.row * abi::kLinkRowBytes + abi::kLinkStatus);
  return read.ok() ? *read & (kCable | kPeer) : 0;
}

/// Returns the port at the other end of the cable that is plugged into the connector of `port`, or nothing if no port of
/// the deployment's cards answers there. All ports must be disabled, and are disabled afterwards.
std::optional<Port> Check::trace(const Port& port, bool from_sender) {
  std::optional<Port> found;
  std::uint32_t connectors = 0;
  for (const Member& member : members_) connectors = std::max(connectors, member.connectors);
  if (enable(port)) {
    for (std::uint32_t connector = 0; connector < connectors && !found; ++connector) {
      std::vector<Port> others;
      for (std::size_t i = 0; i < members_.size(); ++i) {
        const auto& rows = from_sender ? members_[i].receiving : members_[i].sending;
        if (!members_[i].ready || rows.empty() || connector >= members_[i].connectors) continue;
        if (const Port other{i, rows.front(), connector}; enable(other)) others.push_back(other);
      }
      const auto until = Clock::now() + bounds_.trace;
      const auto seen = [&](const Port& other) { return status_of(other) == (kCable | kPeer); };
      while (!found && !others.empty() && Clock::now() < until) {
        const auto other = std::find_if(others.begin(), others.end(), seen);
        if (other != others.end() && seen(port)) found = *other;
        if (!found) std::this_thread::sleep_for(kLinkPoll);
      }
      for (const Port& other : others)
        static_cast<void>(card::enable_link(members_[other.member].opened(), other.row, false));
    }
  }
  static_cast<void>(card::enable_link(members_[port.member].opened(), port.row, false));
  return found;
}

/// Finds out why a channel is not up, and says which plug to move or what to look at.
void Check::diagnose(const Channel& channel, CableCheck& check) {
  const Member &from = members_[channel.from.member], &to = members_[channel.to.member];
  const std::string sends = name_of(from, channel.from.connector),
                    receives = name_of(to, channel.to.connector);
  const auto is = [](const Port& a, const Port& b) {
    return a.member == b.member && a.connector == b.connector;
  };
  check.state = CableCheck::State::kMisplugged;
  const std::string remedy = "', or correct this cable in the cluster file";
  if (const auto other = trace(channel.from, true); other && !is(*other, channel.to)) {
    check.problem = "the cable from '" + sends + "' leads to '" +
                    name_of(members_[other->member], other->connector) + "', not to '" + receives +
                    "'; move that plug to '" + receives + remedy;
    return;
  } else if (other) {
    check.state = CableCheck::State::kDown;
    const std::string fault = fault_of(channel.from.member) + fault_of(channel.to.member);
    check.problem = "the cable joins the right connectors, but its channels do not come up" + fault +
                    "; compile the deployment for this cluster again";
    return;
  }
  if (const auto other = trace(channel.to, false); other && !is(*other, channel.from)) {
    check.problem = "the cable to '" + receives + "' comes from '" +
                    name_of(members_[other->member], other->connector) + "', not from '" + sends +
                    "'; move that plug to '" + sends + remedy;
    return;
  }
  check.state = CableCheck::State::kDown;
  check.problem = without_answer(channel, cluster_.cables[channel.cable]);
}

/// Returns the problem of a cable at whose ends no port sees another.
std::string Check::without_answer(const Channel& channel, const plan::Cable& cable) {
  const auto has_signal = [&](const Port& port) {
    const bool enabled = enable(port);
    const bool signal = enabled && (status_of(port) & kCable) != 0;
    static_cast<void>(card::enable_link(members_[port.member].opened(), port.row, false));
    return signal;
  };
  const std::string sends = name_of(members_[channel.from.member], channel.from.connector),
                    receives = name_of(members_[channel.to.member], channel.to.connector);
  const bool at_sender = has_signal(channel.from), at_receiver = has_signal(channel.to);
  if (at_sender && at_receiver && cable.protocol == plan::CableProtocol::kUdp)
    return "no datagram passes between '" + sends + "' and '" + receives +
           "'; check both ports of the switch, their VLAN, and the addresses in the cluster file";
  if (at_sender && at_receiver)
    return "'" + sends + "' and '" + receives +
           "' have a signal, but no card of this deployment is at its other end; plug the cable into '" +
           sends + "' and '" + receives + "'";
  const std::string where =
      !at_sender && !at_receiver ? sends + "' and '" + receives : (at_sender ? receives : sends);
  return "no signal at '" + where + "'; plug the cable into '" + sends + "' and '" + receives +
         "', or replace it";
}

/// Returns what the card reported about its links, in brackets, or an empty text.
std::string Check::fault_of(std::size_t member) {
  card::Card& card = members_[member].opened();
  if (!card.supervisor_ended() || card.wait_supervisor(kLinkPoll) != card::RunState::kDone) return {};
  const abi::FaultReport report = card.fault_report();
  if (report.magic != abi::FaultReport{}.magic || report.code != abi::FaultCode::kProtocol) return {};
  return " (card '" + members_[member].card->name + "': " + report.detail + ")";
}

}  // namespace

const char* to_string(CardCheck::State state) {
  switch (state) {
    case CardCheck::State::kReady:
      return "ready";
    case CardCheck::State::kMissing:
      return "missing";
    case CardCheck::State::kFailed:
      return "failed";
    case CardCheck::State::kUnused:
      return "unused";
  }
  return "";
}

const char* to_string(CableCheck::State state) {
  switch (state) {
    case CableCheck::State::kUp:
      return "up";
    case CableCheck::State::kDown:
      return "down";
    case CableCheck::State::kMisplugged:
      return "misplugged";
    case CableCheck::State::kUntested:
      return "untested";
    case CableCheck::State::kUnused:
      return "unused";
  }
  return "";
}

Result<Preflight> check_before_traffic(const plan::LoadedDeployment& deployment, const plan::Cluster& cluster,
                                       const PipelineOptions& options, std::uint32_t copies,
                                       const CardSource& source, const PreflightBounds& bounds) {
  Check check(deployment, cluster, options, bounds);
  MILLRACE_TRY(check.choose_cards(copies, source));
  return check.run(source);
}

}  // namespace millrace::runtime::pipeline
