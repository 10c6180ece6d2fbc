#include "compiler/explore/claims.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

namespace millrace::compiler::explore {
namespace {

constexpr double kPacket = 1024 + 40;  // bytes of a full one, with header and CRC

bool near(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
}
constexpr double kRounding = 1e-6;

/// What a predicted solution claims, place by place, recomputed from the problem. Its operations, cards, edges and
/// layers hold. The arguments outlive it.
class Claims {
 public:
  /// `part_of`: the part of each operation.
  Claims(const Problem& problem, const Solution& solution, const std::vector<std::size_t>& part_of)
      : problem_(problem), solution_(solution), part_of_(part_of), cables_(cables_of(problem)) {}

  /// What does not hold of regions, budgets, interval, latency and targets. Empty: nothing.
  std::string check() {
    if (auto wrong = check_fit(); !wrong.empty()) return wrong;
    if (!near(interval(), solution_.interval_seconds)) return "interval_seconds is wrong";
    if (!near(latency(), solution_.latency_seconds)) return "latency_seconds is wrong";
    return missed(solution_.interval_seconds, solution_.latency_seconds);
  }

  /// What does not hold of implementations, regions and budgets. To be called before interval(), latency() and
  /// missed().
  std::string check_fit() {
    if (auto wrong = check_choices(); !wrong.empty()) return wrong;
    if (auto wrong = check_regions(); !wrong.empty()) return wrong;
    return check_budgets();
  }

  /// Whether its region has room for the operation built in another way, if all others stay as they are. To be
  /// called after check_fit() found nothing.
  bool has_room(std::size_t operation, const Implementation& other) const {
    const std::pair where{part(operation).place, solution_.region[operation]};
    const auto& now = fabric_.at(where);
    const auto& available = card(where.first).regions[where.second].available;
    for (std::size_t k = 0; k < kKinds; ++k)
      if (k != kMemoryBytes && now[k] - way(operation).amounts[k] + other.amounts[k] > available[k])
        return false;
    return true;
  }

  double interval() const {
    double longest = 0;
    for (std::size_t i = 0; i < problem_.operations.size(); ++i)
      if (!problem_.operations[i].host)
        longest =
            std::max(longest, static_cast<double>(way(i).interval_cycles) / card(part(i).place).clock_hz);
    std::map<std::uint32_t, std::uint64_t> read;  // place -> bytes, of all its regions
    for (const auto& [where, amounts] : used_) read[where.first] += amounts[kMemoryBytes];
    for (const auto& [place, sum] : read)
      if (sum > 0)
        longest = std::max(longest, static_cast<double>(sum) /
                                        static_cast<double>(card(place).regions[0].available[kMemoryBytes]));
    for (const auto& [ends, loads] : bytes_)
      longest = std::max(
          longest,
          static_cast<double>(*std::max_element(loads.begin(), loads.end())) /
              cables_.at({solution_.card[ends.first], solution_.card[ends.second]}).bytes_per_second);
    return longest;
  }

  /// First and last beat of every tensor, from its producer on; hops ascend, so a tensor is where it leaves
  /// from.
  double latency() const {
    std::map<std::pair<std::uint32_t, std::int64_t>, Beats> known;  // (tensor, place; -1 the host)
    double end = 0;
    for (std::size_t i = 0; i < problem_.operations.size(); ++i) {
      const auto& operation = problem_.operations[i];
      Beats in;
      for (const auto t : operation.inputs) {
        auto from = known.find({t, operation.host ? -1 : std::int64_t{part(i).place}});
        if (from == known.end()) from = known.find({t, -1});
        if (from == known.end()) continue;
        in = {std::max(in.first, from->second.first), std::max(in.last, from->second.last)};
      }
      if (operation.host) {
        const double done = in.last + operation.host_seconds;
        for (const auto t : operation.outputs) known[{t, -1}] = {done, done};
        continue;
      }
      const Beats out = through(i, in);
      end = std::max(end, out.last);
      for (const auto t : operation.outputs) {
        known[{t, part(i).place}] = out;
        known[{t, -1}] = {out.last, out.last};
        for (const auto& hop : solution_.hops)
          if (hop.tensor == t) known[{t, hop.to}] = over(hop, known.at({t, hop.from}));
      }
    }
    return end;
  }

