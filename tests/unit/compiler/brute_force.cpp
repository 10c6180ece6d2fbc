#include "brute_force.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace millrace::compiler::explore::tests {
namespace {

class Enumeration {
 public:
  explicit Enumeration(const Problem& problem) : problem_(problem) {}

  std::optional<Best> run() {
    place(0);
    return best_;
  }

 private:
  /// Tries every card, region and implementation for operation i.
  void place(std::size_t i) {
    if (i == problem_.operations.size()) return judge();
    const std::size_t places = cards_.size();
    if (places > 0) stand(i, static_cast<std::uint32_t>(places - 1));
    for (std::uint32_t card = 0; card < problem_.cards.size(); ++card) {
      if (std::find(cards_.begin(), cards_.end(), card) != cards_.end()) continue;
      cards_.push_back(card);
      stand(i, static_cast<std::uint32_t>(places));
      cards_.pop_back();
    }
  }

  void stand(std::size_t i, std::uint32_t place_of_i) {
    const bool first = where_.empty() || where_.back() != place_of_i;
    const auto regions = problem_.cards[cards_[place_of_i]].regions.size();
    for (std::uint32_t r = first ? 0 : region_.back(); r < regions; ++r)
      for (std::uint32_t w = 0; w < problem_.operations[i].implementations.size(); ++w) {
        where_.push_back(place_of_i);
        region_.push_back(r);
        way_.push_back(w);
        place(i + 1);
        where_.pop_back();
        region_.pop_back();
        way_.pop_back();
      }
  }

  const Implementation& way(std::size_t i) const { return problem_.operations[i].implementations[way_[i]]; }
  const Card& card(std::uint32_t p) const { return problem_.cards[cards_[p]]; }

  struct Wires {
    int count = 0;
    double width = 0, delay = 0;  // the smallest width and the delay of a single cable
  };
  Wires wires(std::uint32_t p, std::uint32_t q) const {
    Wires out;
    for (const auto& c : problem_.cables)
      if ((c.a == cards_[p] && c.b == cards_[q]) || (c.b == cards_[p] && c.a == cards_[q])) {
        ++out.count;
        out.width = out.count == 1 ? c.bytes_per_second : std::min(out.width, c.bytes_per_second);
        out.delay = std::max(out.delay, c.latency_seconds);
      }
    return out;
  }

  /// Returns the shortest route from card p to card q on which the positions of the cards ascend, or an empty route if
  /// there is none. Of equally short routes, the one with the earliest positions is returned.
  std::vector<std::uint32_t> path(std::uint32_t p, std::uint32_t q) const {
    if (p == q) return {p};
    std::vector<std::uint32_t> best;
    for (std::uint32_t before = p; before < q; ++before) {
      if (wires(before, q).count == 0) continue;
      auto way_there = path(p, before);
      if (way_there.empty()) continue;
      way_there.push_back(q);
      if (best.empty() || way_there.size() < best.size()) best = way_there;
    }
    return best;
  }

  void judge() {
    if (problem_.partitions && *problem_.partitions != cards_.size()) return;
    std::map<std::uint32_t, std::uint32_t> maker;
    for (std::uint32_t i = 0; i < problem_.operations.size(); ++i)
      for (const auto t : problem_.operations[i].outputs) maker[t] = i;
    std::set<std::array<std::uint32_t, 3>> hops;
    for (std::uint32_t i = 0; i < problem_.operations.size(); ++i)
      for (const auto t : problem_.operations[i].inputs) {
        if (!maker.contains(t) || where_[maker[t]] == where_[i]) continue;
        const auto by = path(where_[maker[t]], where_[i]);
        if (by.empty()) return;
        for (std::size_t n = 1; n < by.size(); ++n) hops.insert({t, by[n - 1], by[n]});
      }
    if (!fits(hops)) return;
    const Best found{static_cast<double>(cards_.size()), interval(hops), latency(maker, hops)};
    const auto& targets = problem_.targets;
    if (targets.frames_per_second && found.interval * *targets.frames_per_second > 1 + 1e-9) return;
    if (targets.max_latency_seconds && found.latency > *targets.max_latency_seconds * (1 + 1e-9)) return;
    const auto key = [&](const Best& b) {
      switch (targets.objective) {
        case Objective::kCards:
          return std::pair(b.cards, b.interval);
        case Objective::kThroughput:
          return std::pair(b.interval, b.cards);
        case Objective::kLatency:
          return std::pair(b.latency, b.cards);
      }
      return std::pair(0.0, 0.0);
    };
    const auto now = key(found), old = best_ ? key(*best_) : now;
    const bool ahead =
        now.first < old.first * (1 - 1e-9) || (now.first < old.first * (1 + 1e-9) && now.second < old.second);
    if (!best_ || ahead) best_ = found;
  }

