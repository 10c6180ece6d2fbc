#include "tools/cli/verify_rtl_report.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ostream>

namespace millrace::cli {

namespace json = boost::json;

namespace {

json::value or_null(const std::optional<double>& value) {
  return value ? json::value(*value) : json::value();
}
json::value or_null(const std::optional<std::uint64_t>& value) {
  return value ? json::value(*value) : json::value();
}

json::object to_json(const RtlCycles& cycles) {
  return {{"initiation_interval_cycles", or_null(cycles.interval)},
          {"latency_cycles", or_null(cycles.latency)},
          {"first_output_cycles", or_null(cycles.first_output)}};
}

json::object to_json(const DspUse& use) {
  return {{"interval", or_null(use.interval)}, {"busy", or_null(use.busy)}};
}

std::string ratio(const std::optional<double>& value) {
  if (!value) return "-";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", *value);
  return text.data();
}

/// Formats a number as "12,345" or "1,046.5", and a missing value as "-".
std::string grouped(std::optional<double> value) {
  if (!value) return "-";
  std::array<char, 64> text{};
  const bool whole = std::abs(*value - std::round(*value)) < 0.05;
  std::snprintf(text.data(), text.size(), whole ? "%.0f" : "%.1f", *value);
  std::string out(text.data());
  const std::size_t end = std::min(out.find('.'), out.size());
  for (std::size_t i = end; i > 3; i -= 3) out.insert(i - 3, ",");
  return out;
}
std::string grouped(double value) {
  return grouped(std::optional<double>(value));
}
std::string grouped(std::uint64_t value) {
  return grouped(static_cast<double>(value));
}
std::string grouped(std::optional<std::uint64_t> value) {
  return value ? grouped(*value) : grouped(std::optional<double>());
}

std::string padded(const std::string& text, std::size_t width, bool left = false) {
  const std::string fill(text.size() < width ? width - text.size() : 0, ' ');
  return left ? text + fill : fill + text;
}

std::string joined(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  std::string out;
  for (std::size_t i = 0; i < std::min(kMost, names.size()); ++i) out += (i == 0 ? "" : ", ") + names[i];
  const std::size_t unlisted = names.size() - std::min(kMost, names.size());
  return unlisted > 0 ? out + " and " + std::to_string(unlisted) + " more" : out;
}

std::size_t count_streams(const RtlFindings& findings) {
  std::size_t count = 0;
  for (const RtlPartition& partition : findings.partitions) count += partition.streams.size();
  return count;
}

void print_layers(const RtlFindings& findings, std::ostream& out) {
  const auto row = [&](const std::string& name, const std::string& work, const std::string& dsp,
                       const DspUse& use) {
    out << "  " << padded(name, 28, true) << padded(work, 12) << padded(dsp, 8)
        << padded(ratio(use.interval), 14) << padded(ratio(use.busy), 10) << "\n";
  };
  for (const RtlPartition& partition : findings.partitions) {
    if (partition.layers.empty()) continue;
    out << "multiplications a DSP slice and cycle, " << partition.name << ":\n  " << padded("layer", 28, true)
        << padded("MACs", 12) << padded("DSP", 8) << padded("of interval", 14) << padded("busy", 10) << "\n";
    std::uint64_t work = 0, dsp = 0;
    for (const auto& layer : partition.layers) {
      row(layer.name, grouped(layer.multiply_accumulates), grouped(layer.dsp), partition.dsp_use(layer));
      work += layer.multiply_accumulates;
      dsp += layer.dsp;
    }
    row("= all of them", grouped(work), grouped(dsp), partition.dsp_use());
  }
}

}  // namespace

void add_json(const RtlFindings& findings, json::object& document) {
  document["seed"] = findings.seed;
  document["stall"] = findings.stall;
  document["clock_mhz"] = findings.clock_mhz;
  document["cycles"] = findings.cycles;
  json::object measured = to_json(findings.measured), predicted = to_json(findings.predicted);
  const auto& m = findings.measured;
  measured["frames_per_second"] =
      m.interval ? json::value(findings.clock_mhz * 1e6 / *m.interval) : json::value();
  measured["latency_us"] =
      m.latency ? json::value(static_cast<double>(*m.latency) / findings.clock_mhz) : json::value();
  predicted["latency_is_bound"] = findings.latency_is_bound;
  document["measured"] = std::move(measured);
  document["predicted"] = std::move(predicted);
  json::array partitions;
  for (const RtlPartition& partition : findings.partitions) {
    json::array streams;
    for (const RtlStream& stream : partition.streams)
      streams.push_back({{"name", stream.name},
                         {"depth", stream.depth},
                         {"high_water", stream.high_water},
                         {"predicted_high_water", stream.predicted_high_water},
                         {"wasteful", stream.is_wasteful()}});
    json::array layers;
    for (const auto& layer : partition.layers)
      layers.push_back({{"name", layer.name},
                        {"multiply_accumulates", layer.multiply_accumulates},
                        {"dsp", layer.dsp},
                        {"busy_cycles", or_null(layer.busy_cycles)},
                        {"predicted_busy_cycles", layer.predicted_busy_cycles},
                        {"macs_per_dsp_cycle", to_json(partition.dsp_use(layer))}});
    partitions.push_back({{"name", partition.name},
                          {"clock_mhz", partition.clock_mhz},
                          {"measured", to_json(partition.measured)},
                          {"predicted", to_json(partition.predicted)},
                          {"streams", std::move(streams)},
                          {"layers", std::move(layers)},
                          {"macs_per_dsp_cycle", to_json(partition.dsp_use())}});
  }
  document["partitions"] = std::move(partitions);
  json::array links;
  for (const auto& channel : findings.channels)
    links.push_back({{"channel", channel.name},
                     {"cable", channel.cable},
                     {"packets", channel.packets},
                     {"bits", channel.bits},
                     {"starved_cycles", channel.starved_cycles},
                     {"cable_busy", channel.cable_busy}});
  document["links"] = std::move(links);
  document["udp_links"] = json::value_from(findings.udp_channels);
  const auto sufficient = findings.reaches_interval();
  document["fifos"] = {{"streams", count_streams(findings)},
                       {"sufficient", sufficient ? json::value(*sufficient) : json::value()},
                       {"wasteful", json::value_from(findings.wasteful_streams())}};
  document["standstill"] = findings.standstill
                               ? json::value{{"cycle", findings.standstill->cycle},
                                             {"streams", json::value_from(findings.standstill->streams)}}
                               : json::value();
}

void print_text(const RtlFindings& findings, std::ostream& out) {
  const auto& m = findings.measured;
  const auto& p = findings.predicted;
  out << "simulated SystemVerilog, " << grouped(findings.cycles) << " cycles of " << findings.clock_mhz
      << " MHz; seed " << findings.seed;
  if (findings.stall != 0) out << ", each port stalls with probability " << findings.stall;
  out << "\ninitiation interval " << grouped(m.interval) << " cycles (predicted " << grouped(p.interval)
      << ")";
  if (m.interval) {
    const double rate = std::round(findings.clock_mhz * 1e6 / *m.interval);
    out << ": " << grouped(rate) << " frames/s";
  }
  out << ", ingress and egress not simulated\n"
         "latency "
      << grouped(m.latency) << " cycles (predicted " << (findings.latency_is_bound ? "at most " : "")
      << grouped(p.latency) << "), first output beat after " << grouped(m.first_output) << "\n";
  out << "  " << padded("partition", 16, true) << padded("interval", 12) << padded("predicted", 12)
      << padded("latency", 12) << padded("predicted", 12) << padded("FIFOs", 8) << padded("beats held", 12)
      << "\n";
  for (const RtlPartition& partition : findings.partitions) {
    std::uint64_t held = 0, depth = 0;
    for (const RtlStream& stream : partition.streams) {
      held += stream.high_water;
      depth += stream.depth;
    }
    out << "  " << padded(partition.name, 16, true) << padded(grouped(partition.measured.interval), 12)
        << padded(grouped(partition.predicted.interval), 12)
        << padded(grouped(partition.measured.latency), 12) << padded(grouped(partition.predicted.latency), 12)
        << padded(std::to_string(partition.streams.size()), 8)
        << padded(std::to_string(held) + "/" + std::to_string(depth), 12) << "\n";
  }
  print_layers(findings, out);
  for (const auto& channel : findings.channels) {
    const long busy = std::lround(channel.cable_busy * 100);
    out << "  " << channel.name << " over " << channel.cable << ": " << channel.packets
        << " packets, cable busy " << busy << " %, " << grouped(channel.starved_cycles)
        << " cycles without credit\n";
  }
  for (const std::string& channel : findings.udp_channels)
    out << "  " << channel << ": the SystemVerilog of its UDP link was simulated, too\n";
  const auto sufficient = findings.reaches_interval();
  const auto wasteful = findings.wasteful_streams();
  if (!findings.standstill && sufficient)
    out << "FIFO depths: "
        << (*sufficient ? "the interval is reached" : "the predicted interval is NOT reached");
  if (!findings.standstill && sufficient)
    out << (wasteful.empty()
                ? ", no FIFO is deeper than twice its largest fill level\n"
                : ", " + std::to_string(wasteful.size()) +
                      " FIFOs deeper than twice their largest fill level: " + joined(wasteful) + "\n");
  if (findings.standstill)
    out << "DEADLOCK after cycle " << grouped(findings.standstill->cycle) << ":\n"
        << findings.standstill->message << "\n";
}

Status verdict(const RtlFindings& findings) {
  if (!findings.standstill && findings.reaches_interval() == false)
    return Error(ErrorCode::kDoesNotFit,
                 "the predicted interval is not reached: "
                 "one frame per " +
                     grouped(findings.measured.interval) + " cycles instead of one per " +
                     grouped(findings.predicted.interval));
  if (!findings.standstill) return {};
  return Error(ErrorCode::kDoesNotFit,
               "the simulation deadlocked after cycle " + std::to_string(findings.standstill->cycle) +
                   "; beats wait in " +
                   (findings.standstill->streams.empty() ? std::string("no stream")
                                                         : joined(findings.standstill->streams)));
}

}  // namespace millrace::cli
