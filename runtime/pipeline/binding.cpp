#include "runtime/pipeline/binding.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <optional>

#include "runtime/plan/image_abi.hpp"

namespace millrace::runtime::pipeline {

namespace abi = plan::abi;

namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
// After this many attempts without a binding (a choice of cards and cables), the search reports that there is none.
constexpr std::uint64_t kMostTries = 1'000'000;

std::string quoted(const std::string& text) {
  return "'" + text + "'";
}

class Binder {
 public:
  Binder(const plan::Deployment& deployment, const std::map<std::string, plan::ImageRecord>& records,
         const plan::Cluster& cluster, std::uint32_t copies,
         const std::function<bool(const plan::ClusterCard&)>& is_free,
         const std::function<bool(const plan::ClusterCard&, const plan::Image&)>& holds)
      : deployment_(deployment), records_(records), cluster_(cluster), copies_(copies), holds_(holds) {
    for (const plan::ClusterCard& card : cluster.cards) free_.push_back(is_free(card));
  }

  Result<Binding> run() {
    for (std::uint32_t index = 0; index < deployment_.endpoints.size(); ++index) {
      if (!deployment_.endpoints[index].host) binding_.cards.push_back({index, kNone, {}});
    }
    MILLRACE_TRY(collect_edges());
    positions_ = static_cast<std::uint32_t>(binding_.cards.size());
    const std::vector<BoundChannel> own = edges_;
    for (std::uint32_t copy = 1; copy < copies_; ++copy) {
      for (std::uint32_t position = 0; position < positions_; ++position)
        binding_.cards.push_back({binding_.cards[position].endpoint, kNone, {}});
      for (const BoundChannel& edge : own)
        edges_.push_back(
            {edge.channel, edge.producer + copy * positions_, 0, edge.consumer + copy * positions_, 0});
    }
    MILLRACE_TRY(check_kinds());
    for (std::uint32_t position = 0; position < positions_; ++position) order_.push_back(order_of(position));
    if (!assign(0)) return no_binding();
    binding_.cards.resize(positions_);
    for (const BoundChannel& edge : own) MILLRACE_TRY(wire(edge));
    return std::move(binding_);
  }

 private:
  const plan::Endpoint& endpoint(std::uint32_t position) const {
    return deployment_.endpoints[binding_.cards[position].endpoint];
  }

  std::uint32_t position_of(const std::string& partition) const {
    const std::string& name = deployment_.find_partition(partition)->endpoint;
    std::uint32_t position = 0;
    while (endpoint(position).name != name) ++position;
    return position;
  }

  Status collect_edges() {
    for (std::uint32_t index = 0; index < deployment_.channels.size(); ++index) {
      const plan::Channel& channel = deployment_.channels[index];
      if (!is_link(channel)) continue;
      edges_.push_back(
          {index, position_of(channel.producer.partition), 0, position_of(channel.consumer.partition), 0});
    }
    return {};
  }

  // Returns the error for the common failure: too few cards of a device kind.
  Status check_kinds() const {
    std::map<std::string, std::uint32_t> needed;
    for (std::uint32_t position = 0; position < binding_.cards.size(); ++position) {
      const plan::Endpoint& e = endpoint(position);
      const std::uint32_t wanted = ++needed[e.device];
      std::uint32_t present = 0, available = 0;
      for (std::uint32_t card = 0; card < cluster_.cards.size(); ++card) {
        if (cluster_.cards[card].device != e.device) continue;
        ++present;
        if (free_[card]) ++available;
      }
      if (available >= wanted) continue;
      std::string message = "endpoint " + quoted(e.name) + " needs a card of kind " + quoted(e.device) +
                            ": cluster " + quoted(cluster_.name) + " has " + std::to_string(present) +
                            " of them";
      const std::size_t in_use = present - available;
      if (in_use != 0) message += ", " + std::to_string(in_use) + " in use";
      message += ", and the deployment needs " + std::to_string(wanted) + " or more";
      if (copies_ > 1) message += " for " + std::to_string(copies_) + " replicas; request fewer";
      return Error(ErrorCode::kDoesNotFit, message);
    }
    return {};
  }

  bool uses_udp(const BoundChannel& edge) const {
    return deployment_.channels[edge.channel].transport == plan::Transport::kUdp;
  }

  static bool is_udp(const plan::Cable& cable) { return cable.protocol == plan::CableProtocol::kUdp; }