  bool fits(const std::set<std::array<std::uint32_t, 3>>& hops) const {
    std::map<std::pair<std::uint32_t, std::uint32_t>, Amounts> used;
    for (std::size_t i = 0; i < problem_.operations.size(); ++i)
      used[{where_[i], region_[i]}] += way(i).amounts;
    std::set<std::pair<std::uint32_t, std::uint32_t>> pairs;
    for (const auto& hop : hops) pairs.emplace(hop[1], hop[2]);
    for (const auto& [p, q] : pairs)
      for (int n = 0; n < wires(p, q).count; ++n) {
        used[{p, 0}] += card(p).link;
        used[{q, 0}] += card(q).link;
      }
    for (const auto& [at, amounts] : used)
      for (std::size_t k = 0; k < kMemoryBytes; ++k)
        if (amounts[k] > card(at.first).regions[at.second].available[k]) return false;
    return true;
  }

  double interval(const std::set<std::array<std::uint32_t, 3>>& hops) const {
    double longest = 0;
    std::map<std::uint32_t, double> memory;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<double>> link;
    for (std::size_t i = 0; i < problem_.operations.size(); ++i) {
      longest = std::max(longest, static_cast<double>(way(i).interval_cycles) / card(where_[i]).clock_hz);
      memory[where_[i]] += static_cast<double>(way(i).amounts[kMemoryBytes]);
    }
    for (const auto& [at, bytes] : memory)
      if (bytes > 0)
        longest = std::max(longest, bytes / static_cast<double>(card(at).regions[0].available[kMemoryBytes]));
    for (const auto& hop : hops) {
      auto& loads = link[{hop[1], hop[2]}];
      loads.resize(static_cast<std::size_t>(wires(hop[1], hop[2]).count), 0);
      *std::min_element(loads.begin(), loads.end()) += static_cast<double>(problem_.tensors[hop[0]].bytes);
    }
    for (const auto& [ends, loads] : link)
      longest = std::max(
          longest, *std::max_element(loads.begin(), loads.end()) / wires(ends.first, ends.second).width);
    return longest;
  }

  double latency(const std::map<std::uint32_t, std::uint32_t>& maker,
                 const std::set<std::array<std::uint32_t, 3>>& hops) const {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<double, double>> at;
    double end = 0;
    for (std::uint32_t i = 0; i < problem_.operations.size(); ++i) {
      double first = 0, last = 0;
      for (const auto t : problem_.operations[i].inputs)
        if (maker.contains(t)) {
          first = std::max(first, at.at({t, where_[i]}).first);
          last = std::max(last, at.at({t, where_[i]}).second);
        }
      const double hz = card(where_[i]).clock_hz;
      const double own = static_cast<double>(way(i).interval_cycles) / hz;
      const double depth = static_cast<double>(way(i).depth_cycles) / hz;
      const double fill = static_cast<double>(way(i).fill_cycles) / hz;
      const std::pair out{first + fill * std::max(1.0, (last - first) / own) + depth,
                          std::max(first + own, last) + depth};
      end = std::max(end, out.second);
      for (const auto t : problem_.operations[i].outputs) {
        at[{t, where_[i]}] = out;
        for (const auto& hop : hops) {
          if (hop[0] != t) continue;
          const Wires cable = wires(hop[1], hop[2]);
          const auto from = at.at({t, hop[1]});
          const auto bytes = static_cast<double>(problem_.tensors[t].bytes);
          const double packet = cable.delay + std::min(bytes, 1064.0) / cable.width;
          at[{t, hop[2]}] = {from.first + packet,
                             std::max(from.second + packet, from.first + cable.delay + bytes / cable.width)};
        }
      }
    }
    return end;
  }

