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

constexpr double kAlike = 0.99;     // a place limits if its interval is at least this fraction of the longest
constexpr double kHardly = 1.02;    // times an interval
constexpr double kNothing = 0.005;  // a gain below this is none

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, share < 0.0995 ? "%.1f %%" : "%.0f %%", share * 100);
  return text;
}

/// Cards with more of some resources. Every block stays in its region, built in any way that is quick enough; what
/// joins the blocks takes what it takes today.
class Stretched {
 public:
  Stretched(const Problem& problem, const Solution& solution, const Analysis& analysis, double seconds)
      : problem_(problem), solution_(solution), seconds_(seconds), options_(problem.operations.size()) {
    for (const auto card : solution.card) {
      blocks_.emplace_back(problem.cards[card].regions.size());
      joints_.emplace_back(problem.cards[card].regions.size());
      weights_.emplace_back(problem.cards[card].regions.size(), even_weights());
    }
    for (const auto& part : solution.parts)
      for (const auto operation : part.operations)
        if (!part.host) blocks_[part.place][solution.region[operation]].push_back(operation);
    for (std::size_t p = 0; p < joints_.size(); ++p)
      for (std::size_t r = 0; r < joints_[p].size(); ++r) {
        Amounts sum{};
        for (const auto operation : blocks_[p][r])
          sum += problem.operations[operation].implementations[solution.implementation[operation]].amounts;
        for (std::size_t k = 0; k < kMemoryBytes; ++k)
          joints_[p][r][k] =
              static_cast<double>(analysis.places[p].regions[r].used[k]) - static_cast<double>(sum[k]);
      }
  }

  bool fits(std::uint32_t place, const Figures& factors) {
    const auto& regions = card(place).regions;
    double memory = static_cast<double>(regions.front().available[kMemoryBytes]) * seconds_;
    memory *= factors[kMemoryBytes];
    for (std::size_t r = 0; r < regions.size(); ++r) {
      Amounts budget{};
      for (std::size_t k = 0; k < kMemoryBytes; ++k)
        budget[k] = static_cast<std::uint64_t>(std::max(
            0.0,
            std::floor(static_cast<double>(regions[r].available[k]) * factors[k]) - joints_[place][r][k]));
      budget[kMemoryBytes] = static_cast<std::uint64_t>(memory * (1 + 1e-12));
      std::vector<Choices> ways;
      for (const auto operation : blocks_[place][r])
        ways.push_back(choices(options(place, operation), budget));
      std::vector<const Choices*> all;
      for (const auto& one : ways) all.push_back(&one);
      const Packed packed = pack(all, budget, weights_[place][r]);
      if (packed.fit != Fit::kYes) return false;
      memory -= static_cast<double>(packed.used[kMemoryBytes]);
    }
    return true;
  }

  std::optional<Shortage> shortage(std::uint32_t place) {
    return find_shortage([&](const Figures& factors) { return fits(place, factors); });
  }

 private:
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
  std::vector<std::optional<std::vector<Option>>> options_;      // of an operation
  std::vector<std::vector<std::vector<std::uint32_t>>> blocks_;  // place, region
  std::vector<std::vector<Figures>> weights_;  // the price search begins with them; by place, region
  std::vector<std::vector<Figures>> joints_;   // what designs and cables take beyond blocks; place, region
};

class Explainer {
 public:
  Explainer(const Problem& problem, const Solution& solution, Analysis& analysis)
      : problem_(problem), solution_(solution), out_(analysis) {
    for (const auto& place : out_.places) seconds_ = std::max(seconds_, place.interval_seconds);
    for (const auto& cable : out_.cables) seconds_ = std::max(seconds_, cable.seconds);
    for (const auto& place : out_.places) seconds_ = std::max(seconds_, memory_seconds(place));
  }

  void run() {
    out_.bottleneck.clear();
    out_.lifts.clear();
    const double near = seconds_ * (1 - 1e-9);
    for (const auto& place : out_.places)
      if (place.interval_seconds >= near) {
        out_.bottleneck = slowest_of(place) +
                          " limits: " + std::to_string(way(place.slowest).interval_cycles) +
                          " cycles a frame";
        lift();
        add_busiest_cable();
        return;
      }
    for (const auto& cable : out_.cables)
      if (cable.seconds >= near) {
        const std::string name = name_of(cable);
        out_.bottleneck = "the cable " + name + " limits: " + std::to_string(cable.bytes) + " bytes a frame";
        out_.lifts.push_back("a quicker cable " + name + ", or a cut where fewer bytes cross");
        return;
      }
    for (const auto& place : out_.places)
      if (memory_seconds(place) >= near) {
        out_.bottleneck = "the memory of " + card(place).name +
                          " limits: " + std::to_string(place.memory_bytes) + " bytes of weights a frame";
        out_.lifts.push_back("weights kept on the chip, or a quicker memory");
        return;
      }
  }

 private:
  const Implementation& way(std::uint32_t operation) const {
    return problem_.operations[operation].implementations[solution_.implementation[operation]];
  }
  const Card& card(const PlaceAnalysis& place) const { return problem_.cards[place.card]; }
  std::uint32_t number(const PlaceAnalysis& place) const {
    return static_cast<std::uint32_t>(&place - out_.places.data());
  }

