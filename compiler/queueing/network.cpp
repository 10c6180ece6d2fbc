#include "compiler/queueing/network.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/emit/deployment.hpp"

namespace millrace::compiler::queueing {
namespace {

using runtime::plan::Cable;
using runtime::plan::Channel;

/// The times of a plan's partitions (on cards and on the host), in seconds; the same for all replicas.
struct PartTimes {
  std::vector<double> interval, tail;
};

Result<PartTimes> times_of(const Plan& plan) {
  const auto& parts = plan.placed.solution.parts;
  const auto host = host_times(plan);
  MILLRACE_ASSIGN(const auto last, last_outputs(plan));
  PartTimes out;
  out.tail = tails(plan.placed.programs, plan.placed.solution, plan.cluster(), last, host);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    double seconds = host[p];
    if (!parts[p].host) {
      seconds = plan.analysis.places[parts[p].place].interval_seconds;
      if (const auto design = plan.placed.designs.find(plan.placed.programs[p].name);
          design != plan.placed.designs.end())
        seconds = static_cast<double>(design->second.interval_cycles) /
                  plan.problem().cards[plan.solution.card[parts[p].place]].clock_hz;
    }
    out.interval.push_back(seconds);
  }
  return out;
}

class Builder {
 public:
  Builder(const Plan& plan, const emit::Artifacts& made, PartTimes times, std::uint32_t slots)
      : plan_(plan), made_(made), times_(std::move(times)), slots_(slots) {}

  Result<Network> run() {
    const auto& cards = plan_.solution;
    MILLRACE_TRY(add_pipeline(cards.card));
    for (const auto& copy : cards.copies) MILLRACE_TRY(add_pipeline(copy));
    return std::move(network_);
  }

 private:
  std::uint32_t station(const std::string& name) {
    const auto [at, added] = station_.try_emplace(name, static_cast<std::uint32_t>(network_.stations.size()));
    if (added) network_.stations.push_back({name});
    return at->second;
  }

  std::string card_at(const std::vector<std::uint32_t>& cards, std::size_t part) const {
    return plan_.cluster().cards[cards[plan_.placed.solution.parts[part].place]].name;
  }

  /// Adds one replica. `cards` has the replica's card at each position of the pipeline.
  Status add_pipeline(const std::vector<std::uint32_t>& cards) {
    const auto& parts = plan_.placed.solution.parts;
    Pipeline pipeline;
    pipeline.slots = slots_;
    std::vector<std::uint32_t> step_of_part;
    std::map<const Cable*, std::uint64_t>
        carried;  // bytes of a frame; each channel uses the least loaded cable
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const std::string& name = plan_.placed.programs[p].name;
      Step step;
      step.interval_seconds = times_.interval[p];
      step.delay_seconds = times_.tail[p];
      step.station = station(!parts[p].host           ? name + " on " + card_at(cards, p)
                             : times_.interval[p] > 0 ? std::string("the host's core")
                                                      : name + " on the host");
      for (const Channel& channel : made_.plan.channels) {
        if (channel.consumer.partition != name || channel.producer.partition.empty()) continue;
        const std::size_t from = part_named(channel.producer.partition);
        std::uint32_t before = step_of_part[from];
        if (!parts[from].host && !parts[p].host && card_at(cards, from) != card_at(cards, p)) {
          MILLRACE_ASSIGN(Step hop, cable_step(channel, card_at(cards, from), card_at(cards, p), carried));
          hop.after = {before};
          before = static_cast<std::uint32_t>(pipeline.steps.size());
          pipeline.steps.push_back(std::move(hop));
        }
        if (std::find(step.after.begin(), step.after.end(), before) == step.after.end())
          step.after.push_back(before);
      }
      if (!parts[p].host) step.credits = frames_inside(step);
      step_of_part.push_back(static_cast<std::uint32_t>(pipeline.steps.size()));
      pipeline.steps.push_back(std::move(step));
    }
    network_.pipelines.push_back(std::move(pipeline));
    return {};
  }

  std::size_t part_named(const std::string& name) const {
    const auto& programs = plan_.placed.programs;
    return static_cast<std::size_t>(
        std::find_if(programs.begin(), programs.end(), [&](const auto& one) { return one.name == name; }) -
        programs.begin());
  }

  /// Returns how many frames a partition holds: those in its hardware's pipeline, and one in the buffer of its output.
  static std::uint32_t frames_inside(const Step& step) {
    if (step.interval_seconds <= 0) return 0;
    return static_cast<std::uint32_t>(std::ceil(step.delay_seconds / step.interval_seconds)) + 1;
  }

  Result<Step> cable_step(const Channel& channel, const std::string& from, const std::string& to,
                          std::map<const Cable*, std::uint64_t>& carried) {
    const Cable* best = nullptr;
    for (const Cable& cable : plan_.cluster().cables) {
      const std::pair ends{cable.a.card, cable.b.card};
      if (ends != std::pair{from, to} && ends != std::pair{to, from}) continue;
      if (best == nullptr || carried[&cable] < carried[best]) best = &cable;
    }
    if (best == nullptr)
      return Error(ErrorCode::kUnsupported,
                   "no cable joins cards '" + from + "' and '" + to + "' of channel '" + channel.name +
                       "', so the transfers of the channel under load cannot be simulated");
    const std::uint64_t wire = channel.packet_bytes > 0 ? emit::bytes_on_wire(channel) : channel.frame_bytes;
    carried[best] += wire;
    Step step;
    step.station = station("cable " + best->name + " from " + from + " to " + to);
    step.interval_seconds = static_cast<double>(wire) / (best->gigabits_per_second * 1e9 / 8);
    step.delay_seconds = cable_tail(*best, channel.frame_bytes);
    if (channel.packet_bytes > 0) {
      const std::uint64_t packets = (channel.frame_bytes + channel.packet_bytes - 1) / channel.packet_bytes;
      step.credits = static_cast<std::uint32_t>(
          std::max<std::uint64_t>(1, channel.credits / std::max<std::uint64_t>(1, packets)));
    }
    step.credit_seconds = best->latency_ns * 1e-9;
    return step;
  }

  const Plan& plan_;
  const emit::Artifacts& made_;
  PartTimes times_;
  std::uint32_t slots_;
  Network network_;
  std::map<std::string, std::uint32_t> station_;
};

}  // namespace

Result<Network> network_of(const Plan& plan, std::uint32_t slots) {
  MILLRACE_ASSIGN(const auto made, emit::outline_deployment(plan.placed.program, plan.placed.solution,
                                                            plan.cluster(), plan.model.info));
  MILLRACE_ASSIGN(PartTimes times, times_of(plan));
  return Builder(plan, made, std::move(times), slots).run();
}

}  // namespace millrace::compiler::queueing
