#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "compiler/passes/passes.hpp"
#include "compiler/report/figures.hpp"
#include "compiler/report/parts.hpp"
#include "compiler/report/report.hpp"

namespace millrace::compiler::report {
namespace {

/// Describes the set of plans among which this plan is the best or nearly the best.
std::string considered(const Plan& plan) {
  std::vector<std::string> given;
  if (plan.lowered->weights_given)
    given.emplace_back(
        *plan.lowered->weights_given == kernels::Placement::kBaked    ? "all weights in the images"
        : *plan.lowered->weights_given == kernels::Placement::kLoaded ? "all weights loaded"
                                                                      : "all weights streamed");
  else if (plan.lowered->loader)
    given.emplace_back("space on every card for the unit that loads weights");
  if (plan.lowered->changes.splits.size() == 1)
    given.push_back("'" + plan.lowered->changes.splits.front().block + "' split in the same way");
  if (plan.lowered->changes.splits.size() > 1)
    given.push_back(std::to_string(plan.lowered->changes.splits.size()) + " layers split in the same way");
  if (chose_routes(plan)) given.emplace_back("the same tensors sent through the host");
  std::string text = " among contiguous cuts";
  for (const auto& one : given) text += (&one == &given.front() ? " with " : " and ") + one;
  return text;
}

std::string how_good(const Plan& plan) {
  const auto& s = plan.solution;
  if (plan.followed) return "as the plan file has it";
  if (s.exact) return "nothing better exists" + considered(plan);
  const std::string best = plan.placed.played
                               ? "the best possible plan" + considered(plan)
                               : "the best possible sums over blocks" + considered(plan) +
                                     " (sums over blocks ignore the time that blocks wait for each other)";
  if (!std::isfinite(s.gap)) return "it is not known how far from " + best;
  return "at most " + fixed(s.gap * 100, 1) + " % from " + best;
}

/// Returns a sentence on how good the plan is, and on where its figures come from.
std::string quality(const Plan& plan) {
  return how_good(plan) + (plan.placed.played
                               ? "; every partition was simulated clock by clock"
                               : "; not simulated clock by clock: "
                                 "the figures are computed from the blocks and the connections between them. "
                                 "In plans that were compared with built designs, "
                                 "the rate was within " +
                                     fixed(kRateWithin * 100, 0) +
                                     " % of the built rate, "
                                     "and the latency was predicted up to " +
                                     fixed(kLatencyShortBy * 100, 0) + " % too short");
}

/// Compares the plan from a plan file with the plan that a search finds.
std::string cost_of_edit(const Plan& plan) {
  const auto signed_percent = [](double ratio) {
    const std::string text = fixed((ratio - 1) * 100, 1);
    return (text[0] == '-' ? "" : "+") + text + " %";
  };
  const auto counted = [](std::size_t n) { return std::to_string(n) + (n == 1 ? " card" : " cards"); };
  if (!plan.followed->unedited) return "the plan file was followed; a search without the file finds no plan";
  const Unedited& own = *plan.followed->unedited;
  const std::size_t cards = plan.cards();
  const std::string rate = signed_percent(plan.frames_per_second() / own.frames_per_second);
  const std::string latency = signed_percent(plan.latency_seconds / own.latency_seconds);
  return "the plan file was followed; "
         "a search without the file finds " +
         counted(own.cards) + ", " + with_commas(own.frames_per_second) + " frames/s, " +
         fixed(own.latency_seconds * 1e6, 1) + " us: the plan file uses " + counted(cards) + " and gives " +
         rate + " frames/s, " + latency + " latency";
}

std::string assumption(const Plan& plan) {
  const bool shifts = assumed_scales(plan) == "power-of-two";
  return "assumed: the model is float, "
         "and was planned as if it were " +
         plan.model.assumed +
         (shifts ? ", quantised with scales that are powers of two, "
                   "so that each requantisation is a shift; "
                   "most quantisation tools choose arbitrary scales, which need more hardware"
                 : ", quantised with arbitrary scales, one for each output channel of the weights") +
         ". A float model cannot be compiled";
}

/// Names the layers whose weights are read from memory, with the bytes per frame. Returns an empty text if there are
/// none.
std::string streamed(const Plan& plan) {
  constexpr std::size_t kNamed = 4;
  std::string names;
  std::size_t count = 0;
  double bytes_a_frame = 0;
  for (std::uint32_t i = 0; i < plan.problem().operations.size(); ++i) {
    const auto& operation = plan.problem().operations[i];
    if (operation.host || placement_of(plan, i) != kernels::Placement::kStreamed) continue;
    bytes_a_frame += static_cast<double>(
        operation.implementations[plan.solution.implementation[i]].amounts[explore::kMemoryBytes]);
    if (++count <= kNamed) names += (count > 1 ? ", '" : "'") + plan.program().blocks[i].name + "'";
  }
  if (count == 0) return {};
  if (count > kNamed) names += " and " + std::to_string(count - kNamed) + " more";
  return "weights of " + names + " are streamed from memory, " + bytes(bytes_a_frame) + " a frame";
}

/// Names the devices of the plan for which no deployment can be made, and why. Returns an empty text if there are none.
std::string plans_only(const Plan& plan) {
  std::map<std::string, std::string> devices;
  for (const auto card : plan.solution.card) {
    const auto& device = plan.cluster().device_of(plan.cluster().cards[card]);
    if (!device.plan_only.empty()) devices.emplace(device.name, device.plan_only);
  }
  std::string text;
  for (const auto& [name, why] : devices)
    text += (text.empty() ? "" : "; ") + ("'" + name + "' can only be used for plans: " + why);
  return text;
}

std::string replicas(const Plan& plan) {
  std::string text;
  const auto add = [&](const std::vector<std::uint32_t>& cards) {
    std::string names;
    for (const auto c : cards) names += (names.empty() ? "" : "+") + plan.problem().cards[c].name;
    text += (text.empty() ? "" : ", ") + names;
  };
  add(plan.solution.card);
  for (const auto& copy : plan.solution.copies) add(copy);
  return "replicas on " + text + "; below is the first";
}

}  // namespace

std::string assumed_scales(const Plan& plan) {
  const auto types = passes::assumed_types(plan.model.assumed).value_or(passes::AssumedTypes());
  return types.scales == passes::AssumedScales::kPowerOfTwo ? "power-of-two" : "per-channel";
}

std::string extrapolated(const Plan& plan) {
  std::string text;
  for (std::size_t i = 0; i < plan.extrapolated.size(); ++i) {
    const auto& one = plan.extrapolated[i];
    const bool follows = i > 0 && plan.extrapolated[i - 1].module == one.module &&
                         plan.extrapolated[i - 1].figure == one.figure;
    if (!follows)
      text += (i == 0 ? "" : "); ") + one.module + " in " + (one.figure == "lut" ? "LUT" : "FF") + " (";
    text += (follows ? ", " : "") + one.term;
  }
  if (text.empty()) return text;
  return "resources extrapolated from other modules, "
         "because the catalogue has no coefficient of these cost terms: " +
         text + ")";
}

std::vector<std::string> remarks(const Plan& plan) {
  const bool predicted = plan.unpredicted().empty();
  std::vector<std::string> out;
  const auto add = [&](std::string remark) {
    if (!remark.empty()) out.push_back(std::move(remark));
  };
  if (!plan.model.assumed.empty()) add(assumption(plan));
  add(plans_only(plan));
  if (plan.replicas() > 1) add(replicas(plan));
  if (!predicted) {
    add("nothing is predicted: " + plan.unpredicted());
    return out;
  }
  for (const auto& split : plan.lowered->changes.splits)
    add("'" + split.block + "' is built as " + std::to_string(split.parts) +
        " blocks, each of which computes a part of the output channels");
  add(streamed(plan));
  add(quality(plan));
  add(extrapolated(plan));
  if (plan.followed) add(cost_of_edit(plan));
  return out;
}

std::string on_the_host(const Plan& plan) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < plan.program().blocks.size(); ++i)
    if (plan.problem().operations[i].host) names.push_back(plan.program().blocks[i].name);
  return joined(names);
}

HostBytes host_bytes(const Plan& plan, const HostBlock& block) {
  HostBytes bytes;
  for (const kernels::Block& b : plan.program().blocks) {
    if (b.name != block.block) continue;
    for (const auto t : b.inputs) bytes.input += plan.program().tensors[t].storage_bytes();
    for (const auto t : b.outputs) bytes.output += plan.program().tensors[t].storage_bytes();
  }
  return bytes;
}

}  // namespace millrace::compiler::report
