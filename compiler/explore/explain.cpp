#include "compiler/explore/analysis.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/explore/interval_fit.hpp"

namespace millrace::compiler::explore {
namespace {

constexpr double kAlike = 0.99;     // a card limits if its interval is at least this fraction of the longest
constexpr double kHardly = 1.02;    // intervals whose ratio is at most this are almost equal
constexpr double kNothing = 0.005;  // smaller gains in rate are not reported

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, share < 0.0995 ? "%.1f %%" : "%.0f %%", share * 100);
  return text;
}

/// Tells whether the blocks of a card would fit if the card had more of some resources. Every block stays in its region
/// and may use any implementation that is fast enough. FIFOs and adapters between blocks keep their size.
class Stretched {
 public:
  Stretched(const Problem& problem, const Solution& solution, const Analysis& analysis, double seconds)
      : problem_(problem), solution_(solution), seconds_(seconds), options_(problem.operations.size()) {
    for (const auto& place : analysis.places) {
      auto& slots = slots_.emplace_back(place.regions.size());
      for (std::size_t r = 0; r < slots.size(); ++r)
        for (std::size_t k = 0; k < kMemoryBytes; ++k)
          slots[r].interconnect[k] = static_cast<double>(place.regions[r].used[k]);
    }
    for (const auto& part : solution.parts)
      for (const auto operation : part.operations) {
        if (part.host) continue;
        Slot& slot = slots_[part.place][solution.region[operation]];
        slot.blocks.push_back(operation);
        const auto& way = problem.operations[operation].implementations[solution.implementation[operation]];
        for (std::size_t k = 0; k < kMemoryBytes; ++k)
          slot.interconnect[k] -= static_cast<double>(way.amounts[k]);
      }
  }

  bool fits(std::uint32_t place, const Figures& factors) {
    const auto& regions = card(place).regions;
    double memory = static_cast<double>(regions.front().available[kMemoryBytes]) * seconds_;
    memory *= factors[kMemoryBytes];
    for (std::size_t r = 0; r < regions.size(); ++r) {
      Slot& slot = slots_[place][r];
      Amounts budget{};
      for (std::size_t k = 0; k < kMemoryBytes; ++k)
        budget[k] = static_cast<std::uint64_t>(std::max(
            0.0,
            std::floor(static_cast<double>(regions[r].available[k]) * factors[k]) - slot.interconnect[k]));
      budget[kMemoryBytes] = static_cast<std::uint64_t>(memory * (1 + 1e-12));
      std::vector<Choices> ways;
      for (const auto operation : slot.blocks) ways.push_back(choices(options(place, operation), budget));
      std::vector<const Choices*> all;
      for (const auto& one : ways) all.push_back(&one);
      const Packed packed = pack(all, budget, slot.weights);
      if (packed.fit != Fit::kYes) return false;
      memory -= static_cast<double>(packed.used[kMemoryBytes]);
    }
    return true;
  }

  std::optional<Shortage> shortage(std::uint32_t place) {
    return find_shortage([&](const Figures& factors) { return fits(place, factors); });
  }

 private:
  /// The blocks in one region of a card.
  struct Slot {
    std::vector<std::uint32_t> blocks;
    Figures interconnect{};            // resources of FIFOs, adapters and cables in the region
    Figures weights = even_weights();  // where the next search for prices begins
  };

  const Card& card(std::uint32_t place) const { return problem_.cards[solution_.card[place]]; }

  const std::vector<Option>& options(std::uint32_t place, std::uint32_t operation) {
    auto& known = options_[operation];
    if (!known)
      known = options_within(problem_.operations[operation], cycles_in(seconds_, card(place).clock_hz));
    return *known;
  }

  const Problem& problem_;
  const Solution& solution_;
  double seconds_;
  std::vector<std::optional<std::vector<Option>>> options_;  // [operation]; empty until needed
  std::vector<std::vector<Slot>> slots_;                     // [position in the pipeline][region]
};

