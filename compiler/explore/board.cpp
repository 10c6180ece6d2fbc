#include "compiler/explore/board.hpp"

#include <cmath>
#include <set>

#include "runtime/plan/cluster.hpp"

namespace millrace::compiler::explore {

Chain make_chain(const Problem& problem) {
  Chain chain;
  chain.layers = layers(problem);
  const std::size_t count = chain.layers.size();
  chain.layer_of.assign(problem.operations.size(), count);
  for (std::size_t i = 0; i < count; ++i)
    for (const auto operation : chain.layers[i].operations) chain.layer_of[operation] = i;

  std::vector<std::size_t> made(problem.tensors.size(), count);
  std::vector<std::vector<std::size_t>> readers(problem.tensors.size());
  for (std::size_t i = 0; i < problem.operations.size(); ++i) {
    const std::size_t layer = chain.layer_of[i];
    if (layer == count) continue;
    for (const auto t : problem.operations[i].outputs) made[t] = layer;
    for (const auto t : problem.operations[i].inputs)
      if (made[t] != count && made[t] != layer) readers[t].push_back(layer);
  }
  chain.live_bytes.assign(count + 1, 0);
  for (std::uint32_t t = 0; t < problem.tensors.size(); ++t) {
    auto& by = readers[t];
    if (by.empty()) continue;
    std::sort(by.begin(), by.end());
    by.erase(std::unique(by.begin(), by.end()), by.end());
    for (std::size_t i = made[t] + 1; i <= by.back(); ++i) chain.live_bytes[i] += problem.tensors[t].bytes;
    chain.edges.push_back({t, made[t], std::move(by)});
  }
  return chain;
}

bool reads_the_one_before(const Chain& chain) {
  std::vector<bool> joined(chain.size(), false);
  for (const auto& edge : chain.edges)
    for (const auto reader : edge.readers)
      if (reader == edge.from + 1) joined[reader] = true;
  for (std::size_t i = 1; i < chain.size(); ++i)
    if (!joined[i] && chain.layers[i].stage == chain.layers[i - 1].stage) return false;
  return true;
}

const Edge* returning(const Chain& chain, const std::vector<std::uint32_t>& place) {
  for (const auto& edge : chain.edges)
    for (const auto reader : edge.readers)
      if (chain.layers[edge.from].stage != chain.layers[reader].stage && place[edge.from] == place[reader])
        return &edge;
  return nullptr;
}

Solution make_parts(const Problem& problem, const Chain& chain, const std::vector<std::uint32_t>& place,
                    std::vector<std::uint32_t> card) {
  Solution solution;
  solution.card = std::move(card);
  std::map<std::pair<std::uint32_t, std::uint32_t>, Part> parts;  // the key is (stage, position)
  const auto stage = stages(problem);
  for (std::uint32_t i = 0; i < problem.operations.size(); ++i)
    if (problem.operations[i].host) parts[{stage[i], 0}].operations.push_back(i);
  for (std::size_t i = 0; i < chain.size(); ++i) {
    if (i > 0 && place[i] != place[i - 1]) solution.crossing_bytes += chain.live_bytes[i];
    auto& operations = parts[{chain.layers[i].stage, place[i]}].operations;
    operations.insert(operations.end(), chain.layers[i].operations.begin(), chain.layers[i].operations.end());
  }
  for (auto& [key, part] : parts) {
    part.stage = key.first;
    part.place = key.second;
    part.host = part.stage % 2 == 0;
    std::sort(part.operations.begin(), part.operations.end());
    solution.parts.push_back(std::move(part));
  }
  return solution;
}

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
      wire.through_hosts = cable.through_hosts;
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

Assignment Board::assignment(const Solution& solution) const {
  Assignment out{solution.card, std::vector<std::uint32_t>(chain.size()),
                 std::vector<std::uint32_t>(chain.size()), solution.implementation};
  for (const auto& part : solution.parts)
    for (const auto operation : part.operations) {
      if (part.host) continue;
      out.place[chain.layer_of[operation]] = part.place;
      out.region[chain.layer_of[operation]] = solution.region[operation];
    }
  return out;
}

Usage Board::usage(const Assignment& a, const std::vector<Hop>& hops) const {
  Usage out;
  out.links.resize(a.card.size());
  for (const auto card : a.card) out.blocks.emplace_back(problem.cards[card].regions.size());
  for (std::size_t i = 0; i < problem.operations.size(); ++i)
    if (const std::size_t layer = chain.layer_of[i]; layer != chain.size())
      out.blocks[a.place[layer]][a.region[layer]] +=
          problem.operations[i].implementations[a.implementation[i]].amounts;
  for (const auto& hop : hops) {
    const Wire& between = wire(a.card[hop.from], a.card[hop.to]);
    const std::uint32_t cables = between.cables;
    const auto [load, added] = out.loads.try_emplace({hop.from, hop.to}, cables);
    load->second.add(problem.tensors[hop.tensor].bytes);
    // The two directions between a pair of cards use the same cables, so count the hardware of each cable
    // once per card.
    if (!added || out.loads.contains({hop.to, hop.from}) || between.through_hosts) continue;
    for (const auto place : {hop.from, hop.to})
      for (std::uint32_t n = 0; n < cables; ++n) out.links[place] += problem.cards[a.card[place]].link;
  }
  return out;
}

double Board::interval(const Assignment& a, const Usage& usage) const {
  double longest = 0;
  for (std::size_t i = 0; i < problem.operations.size(); ++i) {
    const std::size_t layer = chain.layer_of[i];
    if (layer == chain.size()) continue;
    const auto& way = problem.operations[i].implementations[a.implementation[i]];
    const auto& card = problem.cards[a.card[a.place[layer]]];
    longest = std::max(longest, static_cast<double>(way.interval_cycles) / card.clock_hz);
  }
  for (std::size_t p = 0; p < a.card.size(); ++p) {
    std::uint64_t bytes = 0;
    for (const auto& used : usage.blocks[p]) bytes += used[kMemoryBytes];
    const auto& regions = problem.cards[a.card[p]].regions;
    if (bytes > 0)
      longest = std::max(
          longest, static_cast<double>(bytes) / static_cast<double>(regions.front().available[kMemoryBytes]));
  }
  for (const auto& [ends, load] : usage.loads)
    longest = std::max(
        longest, static_cast<double>(load.most()) / wire(a.card[ends.first], a.card[ends.second]).of_one());
  return longest;
}

bool Board::within_budgets(const Assignment& a, const Usage& usage) const {
  for (std::size_t p = 0; p < a.card.size(); ++p)
    for (std::size_t r = 0; r < usage.blocks[p].size(); ++r) {
      Amounts used = usage.blocks[p][r];
      if (r == 0) used += usage.links[p];
      used[kMemoryBytes] = 0;  // interval() takes memory bandwidth into account
      if (!within(used, problem.cards[a.card[p]].regions[r].available)) return false;
    }
  return true;
}

std::optional<Solution> Board::assess(const Assignment& a) const {
  const auto hops = route(a);
  if (!hops || returning(chain, a.place) != nullptr) return std::nullopt;
  const Usage used = usage(a, *hops);
  const double seconds = interval(a, used);
  if (!std::isfinite(seconds) || !within_budgets(a, used)) return std::nullopt;
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
  // `stretch` exceeds 1 if the input arrives more slowly than the operation could read it.
  const double stretch = std::max(1.0, (arrive - start) / interval);
  Passage out;
  out.first = start + static_cast<double>(way.fill_cycles) / clock_hz * stretch + depth;
  out.last = std::max(start + interval, arrive) + depth;
  return out;
}

Passage carry(const Wire& wire, std::uint64_t bytes, const Passage& from) {
  constexpr std::uint64_t kPacket = runtime::plan::packet_bytes_on_wire(runtime::plan::kPacketBytes);
  const double packet = static_cast<double>(std::min(bytes, kPacket)) / wire.of_one();
  const double all = static_cast<double>(bytes) / wire.of_one();
  Passage out;
  if (wire.through_hosts) {
    out.first = out.last = from.last + wire.latency_seconds + all;
    return out;
  }
  out.first = from.first + wire.latency_seconds + packet;
  out.last = std::max(from.last + wire.latency_seconds + packet, from.first + wire.latency_seconds + all);
  return out;
}

double latency(const Board& board, const Assignment& a, const std::vector<Hop>& hops,
               std::vector<Work>* works) {
  const Problem& problem = board.problem;
  // `cells` stores when each tensor arrives at each position of the pipeline. The last column is the host.
  const auto columns = static_cast<std::uint32_t>(a.card.size() + 1), host = columns - 1;
  std::vector<std::optional<Passage>> cells(problem.tensors.size() * columns);
  const auto at = [&](std::uint32_t tensor, std::uint32_t place) -> std::optional<Passage>& {
    return cells[std::size_t{tensor} * columns + place];
  };
  double longest = 0;
  for (std::uint32_t i = 0; i < problem.operations.size(); ++i) {
    const auto& operation = problem.operations[i];
    const std::size_t layer = board.chain.layer_of[i];
    const std::uint32_t place = layer == board.chain.size() ? host : a.place[layer];
    double start = 0, arrive = 0;
    for (const auto t : operation.inputs) {
      const auto& known = at(t, place) ? at(t, place) : at(t, host);
      if (!known) continue;  // the tensor is an input of the model
      start = std::max(start, known->first);
      arrive = std::max(arrive, known->last);
    }
    if (place == host) {
      // The host reads and writes whole tensors.
      arrive += operation.host_seconds;
      for (const auto t : operation.outputs) at(t, host) = {arrive, arrive};
      continue;
    }
    const Passage out = pass(operation.implementations[a.implementation[i]],
                             problem.cards[a.card[place]].clock_hz, start, arrive);
    longest = std::max(longest, out.last);
    if (works != nullptr) works->push_back({i, start, out.first, out.last});
    for (const auto t : operation.outputs) {
      at(t, place) = out;
      at(t, host) = {out.last, out.last};
      for (auto hop = std::lower_bound(hops.begin(), hops.end(), t,
                                       [](const Hop&h, std::uint32_t tensor) { return h.tensor < tensor; });
           hop != hops.end() && hop->tensor == t; ++hop) {
        const auto& from = at(t, hop->from) ? at(t, hop->from) : at(t, host);
        at(t, hop->to) =
            carry(board.wire(a.card[hop->from], a.card[hop->to]), problem.tensors[t].bytes, *from);
      }
    }
  }
  return longest;
}

}  // namespace millrace::compiler::explore
