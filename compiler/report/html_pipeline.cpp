#include <algorithm>
#include <map>

#include "compiler/report/figures.hpp"
#include "compiler/report/html_parts.hpp"
#include "kernels/program/packing.hpp"

namespace millrace::compiler::report {
namespace {

constexpr double kBoxHeight = 76, kRowGap = 54, kMargin = 8, kBow = 30;

struct Node {
  bool host = false;
  std::string name;
  std::vector<std::string> lines;
};

struct Edge {
  std::size_t from = 0, to = 0;
  std::uint64_t bytes = 0;
  double share = -1;  // of the cables; below 0 where there is none
};

/// What there is to draw: parts in their order, with the host before and after where none is a part of it.
class Drawing {
 public:
  explicit Drawing(const Plan& plan) : plan_(plan) {
    const auto& parts = plan.placed.solution.parts;
    std::map<std::uint32_t, std::size_t> maker;  // tensor -> node
    std::map<std::pair<std::size_t, std::size_t>, std::uint64_t> sent;
    const bool before = std::any_of(plan.placed.program.inputs.begin(), plan.placed.program.inputs.end(),
                                    [&](auto t) { return reader_is_card(t); });
    if (before) nodes_.push_back({true, "host", {"the model's input"}});
    for (const auto t : plan.placed.program.inputs)
      if (before) maker[t] = 0;
    for (const auto& part : parts) {
      const std::size_t at = nodes_.size();
      nodes_.push_back(node(part));
      for (const auto t : tensors_into(part))
        if (const auto from = maker.find(t); from != maker.end() && from->second != at)
          sent[{from->second, at}] += size(t);
      for (const auto b : part.operations)
        for (const auto t : plan.placed.program.blocks[b].outputs) maker[t] = at;
    }
    std::uint64_t last_bytes = 0;
    std::map<std::size_t, std::uint64_t> out;
    for (const auto t : plan.placed.program.outputs)
      if (const auto from = maker.find(t); from != maker.end() && !nodes_[from->second].host) {
        out[from->second] += size(t);
        last_bytes += size(t);
      }
    if (last_bytes > 0) {
      for (const auto& [from, bytes] : out) sent[{from, nodes_.size()}] += bytes;
      nodes_.push_back({true, "host", {"the model's output"}});
    }
    for (const auto& [ends, bytes] : sent)
      edges_.push_back({ends.first, ends.second, bytes, share(ends.first, ends.second)});
  }

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<Edge>& edges() const { return edges_; }

 private:
  std::uint64_t size(std::uint32_t tensor) const {
    const auto& t = plan_.placed.program.tensors[tensor];
    return kernels::packed_bytes(t.type, t.elements());
  }

  bool reader_is_card(std::uint32_t tensor) const {
    for (const auto& part : plan_.placed.solution.parts)
      if (!part.host)
        for (const auto t : tensors_into(part))
          if (t == tensor) return true;
    return false;
  }

