#include <boost/json.hpp>

#include <cmath>

#include "compiler/report/report.hpp"

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

const char* name_of(explore::Objective objective) {
  switch (objective) {
    case explore::Objective::kCards:
      return "cards";
    case explore::Objective::kThroughput:
      return "throughput";
    case explore::Objective::kLatency:
      return "latency";
  }
  return "";
}

json::array blocks_of(const Plan& plan, std::uint32_t place) {
  json::array out;
  for (const auto& part : plan.solution.parts) {
    if (part.host || part.place != place) continue;
    for (const auto i : part.operations) {
      const auto& block = plan.program.blocks[i];
      json::object made{{"name", block.name}, {"operation", kernels::operation_name(block.operation)}};
      if (plan.unpredicted.empty()) {
        const auto& way = plan.problem.operations[i].implementations[plan.solution.implementation[i]];
        made["region"] = plan.problem.cards[plan.solution.card[place]].regions[plan.solution.region[i]].name;
        made["implementation"] = way.name;
        made["interval_cycles"] = way.interval_cycles;
        made["resources"] = amounts(way.amounts, false);
      }
      out.push_back(std::move(made));
    }
  }
  return out;
}

json::object partition(const Plan& plan, std::uint32_t place) {
  const auto& card = plan.problem.cards[plan.solution.card[place]];
  json::object out{{"name", "part" + std::to_string(place)}, {"card", card.name}, {"device", card.device}};
  if (plan.unpredicted.empty()) {
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

}  // namespace

std::string json(const Plan& plan, const PlanOptions& options) {
  json::object out{
      {"schema", 1}, {"kind", "plan"}, {"model", plan.model.name}, {"cluster", plan.cluster.name}};
  out["assumed"] = optional(plan.assumed);
  out["objective"] = name_of(options.targets.objective);
  out["targets"] = json::object{
      {"frames_per_second", optional(options.targets.frames_per_second)},
      {"max_latency_us", optional(options.targets.max_latency_seconds, 1e6)},
      {"partitions", options.partitions ? json::value(*options.partitions) : json::value(nullptr)}};
  out["unpredicted"] = optional(plan.unpredicted);
  out["unedited"] = nullptr;
  if (plan.unpredicted.empty())
    out["predicted"] = json::object{{"frames_per_second", plan.frames_per_second()},
                                    {"latency_us", plan.latency_seconds * 1e6},
                                    {"played", plan.played},
                                    {"gap", plan.solution.gap},
                                    {"exact", plan.solution.exact}};
  if (plan.unedited)
    out["unedited"] = json::object{{"cards", plan.unedited->cards},
                                   {"frames_per_second", 1 / plan.unedited->interval_seconds},
                                   {"latency_us", plan.unedited->latency_seconds * 1e6}};
  out["exploration_ms"] = plan.exploration_ms;
  out["prediction_ms"] = plan.prediction_ms;
  json::array splits;
  for (const auto& split : plan.splits)
    splits.push_back(json::object{{"block", split.block}, {"parts", split.parts}});
  out["splits"] = std::move(splits);
  json::array steps;
  for (const auto& step : plan.steps)
    steps.push_back(json::object{{"name", step.name}, {"milliseconds", step.milliseconds}});
  out["steps"] = std::move(steps);
  json::array partitions, cables, lifts, host;
  for (std::uint32_t place = 0; place < plan.solution.card.size(); ++place)
    partitions.push_back(partition(plan, place));
  if (plan.unpredicted.empty()) {
    out["bottleneck"] = plan.analysis.bottleneck;
    for (const auto& lift : plan.analysis.lifts) lifts.emplace_back(lift);
    for (const auto& cable : plan.analysis.cables)
      cables.push_back(json::object{{"from", plan.problem.cards[plan.solution.card[cable.from]].name},
                                    {"to", plan.problem.cards[plan.solution.card[cable.to]].name},
                                    {"bytes_per_frame", cable.bytes},
                                    {"bytes_per_second", number(cable.bytes_per_second)},
                                    {"share", cable.share}});
    out["lifts"] = std::move(lifts);
    out["cables"] = std::move(cables);
  }
  for (std::size_t i = 0; i < plan.program.blocks.size(); ++i)
    if (plan.problem.operations[i].host) host.emplace_back(plan.program.blocks[i].name);
  out["partitions"] = std::move(partitions);
  out["host"] = std::move(host);
  return json::serialize(out);
}

}  // namespace millrace::compiler::report
