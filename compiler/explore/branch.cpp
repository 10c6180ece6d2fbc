#include "compiler/explore/search.hpp"

#include <algorithm>
#include <limits>

namespace millrace::compiler::explore {
namespace {

constexpr double kEqualTimes = 1 + 1e-9;  // times that differ by less than this ratio count as equal

/// Returns the two figures that an objective compares, the more important one first. Smaller is better.
std::pair<double, double> key(Objective objective, double cards, double interval, double latency) {
  if (objective == Objective::kCards) return {cards, interval};
  return {objective == Objective::kLatency ? latency : interval, cards};
}

std::pair<double, double> key_of(Objective objective, const Solution& s) {
  return key(objective, static_cast<double>(s.card.size()), s.interval_seconds, s.latency_seconds);
}

bool less_key(const std::pair<double, double>& a, const std::pair<double, double>& b) {
  if (a.first * kEqualTimes < b.first) return true;
  if (b.first * kEqualTimes < a.first) return false;
  return a.second * kEqualTimes < b.second;
}

/// Returns the implementations of an operation that no other implementation dominates, the fastest first.
std::vector<std::uint32_t> worthwhile(const Operation& operation) {
  const auto& ways = operation.implementations;
  std::vector<std::uint32_t> kept;
  for (std::uint32_t i = 0; i < ways.size(); ++i) {
    bool beaten = false;
    for (std::uint32_t j = 0; j < ways.size() && !beaten; ++j)
      beaten = j != i && as_good(ways[j], ways[i]) && (j < i || !as_good(ways[i], ways[j]));
    if (!beaten) kept.push_back(i);
  }
  std::stable_sort(kept.begin(), kept.end(), [&](auto a, auto b) {
    return ways[a].interval_cycles + ways[a].depth_cycles < ways[b].interval_cycles + ways[b].depth_cycles;
  });
  return kept;
}

class Tree {
 public:
  Tree(const Board& board, const std::optional<Solution>& best, std::uint64_t nodes)
      : board_(board), problem_(board.problem), nodes_(nodes) {
    if (best) bound_ = key_of(problem_.targets.objective, *best);
    for (const auto& layer : board.chain.layers)
      sequence_.insert(sequence_.end(), layer.operations.begin(), layer.operations.end());
    for (const auto& card : problem_.cards) fastest_ = std::max(fastest_, card.clock_hz);
    ways_.resize(problem_.operations.size());
    for (const auto operation : sequence_) ways_[operation] = worthwhile(problem_.operations[operation]);
    longest_ = problem_.targets.frames_per_second ? 1 / *problem_.targets.frames_per_second : kNever;
    assignment_.place.assign(board.chain.size(), 0);
    assignment_.region.assign(board.chain.size(), 0);
    assignment_.implementation.assign(problem_.operations.size(), 0);
    passages_.resize(problem_.operations.size());
    taken_.assign(problem_.cards.size(), false);
    producer_.assign(problem_.tensors.size(), -1);
    for (std::size_t i = 0; i < problem_.operations.size(); ++i)
      for (const auto t : problem_.operations[i].outputs) producer_[t] = static_cast<std::int64_t>(i);
    set_floors();
  }

