// Computes the coordinates of the chart of a frame's messages: a vertical line for the host and for each card, and an
// arrow for each message.
#include <algorithm>
#include <boost/json.hpp>
#include <map>

#include "compiler/report/communication.hpp"
#include "compiler/report/figures.hpp"
#include "compiler/report/parts.hpp"

namespace millrace::compiler::report {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostLines = 17;  // a wider chart would be hard to scroll
constexpr double kColumn = 168, kHead = 44, kRow = 52, kBox = 148, kBoxHeight = 28, kTop = 8;  // in pixels

/// The lines of the chart from left to right: the host, then the cards in the order in which messages first name them.
class Lines {
 public:
  explicit Lines(const std::vector<Message>& messages) {
    add("");
    for (const auto& message : messages) {
      add(message.from_card);
      add(message.to_card);
    }
  }
  std::size_t count() const { return names_.size(); }
  const std::vector<std::string>& names() const { return names_; }
  double x(const std::string& card) const {
    return kTop + kBox / 2 + kColumn * static_cast<double>(at_.at(card));
  }

 private:
  void add(const std::string& card) {
    if (at_.try_emplace(card, names_.size()).second) names_.push_back(card);
  }
  std::vector<std::string> names_;  // an empty name is the host
  std::map<std::string, std::size_t> at_;
};

std::string plural(std::uint64_t count, const std::string& what) {
  return with_commas(static_cast<double>(count)) + " " + what + (count == 1 ? "" : "s");
}

/// Returns what part of the cables' capacity the message uses, or an empty text if the message uses no cable.
std::string used_share(const Communication& communication, const Message& message) {
  for (const auto& load : communication.loads)
    if (message.between_cards() && load.from == message.from_card && load.to == message.to_card &&
        load.wire_bytes > 0)
      return percent(load.share() * static_cast<double>(message.wire_bytes) /
                     static_cast<double>(load.wire_bytes)) +
             " of the cable";
  return {};
}

json::object arrow(const Communication& communication, const Message& message, const Lines& lines, double y) {
  const double from = lines.x(message.from_card), to = lines.x(message.to_card);
  const std::string used = used_share(communication, message);
  std::string size = bytes(static_cast<double>(message.bytes));
  std::string title = message.from + " to " + message.to + ": " + plural(message.bytes, "byte") + " a frame";
  if (message.between_cards()) {
    size += ", " + plural(message.packets, "packet");
    title += " in " + plural(message.packets, "packet") + ", " + plural(message.credits, "credit") + ", " +
             plural(message.buffer_bytes(), "byte") + " of buffer, " + used;
  }
  return {{"kind", message.between_cards() ? "cable" : "bus"},
          {"path", "M" + fixed(from, 1) + " " + fixed(y, 1) + "L" + fixed(to + (to > from ? -2 : 2), 1) +
                       " " + fixed(y, 1)},
          {"title", title},
          {"x", fixed((from + to) / 2, 1)},
          {"size_y", fixed(y - 7, 1)},
          {"size", size},
          {"used_y", fixed(y + 16, 1)},
          {"used", used}};
}

}  // namespace

json::value message_chart(const Communication& communication) {
  std::vector<Message> shown;
  for (const auto& message : communication.messages)
    if (message.from_card != message.to_card) shown.push_back(message);
  const Lines lines(shown);
  if (shown.empty() || lines.count() > kMostLines) return nullptr;
  json::array heads, arrows;
  for (const auto& message : shown)
    arrows.push_back(arrow(communication, message, lines,
                           kTop + kHead + kRow * (static_cast<double>(arrows.size()) + 0.6)));
  const double bottom = kTop + kHead + kRow * (static_cast<double>(shown.size()) + 0.2);
  for (const auto& card : lines.names()) {
    const double x = lines.x(card);
    heads.push_back(json::object{{"kind", card.empty() ? "host" : "card"},
                                 {"name", shortened(card.empty() ? "host" : card, 13)},
                                 {"x", fixed(x, 1)},
                                 {"box_x", fixed(x - kBox / 2, 1)}});
  }
  return json::object{
      {"width", fixed(2 * kTop + kBox + kColumn * (static_cast<double>(lines.count()) - 1), 0)},
      {"height", fixed(bottom + kTop, 0)},
      {"top", fixed(kTop, 0)},
      {"box_width", fixed(kBox, 0)},
      {"box_height", fixed(kBoxHeight, 0)},
      {"text_y", fixed(kTop + 19, 0)},
      {"line_y", fixed(kTop + kBoxHeight, 0)},
      {"bottom", fixed(bottom, 0)},
      {"heads", std::move(heads)},
      {"arrows", std::move(arrows)}};
}

}  // namespace millrace::compiler::report
