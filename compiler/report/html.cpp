// Fills the page's template with the facts of a plan, and with the coordinates of bars and charts.
#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "compiler/report/communication.hpp"
#include "compiler/report/figures.hpp"
#include "compiler/report/parts.hpp"
#include "compiler/report/report.hpp"

namespace millrace::compiler::report {

std::string_view report_text(std::string_view name);  // defined by CMake from templates/

namespace {

namespace json = boost::json;

constexpr double kWide = 1000;  // the width of every bar, in the coordinates of its drawing

std::string coordinate(double value) {
  return fixed(std::clamp(value, 0.0, kWide), 1);
}

/// The range of powers of ten that a bar with a logarithmic scale shows.
struct Decades {
  int low = 0, high = 1;
  explicit Decades(const std::vector<double>& values) {
    double least = INFINITY, most = 0;
    for (const double v : values) {
      if (!std::isfinite(v) || v <= 0) continue;
      least = std::min(least, v);
      most = std::max(most, v);
    }
    if (most == 0) return;
    low = static_cast<int>(std::floor(std::log10(least)));
    high = std::max(low + 1, static_cast<int>(std::ceil(std::log10(most))));
  }
  double share(double value) const { return (std::log10(value) - low) / (high - low); }
};

std::string decade_name(int decade) {
  const double value = std::pow(10, decade);
  return value >= 1e9   ? with_commas(value / 1e9) + " G"
         : value >= 1e6 ? with_commas(value / 1e6) + " M"
         : value >= 1e3 ? with_commas(value / 1e3) + " k"
         : value >= 1   ? with_commas(value)
                        : fixed(value, -decade);
}

void draw_rooflines(const Plan& plan, json::object& page) {
  std::vector<double> all;
  for (const auto& place : plan.analysis.places)
    for (const double v :
         {place.roofline.attained, place.roofline.compute, place.roofline.memory, place.roofline.links})
      all.push_back(v);
  const Decades decades(all);
  json::array lines, axis;
  for (int d = decades.low; d <= decades.high; ++d)
    lines.emplace_back(coordinate(decades.share(std::pow(10, d)) * kWide));
  page["decades"] = std::move(lines);
  const int step = std::max(1, (decades.high - decades.low + 3) / 4);  // at most five marks
  for (int d = decades.low; d <= decades.high; d += step) {
    const double share = decades.share(std::pow(10, d));
    const char* look = share < 0.02   ? "first"
                       : share > 0.98 ? "last"
                                      : "mark";  // marks at the ends stay inside the bar
    axis.push_back(json::object{{"look", look}, {"left", fixed(share * 100, 2)}, {"text", decade_name(d)}});
  }
  page["roofline_axis"] = std::move(axis);
  for (std::size_t p = 0; p < plan.analysis.places.size(); ++p) {
    const auto& roof = plan.analysis.places[p].roofline;
    json::array limits;
    for (const auto& [look, value] : {std::pair{"b", roof.compute}, {"c", roof.memory}, {"d", roof.links}})
      if (std::isfinite(value))
        limits.push_back(json::object{
            {"look", look}, {"x", coordinate(std::min(kWide - 6, decades.share(value) * kWide - 3))}});
    auto& partition = page["partitions"].at(p).as_object();
    partition["reached"] = coordinate(decades.share(roof.attained) * kWide);
    partition["limits"] = std::move(limits);
  }
}

void draw_waterfall(const Plan& plan, json::object& page) {
  std::vector<std::uint32_t> place(plan.problem().operations.size(), 0);
  for (const auto& part : plan.solution.parts)
    for (const auto i : part.operations) place[i] = part.place;
  double end = 0;
  for (const auto& work : plan.analysis.works) end = std::max(end, work.last);
  const double scale = end > 0 ? kWide / end : 0;
  for (std::size_t w = 0; w < plan.analysis.works.size(); ++w) {
    const auto& work = plan.analysis.works[w];
    auto& row = page["waterfall"].at(w).as_object();
    row["card"] = card_of(plan, place[work.operation]).name;
    row["begin"] = coordinate(work.begin * scale);
    row["filling"] = coordinate((work.first - work.begin) * scale);
    row["first"] = coordinate(work.first * scale);
    row["giving"] = coordinate(std::max(2.0, (work.last - work.first) * scale));
  }
  page["waterfall_end_us"] = end * 1e6;
  page["waterfall_half_us"] = end / 2 * 1e6;
  page["host_between"] = std::any_of(plan.lowered->host.begin(), plan.lowered->host.end(),
                                     [](const auto& h) { return h.between; });
}

/// Adds the rates and bandwidths of the blocks to the page. The bars' lengths are relative to the largest bandwidth.
void draw_blocks(const Plan& plan, json::object& page) {
  constexpr const char* kFlows[][3] = {
      {"a", "in", "input_bytes"}, {"b", "out", "output_bytes"}, {"c", "weights", "memory_bytes"}};
  double most = 0;
  for (auto& partition : page["partitions"].as_array())
    for (const auto& block : partition.at("blocks").as_array())
      for (const auto& flow : kFlows) most = std::max(most, block.at(flow[2]).to_number<double>());
  for (std::uint32_t place = 0; place < plan.solution.card.size(); ++place)
    for (auto& value : page["partitions"].at(place).at("blocks").as_array()) {
      auto& block = value.as_object();
      block["several_regions"] = card_of(plan, place).regions.size() > 1;
      block["block_rate"] = card_of(plan, place).clock_hz / block["interval_cycles"].to_number<double>();
      json::array flows;
      for (const auto& [look, what, key] : kFlows) {
        const auto bytes = block[key].to_number<double>();
        flows.push_back(json::object{{"look", look},
                                     {"what", what},
                                     {"y", fixed(static_cast<double>(flows.size()) * 8 + 1, 1)},
                                     {"width", coordinate(most > 0 ? bytes / most * kWide : 0)},
                                     {"bytes_per_second", bytes * plan.frames_per_second()},
                                     {"shown", bytes > 0 || flows.size() < 2}});
      }
      block["flows"] = std::move(flows);
    }
}

void draw_resources(const Plan& plan, json::object& page) {
  for (std::size_t p = 0; p < plan.analysis.places.size(); ++p)
    for (std::size_t r = 0; r < plan.analysis.places[p].regions.size(); ++r) {
      const auto& region = plan.analysis.places[p].regions[r];
      json::array kinds;
      for (std::size_t k = 0; k < explore::kKinds; ++k) {
        const auto used = static_cast<double>(region.used[k]),
                   available = static_cast<double>(region.available[k]);
        if (used == 0 && available == 0) continue;
        const double share = used / std::max(1.0, available);
        const std::string figures = k == explore::kMemoryBytes
                                        ? bytes(used) + "/s of " + bytes(available) + "/s"
                                        : with_commas(used) + " of " + with_commas(available);
        kinds.push_back(json::object{{"kind", explore::kind_name(k)},
                                     {"figures", figures},
                                     {"share", share},
                                     {"look", share > 1 ? "over" : "a"},
                                     {"width", coordinate(share * kWide)}});
      }
      auto& out = page["partitions"].at(p).at("regions").at(r).as_object();
      out["is_used"] = region.used != explore::Amounts{};
      out["kinds"] = std::move(kinds);
    }
}

void draw_alternatives(const Plan& plan, const Alternatives& alternatives, json::object& page) {
  page["any_alternatives"] = !alternatives.found.empty();
  page["charts_empty"] = alternatives.found.empty() && alternatives.left_out.empty();
  if (alternatives.found.empty()) return;
  const auto cards = static_cast<double>(plan.cards());
  std::vector<ChartPoint> rates, latencies;
  for (std::size_t i = 0; i < alternatives.found.size(); ++i) {
    const auto& alternative = alternatives.found[i];
    rates.push_back({static_cast<double>(alternative.cards), alternative.frames_per_second()});
    latencies.push_back({static_cast<double>(alternative.cards), alternative.latency_seconds});
    const bool chosen = alternative.cards == plan.cards() && alternative.replicas == plan.replicas() &&
                        alternative.interval_seconds == plan.solution.interval_seconds &&
                        alternative.latency_seconds == plan.solution.latency_seconds;
    auto& row = page["alternatives"].at(i).as_object();
    row["look"] = chosen ? "chosen" : "other";
    row["as_replicas"] = alternative.replicas > 1;
  }
  const double rate = static_cast<double>(plan.replicas()) / plan.solution.interval_seconds;
  page["charts"] = {chart("Frames a second against cards", rates, {cards, rate}, true, short_number),
                    chart("Latency against cards", latencies, {cards, plan.solution.latency_seconds}, false,
                          [](double seconds) { return duration(seconds, "µ"); })};
}

void add_messages(const Plan& plan, json::object& page) {
  const auto made = communication(plan);
  page["any_messages"] = made.ok();
  if (!made) return;
  json::object shown = facts(*made);
  for (auto& message : shown["messages"].as_array()) {
    auto& row = message.as_object();
    row["by_host"] = !row.at("between_cards").as_bool() && !row.at("over_mpi").as_bool();
  }
  page["messages"] = std::move(shown["messages"]);
  page["any_loads"] = !made->loads.empty();
  page["loads"] = std::move(shown["loads"]);
  page["no_deadlock"] = made->check.ok();
  page["communication_fault"] = std::move(shown["fault"]);
  page["message_chart"] = message_chart(*made);
}

}  // namespace

std::string html(const Plan& plan, const Alternatives& alternatives, const HtmlOptions& options) {
  PlanOptions asked;
  asked.targets = plan.problem().targets;
  json::object page = facts(plan, asked, alternatives);
  page["cards"] = plan.cards();
  page["cluster_cards"] = plan.cluster().cards.size();
  page["times"] = options.times;
  page["host_names"] = on_the_host(plan);
  json::array said, notes;
  for (auto& remark : remarks(plan)) {
    remark[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(remark[0])));
    said.emplace_back(remark);
  }
  for (const auto& note : plan.model.notes) notes.emplace_back(note);
  page["remarks"] = std::move(said);
  page["notes"] = std::move(notes);
  page["drawings"] = pipeline_drawings(plan);
  if (plan.unpredicted().empty()) {
    add_messages(plan, page);
    page["any_lifts"] = !plan.analysis.lifts.empty();
    draw_rooflines(plan, page);
    draw_alternatives(plan, alternatives, page);
    draw_waterfall(plan, page);
    draw_blocks(plan, page);
    draw_resources(plan, page);
    for (auto& term : page["energy"].at("terms").as_array())
      term.as_object()["microjoules"] =
          term.at("count").to_number<double>() * term.at("picojoules_each").to_number<double>() * 1e-6;
  }
  return fill(report_text("page"), page);
}

}  // namespace millrace::compiler::report