  Branched run() {
    decide(0, 0);
    return {std::move(best_), !exhausted_};
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// Computes for each operation lower bounds on the interval and the latency of all operations after it.
  void set_floors() {
    interval_after_.assign(sequence_.size() + 1, 0);
    for (std::size_t n = sequence_.size(); n-- > 0;) {
      const std::uint64_t least = least_interval(problem_.operations[sequence_[n]]);
      interval_after_[n] = std::max(interval_after_[n + 1], static_cast<double>(least) / fastest_);
    }
    after_first_.assign(problem_.operations.size(), 0);
    std::vector<std::vector<std::uint32_t>> readers(problem_.operations.size());
    for (std::uint32_t i = 0; i < problem_.operations.size(); ++i)
      for (const auto t : problem_.operations[i].inputs)
        if (producer_[t] >= 0) readers[static_cast<std::size_t>(producer_[t])].push_back(i);
    for (std::size_t i = problem_.operations.size(); i-- > 0;)
      for (const auto reader : readers[i]) {
        std::uint64_t span = 0, fill = 0;  // lower bounds in cycles, pipeline depth included
        const auto& ways = problem_.operations[reader].implementations;
        if (!ways.empty()) {
          span = fill = std::numeric_limits<std::uint64_t>::max();
          for (const auto& way : ways) {
            span = std::min(span, way.interval_cycles + way.depth_cycles);
            fill = std::min(fill, way.fill_cycles + way.depth_cycles);
          }
        }
        after_first_[i] = std::max({after_first_[i], static_cast<double>(span) / fastest_,
                                    static_cast<double>(fill) / fastest_ + after_first_[reader]});
      }
  }

  bool hopeless(std::size_t next, double interval) const {
    const double cards = static_cast<double>(assignment_.card.size());
    const double latency = latency_;
    if (problem_.targets.max_latency_seconds && latency > *problem_.targets.max_latency_seconds * kEqualTimes)
      return true;
    const double least = std::max(interval, interval_after_[next]);
    if (least > longest_ * kEqualTimes) return true;
    return bound_ && !less_key(key(problem_.targets.objective, cards, least, latency), *bound_);
  }

  void decide(std::size_t n, double interval) {
    if (exhausted_) return;
    if (n == sequence_.size()) return finish();
    const std::size_t layer = board_.chain.layer_of[sequence_[n]];
    if (board_.chain.layers[layer].operations.front() != sequence_[n]) return build(n, interval);
    const std::size_t places = assignment_.card.size();
    const std::uint32_t most =
        problem_.partitions.value_or(static_cast<std::uint32_t>(problem_.cards.size()));
    if (places > 0) {
      assignment_.place[layer] = static_cast<std::uint32_t>(places - 1);
      try_regions(n, interval, layer == 0 ? 0 : assignment_.region[layer - 1]);
    }
    if (places == most) return;
    for (std::uint32_t card = 0; card < problem_.cards.size(); ++card) {
      if (taken_[card]) continue;
      taken_[card] = true;
      assignment_.card.push_back(card);
      used_.emplace_back(problem_.cards[card].regions.size(), Amounts{});
      assignment_.place[layer] = static_cast<std::uint32_t>(places);
      if (!hopeless(n, interval)) try_regions(n, interval, 0);
      used_.pop_back();
      assignment_.card.pop_back();
      taken_[card] = false;
    }
  }

  void try_regions(std::size_t n, double interval, std::uint32_t from) {
    const std::size_t layer = board_.chain.layer_of[sequence_[n]];
    const Card& card = problem_.cards[assignment_.card.back()];
    for (std::uint32_t r = from; r < card.regions.size(); ++r) {
      assignment_.region[layer] = r;
      build(n, interval);
    }
    assignment_.region[layer] = from;
  }

  void build(std::size_t n, double interval) {
    const std::uint32_t i = sequence_[n];
    const std::size_t layer = board_.chain.layer_of[i];
    const std::uint32_t region = assignment_.region[layer];
    const Card& card = problem_.cards[assignment_.card.back()];
    const auto [start, arrive] = input_times(i);
    for (const auto w : ways_[i]) {
      if (nodes_ == 0) {
        exhausted_ = true;
        return;
      }
      --nodes_;
      const auto& way = problem_.operations[i].implementations[w];
      Amounts& used = used_.back()[region];
      const Amounts before = used;
      used += way.amounts;
      Amounts fabric = used;
      fabric[kMemoryBytes] = 0;
      if (within(fabric, card.regions[region].available)) {
        assignment_.implementation[i] = w;
        assignment_.region[layer] = region;
        const double latency = latency_;
        passages_[i] = pass(way, card.clock_hz, start, arrive);
        latency_ = std::max({latency_, passages_[i].last, passages_[i].first + after_first_[i]});
        const double now = std::max(interval, static_cast<double>(way.interval_cycles) / card.clock_hz);
        if (!hopeless(n + 1, now)) decide(n + 1, now);
        latency_ = latency;
      }
      used_.back()[region] = before;
    }
  }

  /// Returns lower bounds on when the input of operation i begins to arrive and is complete. A tensor's time on a cable
  /// counts only if a direct cable exists.
  std::pair<double, double> input_times(std::uint32_t i) const {
    double start = 0, arrive = 0;
    for (const auto t : problem_.operations[i].inputs) {
      if (producer_[t] < 0) continue;
      const auto from = static_cast<std::size_t>(producer_[t]);
      const std::size_t layer = board_.chain.layer_of[from];
      if (layer == board_.chain.size()) continue;
      Passage passage = passages_[from];
      const std::uint32_t a = assignment_.place[layer], b = assignment_.place[board_.chain.layer_of[i]];
      const Wire& wire = board_.wire(assignment_.card[a], assignment_.card[b]);
      if (a != b && wire.cables > 0) passage = carry(wire, problem_.tensors[t].bytes, passage);
      start = std::max(start, passage.first);
      arrive = std::max(arrive, passage.last);
    }
    return {start, arrive};
  }

  void finish() {
    if (problem_.partitions && assignment_.card.size() != *problem_.partitions) return;
    auto found = board_.assess(assignment_);
    if (!found || !meets(problem_, *found)) return;
    if (bound_ && !less_key(key_of(problem_.targets.objective, *found), *bound_)) return;
    bound_ = key_of(problem_.targets.objective, *found);
    best_ = std::move(found);
  }

  const Board& board_;
  const Problem& problem_;
  std::uint64_t nodes_;
  bool exhausted_ = false;
  std::vector<std::uint32_t> sequence_;           // the operations in the order of the layers
  std::vector<std::vector<std::uint32_t>> ways_;  // [operation]: the implementations that are tried
  double fastest_ = 1, longest_ = kNever;
  // interval_after_[i] is a lower bound on the interval of sequence_[i] and all later operations.
  std::vector<double> interval_after_;
  std::vector<double> after_first_;  // [operation]: least time from its first output word to the frame's end
  std::vector<std::int64_t> producer_;  // [tensor]: the operation that makes it; negative if none

  Assignment assignment_;
  std::vector<std::vector<Amounts>> used_;  // [position in the pipeline][region]
  std::vector<bool> taken_;
  std::vector<Passage> passages_;
  double latency_ = 0;  // lower bound on the latency
  std::optional<std::pair<double, double>> bound_;
  std::optional<Solution> best_;
};

}  // namespace

Branched branch(const Board& board, const std::optional<Solution>& best, std::uint64_t nodes) {
  return Tree(board, best, nodes).run();
}

bool better(Objective objective, const Solution& a, const Solution& b) {
  return less_key(key_of(objective, a), key_of(objective, b));
}

bool meets(const Problem& problem, const Solution& solution) {
  const Targets& targets = problem.targets;
  if (problem.partitions && solution.card.size() != *problem.partitions) return false;
  if (targets.frames_per_second && solution.interval_seconds * *targets.frames_per_second > kEqualTimes)
    return false;
  return !targets.max_latency_seconds ||
         solution.latency_seconds <= *targets.max_latency_seconds * kEqualTimes;
}

}  // namespace millrace::compiler::explore
