#include <boost/json.hpp>

#include <cmath>

#include "compiler/report/energy.hpp"
#include "compiler/report/report.hpp"
#include "compiler/report/sentences.hpp"
#include "kernels/program/packing.hpp"
#include "kernels/program/parameters.hpp"

namespace millrace::compiler::report {
namespace {

namespace json = boost::json;

json::value number(double value) {
  return std::isfinite(value) ? json::value(value) : json::value(nullptr);
}

json::value optional(const std::optional<double>& value, double factor = 1) {
  return value ? json::value(*value * factor) : json::value(nullptr);
}

json::value optional(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}

json::object amounts(const explore::Amounts& a, bool memory) {
  json::object out{{"lut", a[explore::kLut]}, {"lutram", a[explore::kLutram]}, {"ff", a[explore::kFf]},
                   {"dsp", a[explore::kDsp]}, {"bram18", a[explore::kBram18]}, {"uram", a[explore::kUram]}};
  if (memory) out["memory_bytes_per_second"] = a[explore::kMemoryBytes];
  return out;
}

std::uint64_t bytes_of(const Plan& plan, const std::vector<std::uint32_t>& tensors) {
  std::uint64_t sum = 0;
  for (const auto t : tensors) {
    const auto& tensor = plan.program().tensors[t];
    sum += kernels::packed_bytes(tensor.type, tensor.elements());
  }
  return sum;
}

json::array blocks_of(const Plan& plan, std::uint32_t place) {
  json::array out;
  for (const auto& part : plan.solution.parts) {
    if (part.host || part.place != place) continue;
    for (const auto i : part.operations) {
      const auto& block = plan.program().blocks[i];
      json::object made{{"name", block.name}, {"operation", kernels::operation_name(block.operation)}};
      if (plan.unpredicted().empty()) {
        const auto& way = plan.problem().operations[i].implementations[plan.solution.implementation[i]];
        made["region"] =
            plan.problem().cards[plan.solution.card[place]].regions[plan.solution.region[i]].name;
        made["implementation"] = way.name;
        made["interval_cycles"] = way.interval_cycles;
        made["resources"] = amounts(way.amounts, false);
        made["input_bytes"] = bytes_of(plan, plan.problem().operations[i].inputs);
        made["output_bytes"] = bytes_of(plan, plan.problem().operations[i].outputs);
        if (const auto placement = placement_of(plan, i); placement != kernels::Placement::kBaked)
          made["weights"] = kernels::to_string(placement);
        made["memory_bytes"] = way.amounts[explore::kMemoryBytes];
      }
      out.push_back(std::move(made));
    }
  }
  return out;
}

json::array waterfall(const Plan& plan) {
  json::array out;
  for (const auto& work : plan.analysis.works)
    out.push_back(json::object{{"block", plan.program().blocks[work.operation].name},
                               {"begin_us", work.begin * 1e6},
                               {"first_us", work.first * 1e6},
                               {"last_us", work.last * 1e6}});
  return out;
}

json::object energy(const Plan& plan) {
  const Energy assumed = assumed_energy(plan);
  json::array terms;
  for (const auto& term : assumed.terms)
    terms.push_back(json::object{{"what", term.what},
                                 {"count", term.count},
                                 {"picojoules_each", term.picojoules},
                                 {"from", term.from}});
  return {{"assumed", true},
          {"microjoules_per_frame", assumed.joules * 1e6},
          {"microjoules_per_frame_and_idle_watt", assumed.joules_per_idle_watt * 1e6},
          {"terms", std::move(terms)}};
}

json::array alternatives_of(const Alternatives& alternatives) {
  json::array out;
  for (const auto& way : alternatives.found)
    out.push_back(json::object{{"cards", way.cards},
                               {"replicas", way.replicas},
                               {"objective", explore::objective_name(way.objective)},
                               {"frames_per_second", way.frames_per_second()},
                               {"latency_us", way.latency_seconds * 1e6},
                               {"resources", amounts(way.used, false)},
                               {"exact", way.exact}});
  return out;
}

json::object partition(const Plan& plan, std::uint32_t place) {
  const auto& card = plan.problem().cards[plan.solution.card[place]];
  json::object out{{"name", "part" + std::to_string(place)}, {"card", card.name}, {"device", card.device}};
  out["plan_only"] =
      optional(plan.cluster().device_of(plan.cluster().cards[plan.solution.card[place]]).plan_only);
  if (plan.unpredicted().empty()) {
    const auto& figures = plan.analysis.places[place];
    out["interval_us"] = figures.interval_seconds * 1e6;
    out["frames_per_second"] = 1 / figures.interval_seconds;
    out["multiply_accumulates"] = figures.cost;
    out["memory_bytes"] = figures.memory_bytes;
    json::array regions;
    for (const auto& region : figures.regions)
      regions.push_back(json::object{{"name", region.name},
                                     {"used", amounts(region.used, true)},
                                     {"available", amounts(region.available, true)}});
    out["regions"] = std::move(regions);
    out["roofline"] = json::object{{"compute", number(figures.roofline.compute)},
                                   {"memory", number(figures.roofline.memory)},
                                   {"links", number(figures.roofline.links)},
                                   {"attained", number(figures.roofline.attained)}};
  }
  out["blocks"] = blocks_of(plan, place);
  return out;
}

json::value tolerance(const Plan& plan) {
  if (plan.placed.played) return nullptr;
  return json::object{{"frames_per_second", kRateWithin}, {"latency_us", kLatencyShortBy}};
}

/// The cards of each, in the order of the partitions.
json::array replica_cards(const Plan& plan) {
  json::array out;
  const auto add = [&](const std::vector<std::uint32_t>& cards) {
    json::array names;
    for (const auto card : cards) names.emplace_back(plan.problem().cards[card].name);
    out.push_back(json::object{{"cards", std::move(names)}});
  };
  add(plan.solution.card);
  for (const auto& copy : plan.solution.copies) add(copy);
  return out;
}

/// What the best there is, which the gap is measured from, has in common with the plan.
json::array gap_given(const Plan& plan) {
  json::array out;
  if (plan.followed) return out;
  if (plan.lowered->weights_given) out.emplace_back("weights");
  if (plan.lowered->loader) out.emplace_back("loader");
  if (!plan.lowered->changes.splits.empty()) out.emplace_back("splits");
  return out;
}

}  // namespace

json::array extrapolated_json(const Plan& plan) {
  json::array terms;
  for (const auto& one : plan.extrapolated)
    terms.push_back(json::object{{"module", one.module}, {"figure", one.figure}, {"term", one.term}});
  return terms;
}

std::string json(const Plan& plan, const PlanOptions& options, const Alternatives& alternatives) {
  json::object out{
      {"schema", 1}, {"kind", "plan"}, {"model", plan.model.info.name}, {"cluster", plan.cluster().name}};
  out["assumed"] = optional(plan.model.assumed);
  out["assumed_scales"] = optional(plan.model.assumed.empty() ? "" : assumed_scales(plan));
  out["objective"] = explore::objective_name(options.targets.objective);
  out["targets"] = json::object{
      {"frames_per_second", optional(options.targets.frames_per_second)},
      {"max_latency_us", optional(options.targets.max_latency_seconds, 1e6)},
      {"partitions", options.partitions ? json::value(*options.partitions) : json::value(nullptr)},
      {"replicas", options.replicas ? json::value(*options.replicas) : json::value(nullptr)}};
  out["replicas"] = replica_cards(plan);
  out["unpredicted"] = optional(plan.unpredicted());
  out["unedited"] = nullptr;
  if (plan.unpredicted().empty())
    out["predicted"] = json::object{{"frames_per_second", plan.frames_per_second()},
                                    {"latency_us", plan.latency_seconds * 1e6},
                                    {"played", plan.placed.played},
                                    {"tolerance", tolerance(plan)},
                                    {"gap", plan.followed ? json::value(nullptr) : number(plan.solution.gap)},
                                    {"gap_given", gap_given(plan)},
                                    {"exact", plan.solution.exact}};
  if (plan.followed && plan.followed->unedited)
    out["unedited"] = json::object{{"cards", plan.followed->unedited->cards},
                                   {"frames_per_second", plan.followed->unedited->frames_per_second},
                                   {"latency_us", plan.followed->unedited->latency_seconds * 1e6}};
  out["exploration_ms"] = plan.times.exploration_ms;
  out["prediction_ms"] = plan.times.prediction_ms;
  out["extrapolated"] = extrapolated_json(plan);
  json::array splits;
  for (const auto& split : plan.lowered->changes.splits)
    splits.push_back(json::object{{"block", split.block}, {"parts", split.parts}});
  out["splits"] = std::move(splits);
  json::array steps;
  for (const auto& step : plan.times.steps)
    steps.push_back(json::object{{"name", step.name}, {"milliseconds", step.milliseconds}});
  out["steps"] = std::move(steps);
  json::array partitions, cables, lifts, host;
  for (std::uint32_t place = 0; place < plan.solution.card.size(); ++place)
    partitions.push_back(partition(plan, place));
  if (plan.unpredicted().empty()) {
    out["bottleneck"] = plan.analysis.bottleneck;
    for (const auto& lift : plan.analysis.lifts) lifts.emplace_back(lift);
    for (const auto& cable : plan.analysis.cables)
      cables.push_back(json::object{{"from", plan.problem().cards[plan.solution.card[cable.from]].name},
                                    {"to", plan.problem().cards[plan.solution.card[cable.to]].name},
                                    {"bytes_per_frame", cable.bytes},
                                    {"bytes_per_second", number(cable.bytes_per_second)},
                                    {"share", cable.share}});
    out["waterfall"] = waterfall(plan);
    out["energy"] = energy(plan);
    out["alternatives"] = alternatives_of(alternatives);
    out["alternatives_left_out"] = optional(alternatives.left_out);
    out["lifts"] = std::move(lifts);
    out["cables"] = std::move(cables);
  }
  for (std::size_t i = 0; i < plan.program().blocks.size(); ++i)
    if (plan.problem().operations[i].host) host.emplace_back(plan.program().blocks[i].name);
  out["partitions"] = std::move(partitions);
  out["host"] = std::move(host);
  json::array times;
  for (const auto& block : plan.lowered->host)
    times.push_back(
        json::object{{"block", block.block}, {"us", block.seconds * 1e6}, {"between_cards", block.between}});
  out["host_times"] = std::move(times);
  return json::serialize(out);
}

}  // namespace millrace::compiler::report