class Explainer {
 public:
  Explainer(const Problem& problem, const Solution& solution, Analysis& analysis)
      : problem_(problem), solution_(solution), out_(analysis) {
    for (const auto& place : out_.places)
      limits_.push_back({place.interval_seconds,
                         "'" + problem_.operations[place.slowest].name + "' on " + card(place).name,
                         std::to_string(way(place.slowest).interval_cycles) + " cycles a frame", &place});
    for (const auto& cable : out_.cables)
      limits_.push_back({cable.seconds, "the cable " + name_of(cable),
                         std::to_string(cable.bytes) + " bytes a frame", nullptr,
                         "a faster cable " + name_of(cable) + ", or a cut where fewer bytes cross"});
    for (const auto& place : out_.places)
      limits_.push_back(
          {1 / place.roofline.memory, "the memory of " + card(place).name,
           std::to_string(place.memory_bytes) + " bytes of weights a frame", nullptr,
           "more weights on the chip instead of in the memory, or a card with a faster memory"});
    for (const auto& limit : limits_) seconds_ = std::max(seconds_, limit.seconds);
  }

  void run() {
    out_.lifts.clear();
    const auto limit = std::find_if(limits_.begin(), limits_.end(),
                                    [&](const Limit& one) { return one.seconds >= seconds_ * (1 - 1e-9); });
    out_.bottleneck = limit->name + " limits: " + limit->reason;
    if (limit->place == nullptr) {
      out_.lifts.push_back(limit->remedy);
    } else {
      lift();
      add_busiest_cable();
    }
  }

 private:
  /// A possible limit of the rate: a card's slowest block, a cable, or a card's memory.
  struct Limit {
    double seconds = 0;  // the shortest interval that this limit allows
    std::string name, reason;
    const PlaceAnalysis* place = nullptr;  // the card of a block; null for a cable or a memory
    std::string remedy = {};               // for a cable or a memory
  };

  const Implementation& way(std::uint32_t operation) const {
    return problem_.operations[operation].implementations[solution_.implementation[operation]];
  }
  const Card& card(const PlaceAnalysis& place) const { return problem_.cards[place.card]; }
  std::uint32_t number(const PlaceAnalysis& place) const {
    return static_cast<std::uint32_t>(&place - out_.places.data());
  }

  std::string name_of(const CableUse& cable) const {
    return card(out_.places[cable.from]).name + "-" + card(out_.places[cable.to]).name;
  }
  void add_busiest_cable() {
    const CableUse* most = nullptr;
    for (const auto& cable : out_.cables)
      if (most == nullptr || cable.share > most->share) most = &cable;
    if (most != nullptr)
      out_.lifts.push_back("the cable " + name_of(*most) + " is at " + percent(most->share));
  }

  /// What would limit the rate after the present limit is removed: another card, a memory, a cable, or a block that has
  /// no faster implementation.
  struct NextLimit {
    double seconds = 0;
    std::string name;
    bool at_its_best = false;  // a block on a limiting card that cannot be built quicker
  };

  NextLimit next_limit() const {
    NextLimit out;
    const auto add = [&](double seconds, const std::string& name, bool at_its_best = false) {
      if (seconds > out.seconds) out = {seconds, name, at_its_best};
    };
    for (const auto& limit : limits_)
      if (limit.place == nullptr || !is_slow(*limit.place)) add(limit.seconds, limit.name);
    for_each_on_slow([&](const auto& place, const auto& operation) {
      if (&operation == &problem_.operations[place.slowest]) return;  // lift() handles this block
      add(static_cast<double>(least_interval(operation)) / card(place).clock_hz,
          "'" + operation.name + "' on " + card(place).name, true);
    });
    return out;
  }

  bool is_slow(const PlaceAnalysis& place) const { return place.interval_seconds >= seconds_ * kAlike; }

  /// Calls `visit(place, operation)` for all operations on the cards that limit the rate.
  template <typename Visit>
  void for_each_on_slow(const Visit& visit) const {
    for (const auto& part : solution_.parts)
      for (const auto operation : part.operations)
        if (!part.host && is_slow(out_.places[part.place]))
          visit(out_.places[part.place], problem_.operations[operation]);
  }

  void cannot_be_quicker(const std::string& name) {
    out_.lifts.push_back("no improvement: " + name +
                         " has no faster implementation; a replica could share its work");
  }

