#include "compiler/explore/claims.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace millrace::compiler::explore {
namespace {

constexpr double kPacket = 1024 + 40;  // bytes of a full one, with header and CRC

bool near(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b));
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

Claims::Claims(const Problem& problem, const Solution& solution, const std::vector<std::size_t>& part_of)
    : problem_(problem), solution_(solution), part_of_(part_of), cables_(cables_of(problem)) {}

std::string Claims::check() {
  if (auto wrong = check_fit(); !wrong.empty()) return wrong;
  if (!near(interval(), solution_.interval_seconds)) return "interval_seconds is wrong";
  if (!near(latency(), solution_.latency_seconds)) return "latency_seconds is wrong";
  return missed(solution_.interval_seconds, solution_.latency_seconds);
}

std::string Claims::check_fit() {
  if (auto wrong = check_choices(); !wrong.empty()) return wrong;
  if (auto wrong = check_regions(); !wrong.empty()) return wrong;
  return check_budgets();
}

std::string Claims::check_choices() const {
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
std::string Claims::check_regions() const {
  std::map<std::uint32_t, std::uint32_t> last;
  for (const auto& layer : layers(problem_)) {
    const std::uint32_t place = part(layer.operations.front()).place;
    const std::uint32_t region = solution_.region[layer.operations.front()];
    for (const auto operation : layer.operations)
      if (solution_.region[operation] != region)
        return "the layer of operation '" + problem_.operations[operation].name + "' is cut between regions";
    if (region < last[place]) return "the regions of a card are not in their order";
    last[place] = region;
  }
  return {};
}

std::string Claims::check_budgets() {
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

bool Claims::has_room(std::size_t operation, const Implementation& other) const {
  const std::pair where{part(operation).place, solution_.region[operation]};
  const auto& now = fabric_.at(where);
  const auto& available = card(where.first).regions[where.second].available;
  for (std::size_t k = 0; k < kKinds; ++k)
    if (k != kMemoryBytes && now[k] - way(operation).amounts[k] + other.amounts[k] > available[k])
      return false;
  return true;
}

double Claims::interval() const {
  double longest = 0;
  for (std::size_t i = 0; i < problem_.operations.size(); ++i)
    if (!problem_.operations[i].host)
      longest = std::max(longest, static_cast<double>(way(i).interval_cycles) / card(part(i).place).clock_hz);
  std::map<std::uint32_t, std::uint64_t> read;  // place -> bytes, of all its regions
  for (const auto& [where, amounts] : used_) read[where.first] += amounts[kMemoryBytes];
  for (const auto& [place, sum] : read)
    if (sum > 0)
      longest = std::max(longest, static_cast<double>(sum) /
                                      static_cast<double>(card(place).regions[0].available[kMemoryBytes]));
  for (const auto& [ends, loads] : bytes_)
    longest = std::max(
        longest, static_cast<double>(*std::max_element(loads.begin(), loads.end())) /
                     cables_.at({solution_.card[ends.first], solution_.card[ends.second]}).bytes_per_second);
  return longest;
}

/// First and last beat of every tensor, from its producer on; hops ascend, so a tensor is where it leaves
/// from.
double Claims::latency() const {
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

Claims::Beats Claims::through(std::size_t operation, const Beats& in) const {
  const double clock = card(part(operation).place).clock_hz;
  const double interval = static_cast<double>(way(operation).interval_cycles) / clock;
  const double depth = static_cast<double>(way(operation).depth_cycles) / clock;
  const double fill = static_cast<double>(way(operation).fill_cycles) / clock;
  return {in.first + fill * std::max(1.0, (in.last - in.first) / interval) + depth,
          std::max(in.first + interval, in.last) + depth};
}

Claims::Beats Claims::over(const Hop& hop, const Beats& from) const {
  const Between& cable = cables_.at({solution_.card[hop.from], solution_.card[hop.to]});
  const auto bytes = static_cast<double>(problem_.tensors[hop.tensor].bytes);
  const double packet = std::min(bytes, kPacket) / cable.bytes_per_second + cable.latency_seconds;
  return {from.first + packet,
          std::max(from.last + packet, from.first + cable.latency_seconds + bytes / cable.bytes_per_second)};
}

std::string Claims::missed(double interval_seconds, double latency_seconds) const {
  const Targets& targets = problem_.targets;
  const auto replicas = static_cast<double>(solution_.replicas());
  if (targets.frames_per_second && interval_seconds * *targets.frames_per_second > replicas * (1 + 1e-6))
    return "the frame rate asked for is not reached";
  if (targets.max_latency_seconds && latency_seconds > *targets.max_latency_seconds * (1 + 1e-6))
    return "the latency asked for is exceeded";
  return {};
}

}  // namespace millrace::compiler::explore
