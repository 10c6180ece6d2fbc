#include "compiler/planning/cabling.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace millrace::compiler {
namespace {

using runtime::plan::Cluster;

constexpr std::size_t kFew = 6;       // cards
constexpr double kEndless = 1e6;      // gigabits a second
constexpr std::uint32_t kNoPlug = 0;  // such a cable is never built

/// Of each card, the first one that there is a way to along cables.
std::vector<std::size_t> groups(const Cluster& cluster) {
  std::vector<std::size_t> group(cluster.cards.size());
  for (std::size_t c = 0; c < group.size(); ++c) group[c] = c;
  const auto position = [&](const std::string& card) {
    return static_cast<std::size_t>(cluster.find_card(card) - cluster.cards.data());
  };
  for (const auto& cable : cluster.cables) {
    const std::size_t a = group[position(cable.a.card)], b = group[position(cable.b.card)];
    std::replace(group.begin(), group.end(), std::max(a, b), std::min(a, b));
  }
  return group;
}

void join(Cluster& cluster, std::size_t a, std::size_t b) {
  const std::string &from = cluster.cards[a].name, &to = cluster.cards[b].name;
  cluster.cables.push_back({from + "-" + to, {from, kNoPlug}, {to, kNoPlug}, kEndless, 0});
}

bool has_cable(const Cluster& cluster, const std::string& a, const std::string& b) {
  return std::any_of(cluster.cables.begin(), cluster.cables.end(), [&](const auto& cable) {
    return (cable.a.card == a && cable.b.card == b) || (cable.a.card == b && cable.b.card == a);
  });
}

}  // namespace

std::size_t most_joined(const Cluster& cluster) {
  const auto group = groups(cluster);
  std::size_t most = 0;
  for (const auto one : group)
    most = std::max(most, static_cast<std::size_t>(std::count(group.begin(), group.end(), one)));
  return most;
}

Cluster cabled(Cluster cluster) {
  const auto group = groups(cluster);
  if (group.size() <= kFew) {
    for (std::size_t b = 1; b < group.size(); ++b)
      for (std::size_t a = 0; a < b; ++a)
        if (!has_cable(cluster, cluster.cards[a].name, cluster.cards[b].name)) join(cluster, a, b);
    return cluster;
  }
  for (std::size_t b = 1; b < group.size(); ++b) {
    if (group[b] != b) continue;  // not the first of its group
    std::size_t last = 0;         // of the group before
    for (std::size_t a = 0; a < group.size(); ++a)
      if (group[a] < b && (group[a] > group[last] || (group[a] == group[last] && a > last))) last = a;
    join(cluster, last, b);
  }
  return cluster;
}

Error for_want_of_cables(const Cluster& cluster, std::size_t cards, const Error& error) {
  const std::size_t joined = most_joined(cluster), all = cluster.cards.size();
  const std::string what = joined == 1
                               ? "no two of its " + std::to_string(all) + " cards are joined by a cable"
                               : "cables join no more than " + std::to_string(joined) + " of its " +
                                     std::to_string(all) + " cards";
  return Error(error.code(), "cluster '" + cluster.name + "': " + what + ", and " + std::to_string(cards) +
                                 " that were would do: add cables to the cluster file; as it is, " +
                                 error.message());
}

}  // namespace millrace::compiler
