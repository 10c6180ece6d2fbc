// Chooses a card of the cluster for each endpoint of a plan (the plan's name for a card), and the rows of the card's
// link table. An endpoint needs a card of its device kind, and a channel between two endpoints needs a cable between
// their cards. Accesses no card.
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
  std::uint32_t row_index = 0;  // row number in the link table; plan::ImagePort::link_index
  card::LinkRow row;
};

struct BoundCard {
  std::uint32_t endpoint = 0;  // index into deployment.endpoints
  std::uint32_t card = 0;      // index into cluster.cards
  std::vector<BoundLinkPort> links;
};

/// A channel that a cable carries. `producer` and `consumer` are indices into Binding::cards.
struct BoundChannel {
  std::uint32_t channel = 0;  // index into deployment.channels
  std::uint32_t producer = 0, producer_row = 0;
  std::uint32_t consumer = 0, consumer_row = 0;
};

struct Binding {
  std::vector<BoundCard> cards;  // one for each endpoint that is not a host, in the plan's order
  std::vector<BoundChannel> channels;
};

/// Whether a channel between partitions uses a cable. Other channels pass through the memory of hosts; those with
/// transport kMpi are also sent from one host to another.
bool is_link(const plan::Channel& channel);

/// Chooses the cards of one pipeline so that `copies` pipelines can have different cards. `records` has the record
/// (description) of every image of the plan, by the image's name. `is_free` says whether a card may be used. `holds`
/// says whether a card has the image already; such cards are tried first. Plan and records are those of a
/// LoadedDeployment. Returns kDoesNotFit, naming the endpoint, device kind and channel without a free card;
/// kInvalidInput if an image lacks a port of the plan; and kUnsupported for channels that links cannot carry yet.
Result<Binding> bind_endpoints(
    const plan::Deployment& deployment, const std::map<std::string, plan::ImageRecord>& records,
    const plan::Cluster& cluster, const std::function<bool(const plan::ClusterCard&)>& is_free,
    const std::function<bool(const plan::ClusterCard&, const plan::Image&)>& holds =
        [](const plan::ClusterCard&, const plan::Image&) { return false; },
    std::uint32_t copies = 1);

}  // namespace millrace::runtime::pipeline