  // Returns the number of cables between two cards that have the protocol of a channel.
  std::uint32_t cables_between(std::uint32_t card_a, std::uint32_t card_b, bool udp) const {
    const std::string& a = cluster_.cards[card_a].name;
    const std::string& b = cluster_.cards[card_b].name;
    return static_cast<std::uint32_t>(
        std::count_if(cluster_.cables.begin(), cluster_.cables.end(), [&](const auto& c) {
          return ((c.a.card == a && c.b.card == b) || (c.a.card == b && c.b.card == a)) && is_udp(c) == udp;
        }));
  }

  // Returns the number of channels in one direction between two endpoints (cards as the plan names them).
  std::uint32_t channels_between(std::uint32_t from, std::uint32_t to, bool udp) const {
    return static_cast<std::uint32_t>(std::count_if(edges_.begin(), edges_.end(), [&](const BoundChannel& e) {
      return e.producer == from && e.consumer == to && uses_udp(e) == udp;
    }));
  }

  // Returns the first channel that no cable of `card` can carry to the cards assigned so far, or nothing.
  std::optional<std::uint32_t> uncabled(std::uint32_t position, std::uint32_t card) const {
    for (const BoundChannel& edge : edges_) {
      if (edge.producer != position && edge.consumer != position) continue;
      const std::uint32_t peer = edge.producer == position ? edge.consumer : edge.producer;
      const std::uint32_t peer_card = binding_.cards[peer].card;
      if (peer_card == kNone) continue;
      const bool udp = uses_udp(edge);
      const std::uint32_t room = cables_between(card, peer_card, udp) * abi::kMaxTags;
      if (channels_between(edge.producer, edge.consumer, udp) > room) return edge.channel;
    }
    return std::nullopt;
  }

  // Returns the order in which cards are tried for an endpoint (a card as the plan names it): first the cards that
  // already hold its image.
  std::vector<std::uint32_t> order_of(std::uint32_t position) const {
    const plan::Image* const image = deployment_.find_image(endpoint(position).image);
    std::vector<std::uint32_t> order;
    for (std::uint32_t card = 0; card < cluster_.cards.size(); ++card) order.push_back(card);
    std::stable_partition(order.begin(), order.end(), [&](std::uint32_t card) {
      return image != nullptr && free_[card] && holds_(cluster_.cards[card], *image);
    });
    return order;
  }

  bool assign(std::uint32_t position) {
    if (position == binding_.cards.size()) return true;
    const std::vector<std::uint32_t>& order = order_[position % positions_];
    auto from = order.begin();
    // Copies of a pipeline are interchangeable. To try each combination of cards only once, the first card of each
    // copy comes after the first card of the previous copy.
    if (position >= positions_ && position % positions_ == 0)
      from = std::find(order.begin(), order.end(), binding_.cards[position - positions_].card);
    for (; from != order.end(); ++from) {
      const std::uint32_t card = *from;
      if (!free_[card] || cluster_.cards[card].device != endpoint(position).device) continue;
      if (++tries_ > kMostTries) return false;
      if (const auto channel = uncabled(position, card)) {
        if (position >= deepest_) {
          deepest_ = position;
          deepest_channel_ = channel;
        }
        continue;
      }
      free_[card] = false;
      binding_.cards[position].card = card;
      if (assign(position + 1)) return true;
      binding_.cards[position].card = kNone;
      free_[card] = true;
    }
    return false;
  }

  Error no_binding() const {
    std::string message = "endpoint " + quoted(endpoint(deepest_).name) + " (kind " +
                          quoted(endpoint(deepest_).device) + "): no card of cluster " +
                          quoted(cluster_.name);
    if (deepest_channel_) {
      const plan::Channel& channel = deployment_.channels[*deepest_channel_];
      message += " is cabled as channel " + quoted(channel.name) + " (" + channel.producer.partition +
                 " to " + channel.consumer.partition +
                 ") needs; "
                 "add a cable" +
                 (channel.transport == plan::Transport::kUdp ? " with 'protocol: udp'" : "") +
                 ", or compile for this cluster";
    } else {
      message += " is left for it";
    }
    if (copies_ > 1)
      message += "; " + std::to_string(copies_) + " replicas are requested, each on its own cards";
    return Error(ErrorCode::kDoesNotFit, message);
  }

