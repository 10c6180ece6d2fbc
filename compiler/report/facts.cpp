#include <boost/json.hpp>

#include <cmath>

#include "compiler/report/communication.hpp"
#include "compiler/report/load.hpp"
#include "compiler/report/parts.hpp"
#include "compiler/report/report.hpp"
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

/// Returns a JSON array of make(element) for each element.
template <class Elements, class Make>
json::array list(const Elements& elements, const Make& make) {
  json::array out;
  for (const auto& element : elements) out.push_back(make(element));
  return out;
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
        const auto& built = implementation_of(plan, i);
        made["region"] = card_of(plan, place).regions[plan.solution.region[i]].name;
        made["implementation"] = built.name;
        made["interval_cycles"] = built.interval_cycles;
        made["resources"] = amounts(built.amounts, false);
        made["input_bytes"] = bytes_of(plan, plan.problem().operations[i].inputs);
        made["output_bytes"] = bytes_of(plan, plan.problem().operations[i].outputs);
        if (const auto placement = placement_of(plan, i); placement != kernels::Placement::kBaked)
          made["weights"] = kernels::to_string(placement);
        made["memory_bytes"] = built.amounts[explore::kMemoryBytes];
      }
      out.push_back(std::move(made));
    }
  }
  return out;
}

/// Estimates the order of magnitude of a frame's energy from published figures. The energy was never measured. Idle
/// cards and the host are left out.
json::object energy(const Plan& plan) {
  // The sources of the energies. Horowitz, "Computing's energy problem", ISSCC 2014, for 45 nm: a multiplication of 8
  // bits takes 0.2 pJ, an addition of 32 bits 0.1 pJ, reading 8 bytes of an SRAM of 8 KB 10 pJ, reading 8 bytes of DRAM
  // 1.3 to 2.6 nJ. Kuon and Rose, "Measuring the gap between FPGAs and ASICs", IEEE TCAD 2007: logic on an FPGA takes
  // 14 times the dynamic power of an ASIC.
  constexpr double kPicojoulesPerMultiply = (0.2 + 0.1 + 10.0 / 8) * 14;
  constexpr double kPicojoulesPerMemoryByte = 2600.0 / 8, kPicojoulesPerCableByte = 8 * 20;
  double work = 0, read = 0, sent = 0, microjoules = 0;
  for (const auto& place : plan.analysis.places) {
    work += static_cast<double>(place.cost);
    read += static_cast<double>(place.memory_bytes);
  }
  for (const auto& cable : plan.analysis.cables) sent += static_cast<double>(cable.bytes);
  json::array terms;
  const auto add = [&](const char* what, double count, double each, const char* from) {
    if (count <= 0) return;
    terms.push_back(
        json::object{{"what", what}, {"count", count}, {"picojoules_each", each}, {"from", from}});
    microjoules += count * each * 1e-6;
  };
  add("multiply-accumulates, each with a weight read on the chip", work, kPicojoulesPerMultiply,
      "Horowitz, ISSCC 2014, 45 nm: multiply 0.2 pJ, add 0.1 pJ, a byte of SRAM 1.25 pJ; "
      "times 14, because an FPGA needs 14 times the dynamic power of an ASIC "
      "(Kuon and Rose, IEEE TCAD 2007)");
  add("weights read from the card's memory", read, kPicojoulesPerMemoryByte,
      "Horowitz, ISSCC 2014: 2.6 nJ for 8 bytes of DRAM");
  add("bytes over cables", sent, kPicojoulesPerCableByte,
      "assumed 20 pJ per bit for both ends of a cable; no source");
  const double seconds = plan.interval_seconds * static_cast<double>(plan.solution.card.size());
  return {{"assumed", true},
          {"microjoules_per_frame", microjoules},
          {"microjoules_per_frame_and_idle_watt", seconds * 1e6},
          {"terms", std::move(terms)}};
}

