#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "compiler/report/drawings.hpp"
#include "compiler/report/figures.hpp"

namespace millrace::compiler::report {
namespace {

namespace json = boost::json;

// As in templates/page.html.in.
constexpr double kWidth = 360, kHeight = 230, kLeft = 62, kRight = 14, kTop = 12, kBottom = 38;

/// A logarithmic vertical axis.
struct Axis {
  double low = 1, high = 10;

  double y(double value) const {
    const double share = (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
    return kHeight - kBottom - share * (kHeight - kBottom - kTop);
  }

  /// Powers of ten if there are three or more; else 1, 2, 5, 10, …; else round steps.
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

double x_of(double cards, double most) {
  return most <= 1 ? (kLeft + kWidth - kRight) / 2
                   : kLeft + 14 + (cards - 1) / (most - 1) * (kWidth - kRight - kLeft - 28);
}

/// The best point of each number of cards that beats all smaller numbers.
std::vector<ChartPoint> front(std::vector<ChartPoint> points, bool more_is_better) {
  const auto better = [&](double a, double b) { return more_is_better ? a > b : a < b; };
  std::sort(points.begin(), points.end(), [&](const ChartPoint& a, const ChartPoint& b) {
    return a.cards != b.cards ? a.cards < b.cards : better(a.value, b.value);
  });
  std::vector<ChartPoint> out;
  for (const auto& p : points)
    if (out.empty() || better(p.value, out.back().value)) out.push_back(p);
  return out;
}

}  // namespace

json::object chart(const char* caption, const std::vector<ChartPoint>& points, ChartPoint chosen,
                   bool more_is_better, const std::function<std::string(double)>& label) {
  double most = chosen.cards, low = chosen.value, high = chosen.value;
  for (const auto& p : points) {
    most = std::max(most, p.cards);
    low = std::min(low, p.value);
    high = std::max(high, p.value);
  }
  const Axis axis{low / 1.3, high * 1.3};
  json::array marks, ticks, circles;
  for (const double mark : axis.marks()) {
    const double y = axis.y(mark);
    marks.push_back(json::object{{"y", fixed(y, 1)}, {"text_y", fixed(y + 4, 1)}, {"text", label(mark)}});
  }
  for (double n = 1; n <= most; n += std::max(1.0, std::ceil(most / 10)))
    ticks.push_back(json::object{{"x", fixed(x_of(n, most), 1)}, {"text", fixed(n, 0)}});
  const auto add_circle = [&](const char* look, const ChartPoint& p, int radius) {
    circles.push_back(json::object{
        {"look", look},
        {"x", fixed(x_of(p.cards, most), 1)},
        {"y", fixed(axis.y(p.value), 1)},
        {"radius", radius},
        {"title", fixed(p.cards, 0) + (p.cards == 1 ? " card: " : " cards: ") + label(p.value)}});
  };
  const auto best = front(points, more_is_better);
  std::string path;
  for (const auto& p : best)
    path += (path.empty() ? "M" : "L") + fixed(x_of(p.cards, most), 1) + " " + fixed(axis.y(p.value), 1);
  for (const auto& p : points) add_circle("other", p, 4);
  for (const auto& p : best) add_circle("best", p, 4);
  add_circle("chosen", chosen, 8);
  return {{"caption", caption},
          {"marks", std::move(marks)},
          {"ticks", std::move(ticks)},
          {"front", best.size() > 1 ? path : std::string()},
          {"points", std::move(circles)}};
}

}  // namespace millrace::compiler::report
