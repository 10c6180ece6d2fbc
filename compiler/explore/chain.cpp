#include "compiler/explore/chain.hpp"

#include <algorithm>
#include <map>

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
  chain.cost_before.assign(count + 1, 0);
  chain.live_bytes.assign(count + 1, 0);
  chain.farthest.assign(count + 1, 0);
  for (std::size_t i = 0; i < count; ++i)
    chain.cost_before[i + 1] = chain.cost_before[i] + chain.layers[i].cost;
  for (std::uint32_t t = 0; t < problem.tensors.size(); ++t) {
    auto& by = readers[t];
    if (by.empty()) continue;
    std::sort(by.begin(), by.end());
    by.erase(std::unique(by.begin(), by.end()), by.end());
    for (std::size_t i = made[t] + 1; i <= by.back(); ++i) chain.live_bytes[i] += problem.tensors[t].bytes;
    for (std::size_t i = made[t] + 1; i <= count; ++i)
      chain.farthest[i] = std::max(chain.farthest[i], by.back());
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
  std::map<std::pair<std::uint32_t, std::uint32_t>, Part> parts;  // by stage, then place
  const auto stage = stages(problem);
  for (std::uint32_t i = 0; i < problem.operations.size(); ++i)
    if (problem.operations[i].host) parts[{stage[i], 0}].operations.push_back(i);
  std::vector<std::uint64_t> cost(solution.card.size(), 0);
  for (std::size_t i = 0; i < chain.size(); ++i) {
    cost[place[i]] += chain.layers[i].cost;
    if (i > 0 && place[i] != place[i - 1]) solution.crossing_bytes += chain.live_bytes[i];
    auto& operations = parts[{chain.layers[i].stage, place[i]}].operations;
    operations.insert(operations.end(), chain.layers[i].operations.begin(), chain.layers[i].operations.end());
  }
  solution.largest_cost = *std::max_element(cost.begin(), cost.end());
  for (auto& [key, part] : parts) {
    part.stage = key.first;
    part.place = key.second;
    part.host = part.stage % 2 == 0;
    std::sort(part.operations.begin(), part.operations.end());
    solution.parts.push_back(std::move(part));
  }
  return solution;
}

std::string plural(std::size_t n, const std::string& word) {
  return std::to_string(n) + " " + word + (n == 1 ? "" : "s");
}

}  // namespace millrace::compiler::explore