json::object partition(const Plan& plan, std::uint32_t place) {
  const auto& card = card_of(plan, place);
  json::object out{{"name", "part" + std::to_string(place)}, {"card", card.name}, {"device", card.device}};
  out["plan_only"] = optional(device_at(plan, place).plan_only);
  if (plan.unpredicted().empty()) {
    const auto& figures = plan.analysis.places[place];
    out["interval_us"] = figures.interval_seconds * 1e6;
    out["frames_per_second"] = 1 / figures.interval_seconds;
    out["multiply_accumulates"] = figures.cost;
    out["memory_bytes"] = figures.memory_bytes;
    out["regions"] = list(figures.regions, [](const explore::RegionUse& region) {
      return json::object{{"name", region.name},
                          {"used", amounts(region.used, true)},
                          {"available", amounts(region.available, true)}};
    });
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

/// The reported gap (the distance to the best possible plan) compares this plan only with plans that make
/// certain choices in the same way. Returns the names of these choices (README.md: gap_given).
json::array gap_given(const Plan& plan) {
  json::array out;
  if (plan.followed) return out;
  if (plan.lowered->weights_given) out.emplace_back("weights");
  if (plan.lowered->loader) out.emplace_back("loader");
  if (!plan.lowered->changes.splits.empty()) out.emplace_back("splits");
  if (chose_routes(plan)) out.emplace_back("through_host");
  return out;
}

json::value unedited(const Plan& plan) {
  if (!plan.followed || !plan.followed->unedited) return nullptr;
  return json::object{{"cards", plan.followed->unedited->cards},
                      {"frames_per_second", plan.followed->unedited->frames_per_second},
                      {"latency_us", plan.followed->unedited->latency_seconds * 1e6}};
}

json::object predicted(const Plan& plan) {
  return {{"frames_per_second", plan.frames_per_second()},
          {"latency_us", plan.latency_seconds * 1e6},
          {"played", plan.placed.played},
          {"tolerance", tolerance(plan)},
          {"gap", plan.followed ? json::value(nullptr) : number(plan.solution.gap)},
          {"gap_given", gap_given(plan)},
          {"exact", plan.solution.exact}};
}

/// Adds facts that only a plan with predicted figures has.
void add_analysis(const Plan& plan, const Alternatives& alternatives, json::object& out) {
  out["bottleneck"] = plan.analysis.bottleneck;
  out["waterfall"] = list(plan.analysis.works, [&](const explore::Work& work) {
    return json::object{{"block", plan.program().blocks[work.operation].name},
                        {"begin_us", work.begin * 1e6},
                        {"first_us", work.first * 1e6},
                        {"last_us", work.last * 1e6}};
  });
  out["energy"] = energy(plan);
  out["alternatives"] = list(alternatives.found, [](const Alternative& alternative) {
    return json::object{{"cards", alternative.cards},
                        {"replicas", alternative.replicas},
                        {"objective", explore::objective_name(alternative.objective)},
                        {"frames_per_second", alternative.frames_per_second()},
                        {"latency_us", alternative.latency_seconds * 1e6},
                        {"resources", amounts(alternative.used, false)},
                        {"exact", alternative.exact}};
  });
  out["alternatives_left_out"] = optional(alternatives.left_out);
  out["lifts"] = list(plan.analysis.lifts, [](const std::string& lift) { return json::value(lift); });
  out["cables"] = list(plan.analysis.cables, [&](const explore::CableUse& cable) {
    return json::object{{"from", card_of(plan, cable.from).name},
                        {"to", card_of(plan, cable.to).name},
                        {"bytes_per_frame", cable.bytes},
                        {"bytes_per_second", number(cable.bytes_per_second)},
                        {"share", cable.share}};
  });
}

}  // namespace

json::array extrapolated_json(const Plan& plan) {
  return list(plan.extrapolated, [](const generators::Extrapolation& one) {
    return json::object{{"module", one.module}, {"figure", one.figure}, {"term", one.term}};
  });
}

json::object facts(const Plan& plan, const PlanOptions& options, const Alternatives& alternatives) {
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
  out["unedited"] = unedited(plan);
  if (plan.unpredicted().empty()) out["predicted"] = predicted(plan);
  out["exploration_ms"] = plan.times.exploration_ms;
  out["prediction_ms"] = plan.times.prediction_ms;
  out["extrapolated"] = extrapolated_json(plan);
  out["splits"] = list(plan.lowered->changes.splits, [](const Split& split) {
    return json::object{{"block", split.block}, {"parts", split.parts}};
  });
  out["steps"] = list(plan.times.steps, [](const StepTime& step) {
    return json::object{{"name", step.name}, {"milliseconds", step.milliseconds}};
  });
  if (plan.unpredicted().empty()) add_analysis(plan, alternatives, out);
  json::array partitions, host;
  for (std::uint32_t place = 0; place < plan.solution.card.size(); ++place)
    partitions.push_back(partition(plan, place));
  for (std::size_t i = 0; i < plan.program().blocks.size(); ++i)
    if (plan.problem().operations[i].host) host.emplace_back(plan.program().blocks[i].name);
  out["partitions"] = std::move(partitions);
  out["host"] = std::move(host);
  out["host_times"] = list(plan.lowered->host, [&plan](const HostBlock& block) {
    const HostBytes bytes = host_bytes(plan, block);
    return json::object{{"block", block.block},
                        {"us", block.seconds * 1e6},
                        {"between_cards", block.between},
                        {"input_bytes", bytes.input},
                        {"output_bytes", bytes.output}};
  });
  return out;
}

std::string json(const Plan& plan, const PlanOptions& options, const Alternatives& alternatives,
                 const Communication* communication, const LoadReport* load) {
  json::object out = facts(plan, options, alternatives);
  if (communication != nullptr) out["communication"] = facts(*communication);
  if (load != nullptr) out["load"] = facts(*load);
  return json::serialize(out);
}

}  // namespace millrace::compiler::report