  /// The target that an interval and a latency miss, as a sentence; empty: none.
  std::string missed(double interval_seconds, double latency_seconds) const {
    const Targets& targets = problem_.targets;
    const auto replicas = static_cast<double>(solution_.replicas());
    if (targets.frames_per_second && interval_seconds * *targets.frames_per_second > replicas * (1 + 1e-6))
      return "the frame rate asked for is not reached";
    if (targets.max_latency_seconds && latency_seconds > *targets.max_latency_seconds * (1 + 1e-6))
      return "the latency asked for is exceeded";
    return {};
  }

 private:
  struct Beats {
    double first = 0, last = 0;
  };
  using Uses = std::map<std::pair<std::uint32_t, std::uint32_t>, Amounts>;  // (place, region)

  const Part& part(std::size_t operation) const { return solution_.parts[part_of_[operation]]; }
  const Card& card(std::uint32_t place) const { return problem_.cards[solution_.card[place]]; }
  const Implementation& way(std::size_t operation) const {
    return problem_.operations[operation].implementations[solution_.implementation[operation]];
  }

  std::string check_choices() const {
    const std::size_t count = problem_.operations.size();
    if (solution_.implementation.size() != count || solution_.region.size() != count)
      return "not every operation has an implementation and a region";
    for (std::size_t i = 0; i < count; ++i) {
      if (problem_.operations[i].host) continue;
      if (solution_.implementation[i] >= problem_.operations[i].implementations.size())
        return "operation '" + problem_.operations[i].name + "' has an implementation that does not exist";
      if (solution_.region[i] >= card(part(i).place).regions.size())
        return "operation '" + problem_.operations[i].name + "' stands in a region that does not exist";
    }
    return {};
  }

  /// Layers stand in one region each, and in the regions' order.
  std::string check_regions() const {
    std::map<std::uint32_t, std::uint32_t> last;
    for (const auto& layer : layers(problem_)) {
      const std::uint32_t place = part(layer.operations.front()).place;
      const std::uint32_t region = solution_.region[layer.operations.front()];
      for (const auto operation : layer.operations)
        if (solution_.region[operation] != region)
          return "the layer of operation '" + problem_.operations[operation].name +
                 "' is cut between regions";
      if (region < last[place]) return "the regions of a card are not in their order";
      last[place] = region;
    }
    return {};
  }

  std::string check_budgets() {
    used_.clear();
    bytes_.clear();
    for (std::size_t i = 0; i < problem_.operations.size(); ++i)
      if (!problem_.operations[i].host) used_[{part(i).place, solution_.region[i]}] += way(i).amounts;
    std::set<Ends> joined;
    for (const auto& hop : solution_.hops) {
      auto& loads = bytes_[{hop.from, hop.to}];
      loads.resize(cables_.at({solution_.card[hop.from], solution_.card[hop.to]}).cables, 0);
      *std::min_element(loads.begin(), loads.end()) += problem_.tensors[hop.tensor].bytes;
      joined.emplace(std::min(hop.from, hop.to), std::max(hop.from, hop.to));
    }
    fabric_ = used_;
    for (const auto& ends : joined) {
      const auto cables = cables_.at({solution_.card[ends.first], solution_.card[ends.second]}).cables;
      for (const auto place : {ends.first, ends.second})
        for (std::uint32_t n = 0; n < cables; ++n) fabric_[{place, 0}] += card(place).link;
    }
    for (const auto& [where, amounts] : fabric_)
      for (std::size_t k = 0; k < kKinds; ++k)
        if (k != kMemoryBytes && amounts[k] > card(where.first).regions[where.second].available[k])
          return "card '" + card(where.first).name + "' has too little " + kind_name(k);
    return {};
  }

