#include "compiler/explore/placing.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "runtime/plan/packets.hpp"

namespace millrace::compiler::explore {
namespace {

constexpr std::uint64_t kPacket = runtime::plan::packet_bytes_on_wire(runtime::plan::kPacketBytes);

}  // namespace

Board::Board(const Problem& from) : problem(from), chain(make_chain(from)) {
  const std::size_t cards = problem.cards.size();
  wires_.resize(cards * cards);
  for (const auto& cable : problem.cables)
    for (const auto at : {cable.a * cards + cable.b, cable.b * cards + cable.a}) {
      Wire& wire = wires_[at];
      const double slowest =
          wire.cables == 0 ? cable.bytes_per_second : std::min(wire.of_one(), cable.bytes_per_second);
      ++wire.cables;
      wire.bytes_per_second = slowest * wire.cables;
      wire.latency_seconds = std::max(wire.latency_seconds, cable.latency_seconds);
    }
}

std::optional<std::vector<Hop>> Board::route(const Assignment& a, std::uint32_t* tensor) const {
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> found;
  const auto places = static_cast<std::uint32_t>(a.card.size());
  constexpr std::uint32_t kFar = 0xFFFFFFFFU;
  for (const auto& edge : chain.edges) {
    const std::uint32_t from = a.place[edge.from];
    std::vector<std::uint32_t> steps(places, kFar), before(places, kFar);
    steps[from] = 0;
    for (std::uint32_t q = from + 1; q <= a.place[edge.last()]; ++q)
      for (std::uint32_t p = from; p < q; ++p)
        if (steps[p] != kFar && wire(a.card[p], a.card[q]).cables > 0 && steps[p] + 1 < steps[q]) {
          steps[q] = steps[p] + 1;
          before[q] = p;
        }
    for (const auto reader : edge.readers) {
      std::uint32_t at = a.place[reader];
      if (steps[at] == kFar) {
        if (tensor != nullptr) *tensor = edge.tensor;
        return std::nullopt;
      }
      for (; at != from; at = before[at]) found.emplace(edge.tensor, before[at], at);
    }
  }
  std::vector<Hop> hops;
  for (const auto& [t, p, q] : found) hops.push_back({t, p, q});
  return hops;
}

double Board::interval(const Assignment& a, const std::vector<Hop>& hops) const {
  double longest = 0;
  std::vector<std::uint64_t> memory(a.card.size(), 0);
  std::map<std::pair<std::uint32_t, std::uint32_t>, Loads> loads;
  for (std::size_t i = 0; i < problem.operations.size(); ++i) {
    const std::size_t layer = chain.layer_of[i];
    if (layer == chain.size()) continue;
    const auto& way = problem.operations[i].implementations[a.implementation[i]];
    const auto& card = problem.cards[a.card[a.place[layer]]];
    longest = std::max(longest, static_cast<double>(way.interval_cycles) / card.clock_hz);
    memory[a.place[layer]] += way.amounts[kMemoryBytes];
  }
  for (std::size_t p = 0; p < memory.size(); ++p)
    if (memory[p] > 0)
      longest = std::max(
          longest, static_cast<double>(memory[p]) /
                       static_cast<double>(problem.cards[a.card[p]].regions.front().available[kMemoryBytes]));
  const auto between = [&](std::uint32_t from, std::uint32_t to) -> const Wire& {
    return wire(a.card[from], a.card[to]);
  };
  for (const auto& hop : hops)
    loads.try_emplace({hop.from, hop.to}, between(hop.from, hop.to).cables)
        .first->second.add(problem.tensors[hop.tensor].bytes);
  for (const auto& [ends, load] : loads)
    longest = std::max(longest, static_cast<double>(load.most()) / between(ends.first, ends.second).of_one());
  return longest;
}

bool Board::within_budgets(const Assignment& a, const std::vector<Hop>& hops) const {
  std::map<std::pair<std::uint32_t, std::uint32_t>, Amounts> used;
  for (std::size_t i = 0; i < problem.operations.size(); ++i)
    if (const std::size_t layer = chain.layer_of[i]; layer != chain.size())
      used[{a.place[layer], a.region[layer]}] +=
          problem.operations[i].implementations[a.implementation[i]].amounts;
  std::set<std::pair<std::uint32_t, std::uint32_t>> joined;
  for (const auto& hop : hops) {
    joined.emplace(hop.from, hop.to);
    joined.emplace(hop.to, hop.from);
  }
  for (const auto& [p, q] : joined)
    for (std::uint32_t n = 0; n < wire(a.card[p], a.card[q]).cables; ++n)
      used[{p, 0}] += problem.cards[a.card[p]].link;
  for (auto& [where, amounts] : used) {
    Amounts available = problem.cards[a.card[where.first]].regions[where.second].available;
    // Bandwidth is part of the interval already.
    available[kMemoryBytes] = amounts[kMemoryBytes];
    if (!within(amounts, available)) return false;
  }
  return true;
}

std::optional<Solution> Board::assess(const Assignment& a) const {
  const auto hops = route(a);
  if (!hops || returning(chain, a.place) != nullptr) return std::nullopt;
  const double seconds = interval(a, *hops);
  if (!std::isfinite(seconds) || !within_budgets(a, *hops)) return std::nullopt;
  Solution solution = make_parts(problem, chain, a.place, a.card);
  solution.implementation = a.implementation;
  solution.region.assign(problem.operations.size(), 0);
  for (std::size_t i = 0; i < problem.operations.size(); ++i)
    if (chain.layer_of[i] != chain.size()) solution.region[i] = a.region[chain.layer_of[i]];
  solution.hops = *hops;
  solution.interval_seconds = seconds;
  solution.latency_seconds = latency(*this, a, *hops);
  return solution;
}

Passage pass(const Implementation& way, double clock_hz, double start, double arrive) {
  const double interval = static_cast<double>(way.interval_cycles) / clock_hz;
  const double depth = static_cast<double>(way.depth_cycles) / clock_hz;
  const double stretch = std::max(1.0, (arrive - start) / interval);  // fed more slowly than it could take
  Passage out;
  out.first = start + static_cast<double>(way.fill_cycles) / clock_hz * stretch + depth;
  out.last = std::max(start + interval, arrive) + depth;
  return out;
}

Passage carry(const Wire& wire, std::uint64_t bytes, const Passage& from) {
  const double packet = static_cast<double>(std::min(bytes, kPacket)) / wire.of_one();
  const double all = static_cast<double>(bytes) / wire.of_one();
  Passage out;
  out.first = from.first + wire.latency_seconds + packet;
  out.last = std::max(from.last + wire.latency_seconds + packet, from.first + wire.latency_seconds + all);
  return out;
}

namespace {

/// When each tensor is where: at each place and, behind them, on the host.
class Whereabouts {
 public:
  Whereabouts(std::size_t tensors, std::size_t places) : columns_(places + 1), cells_(tensors * columns_) {}

