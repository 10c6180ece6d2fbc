#include <algorithm>
#include <cmath>

#include "compiler/report/energy.hpp"
#include "compiler/report/figures.hpp"
#include "compiler/report/html_parts.hpp"
#include "kernels/program/packing.hpp"

namespace millrace::compiler::report {
namespace {

constexpr double kWide = 1000;  // of a bar's own coordinates

std::string coordinate(double value) {
  return fixed(std::clamp(value, 0.0, kWide), 1);
}

void open_bar(Markup& page, const char* look, double height) {
  page.open("svg", {{"class", std::string("bar ") + look},
                    {"viewBox", "0 0 1000 " + fixed(height, 0)},
                    {"preserveAspectRatio", "none"},
                    {"aria-hidden", "true"}});
}

void rect(Markup& page, const char* look, double x, double y, double width, double height) {
  page.leaf("rect", {{"class", look},
                     {"x", coordinate(x)},
                     {"y", fixed(y, 1)},
                     {"width", coordinate(width)},
                     {"height", fixed(height, 1)}});
}

void grid_line(Markup& page, double x, double height) {
  page.leaf("line", {{"class", "grid"},
                     {"x1", coordinate(x)},
                     {"x2", coordinate(x)},
                     {"y1", "0"},
                     {"y2", fixed(height, 0)}});
}

void figure(Markup& page, const std::string& name, const std::string& value) {
  page.open("span").text(name + " ").put("b", value).close().text(" ");
}

/// "name" in the first column, with smaller words below it.
void what(Markup& page, const std::string& name, const std::string& words) {
  page.open("div", {{"class", "what"}}).put("bdi", name);
  if (!words.empty()) page.put("small", words);
  page.close();
}

/// Marks at shares of the width; the outermost stay inside.
void axis(Markup& page, const std::vector<std::pair<double, std::string>>& marks) {
  page.open("li", {{"aria-hidden", "true"}}).open("div", {{"class", "axis"}});
  for (const auto& [share, words] : marks)
    page.put("span",
             {{"class", share < 0.02   ? "first"
                        : share > 0.98 ? "last"
                                       : "mark"},
              {"style", "left:" + fixed(share * 100, 2) + "%"}},
             words);
  page.close().close();
}

/// Powers of ten around what is to be shown.
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
  int step() const { return std::max(1, (high - low + 3) / 4); }  // at most five marks
};

}  // namespace

void add_roofline(Markup& page, const Plan& plan) {
  open_section(page, "roofline", "What limits it",
               "Iterations (frames) a second of each partition, and how many it could reach if only its "
               "multipliers, its memory or its cables held it back. Logarithmic.");
  page.put("p", plan.analysis.bottleneck + ".");
  if (!plan.analysis.lifts.empty()) {
    page.open("ul", {{"class", "limits"}});
    for (const auto& lift : plan.analysis.lifts) page.put("li", lift);
    page.close();
  }
  page.open("ul", {{"class", "keys"}});
  add_key(page, "a", "reached");
  add_key(page, "b", "multipliers: every DSP slice left to it, two a clock, for what LUTs do not multiply");
  add_key(page, "c", "memory");
  add_key(page, "d", "cables");
  page.close();
  std::vector<double> all;
  for (const auto& place : plan.analysis.places)
    for (const double v :
         {place.roofline.attained, place.roofline.compute, place.roofline.memory, place.roofline.links})
      all.push_back(v);
  const Decades decades(all);
  page.open("ul", {{"class", "rows"}});
  for (std::uint32_t p = 0; p < plan.analysis.places.size(); ++p) {
    const auto& roof = plan.analysis.places[p].roofline;
    page.open("li");
    what(page, card_of(plan, p).name, "part" + std::to_string(p));
    open_bar(page, "", 20);
    rect(page, "track", 0, 0, kWide, 20);
    rect(page, "a", 0, 4, decades.share(roof.attained) * kWide, 12);
    for (int d = decades.low; d <= decades.high; ++d)
      grid_line(page, decades.share(std::pow(10, d)) * kWide, 20);
    for (const auto& [look, value] : {std::pair{"b", roof.compute}, {"c", roof.memory}, {"d", roof.links}})
      if (std::isfinite(value))
        rect(page, look, std::min(kWide - 6, decades.share(value) * kWide - 3), 0, 6, 20);
    page.close().open("div", {{"class", "figures"}});
    figure(page, "reaches", short_number(roof.attained));
    figure(page, "multipliers", short_number(roof.compute));
    figure(page, "memory", short_number(roof.memory));
    figure(page, "cables", short_number(roof.links));
    page.close().close();
  }
  std::vector<std::pair<double, std::string>> marks;
  for (int d = decades.low; d <= decades.high; d += decades.step()) {
    const double value = std::pow(10, d);
    const std::string text = value >= 1e9   ? with_commas(value / 1e9) + " G"
                             : value >= 1e6 ? with_commas(value / 1e6) + " M"
                             : value >= 1e3 ? with_commas(value / 1e3) + " k"
                             : value >= 1   ? with_commas(value)
                                            : fixed(value, -d);
    marks.emplace_back(decades.share(value), text);
  }
  axis(page, marks);
  page.close().close();
}