  Beats through(std::size_t operation, const Beats& in) const {
    const double clock = card(part(operation).place).clock_hz;
    const double interval = static_cast<double>(way(operation).interval_cycles) / clock;
    const double depth = static_cast<double>(way(operation).depth_cycles) / clock;
    const double fill = static_cast<double>(way(operation).fill_cycles) / clock;
    return {in.first + fill * std::max(1.0, (in.last - in.first) / interval) + depth,
            std::max(in.first + interval, in.last) + depth};
  }

  Beats over(const Hop& hop, const Beats& from) const {
    const Between& cable = cables_.at({solution_.card[hop.from], solution_.card[hop.to]});
    const auto bytes = static_cast<double>(problem_.tensors[hop.tensor].bytes);
    const double packet = std::min(bytes, kPacket) / cable.bytes_per_second + cable.latency_seconds;
    return {from.first + packet, std::max(from.last + packet, from.first + cable.latency_seconds +
                                                                  bytes / cable.bytes_per_second)};
  }

  const Problem& problem_;
  const Solution& solution_;
  const std::vector<std::size_t>& part_of_;
  const std::map<Ends, Between> cables_;
  Uses used_, fabric_;                                // without and with what links take
  std::map<Ends, std::vector<std::uint64_t>> bytes_;  // of each cable between two places
};

/// The proof of a gap is the search's. Here a gap is held to bounds: nothing better than it allows for comes of
/// building the same places otherwise, and it allows for nothing that no implementation could reach.
class GapCheck {
 public:
  GapCheck(const Problem& problem, const Solution& solution, const std::vector<std::size_t>& part_of)
      : problem_(problem), solution_(solution), part_of_(part_of), host_(host_seconds(problem)) {}

  std::string rate() const {
    const double ceiling = frames_per_second(solution_.interval_seconds) * (1 + solution_.gap);
    const double possible = within_host(static_cast<double>(problem_.cards.size()) / quickest());
    const bool by_cards = problem_.targets.objective == Objective::kCards;
    const double cards = static_cast<double>(solution_.card.size() * solution_.replicas());
    if (ceiling > possible * (1 + kRounding) && !(by_cards && solution_.gap <= cards - 1 + kRounding))
      return "gap is wrong: no implementations are as quick as it allows for";
    const double wanted = static_cast<double>(solution_.replicas()) / (ceiling * (1 + 2 * kRounding));
    const Solution other = built_for(wanted);
    const auto figures = figures_of(other);
    return figures && frames_per_second(figures->interval_seconds) > ceiling * (1 + kRounding)
               ? "gap is wrong: the same places, built otherwise, reach " +
                     std::to_string(frames_per_second(figures->interval_seconds)) + " frames/s"
               : std::string();
  }

  std::string latency() const {
    const double floor = solution_.latency_seconds / (1 + solution_.gap);
    const auto figures = figures_of(built_quickest());
    return figures && figures->latency_seconds < floor * (1 - kRounding)
               ? "gap is wrong: the same places, built otherwise, take " +
                     std::to_string(figures->latency_seconds * 1e6) + " us"
               : std::string();
  }

 private:
  struct Figures {
    double interval_seconds = 0, latency_seconds = 0;
  };

  const Card& card_of(std::size_t operation) const {
    return problem_.cards[solution_.card[solution_.parts[part_of_[operation]].place]];
  }

  double within_host(double rate) const { return host_ > 0 ? std::min(rate, 1 / host_) : rate; }

  /// Of all replicas, and no more than the host has time for.
  double frames_per_second(double interval_seconds) const {
    return within_host(static_cast<double>(solution_.replicas()) / interval_seconds);
  }

  /// No interval is shorter, wherever the operations stand.
  double quickest() const {
    double clock = 0, longest = 0;
    for (const auto& card : problem_.cards) clock = std::max(clock, card.clock_hz);
    for (const auto& operation : problem_.operations) {
      if (operation.host) continue;
      longest = std::max(longest, static_cast<double>(least_interval(operation)) / clock);
    }
    return longest;
  }

