#include <algorithm>
#include <cmath>
#include <functional>

#include "compiler/report/figures.hpp"
#include "compiler/report/html_parts.hpp"

namespace millrace::compiler::report {
namespace {

constexpr double kWidth = 360, kHeight = 230, kLeft = 62, kRight = 14, kTop = 12, kBottom = 38;

struct Scale {
  double low = 1, high = 10;  // logarithmic
  explicit Scale(const std::vector<double>& values) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    low = *least / 1.3;
    high = *most * 1.3;
  }
  double y(double value) const {
    const double share = (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
    return kHeight - kBottom - share * (kHeight - kBottom - kTop);
  }
  /// Powers of ten where these are three or more; else 1, 2, 5, 10, …; else round steps.
  std::vector<double> marks() const {
    std::vector<double> fine, coarse;
    for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= 10)
      for (const double digit : {1.0, 2.0, 5.0}) {
        if (power * digit < low || power * digit > high) continue;
        fine.push_back(power * digit);
        if (digit == 1) coarse.push_back(power);
      }
    if (coarse.size() >= 3) return coarse;
    if (fine.size() >= 3) return fine;
    fine.clear();
    double step = std::pow(10, std::floor(std::log10(high - low)));
    while ((high - low) / step < 3) step /= 2;
    while ((high - low) / step > 6) step *= 2;
    for (double mark = std::ceil(low / step) * step; mark <= high; mark += step) fine.push_back(mark);
    return fine;
  }
};

struct Point {
  double cards = 0, value = 0;
};

/// One curve: points of all alternatives, a line through the best of each number of cards that beats all
/// smaller numbers, and this plan.
class Chart {
 public:
  Chart(Markup& page, std::vector<Point> points, Point chosen, bool more_is_better)
      : page_(page), points_(std::move(points)), chosen_(chosen), more_(more_is_better), scale_(values()) {
    for (const auto& p : points_) most_ = std::max(most_, p.cards);
    most_ = std::max(most_, chosen_.cards);
  }

  void draw(const char* caption, const std::function<std::string(double)>& label) {
    page_.open("figure").open("svg", {{"viewBox", "0 0 " + fixed(kWidth, 0) + " " + fixed(kHeight, 0)},
                                      {"role", "img"},
                                      {"aria-label", caption}});
    for (const double mark : scale_.marks()) {
      const double y = scale_.y(mark);
      page_.leaf("line", {{"class", "grid"},
                          {"x1", fixed(kLeft, 0)},
                          {"x2", fixed(kWidth - kRight, 0)},
                          {"y1", fixed(y, 1)},
                          {"y2", fixed(y, 1)}});
      text(kLeft - 6, y + 4, "end", label(mark));
    }
    const double every = std::max(1.0, std::ceil(most_ / 10));
    for (double n = 1; n <= most_; n += every) text(x(n), kHeight - kBottom + 18, "middle", fixed(n, 0));
    text((kLeft + kWidth - kRight) / 2, kHeight - 4, "middle", "cards");
    const auto best = front();
    std::string way;
    for (const auto& p : best)
      way += (way.empty() ? "M" : "L") + fixed(x(p.cards), 1) + " " + fixed(scale_.y(p.value), 1);
    if (best.size() > 1) page_.leaf("path", {{"class", "front"}, {"d", way}});
    for (const auto& p : points_) circle("other", p, 4, label);
    for (const auto& p : best) circle("best", p, 4, label);
    circle("chosen", chosen_, 8, label);
    page_.close().put("figcaption", caption).close();
  }

