// Checks the cards and cables of a deployment before traffic. Programs the cards, waits until every channel between them is
// up, and finds out where the plugs of a cable lead whose channel stays down.
//
// To trace a plug, one sending port of a card is enabled alone. Then the receiving ports of all cards are enabled on one
// connector after the other, until the two ends of a link see each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/card/card.hpp"
#include "runtime/pipeline/pipeline.hpp"
#include "runtime/plan/cluster.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::runtime::pipeline {

struct CardCheck {
  enum class State {
    kReady,    // programmed and set up
    kMissing,  // XRT does not show the card
    kFailed,   // the card cannot be opened, programmed or set up
    kUnused,   // the deployment does not use the card, so it was not opened
  };
  std::string card;             // the name in the cluster file
  std::string endpoint, image;  // names in the plan; empty for an unused card
  std::uint32_t replica = 0;
  State state = State::kReady;
  std::string problem;  // empty if the card is ready or unused; otherwise what is wrong and what to do
  card::CardInfo info;  // as XRT reports it; empty if the card is missing
  std::optional<std::uint64_t> host_memory_bytes;  // as card::Card::host_memory_bytes(), after programming
};

struct CableCheck {
  enum class State {
    kUp,          // all its channels are up
    kDown,        // a channel is not up
    kMisplugged,  // an end leads to another connector than the cluster file says
    kUntested,    // a card at one of its ends is not ready
    kUnused,      // the deployment has no channel on this cable
  };
  std::string cable;           // the name in the cluster file
  std::uint32_t channels = 0;  // of the deployment on this cable
  State state = State::kUnused;
  std::string problem;  // empty if the cable is up or unused
  std::chrono::milliseconds
      up_after;  // time from enabling the links until the last channel of this cable was up
};

/// Return the state as one word: "ready", "missing", "failed", "unused", "up", "down", "misplugged", "untested", "unused".
const char* to_string(CardCheck::State state);
const char* to_string(CableCheck::State state);

struct Preflight {
  std::vector<CardCheck> cards;    // the cards that the deployment uses, replica by replica, then all others
  std::vector<CableCheck> cables;  // one for each cable of the cluster, in its order
};

struct PreflightBounds {
  std::chrono::milliseconds up{5000};    // for all channels to come up; a real cable takes 1.4 s after a load
  std::chrono::milliseconds trace{300};  // for two ends of a link to see each other, when a plug is traced
};

/// Checks the cards and cables for `copies` pipelines of the deployment. The cards are chosen as Pipeline::open() chooses
/// them, must not be in use, and keep their images afterwards. Blocks while cards are programmed, and for the bounds.
/// Faults of cards and cables are part of the result. Returns the errors of Pipeline::check(): kDoesNotFit if the cluster
/// does not fit the deployment.
Result<Preflight> check_before_traffic(const plan::LoadedDeployment& deployment, const plan::Cluster& cluster,
                                       const PipelineOptions& options, std::uint32_t copies = 1,
                                       const CardSource& source = xrt_cards(),
                                       const PreflightBounds& bounds = {});

}  // namespace millrace::runtime::pipeline