  /// Interval and latency where it fits and meets the targets.
  std::optional<Figures> figures_of(const Solution& solution) const {
    Claims claims(problem_, solution, part_of_);
    if (!claims.check_fit().empty()) return std::nullopt;
    const Figures figures{claims.interval(), claims.latency()};
    if (!claims.missed(figures.interval_seconds, figures.latency_seconds).empty()) return std::nullopt;
    return figures;
  }

  /// The largest share that an implementation takes of any resource of its region.
  double share(std::size_t operation, const Implementation& way) const {
    const auto& region = card_of(operation).regions[solution_.region[operation]];
    double most = 0;
    for (std::size_t k = 0; k < kKinds; ++k)
      if (way.amounts[k] > 0)
        most = std::max(most, static_cast<double>(way.amounts[k]) / static_cast<double>(region.available[k]));
    return most;
  }

  /// What takes longer than this is built in the least of the ways that do not; the rest stays.
  Solution built_for(double seconds) const {
    Solution out = solution_;
    for (std::size_t i = 0; i < problem_.operations.size(); ++i) {
      if (problem_.operations[i].host) continue;
      const auto& ways = problem_.operations[i].implementations;
      const double cycles = seconds * card_of(i).clock_hz;
      const auto quick = [&](const Implementation& way) {
        return static_cast<double>(way.interval_cycles) <= cycles;
      };
      if (quick(ways[out.implementation[i]])) continue;
      double least = std::numeric_limits<double>::infinity();
      for (std::uint32_t w = 0; w < ways.size(); ++w)
        if (quick(ways[w]) && share(i, ways[w]) < least) {
          least = share(i, ways[w]);
          out.implementation[i] = w;
        }
    }
    return out;
  }

  /// Operations one after another in their quickest way for which there is room.
  Solution built_quickest() const {
    const auto cycles = [](const Implementation& way) { return way.interval_cycles + way.depth_cycles; };
    Solution out = solution_;
    for (std::size_t i = 0; i < problem_.operations.size(); ++i) {
      if (problem_.operations[i].host) continue;
      const auto& ways = problem_.operations[i].implementations;
      Claims claims(problem_, out, part_of_);
      if (!claims.check_fit().empty()) return solution_;
      auto best = out.implementation[i];
      for (std::uint32_t w = 0; w < ways.size(); ++w)
        if (cycles(ways[w]) < cycles(ways[best]) && claims.has_room(i, ways[w])) best = w;
      out.implementation[i] = best;
    }
    return out;
  }

  const Problem& problem_;
  const Solution& solution_;
  const std::vector<std::size_t>& part_of_;
  const double host_;  // seconds a frame
};

std::string check_gap(const Problem& problem, const Solution& solution,
                      const std::vector<std::size_t>& part_of) {
  if (!(solution.gap >= 0)) return "gap is wrong: it is no number from 0 on";
  if (solution.exact && solution.gap != 0) return "gap is wrong: it is 0 where the solution is exact";
  if (!std::isfinite(solution.gap)) return {};
  const GapCheck check(problem, solution, part_of);
  return problem.targets.objective == Objective::kLatency ? check.latency() : check.rate();
}

}  // namespace

std::map<Ends, Between> cables_of(const Problem& problem) {
  std::map<Ends, Between> out;
  for (const auto& cable : problem.cables)
    for (const auto& ends : {Ends{cable.a, cable.b}, Ends{cable.b, cable.a}}) {
      Between& between = out[ends];
      ++between.cables;
      between.bytes_per_second = std::min(between.bytes_per_second, cable.bytes_per_second);
      between.latency_seconds = std::max(between.latency_seconds, cable.latency_seconds);
    }
  return out;
}

std::string check_claims(const Problem& problem, const Solution& solution,
                         const std::vector<std::size_t>& part_of) {
  const std::string wrong = Claims(problem, solution, part_of).check();
  return wrong.empty() ? check_gap(problem, solution, part_of) : wrong;
}

}  // namespace millrace::compiler::explore