void add_bandwidth(Markup& page, const Plan& plan) {
  open_section(page, "bandwidth", "Bandwidth of each layer",
               "Bytes a second at the predicted rate: what a block reads and writes as streams, and weights "
               "it reads from the card's memory.");
  page.open("ul", {{"class", "keys"}});
  add_key(page, "a", "input");
  add_key(page, "b", "output");
  add_key(page, "c", "weights from memory");
  page.close().open("ul", {{"class", "rows"}});
  const auto place = places_of_blocks(plan);
  const auto sum = [&](const std::vector<std::uint32_t>& tensors) {
    double total = 0;
    for (const auto t : tensors) {
      const auto& tensor = plan.program().tensors[t];
      total += static_cast<double>(kernels::packed_bytes(tensor.type, tensor.elements()));
    }
    return total * plan.frames_per_second();
  };
  struct Row {
    std::uint32_t block;
    double flows[3];
  };
  std::vector<Row> rows;
  double most = 0;
  for (std::uint32_t i = 0; i < plan.problem().operations.size(); ++i) {
    const auto& operation = plan.problem().operations[i];
    if (operation.host) continue;
    rows.push_back(
        {i,
         {sum(operation.inputs), sum(operation.outputs),
          static_cast<double>(way_of(plan, i).amounts[explore::kMemoryBytes]) * plan.frames_per_second()}});
    for (const double v : rows.back().flows) most = std::max(most, v);
  }
  for (const auto& row : rows) {
    page.open("li");
    what(page, plan.program().blocks[row.block].name, card_of(plan, place[row.block]).name);
    open_bar(page, "triple", 24);
    constexpr const char* kLooks[] = {"a", "b", "c"};
    for (std::size_t k = 0; k < 3; ++k) {
      rect(page, "track", 0, static_cast<double>(k) * 8 + 1, kWide, 6);
      rect(page, kLooks[k], 0, static_cast<double>(k) * 8 + 1, most > 0 ? row.flows[k] / most * kWide : 0, 6);
    }
    page.close().open("div", {{"class", "figures"}});
    figure(page, "in", bytes(row.flows[0]) + "/s");
    figure(page, "out", bytes(row.flows[1]) + "/s");
    if (row.flows[2] > 0) figure(page, "weights", bytes(row.flows[2]) + "/s");
    page.close().close();
  }
  page.close().close();
}

void add_resources(Markup& page, const Plan& plan) {
  open_section(page, "resources", "What each card gives",
               "Of what the shell and the allowed utilisation leave. Predicted from what Yosys made of each "
               "module; a vendor's tools would need fewer LUTs and flip-flops.");
  page.open("div", {{"class", "regions"}});
  for (std::uint32_t p = 0; p < plan.analysis.places.size(); ++p)
    for (const auto& region : plan.analysis.places[p].regions) {
      page.open("div").open("h3").put("bdi", card_of(plan, p).name);
      page.text(", ").put("bdi", card_of(plan, p).device).text(", region ").put("bdi", region.name).close();
      if (region.used == explore::Amounts{}) {
        page.put("p", {{"class", "hint"}}, "Nothing of it is used.").close();
        continue;
      }
      page.open("ul", {{"class", "used"}});
      for (std::size_t k = 0; k < explore::kKinds; ++k) {
        const double used = static_cast<double>(region.used[k]),
                     available = static_cast<double>(region.available[k]);
        if (used == 0 && available == 0) continue;
        const double share = used / std::max(1.0, available);
        const bool memory = k == explore::kMemoryBytes;
        const std::string figures = memory ? bytes(used) + "/s of " + bytes(available) + "/s"
                                           : with_commas(used) + " of " + with_commas(available);
        page.open("li").open("div").put("span", explore::kind_name(k));
        page.put("span", figures + ", " + percent(share)).close();
        open_bar(page, "thin", 10);
        rect(page, "track", 0, 0, kWide, 10);
        rect(page, share > 1 ? "over" : "a", 0, 0, share * kWide, 10);
        page.close().close();
      }
      page.close().close();
    }
  page.close().close();
}

