// The cards of one pipeline: opened as the binding says, loaded, wired, and brought back one by one. No
// threads here.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/card/card.hpp"
#include "runtime/pipeline/binding.hpp"
#include "runtime/pipeline/images.hpp"
#include "runtime/pipeline/pipeline.hpp"
#include "runtime/pipeline/schedule.hpp"

namespace millrace::runtime::pipeline {

/// How cards are reached: XRT, or a test's own cards.
struct CardSource {
  std::function<Result<std::unique_ptr<card::Card>>(const plan::ClusterCard& card, std::uint32_t index)> open;
  std::function<bool(const plan::ClusterCard& card, std::uint32_t index)> is_free;
  /// Uuid of the image on it; empty where there is none or nobody knows.
  std::function<std::string(const plan::ClusterCard& card, std::uint32_t index)> image_uuid =
      [](const plan::ClusterCard&, std::uint32_t) { return std::string(); };
};

/// Cards as XRT has them: by PCIe address where the cluster gives one, else by position.
CardSource xrt_cards();

class Fleet {
 public:
  /// References are kept: they must outlive the fleet.
  Fleet(const plan::Deployment& deployment, const plan::Cluster& cluster, const Images& images,
        const Schedule& schedule, Binding binding, const PipelineOptions& options);
  ~Fleet();
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  std::uint32_t size() const { return static_cast<std::uint32_t>(cards_.size()); }

  /// Takes the cards. Errors name endpoint and card.
  Status open(const CardSource& source);

  /// load() and equip(): where one of them fails, the card is released.
  Status bring_up(std::uint32_t place);

  /// Puts the image on the card. Different cards at once.
  Status load(std::uint32_t place);

  /// Makes the units, gives the partitions their parameters, writes the link table (not yet in service),
  /// starts the supervisor. One card at a time.
  Status equip(std::uint32_t place);

  /// Releases units and image, so that bring_up() can follow. No thread may use them.
  void release(std::uint32_t place);

  /// Releases all, and gives the cards back. card_status() and link_status() are over.
  void close();

  /// Ends the supervisor's run, for a card that is given back.
  void dismiss(std::uint32_t place);

  /// The largest epoch any card has.
  Result<std::uint32_t> largest_epoch();
  Status write_epoch(std::uint32_t place, std::uint32_t epoch);

  /// Takes the card's links out of service and writes their rows again; enable_links() puts them in service.
  Status write_links(std::uint32_t place);
  Status enable_links(std::uint32_t place);

  // Units, by their index in the schedule. Null while their card is released.
  card::Ingress& ingress(std::uint32_t index) { return *ingresses_[index]; }
  card::Egress& egress(std::uint32_t index) { return *egresses_[index]; }
  std::uint32_t place_of_ingress(std::uint32_t index) const { return ingress_places_[index]; }
  const std::vector<std::uint32_t>& ingresses_of(std::uint32_t place) const {
    return cards_[place].ingresses;
  }
  const std::vector<std::uint32_t>& egresses_of(std::uint32_t place) const { return cards_[place].egresses; }

  card::Card& card(std::uint32_t place) { return *cards_[place].card; }
  const std::string& endpoint_name(std::uint32_t place) const;
  /// "endpoint 'card1' (card 'fpga1')", for messages.
  std::string describe(std::uint32_t place) const;

  /// What needs no look at the card. Any thread, also after close().
  CardStatus describe_card(std::uint32_t place) const;
  LinkStatus describe_link(std::uint32_t link) const;
  std::uint32_t links() const { return static_cast<std::uint32_t>(binding_.channels.size()); }

  /// All of it: reads registers, and waits for a card that hangs. Any thread, while no card is being opened.
  CardStatus card_status(std::uint32_t place);
  LinkStatus link_status(std::uint32_t link);

  /// A card reported a fault of this row of its link table. Any thread.
  void count_link_error(std::uint32_t place, std::uint32_t row);

 private:
  struct Entry {
    std::unique_ptr<card::Card> card;
    std::vector<std::uint32_t> ingresses, egresses;  // of the schedule
    std::atomic<std::uint64_t> programmed{0}, parameters{0};
    bool known = false;  // loaded before by this fleet
  };

  const plan::ClusterCard& cluster_card(std::uint32_t place) const {
    return cluster_.cards[binding_.cards[place].card];
  }
  const plan::Endpoint& endpoint(std::uint32_t place) const {
    return deployment_.endpoints[binding_.cards[place].endpoint];
  }
  Status make_units(std::uint32_t place);
  Status give_parameters(std::uint32_t place);
  Status released_unless_ok(std::uint32_t place, Status status);

  const plan::Deployment& deployment_;
  const plan::Cluster& cluster_;
  const Images& images_;
  const Schedule& schedule_;
  const Binding binding_;
  const PipelineOptions& options_;
  std::vector<Entry> cards_;
  std::vector<std::atomic<std::uint64_t>> link_errors_;  // by channel of the binding
  std::vector<std::uint32_t> ingress_places_;
  std::vector<std::unique_ptr<card::Ingress>> ingresses_;
  std::vector<std::unique_ptr<card::Egress>> egresses_;
};

}  // namespace millrace::runtime::pipeline