  /// Each once.
  std::vector<std::uint32_t> tensors_into(const explore::Part& part) const {
    std::vector<std::uint32_t> all;
    for (const auto b : part.operations)
      all.insert(all.end(), plan_.placed.program.blocks[b].inputs.begin(),
                 plan_.placed.program.blocks[b].inputs.end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  Node node(const explore::Part& part) {
    places_.resize(nodes_.size() + 1, -1);
    const auto count = part.operations.size();
    const std::string blocks = std::to_string(count) + (count == 1 ? " block" : " blocks");
    if (part.host) {
      const auto& first = plan_.placed.program.blocks[part.operations.front()].name;
      return {true, "host", {blocks + ": " + first + (count > 1 ? ", …" : "")}};
    }
    places_.back() = part.place;
    const auto& card = plan_.problem().cards[plan_.placed.solution.card[part.place]];
    Node made{false, card.name, {card.device + ", " + blocks}};
    if (plan_.unpredicted().empty())
      made.lines.push_back(short_number(plan_.analysis.places[part.place].roofline.attained) + " frames/s");
    return made;
  }

  double share(std::size_t from, std::size_t to) const {
    const auto place = [&](std::size_t n) { return n < places_.size() ? places_[n] : -1; };
    if (place(from) >= 0 && place(to) >= 0)
      for (const auto& cable : plan_.analysis.cables)
        if (cable.from == place(from) && cable.to == place(to)) return cable.share;
    return -1;
  }

  const Plan& plan_;
  std::vector<Node> nodes_;
  std::vector<std::int64_t> places_;  // of nodes; -1 on the host
  std::vector<Edge> edges_;
};

/// Rows run to and fro, so that what follows is always beside or below.
class Sheet {
 public:
  Sheet(Markup& page, const Drawing& drawing, std::size_t columns)
      : page_(page), drawing_(drawing), columns_(std::min(columns, drawing.nodes().size())) {
    width_ = columns_ == 1 ? 250 : 188;
    gap_ = columns_ == 1 ? 0 : 84;
  }

  void draw(const char* look) {
    const std::size_t rows = (drawing_.nodes().size() + columns_ - 1) / columns_;
    const double wide = 2 * kMargin + static_cast<double>(columns_) * (width_ + gap_) - gap_ +
                        (columns_ == 1 ? kBow + 12 : 0);
    const double high = 2 * kMargin + kBow + static_cast<double>(rows) * (kBoxHeight + kRowGap) - kRowGap;
    page_.open("svg", {{"class", std::string("pipeline ") + look},
                       {"viewBox", "0 0 " + fixed(wide, 0) + " " + fixed(high, 0)},
                       {"width", fixed(wide, 0)},
                       {"height", fixed(high, 0)},
                       {"role", "img"},
                       {"aria-label", "Cards and host in the order in which a frame passes them"}});
    page_.open("defs").open("marker", {{"id", std::string("tip-") + look},
                                       {"viewBox", "0 0 8 8"},
                                       {"refX", "7"},
                                       {"refY", "4"},
                                       {"markerWidth", "7"},
                                       {"markerHeight", "7"},
                                       {"orient", "auto-start-reverse"}});
    page_.leaf("path", {{"d", "M0 0L8 4L0 8z"}, {"class", "tip"}}).close().close();
    tip_ = std::string("url(#tip-") + look + ")";
    for (const auto& edge : drawing_.edges()) draw(edge);
    for (std::size_t i = 0; i < drawing_.nodes().size(); ++i) draw(i);
    page_.close();
  }

 private:
  struct Point {
    double x = 0, y = 0;
  };
  std::size_t row(std::size_t i) const { return i / columns_; }
  std::size_t column(std::size_t i) const {
    const std::size_t c = i % columns_;
    return row(i) % 2 == 0 ? c : columns_ - 1 - c;
  }
  Point corner(std::size_t i) const {
    return {kMargin + static_cast<double>(column(i)) * (width_ + gap_),
            kMargin + kBow + static_cast<double>(row(i)) * (kBoxHeight + kRowGap)};
  }

  void draw(std::size_t i) {
    const Node& node = drawing_.nodes()[i];
    const Point at = corner(i);
    page_.open("g", {{"class", node.host ? "host" : "card"}});
    page_.put("title", node.name);
    page_.leaf("rect", {{"x", fixed(at.x, 0)},
                        {"y", fixed(at.y, 0)},
                        {"width", fixed(width_, 0)},
                        {"height", fixed(kBoxHeight, 0)},
                        {"rx", "8"}});
    double y = at.y + 26;
    line(at.x + 14, y, "name", shortened(node.name, static_cast<std::size_t>(width_ / 11)), "start");
    for (const auto& text : node.lines)
      line(at.x + 14, y += 20, "soft", shortened(text, static_cast<std::size_t>(width_ / 8)), "start");
    page_.close();
  }

  void line(double x, double y, const char* look, const std::string& text, const char* anchor) {
    page_.put("text", {{"x", fixed(x, 0)}, {"y", fixed(y, 0)}, {"class", look}, {"text-anchor", anchor}},
              text);
  }

  void draw(const Edge& edge) {
    const Point a = corner(edge.from), b = corner(edge.to);
    const double w = width_, h = kBoxHeight;
    const std::string size = bytes(static_cast<double>(edge.bytes));
    const std::string used = edge.share < 0 ? "" : percent(edge.share);
    const bool follows = edge.to == edge.from + 1;
    if (follows && row(edge.from) == row(edge.to)) {
      const bool right = b.x > a.x;
      const double y = a.y + h / 2;
      path(edge, "M" + at({right ? a.x + w : a.x, y}) + "L" + at({right ? b.x : b.x + w, y}));
      const double middle = ((right ? a.x + w : b.x + w) + (right ? b.x : a.x)) / 2;
      line(middle, y - 8, "label", size, "middle");
      if (!used.empty()) line(middle, y + 19, "label", used, "middle");
    } else if (follows) {
      const double x = a.x + w / 2, y = a.y + h;
      path(edge, "M" + at({x, y}) + "L" + at({x, b.y}));
      line(x + 10, y + kRowGap / 2 + 4, "label", size + (used.empty() ? "" : ", " + used), "start");
    } else if (columns_ == 1) {
      path(edge, "M" + at({a.x + w, a.y + h / 2}) + "C" + at({a.x + w + kBow, a.y + h / 2}) + " " +
                     at({a.x + w + kBow, b.y + h / 2}) + " " + at({b.x + w, b.y + h / 2}));
    } else if (row(edge.from) == row(edge.to)) {
      const double x0 = a.x + w / 2, x1 = b.x + w / 2;
      path(edge, "M" + at({x0, a.y}) + "C" + at({x0, a.y - kBow}) + " " + at({x1, b.y - kBow}) + " " +
                     at({x1, b.y}));
    } else {
      path(edge, "M" + at({a.x + w * 0.3, a.y + h}) + "C" + at({a.x + w * 0.3, a.y + h + kRowGap}) + " " +
                     at({b.x + w * 0.3, b.y - kRowGap}) + " " + at({b.x + w * 0.3, b.y}));
    }
  }

  static std::string at(Point p) { return fixed(p.x, 1) + " " + fixed(p.y, 1); }

  void path(const Edge& edge, const std::string& way) {
    const auto& nodes = drawing_.nodes();
    page_.open("path", {{"d", way}, {"class", edge.share < 0 ? "bus" : "cable"}, {"marker-end", tip_}});
    page_.put("title", nodes[edge.from].name + " to " + nodes[edge.to].name + ": " +
                           with_commas(static_cast<double>(edge.bytes)) + " bytes a frame" +
                           (edge.share < 0 ? "" : ", " + percent(edge.share) + " of the cable"));
    page_.close();
  }

  Markup& page_;
  const Drawing& drawing_;
  std::size_t columns_;
  double width_ = 0, gap_ = 0;
  std::string tip_;
};

}  // namespace

void add_pipeline(Markup& page, const Plan& plan) {
  open_section(page, "pipeline", "The pipeline",
               "The way of a frame, bytes a frame at each hop and how much of the cable they take.");
  const Drawing drawing(plan);
  page.open("figure");
  Sheet(page, drawing, 1).draw("narrow");
  Sheet(page, drawing, 3).draw("middle");
  Sheet(page, drawing, 4).draw("wide");
  page.close();
  if (plan.unpredicted().empty()) add_cables(page, plan);
  page.close();
}

void add_cables(Markup& page, const Plan& plan) {
  if (plan.analysis.cables.empty()) return;
  page.open("table", {{"class", "stack"}}).open("thead").open("tr");
  for (const char* head : {"Cable", "Bytes a frame", "Rate", "Used"}) page.put("th", head);
  page.close().close().open("tbody");
  for (const auto& cable : plan.analysis.cables) {
    page.open("tr");
    page.put("th", {{"scope", "row"}},
             card_of(plan, cable.from).name + " to " + card_of(plan, cable.to).name);
    page.put("td", {{"data-label", "Bytes a frame"}}, with_commas(static_cast<double>(cable.bytes)));
    page.put("td", {{"data-label", "Rate"}}, bytes(cable.bytes_per_second) + "/s");
    page.put("td", {{"data-label", "Used"}}, percent(cable.share));
    page.close();
  }
  page.close().close();
}

}  // namespace millrace::compiler::report