void add_latency(Markup& page, const Plan& plan) {
  double end = 0;
  for (const auto& work : plan.analysis.works) end = std::max(end, work.last);
  const bool between = std::any_of(plan.lowered->host.begin(), plan.lowered->host.end(),
                                   [](const auto& h) { return h.between; });
  open_section(page, "latency", "Where the time goes",
               "One frame, from its first beat into the first card: each block waits for the part of its "
               "input that it needs, then works until its last beat is out. Added up block by block: " +
                   duration(end, "µ") +
                   (plan.placed.played
                        ? "; played clock by clock, joints included: " + duration(plan.latency_seconds, "µ")
                        : "") +
                   (between ? ". What the host does between cards is waited for; what it does before and "
                              "after is not in it."
                            : ". The host's time is not in it."));
  page.open("ul", {{"class", "keys"}});
  add_key(page, "pale", "filling");
  add_key(page, "a", "giving its output");
  page.close().open("ul", {{"class", "rows"}});
  const auto place = places_of_blocks(plan);
  const double scale = end > 0 ? kWide / end : 0;
  for (const auto& work : plan.analysis.works) {
    page.open("li");
    what(page, plan.program().blocks[work.operation].name, card_of(plan, place[work.operation]).name);
    open_bar(page, "", 20);
    rect(page, "track", 0, 0, kWide, 20);
    rect(page, "pale", work.begin * scale, 4, (work.first - work.begin) * scale, 12);
    rect(page, "a", work.first * scale, 4, std::max(2.0, (work.last - work.first) * scale), 12);
    page.close().open("div", {{"class", "figures"}});
    figure(page, "from", duration(work.begin, "µ"));
    figure(page, "first out", duration(work.first, "µ"));
    figure(page, "last out", duration(work.last, "µ"));
    page.close().close();
  }
  axis(page, {{0, "0"}, {0.5, duration(end / 2, "µ")}, {1, duration(end, "µ")}});
  page.close().close();
}

void add_energy(Markup& page, const Plan& plan) {
  const Energy energy = assumed_energy(plan);
  const auto joules = [](double value) {
    return value >= 1      ? fixed(value, 2) + " J"
           : value >= 1e-3 ? fixed(value * 1e3, 2) + " mJ"
                           : fixed(value * 1e6, 2) + " µJ";
  };
  open_section(page, "energy", "Energy per frame, assumed",
               "Counted operations and bytes times published figures. Nothing of it was measured; take it "
               "for an order of magnitude.");
  page.open("table", {{"class", "stack"}}).open("thead").open("tr");
  for (const char* head : {"What", "A frame", "Each", "Together"}) page.put("th", head);
  page.put("th", {{"class", "text"}}, "Assumed from").close().close().open("tbody");
  for (const auto& term : energy.terms) {
    page.open("tr").put("th", {{"scope", "row"}}, term.what);
    page.put("td", {{"data-label", "A frame"}}, with_commas(term.count));
    page.put("td", {{"data-label", "Each"}}, fixed(term.picojoules, 1) + " pJ");
    page.put("td", {{"data-label", "Together"}}, joules(term.joules()));
    page.put("td", {{"data-label", "Assumed from"}, {"class", "text long"}}, term.from).close();
  }
  page.open("tr").put("th", {{"scope", "row"}}, "Sum, assumed");
  page.put("td", {{"data-label", "A frame"}}, "").put("td", {{"data-label", "Each"}}, "");
  page.put("td", {{"data-label", "Together"}}, joules(energy.joules));
  page.put("td", {{"data-label", "Assumed from"}, {"class", "text long"}}, "").close().close().close();
  page.put("p", {{"class", "hint"}},
           "What a card takes whether it works or not is not in it: each watt of that adds " +
               joules(energy.joules_per_idle_watt) +
               " a frame at the predicted rate. Nor are the host and PCIe.");
  page.close();
}

}  // namespace millrace::compiler::report