  /// Adds a sentence about which additional resources would shorten the interval of the cards that limit the rate, and
  /// by how much the rate would rise.
  void lift() {
    double reached = 0;
    for (const auto& place : out_.places) {
      if (!is_slow(place)) continue;
      const auto& slowest = problem_.operations[place.slowest];
      std::uint64_t next = 0;
      for (const auto& other : slowest.implementations)
        if (other.interval_cycles < way(place.slowest).interval_cycles)
          next = std::max(next, other.interval_cycles);
      if (next == 0) return cannot_be_quicker("'" + slowest.name + "'");
      reached = std::max(reached, static_cast<double>(next) / card(place).clock_hz);
    }
    const NextLimit next = next_limit();
    reached = std::max(reached, next.seconds);
    if (seconds_ / reached - 1 < kNothing) {
      if (next.at_its_best) return cannot_be_quicker(next.name);
      out_.lifts.push_back("no improvement by this limit alone: " + next.name + " is as slow");
      return;
    }
    double seconds = relaxed(reached);
    const Needs needed = needs(seconds);
    if (needed.words.empty()) {
      out_.lifts.push_back(gain(seconds) +
                           " would fit with this cut of the model, but the search found no such plan");
      return;
    }
    if (needed.enough) seconds = shortest(needed, next.seconds, seconds);
    out_.lifts.push_back(needed.words + (solution_.copies.empty() ? "" : ", and so in each replica,") +
                         " would give " + gain(seconds) +
                         (seconds <= next.seconds * kHardly ? ", then " + next.name + " limits" : ""));
  }

  std::string gain(double seconds) const { return "up to +" + percent(seconds_ / seconds - 1); }

  /// Returns all intervals that are possible for the blocks on the cards that limit the rate.
  std::set<double> intervals() const {
    std::set<double> out;
    for_each_on_slow([&](const auto& place, const auto& operation) {
      for (const auto& one : operation.implementations)
        out.insert(static_cast<double>(one.interval_cycles) / card(place).clock_hz);
    });
    return out;
  }

  /// Among the intervals of the blocks on the cards that limit the rate, returns the longest one that is at most
  /// kHardly times `shortest`. An interval slightly above `shortest` can need far fewer resources, because no block
  /// then needs its next faster implementation just to save a few cycles.
  double relaxed(double shortest) const {
    double longest = shortest;
    for (const double seconds : intervals())
      if (seconds <= shortest * kHardly && seconds_ / seconds - 1 >= kNothing)
        longest = std::max(longest, seconds);
    return longest;
  }

  struct Needs {
    std::string words;             // names the missing resources; empty if none is missing
    std::vector<Figures> factors;  // [position]: by which the resources of the card would have to grow
    bool enough = true;            // whether the blocks fit with these factors
  };

  /// Returns the resources that an interval would need on the cards that limit the rate.
  Needs needs(double seconds) const {
    Stretched stretched(problem_, solution_, out_, seconds);
    Needs out;
    for (const auto& place : out_.places) {
      out.factors.emplace_back().fill(1);
      if (!is_slow(place) || stretched.fits(number(place), out.factors.back())) continue;
      const auto shortage = stretched.shortage(number(place));
      out.words +=
          (out.words.empty() ? "" : " and ") +
          (shortage ? increase_of(*shortage) + " " + names_of(*shortage)
                    : "more than " + std::to_string(std::lround(kLargestFactor)) + " times the resources") +
          " on " + card(place).name;
      out.enough = out.enough && shortage;
      if (!shortage) continue;
      for (const auto kind : shortage->kinds) out.factors.back()[kind] = shortage->factor;
    }
    return out;
  }

  /// Returns the shortest interval from `least` to `longest` for which the resources `needed` suffice.
  double shortest(const Needs& needed, double least, double longest) const {
    std::set<double> possible = intervals();
    possible.insert({least, longest});
    const std::vector<double> intervals(possible.lower_bound(least), possible.upper_bound(longest));
    return *std::partition_point(intervals.begin(), intervals.end() - 1, [&](double seconds) {
      Stretched stretched(problem_, solution_, out_, seconds);
      return std::any_of(out_.places.begin(), out_.places.end(), [&](const auto& place) {
        return is_slow(place) && !stretched.fits(number(place), needed.factors[number(place)]);
      });
    });
  }

  const Problem& problem_;
  const Solution& solution_;
  Analysis& out_;
  std::vector<Limit> limits_;
  double seconds_ = 0;  // the interval of one replica's cards
};

}  // namespace

void change_interval(Analysis& analysis, double from_seconds, double to_seconds) {
  const double factor = from_seconds / to_seconds;
  for (auto& cable : analysis.cables) cable.share *= factor;
  for (auto& place : analysis.places)
    for (auto& region : place.regions)
      region.used[kMemoryBytes] =
          static_cast<std::uint64_t>(std::llround(static_cast<double>(region.used[kMemoryBytes]) * factor));
}

void explain(const Problem& problem, const Solution& solution, Analysis& analysis) {
  Explainer(problem, solution, analysis).run();
}

}  // namespace millrace::compiler::explore
