// The cards of one pipeline: opens and loads the cards of a binding (the choice of cards for a deployment),
// connects their links, and loads them again after a loss. A thread reads the cards' counters. A `position`
// is the index of a card in Binding::cards.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/card/card.hpp"
#include "runtime/pipeline/binding.hpp"
#include "runtime/pipeline/pipeline.hpp"
#include "runtime/pipeline/schedule.hpp"

namespace millrace::runtime::pipeline {

class Fleet {
 public:
  /// The fleet keeps references to its arguments, which must outlive it.
  Fleet(const plan::LoadedDeployment& deployment, const plan::Cluster& cluster, const Schedule& schedule,
        Binding binding, const PipelineOptions& options);
  ~Fleet();
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  std::uint32_t size() const { return static_cast<std::uint32_t>(cards_.size()); }

  /// Opens the cards. Error messages name the endpoint (the plan's name for the card) and the card.
  Status open(const CardSource& source);
  Status open(const CardSource& source, std::uint32_t position);

  /// Loads the image onto the card. Different cards may be loaded at once. A failure releases the card. If a reset of the
  /// card kept its image (`image_stays`), XRT does not program the card again, and the card is not counted as programmed.
  Status load(std::uint32_t position, bool image_stays = false);

  /// Resets the card (card::Card::reset()) and counts a reset that succeeded. Before kDevice, the card must be released.
  Status reset(std::uint32_t position, card::ResetStep step);

  /// Opens the units, loads the partitions' parameters, writes the link table (without enabling links), and starts the
  /// supervisor (the unit that reports faults). Only one card at a time may be set up. A failure releases the card.
  Status set_up(std::uint32_t position);

  /// Releases the card's units and image, so that load() can follow. No thread may be using the units.
  void release(std::uint32_t position);

  /// Releases and closes all cards. card_status() and link_status() must not be called afterwards.
  void close();

  /// Ends the run of the supervisor (the unit that reports faults). Called before the card is closed.
  void stop_supervisor(std::uint32_t position);

  /// Returns the largest epoch (the number that a flush raises) among all cards.
  Result<std::uint32_t> largest_epoch();
  Status write_epoch(std::uint32_t position, std::uint32_t epoch);

  /// Disables the card's links and writes their rows of the link table. enable_links() enables the links.
  Status write_links(std::uint32_t position);
  Status enable_links(std::uint32_t position);
  struct TrainingLink {
    std::uint32_t link;      // index for describe_link()
    std::uint32_t producer;  // position of the card that sends
    Status read;             // an error if the producer's registers could not be read
  };
  /// Returns a link that is not up, or nothing if there is no such link. A link is up if its cable is up and both ends
  /// are enabled; the ends of a UDP link must also have exchanged greetings.
  std::optional<TrainingLink> training_link();

  // Access to units by their index in the schedule. Not allowed while their card is released.
  card::Ingress& ingress(std::uint32_t index) { return *ingresses_[index]; }
  card::Egress& egress(std::uint32_t index) { return *egresses_[index]; }
  std::uint32_t position_of_ingress(std::uint32_t index) const { return ingress_positions_[index]; }
  const std::vector<std::uint32_t>& ingresses_of(std::uint32_t position) const {
    return cards_[position].ingresses;
  }
  const std::vector<std::uint32_t>& egresses_of(std::uint32_t position) const {
    return cards_[position].egresses;
  }

  card::Card& card(std::uint32_t position) { return *cards_[position].card; }
  /// Returns text for messages: "endpoint 'card1' (card 'fpga1')".
  std::string describe(std::uint32_t position) const;

  /// Returns the part of the status that needs no access to the card. Any thread may call it, also after close().
  CardStatus describe_card(std::uint32_t position) const;
  LinkStatus describe_link(std::uint32_t link) const;
  std::uint32_t links() const { return static_cast<std::uint32_t>(binding_.channels.size()); }
  const Binding& binding() const { return binding_; }

  /// Returns the card's whole status. Reads registers, so it waits for hung cards. Any thread may call it after open().
  CardStatus card_status(std::uint32_t position);
  LinkStatus link_status(std::uint32_t link);

  /// Counts a fault that a card reported for a row of the card's link table. Any thread may call it.
  void count_link_error(std::uint32_t position, std::uint32_t row);

 private:
  struct OpenCard {
    std::unique_ptr<card::Card> card;
    std::vector<std::uint32_t> ingresses, egresses;  // indices into the schedule's units
    std::atomic<std::uint64_t> programmed{0}, parameters{0};
    std::array<std::atomic<std::uint64_t>, card::kResetSteps> resets{};  // by card::ResetStep
    bool loaded_before = false;  // whether this fleet has loaded the card
  };

  const plan::ClusterCard& cluster_card(std::uint32_t position) const {
    return cluster_.cards[binding_.cards[position].card];
  }
  const plan::Endpoint& endpoint(std::uint32_t position) const {
    return deployment_.plan.endpoints[binding_.cards[position].endpoint];
  }
  Status released_unless_ok(std::uint32_t position, Status status);

  const plan::LoadedDeployment& deployment_;
  const plan::Cluster& cluster_;
  const Schedule& schedule_;
  const Binding binding_;
  const PipelineOptions& options_;
  std::vector<OpenCard> cards_;
  std::vector<std::atomic<std::uint64_t>> link_errors_;  // indexed like Binding::channels
  std::vector<std::uint32_t> ingress_positions_;
  std::vector<std::unique_ptr<card::Ingress>> ingresses_;
  std::vector<std::unique_ptr<card::Egress>> egresses_;
};

/// Reads counters and sensors of a fleet's cards on its own thread, so that no caller waits for a hung card.
class Observer {
 public:
  struct Figures {
    std::vector<CardStatus> cards;  // indexed by the card's position
    std::vector<LinkStatus> links;  // indexed like Binding::channels
  };

  /// The fleet must outlive the observer and keep its cards open until stop() has returned.
  explicit Observer(Fleet& fleet);
  ~Observer();

  /// Reads every card and link again. Cards and links that do not answer within `bound` keep their last values, and a
  /// hanging card has CardStatus::answers = false. Any thread may call it.
  Figures read(std::chrono::milliseconds bound);

  /// Ends the observer's thread as soon as the thread has read the current card. Does not wait. Any thread may call it.
  void begin_stop();
  /// Calls begin_stop() and waits until the thread has ended. If a card hangs, this takes as long as the driver waits.
  void stop();

 private:
  void run(const std::stop_token& stop);
  void observe(const std::stop_token& stop);

  Fleet& fleet_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  // mutex_ protects the members below.
  Figures last_;
  std::uint64_t wanted_ = 0, begun_ = 0, done_ = 0;  // numbers of readings requested, begun and completed
  Clock::time_point began_;                          // when the last reading began

  std::jthread thread_;  // last, because it uses all members above
};

}  // namespace millrace::runtime::pipeline