  const Problem& problem_;
  std::vector<std::uint32_t> cards_, where_, region_, way_;
  std::optional<Best> best_;
};

}  // namespace

std::optional<Best> brute_force(const Problem& problem) {
  return Enumeration(problem).run();
}

Problem random_problem(std::mt19937& random) {
  const auto up_to = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  Problem problem;
  problem.model = "net";
  problem.cluster = "c";
  problem.tensors.push_back({"t0", 100});
  const std::uint32_t count = 2 + up_to(3), cards = 1 + up_to(3);
  for (std::uint32_t i = 0; i < count; ++i) {
    problem.tensors.push_back({"t" + std::to_string(i + 1), 64 + up_to(4000)});
    Operation operation{"op" + std::to_string(i), 1 + up_to(9), false, true, {i}, {i + 1}};
    if (i > 1 && up_to(3) == 0) operation.inputs.push_back(1 + up_to(i - 1));  // a skip connection
    if (i > 1 && up_to(5) == 0) operation.inputs.front() = 1 + up_to(i - 1);   // a branch
    for (std::uint32_t w = 0; w < 1 + up_to(3); ++w) {
      Implementation way;
      way.interval_cycles = 100 * (1 + up_to(12));
      way.fill_cycles = up_to(100);
      way.depth_cycles = up_to(30);
      way.amounts[kLut] = 10 + up_to(60);
      way.amounts[kDsp] = up_to(8);
      way.amounts[kBram18] = up_to(4);
      if (up_to(4) == 0) way.amounts[kMemoryBytes] = up_to(1000);
      if (w > 0 && up_to(3) == 0) {  // repeat the last implementation, with weights in memory
        way = operation.implementations.back();
        way.amounts[kBram18] = 0;
        way.amounts[kMemoryBytes] = 1 + up_to(1000);
      }
      operation.implementations.push_back(way);
    }
    problem.operations.push_back(std::move(operation));
  }
  for (std::uint32_t c = 0; c < cards; ++c) {
    Card card{"fpga" + std::to_string(c), "d"};
    card.clock_hz = up_to(3) == 0 ? 2e8 : 1e8;
    for (std::uint32_t r = 0; r < 1 + up_to(2); ++r) {
      Region region{"r" + std::to_string(r)};
      region.available = {60 + up_to(100), 0, 0, 4 + up_to(12), 2 + up_to(8), 0, 100'000'000};
      card.regions.push_back(region);
    }
    if (up_to(2) == 0) card.link[kLut] = up_to(20);
    problem.cards.push_back(std::move(card));
    for (std::uint32_t other = 0; other < c; ++other)
      if (other + 1 == c || up_to(3) == 0)
        for (std::uint32_t n = up_to(4) == 0 ? 2 : 1; n > 0; --n)
          problem.cables.push_back({other, c, 1e8 * (1 + up_to(20)), 1e-7 * up_to(5)});
  }
  problem.targets.objective = static_cast<Objective>(up_to(3));
  if (up_to(3) == 0) problem.targets.frames_per_second = 1e5 * (1 + up_to(5));
  if (up_to(4) == 0) problem.targets.max_latency_seconds = 1e-6 * (5 + up_to(30));
  if (up_to(5) == 0) problem.partitions = 1 + up_to(cards);
  return problem;
}

}  // namespace millrace::compiler::explore::tests