  static double memory_seconds(const PlaceAnalysis& place) {
    return place.memory_bytes > 0 ? 1 / place.roofline.memory : 0;
  }

  std::string name_of(const CableUse& cable) const {
    return card(out_.places[cable.from]).name + "-" + card(out_.places[cable.to]).name;
  }
  std::string slowest_of(const PlaceAnalysis& place) const {
    return "'" + problem_.operations[place.slowest].name + "' on " + card(place).name;
  }

  /// How far the cables are from limiting.
  void add_busiest_cable() {
    const CableUse* most = nullptr;
    for (const auto& cable : out_.cables)
      if (most == nullptr || cable.share > most->share) most = &cable;
    if (most != nullptr)
      out_.lifts.push_back("the cable " + name_of(*most) + " is at " + percent(most->share));
  }

  /// The slowest of what remains if the limiting cards become quicker: other cards, memories, cables, and blocks that
  /// cannot be built quicker.
  struct Rest {
    double seconds = 0;
    std::string name;
    bool at_its_best = false;  // a block on a limiting card that cannot be built quicker
  };

  Rest rest() const {
    Rest out;
    const auto add = [&](double seconds, const std::string& name, bool at_its_best = false) {
      if (seconds > out.seconds) out = {seconds, name, at_its_best};
    };
    for (const auto& place : out_.places)
      if (!is_slow(place)) add(place.interval_seconds, slowest_of(place));
    for (const auto& place : out_.places) add(memory_seconds(place), "the memory of " + card(place).name);
    for (const auto& cable : out_.cables) add(cable.seconds, "the cable " + name_of(cable));
    for_each_on_slow([&](const auto& place, const auto& operation) {
      if (&operation == &problem_.operations[place.slowest])
        return;  // its next shorter interval is looked at
      add(static_cast<double>(least_interval(operation)) / card(place).clock_hz,
          "'" + operation.name + "' on " + card(place).name, true);
    });
    return out;
  }

  bool is_slow(const PlaceAnalysis& place) const { return place.interval_seconds >= seconds_ * kAlike; }

  /// Calls `visit(place, operation)` for all operations on the limiting cards.
  template <typename Visit>
  void for_each_on_slow(const Visit& visit) const {
    for (const auto& part : solution_.parts)
      for (const auto operation : part.operations)
        if (!part.host && is_slow(out_.places[part.place]))
          visit(out_.places[part.place], problem_.operations[operation]);
  }

  void cannot_be_quicker(const std::string& name) {
    out_.lifts.push_back("nothing here: " + name +
                         " cannot be built quicker; a replica could share its work");
  }

  /// Says what the limiting cards would need for the next shorter interval.
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
    const Rest rest = this->rest();
    reached = std::max(reached, rest.seconds);
    if (seconds_ / reached - 1 < kNothing) {
      if (rest.at_its_best) return cannot_be_quicker(rest.name);
      out_.lifts.push_back("nothing here alone: " + rest.name + " is as slow");
      return;
    }
    double seconds = relaxed(reached);
    const Needs needed = needs(seconds);
    if (needed.words.empty()) {
      out_.lifts.push_back(gain(seconds) + " would fit with this cut, but no such plan was found");
      return;
    }
    if (needed.enough) seconds = shortest(needed, rest.seconds, seconds);
    out_.lifts.push_back(needed.words + (solution_.copies.empty() ? "" : ", and so in each replica,") +
                         " would give " + gain(seconds) +
                         (seconds <= rest.seconds * kHardly ? ", then " + rest.name + " limits" : ""));
  }

  std::string gain(double seconds) const { return "up to +" + percent(seconds_ / seconds - 1); }

  /// The longest interval within kHardly of the shortest that a block on the limiting cards can have. Blocks without an
  /// implementation for exactly the shortest interval then need not be much quicker.
  double relaxed(double shortest) const {
    double longest = shortest;
    for_each_on_slow([&](const auto& place, const auto& operation) {
      for (const auto& one : operation.implementations) {
        const double seconds = static_cast<double>(one.interval_cycles) / card(place).clock_hz;
        if (seconds <= shortest * kHardly && seconds_ / seconds - 1 >= kNothing)
          longest = std::max(longest, seconds);
      }
    });
    return longest;
  }

  struct Needs {
    std::string words;             // how much more of what; empty if nothing more is needed
    std::vector<Figures> factors;  // by which the resources of each place would have to grow
    bool enough = true;            // with these factors it fits
  };

  /// What the limiting cards need for an interval.
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

  /// The shortest interval, not below `least`, that the same resources suffice for. They suffice for `longest`.
  double shortest(const Needs& needed, double least, double longest) const {
    std::set<double> possible = {longest};
    if (least < longest) possible.insert(least);
    for_each_on_slow([&](const auto& place, const auto& operation) {
      for (const auto& one : operation.implementations) {
        const double seconds = static_cast<double>(one.interval_cycles) / card(place).clock_hz;
        if (seconds > least && seconds < longest) possible.insert(seconds);
      }
    });
    const std::vector<double> intervals(possible.begin(), possible.end());
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
  double seconds_ = 0;  // from one frame to the next, of one replica's cards
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
