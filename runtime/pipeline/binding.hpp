// Which card of the cluster each endpoint of a plan becomes, and what its link table then says. Pure: no card
// is touched. Endpoints are bound by device kind and by cables: a channel between two cards needs a cable
// between the two cards its partitions are bound to.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/card/link_table.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"
#include "runtime/plan/image.hpp"

namespace millrace::runtime::pipeline {

struct BoundLinkPort {
  std::uint32_t row_index = 0;  // plan::ImagePort::link_index
  card::LinkRow row;
};

struct BoundCard {
  std::uint32_t endpoint = 0;  // index into deployment.endpoints
  std::uint32_t card = 0;      // index into cluster.cards
  std::vector<BoundLinkPort> links;
};

/// A channel on a cable. Indices into Binding::cards.
struct BoundChannel {
  std::uint32_t channel = 0;  // index into deployment.channels
  std::uint32_t producer = 0, producer_row = 0;
  std::uint32_t consumer = 0, consumer_row = 0;
};

struct Binding {
  std::vector<BoundCard> cards;  // one an endpoint that is no host, in the plan's order
  std::vector<BoundChannel> channels;
};

/// Whether a channel travels on a cable (and not through host memory).
bool is_link(const plan::Channel& channel);

/// The cards of one pipeline, chosen so that there are cards for `copies` of it, apart from each other.
/// `records`: of every image the plan names, by the image's name. `is_free`: whether a card may be used at
/// all. `holds`: whether the image is on it already; such cards are tried first. kDoesNotFit names the
/// endpoint, the kind and the channel that no free card serves; kInvalidInput where plan and images
/// contradict each other; kUnsupported for what no link does yet.
Result<Binding> bind_endpoints(
    const plan::Deployment& deployment, const std::map<std::string, plan::ImageRecord>& records,
    const plan::Cluster& cluster, const std::function<bool(const plan::ClusterCard&)>& is_free,
    const std::function<bool(const plan::ClusterCard&, const plan::Image&)>& holds =
        [](const plan::ClusterCard&, const plan::Image&) { return false; },
    std::uint32_t copies = 1);

}  // namespace millrace::runtime::pipeline