  // Returns the row of the link table at one end of a channel. A port that feeds several channels has one row
  // for each of them, in the order of the channels.
  Result<std::uint32_t> row_of(std::uint32_t position, const plan::PortRef& ref, plan::PortKind kind,
                               std::uint32_t channel) const {
    const bool sends = kind == plan::PortKind::kLinkSend;
    std::uint32_t skip = 0;
    for (std::uint32_t earlier = 0; earlier < channel; ++earlier) {
      const plan::Channel& c = deployment_.channels[earlier];
      if (is_link(c) && (sends ? c.producer : c.consumer) == ref) ++skip;
    }
    for (const plan::ImagePartition& partition : records_.at(endpoint(position).image).partitions) {
      if (partition.name != ref.partition) continue;
      for (const plan::ImagePort& port : partition.ports)
        if (port.name == ref.port && port.kind == kind && skip-- == 0) return port.link_index;
    }
    return Error(ErrorCode::kInvalidInput, "channel " + quoted(deployment_.channels[channel].name) +
                                               ": image " + quoted(endpoint(position).image) +
                                               " has no link port " + quoted(ref.partition + "." + ref.port) +
                                               " for it; compile the deployment again");
  }

  Status wire(BoundChannel bound) {
    const plan::Channel& channel = deployment_.channels[bound.channel];
    MILLRACE_ASSIGN(bound.producer_row,
                    row_of(bound.producer, channel.producer, plan::PortKind::kLinkSend, bound.channel));
    MILLRACE_ASSIGN(bound.consumer_row,
                    row_of(bound.consumer, channel.consumer, plan::PortKind::kLinkReceive, bound.channel));
    const std::string& from = cluster_.cards[binding_.cards[bound.producer].card].name;
    const std::string& to = cluster_.cards[binding_.cards[bound.consumer].card].name;

    // Among several cables, choose the one that carries the fewest channels in this direction so far.
    std::uint32_t best = kNone;
    bool best_forward = true;
    for (std::uint32_t index = 0; index < cluster_.cables.size(); ++index) {
      const plan::Cable& cable = cluster_.cables[index];
      const bool forward = cable.a.card == from && cable.b.card == to;
      if (!forward && !(cable.b.card == from && cable.a.card == to)) continue;
      if (is_udp(cable) != uses_udp(bound)) continue;
      const Load& load = loads_[{index, forward}];
      if (load.channels >= abi::kMaxTags) continue;
      if (best != kNone && load.bytes >= loads_[{best, best_forward}].bytes) continue;
      best = index;
      best_forward = forward;
    }
    assert(best != kNone);  // assign() has checked that a cable has room
    Load& load = loads_[{best, best_forward}];
    const plan::Cable& cable = cluster_.cables[best];
    card::LinkRow row{0, load.channels, channel.packet_bytes, channel.credits};
    ++load.channels;
    load.bytes += channel.frame_bytes;
    row.connector = (best_forward ? cable.a : cable.b).connector;
    binding_.cards[bound.producer].links.push_back({bound.producer_row, row});
    row.connector = (best_forward ? cable.b : cable.a).connector;
    binding_.cards[bound.consumer].links.push_back({bound.consumer_row, row});
    binding_.channels.push_back(bound);
    return {};
  }

  struct Load {
    std::uint32_t channels = 0;
    std::uint64_t bytes = 0;
  };

  const plan::Deployment& deployment_;
  const std::map<std::string, plan::ImageRecord>& records_;
  const plan::Cluster& cluster_;
  const std::uint32_t copies_;
  const std::function<bool(const plan::ClusterCard&, const plan::Image&)>& holds_;
  std::uint32_t positions_ = 0;  // endpoints with a card in one copy; later copies follow
  std::vector<bool> free_;
  std::vector<std::vector<std::uint32_t>> order_;         // indexed by the endpoint's position in one copy
  std::vector<BoundChannel> edges_;                       // rows are not assigned yet
  std::map<std::pair<std::uint32_t, bool>, Load> loads_;  // key: (cable, whether from end a to end b)
  std::uint64_t tries_ = 0;
  std::uint32_t deepest_ = 0;
  std::optional<std::uint32_t> deepest_channel_;
  Binding binding_;
};

}  // namespace

bool is_link(const plan::Channel& channel) {
  return !plan::passes_hosts(channel.transport);
}

Result<Binding> bind_endpoints(const plan::Deployment& deployment,
                               const std::map<std::string, plan::ImageRecord>& records,
                               const plan::Cluster& cluster,
                               const std::function<bool(const plan::ClusterCard&)>& is_free,
                               const std::function<bool(const plan::ClusterCard&, const plan::Image&)>& holds,
                               std::uint32_t copies) {
  return Binder(deployment, records, cluster, copies, is_free, holds).run();
}

}  // namespace millrace::runtime::pipeline
