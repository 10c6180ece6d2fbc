// Computes the coordinates of the SVG drawings on the page.
#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <map>

#include "compiler/report/figures.hpp"
#include "compiler/report/parts.hpp"
#include "kernels/program/packing.hpp"

namespace millrace::compiler::report {
namespace {

namespace json = boost::json;

constexpr double kBoxHeight = 76, kRowGap = 54, kMargin = 8, kBow = 30;

struct Node {
  bool host = false;
  std::string name;
  std::vector<std::string> lines;
  std::int64_t place = -1;  // the card's position in the pipeline; -1 on the host
};

struct Edge {
  std::size_t from = 0, to = 0;  // nodes
  std::uint64_t bytes = 0;
  double share = -1;  // used part of the bandwidth of the cables between both nodes; negative: no cable
};

/// The partitions of a plan (on cards and on the host) in the order in which a frame passes them. If a card reads the
/// model's input, the host is also the first node. If a card makes the model's output, the host is also the last node.
struct Pipeline {
  std::vector<Node> nodes;
  std::vector<Edge> edges;
};

/// Returns the tensors that a partition reads, each once.
std::vector<std::uint32_t> tensors_into(const kernels::Program& program, const explore::Part& part) {
  std::vector<std::uint32_t> all;
  for (const auto b : part.operations)
    all.insert(all.end(), program.blocks[b].inputs.begin(), program.blocks[b].inputs.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

Node node_of(const Plan& plan, const explore::Part& part) {
  const auto count = part.operations.size();
  const std::string blocks = std::to_string(count) + (count == 1 ? " block" : " blocks");
  if (part.host) {
    const auto& first = plan.placed.program.blocks[part.operations.front()].name;
    return {true, "host", {blocks + ": " + first + (count > 1 ? ", …" : "")}};
  }
  const auto& card = card_of(plan, part.place);
  Node made{false, card.name, {card.device + ", " + blocks}, part.place};
  if (plan.unpredicted().empty())
    made.lines.push_back(short_number(plan.analysis.places[part.place].roofline.attained) + " frames/s");
  return made;
}

double cable_share(const Plan& plan, const Node& from, const Node& to) {
  if (!from.host && !to.host)
    for (const auto& cable : plan.analysis.cables)
      if (cable.from == from.place && cable.to == to.place) return cable.share;
  return -1;
}

Pipeline pipeline_of(const Plan& plan) {
  const auto& program = plan.placed.program;
  const auto& parts = plan.placed.solution.parts;
  const auto size = [&](std::uint32_t t) {
    return kernels::packed_bytes(program.tensors[t].type, program.tensors[t].elements());
  };
  Pipeline out;
  std::map<std::uint32_t, std::size_t> maker;                         // tensor -> node that makes it
  std::map<std::pair<std::size_t, std::size_t>, std::uint64_t> sent;  // (from, to) nodes -> bytes of a frame
  const auto reads_input = [&](const explore::Part& part) {
    const auto read = tensors_into(program, part);
    return !part.host && std::any_of(program.inputs.begin(), program.inputs.end(),
                                     [&](auto t) { return std::binary_search(read.begin(), read.end(), t); });
  };
  if (std::any_of(parts.begin(), parts.end(), reads_input)) {
    out.nodes.push_back({true, "host", {"the model's input"}});
    for (const auto t : program.inputs) maker[t] = 0;
  }
  for (const auto& part : parts) {
    const std::size_t at = out.nodes.size();
    out.nodes.push_back(node_of(plan, part));
    for (const auto t : tensors_into(program, part))
      if (const auto from = maker.find(t); from != maker.end() && from->second != at)
        sent[{from->second, at}] += size(t);
    for (const auto b : part.operations)
      for (const auto t : program.blocks[b].outputs) maker[t] = at;
  }
  const std::size_t end = out.nodes.size();
  bool leaves_card = false;
  for (const auto t : program.outputs)
    if (const auto from = maker.find(t); from != maker.end() && !out.nodes[from->second].host) {
      sent[{from->second, end}] += size(t);
      leaves_card = true;
    }
  if (leaves_card) out.nodes.push_back({true, "host", {"the model's output"}});
  for (const auto& [ends, bytes] : sent)
    out.edges.push_back(
        {ends.first, ends.second, bytes, cable_share(plan, out.nodes[ends.first], out.nodes[ends.second])});
  return out;
}

struct Point {
  double x = 0, y = 0;
};

std::string at(Point p) {
  return fixed(p.x, 1) + " " + fixed(p.y, 1);
}

/// A drawing of a pipeline in rows of `columns` nodes. Every second row runs from right to left, so that successive
/// nodes are always next to each other or one above the other.
class Sheet {
 public:
  Sheet(const Pipeline& pipeline, std::size_t columns)
      : pipeline_(pipeline), columns_(std::min(columns, pipeline.nodes.size())) {
    width_ = columns_ == 1 ? 250 : 188;
    gap_ = columns_ == 1 ? 0 : 84;
  }

  json::object draw(const char* look) const {
    const auto rows = static_cast<double>((pipeline_.nodes.size() + columns_ - 1) / columns_);
    const double width = 2 * kMargin + static_cast<double>(columns_) * (width_ + gap_) - gap_ +
                         (columns_ == 1 ? kBow + 12 : 0);
    const double height = 2 * kMargin + kBow + rows * (kBoxHeight + kRowGap) - kRowGap;
    json::array nodes, edges;
    for (const auto& one : pipeline_.edges) edges.push_back(edge(one));
    for (std::size_t i = 0; i < pipeline_.nodes.size(); ++i) nodes.push_back(node(i));
    return {{"look", look},
            {"width", fixed(width, 0)},
            {"height", fixed(height, 0)},
            {"edges", std::move(edges)},
            {"nodes", std::move(nodes)}};
  }

 private:
  std::size_t row(std::size_t i) const { return i / columns_; }
  Point corner(std::size_t i) const {
    const std::size_t c = i % columns_, column = row(i) % 2 == 0 ? c : columns_ - 1 - c;
    return {kMargin + static_cast<double>(column) * (width_ + gap_),
            kMargin + kBow + static_cast<double>(row(i)) * (kBoxHeight + kRowGap)};
  }

  json::object node(std::size_t i) const {
    const Node& node = pipeline_.nodes[i];
    const Point p = corner(i);
    json::array texts;
    const auto add = [&](const char* look, const std::string& text, double letter) {
      texts.push_back(json::object{{"x", fixed(p.x + 14, 0)},
                                   {"y", fixed(p.y + 26 + 20 * static_cast<double>(texts.size()), 0)},
                                   {"look", look},
                                   {"text", shortened(text, static_cast<std::size_t>(width_ / letter))}});
    };
    add("name", node.name, 11);
    for (const auto& line : node.lines) add("soft", line, 8);
    return {{"kind", node.host ? "host" : "card"},
            {"name", node.name},
            {"x", fixed(p.x, 0)},
            {"y", fixed(p.y, 0)},
            {"width", fixed(width_, 0)},
            {"height", fixed(kBoxHeight, 0)},
            {"texts", std::move(texts)}};
  }

  json::object edge(const Edge& edge) const {
    const Point a = corner(edge.from), b = corner(edge.to);
    const double w = width_, h = kBoxHeight;
    const std::string size = bytes(static_cast<double>(edge.bytes));
    const std::string used = edge.share < 0 ? "" : percent(edge.share);
    const bool next = edge.to == edge.from + 1, same_row = row(edge.from) == row(edge.to);
    std::string path;
    json::array labels;
    const auto add = [&](double x, double y, const char* anchor, const std::string& text) {
      labels.push_back(
          json::object{{"x", fixed(x, 0)}, {"y", fixed(y, 0)}, {"anchor", anchor}, {"text", text}});
    };
    const auto curve = [&](Point from, Point leave, Point arrive, Point to) {
      return "M" + at(from) + "C" + at(leave) + " " + at(arrive) + " " + at(to);
    };
    if (next && same_row) {
      const bool right = b.x > a.x;
      const double from = right ? a.x + w : a.x, to = right ? b.x : b.x + w, y = a.y + h / 2;
      path = "M" + at({from, y}) + "L" + at({to, y});
      add((from + to) / 2, y - 8, "middle", size);
      if (!used.empty()) add((from + to) / 2, y + 19, "middle", used);
    } else if (next) {
      const double x = a.x + w / 2, y = a.y + h;
      path = "M" + at({x, y}) + "L" + at({x, b.y});
      add(x + 10, y + kRowGap / 2 + 4, "start", size + (used.empty() ? "" : ", " + used));
    } else if (columns_ == 1) {
      path = curve({a.x + w, a.y + h / 2}, {a.x + w + kBow, a.y + h / 2}, {a.x + w + kBow, b.y + h / 2},
                   {b.x + w, b.y + h / 2});
    } else if (same_row) {
      const double x0 = a.x + w / 2, x1 = b.x + w / 2;
      path = curve({x0, a.y}, {x0, a.y - kBow}, {x1, b.y - kBow}, {x1, b.y});
    } else {
      const double x0 = a.x + w * 0.3, x1 = b.x + w * 0.3;
      path = curve({x0, a.y + h}, {x0, a.y + h + kRowGap}, {x1, b.y - kRowGap}, {x1, b.y});
    }
    const auto& nodes = pipeline_.nodes;
    return {{"path", path},
            {"kind", edge.share < 0 ? "bus" : "cable"},
            {"title", nodes[edge.from].name + " to " + nodes[edge.to].name + ": " +
                          with_commas(static_cast<double>(edge.bytes)) + " bytes a frame" +
                          (used.empty() ? "" : ", " + used + " of the cable")},
            {"labels", std::move(labels)}};
  }

  const Pipeline& pipeline_;
  std::size_t columns_;
  double width_ = 0, gap_ = 0;
};

}  // namespace

json::array pipeline_drawings(const Plan& plan) {
  const Pipeline pipeline = pipeline_of(plan);
  return {Sheet(pipeline, 1).draw("narrow"), Sheet(pipeline, 3).draw("middle"),
          Sheet(pipeline, 4).draw("wide")};
}

// Charts of rate or latency against the number of cards.

namespace {

// The sizes of a chart. They must equal the sizes in templates/page.html.in.
constexpr double kWidth = 360, kHeight = 230, kLeft = 62, kRight = 14, kTop = 12, kBottom = 38;

/// The logarithmic vertical axis of a chart.
struct Axis {
  double low = 1, high = 10;

  double y(double value) const {
    const double share = (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
    return kHeight - kBottom - share * (kHeight - kBottom - kTop);
  }

  /// Returns the axis values to mark: powers of ten if three are in range, else 1, 2, 5, 10, …, else round steps.
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

/// For each number of cards, returns the best point if it beats the points of all smaller numbers of cards.
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