  static constexpr std::uint32_t kHost = 0xFFFFFFFFU;

  void set(std::uint32_t tensor, std::uint32_t place, const Passage& passage) {
    cells_[cell(tensor, place)] = {passage, true};
  }
  /// There, else on the host; null where it is at neither: an input of the model.
  const Passage* find(std::uint32_t tensor, std::uint32_t place) const {
    for (const auto where : {place, kHost})
      if (const Cell& one = cells_[cell(tensor, where)]; one.known) return &one.passage;
    return nullptr;
  }

 private:
  struct Cell {
    Passage passage;
    bool known = false;
  };
  std::size_t cell(std::uint32_t tensor, std::uint32_t place) const {
    return tensor * columns_ + (place == kHost ? columns_ - 1 : place);
  }

  std::size_t columns_;
  std::vector<Cell> cells_;
};

}  // namespace

double latency(const Board& board, const Assignment& a, const std::vector<Hop>& hops,
               std::vector<Work>* works) {
  constexpr auto kHost = Whereabouts::kHost;
  const Problem& problem = board.problem;
  Whereabouts at(problem.tensors.size(), a.card.size());
  double longest = 0;
  for (std::uint32_t i = 0; i < problem.operations.size(); ++i) {
    const auto& operation = problem.operations[i];
    const std::size_t layer = board.chain.layer_of[i];
    const std::uint32_t place = layer == board.chain.size() ? kHost : a.place[layer];
    double start = 0, arrive = 0;
    for (const auto t : operation.inputs) {
      const Passage* known = at.find(t, place);
      if (known == nullptr) continue;
      start = std::max(start, known->first);
      arrive = std::max(arrive, known->last);
    }
    if (place == kHost) {
      // The host takes and gives whole tensors.
      arrive += operation.host_seconds;
      for (const auto t : operation.outputs) at.set(t, kHost, {arrive, arrive});
      continue;
    }
    const Passage out = pass(operation.implementations[a.implementation[i]],
                             problem.cards[a.card[place]].clock_hz, start, arrive);
    longest = std::max(longest, out.last);
    if (works != nullptr) works->push_back({i, start, out.first, out.last});
    for (const auto t : operation.outputs) {
      at.set(t, place, out);
      at.set(t, kHost, {out.last, out.last});
      for (auto hop = std::lower_bound(hops.begin(), hops.end(), t,
                                       [](const Hop&h, std::uint32_t tensor) { return h.tensor < tensor; });
           hop != hops.end() && hop->tensor == t; ++hop)
        at.set(t, hop->to,
               carry(board.wire(a.card[hop->from], a.card[hop->to]), problem.tensors[t].bytes,
                     *at.find(t, hop->from)));
    }
  }
  return longest;
}

}  // namespace millrace::compiler::explore