 private:
  std::vector<double> values() const {
    std::vector<double> out{chosen_.value};
    for (const auto& p : points_) out.push_back(p.value);
    return out;
  }
  double x(double cards) const {
    return most_ <= 1 ? (kLeft + kWidth - kRight) / 2
                      : kLeft + 14 + (cards - 1) / (most_ - 1) * (kWidth - kRight - kLeft - 28);
  }
  std::vector<Point> front() const {
    std::vector<Point> sorted = points_, out;
    std::sort(sorted.begin(), sorted.end(), [&](const Point& a, const Point& b) {
      return a.cards != b.cards ? a.cards < b.cards : more_ ? a.value > b.value : a.value < b.value;
    });
    for (const auto& p : sorted)
      if (out.empty() || (more_ ? p.value > out.back().value : p.value < out.back().value)) out.push_back(p);
    return out;
  }
  void text(double at, double y, const char* anchor, const std::string& words) {
    page_.put("text", {{"x", fixed(at, 1)}, {"y", fixed(y, 1)}, {"text-anchor", anchor}}, words);
  }
  void circle(const char* look, const Point& p, double radius,
              const std::function<std::string(double)>& label) {
    page_.open("circle", {{"class", look},
                          {"cx", fixed(x(p.cards), 1)},
                          {"cy", fixed(scale_.y(p.value), 1)},
                          {"r", fixed(radius, 0)}});
    page_.put("title", fixed(p.cards, 0) + (p.cards == 1 ? " card: " : " cards: ") + label(p.value)).close();
  }

  Markup& page_;
  std::vector<Point> points_;
  Point chosen_;
  bool more_;
  double most_ = 1;
  Scale scale_;
};

}  // namespace

void add_alternatives(Markup& page, const Plan& plan, const Alternatives& alternatives) {
  open_section(page, "alternatives", "The alternatives",
               "For each number of cards the best throughput, of one pipeline or of replicas, and the least "
               "latency, whatever the targets; filled points are better than any with fewer cards, the ring "
               "is this plan. Added up from blocks, not played.");
  if (!alternatives.left_out.empty()) page.put("p", "Alternatives: " + alternatives.left_out + ".");
  if (alternatives.found.empty()) {
    if (alternatives.left_out.empty()) page.put("p", "None were looked for.");
    page.close();
    return;
  }
  const double cards = static_cast<double>(plan.cards());
  std::vector<Point> rates, latencies;
  for (const auto& way : alternatives.found) {
    rates.push_back({static_cast<double>(way.cards), way.frames_per_second()});
    latencies.push_back({static_cast<double>(way.cards), way.latency_seconds});
  }
  page.open("div", {{"class", "charts"}});
  Chart(page, rates, {cards, static_cast<double>(plan.replicas()) / plan.solution.interval_seconds}, true)
      .draw("Frames a second against cards", [](double v) { return short_number(v); });
  Chart(page, latencies, {cards, plan.solution.latency_seconds}, false)
      .draw("Latency against cards", [](double v) { return duration(v, "µ"); });
  page.close();
  constexpr std::size_t kShown[] = {explore::kLut, explore::kFf, explore::kDsp, explore::kBram18,
                                    explore::kUram};
  page.open("table", {{"class", "stack wide"}}).open("thead").open("tr");
  for (const char* head : {"Cards, best for", "Frames/s", "Latency"}) page.put("th", head);
  for (const auto k : kShown) page.put("th", explore::kind_name(k));
  page.close().close().open("tbody");
  for (const auto& way : alternatives.found) {
    const bool chosen = way.cards == plan.cards() && way.replicas == plan.replicas() &&
                        way.interval_seconds == plan.solution.interval_seconds &&
                        way.latency_seconds == plan.solution.latency_seconds;
    page.open("tr", {{"class", chosen ? "chosen" : "other"}});
    page.put("th", {{"scope", "row"}},
             std::to_string(way.cards) +
                 (way.replicas > 1 ? " as " + std::to_string(way.replicas) + " replicas" : "") + ", " +
                 explore::objective_name(way.objective));
    page.put("td", {{"data-label", "Frames/s"}}, short_number(way.frames_per_second()));
    page.put("td", {{"data-label", "Latency"}}, duration(way.latency_seconds, "µ"));
    for (const auto k : kShown)
      page.put("td", {{"data-label", explore::kind_name(k)}}, with_commas(static_cast<double>(way.used[k])));
    page.close();
  }
  page.close().close().close();
}

}  // namespace millrace::compiler::report
