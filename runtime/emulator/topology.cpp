#include "runtime/emulator/topology.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <set>

#include "runtime/base/text.hpp"
#include "runtime/emulator/protocol.hpp"

namespace millrace::runtime::emulator {

namespace {

constexpr char kFirstRecord[] = "millrace-emulation 1";

Error wrong(std::string message) {
  return Error(ErrorCode::kInvalidInput, "MILLRACE_EMULATION: " + message);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const auto end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

template <class T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

/// Returns a number as text that parse_number() reads back without loss.
std::string as_text(double value) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  return {text, end};
}

constexpr std::size_t kMaxName = 64;
const std::string kAnyAddress = "127.0.0.1:0";
constexpr double kMaxPace = 1e6;

Result<Topology::Card> parse_card(const std::vector<std::string_view>& words) {
  Topology::Card card;
  if (words.size() != 4 || !is_name(words[1], kMaxName) || !is_name(words[2], kMaxName) ||
      !parse_number(words[3], card.memory_bytes))
    return wrong("a card record must be 'card NAME DEVICE MEMORY_BYTES'");
  card.name = words[1];
  card.device = words[2];
  if (card.memory_bytes == 0 || card.memory_bytes > kMaxMemoryBytes)
    return wrong("card '" + card.name + "' has " + std::to_string(card.memory_bytes) +
                 " bytes of memory; 1 to " + std::to_string(kMaxMemoryBytes) + " can be emulated");
  return card;
}

Result<Topology::End> parse_end(std::string_view text) {
  Topology::End end;
  const auto dot = text.find('.');
  if (dot == std::string_view::npos || !parse_number(text.substr(0, dot), end.card) ||
      !parse_number(text.substr(dot + 1), end.connector))
    return wrong("a cable's end must be CARD.CONNECTOR, two numbers, not '" + std::string(text) + "'");
  if (end.connector >= kMaxConnectors)
    return wrong("cable end '" + std::string(text) + "': connectors are 0 to " +
                 std::to_string(kMaxConnectors - 1));
  return end;
}

std::string to_text(const Topology::End& end) {
  return std::to_string(end.card) + "." + std::to_string(end.connector);
}

Status check_end(const Topology::End& end, const Topology& topology) {
  if (end.card < topology.cards.size()) return {};
  return wrong("cable end '" + to_text(end) + "' names no card");
}

/// Returns the cable whose number is the first word after the record's name. Cables are numbered from 0 in the order of
/// their own records.
Result<Topology::Cable*> cable_of(const std::vector<std::string_view>& words, Topology& topology) {
  std::size_t index = 0;
  if (words.size() < 2 || !parse_number(words[1], index) || index >= topology.cables.size())
    return wrong("record '" + std::string(words[0]) + "' names no cable");
  return &topology.cables[index];
}

Status parse_udp(const std::vector<std::string_view>& words, Topology& topology) {
  MILLRACE_ASSIGN(Topology::Cable* const cable, cable_of(words, topology));
  if (words.size() != 4) return wrong("a udp record must be 'udp CABLE ADDRESS ADDRESS'");
  cable->udp = true;
  cable->address_a = words[2];
  cable->address_b = words[3];
  return {};
}

Status parse_faults(const std::vector<std::string_view>& words, Topology& topology) {
  MILLRACE_ASSIGN(Topology::Cable* const cable, cable_of(words, topology));
  auto& f = cable->faults;
  std::uint32_t outage = 0;
  bool valid = words.size() == 9 && parse_number(words[8], outage) && outage <= 1;
  for (std::size_t i = 0; valid && i < std::size(plan::kFaults); ++i)
    valid = parse_number(words[2 + i], f.*plan::kFaults[i].second);
  if (!valid)
    return wrong(
        "a faults record must be 'faults CABLE LOSS DUPLICATE REORDER BIT_ERRORS LATENCY_NS GBITPS OUTAGE'");
  for (const auto& [key, fault] : plan::kFaults) {
    const bool no_limit = key == "gigabits_per_second" && f.*fault == 0;
    if (const std::string why = plan::wrong_fault(key, f.*fault); !no_limit && !why.empty())
      return wrong("faults of cable " + std::string(words[1]) + ": " + std::string(key) + ": " + why);
  }
  f.outage = outage == 1;
  return {};
}

constexpr std::string_view kManners = "manners=", kHardware = "manners=hardware", kKind = "manners=kind";

/// Sets the option manners. If it is "hardware", also sets the times of hardware.
Status parse_manners(std::string_view word, Topology::Options& options) {
  if (word != kHardware && word != kKind)
    return wrong("option '" + std::string(word) + "': manners is kind or hardware");
  options.manners = word == kHardware ? Manners::kHardware : Manners::kKind;
  if (word == kKind) return {};
  // Programming takes 1 to 3 s on an Alveo, an Aurora core holds its reset for 1.34 s and then finds its partner, and a
  // reset of the device takes some seconds.
  options.program_time = std::chrono::milliseconds(2000);
  options.cable_time = std::chrono::milliseconds(1400);
  options.reset_time = std::chrono::milliseconds(2000);
  return {};
}

Status parse_pace(std::string_view word, std::string_view number, Topology::Options& options) {
  if (!parse_number(number, options.pace) || !(options.pace >= 1) || options.pace > kMaxPace)
    return wrong("option '" + std::string(word) + "': pace is a number from 1 to 1000000");
  return {};
}

Status parse_swap(std::string_view ends, Topology::Options& options) {
  const auto slash = ends.find('/');
  MILLRACE_ASSIGN(const Topology::End from, parse_end(ends.substr(0, slash)));
  MILLRACE_ASSIGN(const Topology::End to,
                  parse_end(slash == std::string_view::npos ? std::string_view() : ends.substr(slash + 1)));
  options.swaps.emplace_back(from, to);
  return {};
}

Status parse_option(std::string_view word, Topology::Options& options) {
  using std::chrono::milliseconds, std::chrono::nanoseconds;
  const auto equals = word.find('=');
  const auto name = word.substr(0, equals);
  if (name == "pace" && equals != std::string_view::npos)
    return parse_pace(word, word.substr(equals + 1), options);
  if (name == "swap" && equals != std::string_view::npos) return parse_swap(word.substr(equals + 1), options);
  std::uint32_t value = 0;
  if (equals == std::string_view::npos || !parse_number(word.substr(equals + 1), value) || value > 600'000)
    return wrong("option '" + std::string(word) + "' is not NAME=NUMBER with a number up to 600000");
  const std::pair<std::string_view, milliseconds*> times[] = {{"program_time", &options.program_time},
                                                              {"cable_time", &options.cable_time},
                                                              {"reset_time", &options.reset_time}};
  const std::pair<std::string_view, nanoseconds*> costs[] = {{"sync_cost", &options.sync_cost},
                                                             {"start_cost", &options.start_cost},
                                                             {"register_cost", &options.register_cost}};
  for (const auto& [known, time] : times)
    if (name == known) return *time = milliseconds(value), Status();
  for (const auto& [known, cost] : costs)
    if (name == known) return *cost = nanoseconds(value), Status();
  if (name == "call_timeout" && value > 0) {
    options.call_timeout = milliseconds(value);
  } else if (name == "spin") {
    options.spin = std::chrono::microseconds(value);
  } else if (name == "rtl" && value <= 1) {
    options.rtl = value == 1;
  } else {
    return wrong("option '" + std::string(word) +
                 "' is unknown, zero or too large; known options: "
                 "manners (kind or hardware), program_time, "
                 "cable_time, reset_time, call_timeout (> 0), "
                 "sync_cost, start_cost, register_cost, spin, "
                 "rtl (0 or 1), pace (>= 1), "
                 "swap (CARD.CONNECTOR/CARD.CONNECTOR)");
  }
  return {};
}

}  // namespace

std::string to_text(const Topology& topology) {
  std::string text = kFirstRecord;
  for (const auto& card : topology.cards)
    text += ";card " + card.name + " " + card.device + " " + std::to_string(card.memory_bytes);
  for (const auto& cable : topology.cables) {
    text += ";cable " + to_text(cable.a) + " " + to_text(cable.b);
    if (cable.gigabits_per_second > 0)
      text += " " + as_text(cable.gigabits_per_second) + " " + as_text(cable.latency_ns);
  }
  const auto or_any = [](const std::string& address) { return address.empty() ? kAnyAddress : address; };
  for (std::size_t i = 0; i < topology.cables.size(); ++i) {
    const auto& cable = topology.cables[i];
    if (cable.udp)
      text += ";udp " + std::to_string(i) + " " + or_any(cable.address_a) + " " + or_any(cable.address_b);
    if (cable.faults.is_none()) continue;
    const auto& f = cable.faults;
    text += ";faults " + std::to_string(i);
    for (const double value :
         {f.loss, f.duplicate, f.reorder, f.bit_errors, f.latency_ns, f.gigabits_per_second})
      text += " " + as_text(value);
    text += f.outage ? " 1" : " 0";
  }
  const auto& o = topology.options;
  text += ";options program_time=" + std::to_string(o.program_time.count()) +
          " call_timeout=" + std::to_string(o.call_timeout.count()) +
          " spin=" + std::to_string(o.spin.count()) + " rtl=" + (o.rtl ? "1" : "0");
  if (o.manners == Manners::kHardware) text += " " + std::string(kHardware);
  for (const auto& [name, value] :
       {std::pair("cable_time", o.cable_time.count()), std::pair("reset_time", o.reset_time.count()),
        std::pair("sync_cost", o.sync_cost.count()), std::pair("start_cost", o.start_cost.count()),
        std::pair("register_cost", o.register_cost.count())})
    if (value > 0 || (o.manners == Manners::kHardware && !std::string_view(name).ends_with("cost")))
      text += " " + std::string(name) + "=" + std::to_string(value);
  if (o.pace > 0) text += " pace=" + as_text(o.pace);
  return text;
}

Status parse_options(std::string_view text, Topology::Options& options) {
  const auto words = split(text, ' ');
  // Parse `manners` before all other options: it sets their defaults, so the order of the words must not
  // matter.
  for (const auto word : words)
    if (word.starts_with(kManners)) MILLRACE_TRY(parse_manners(word, options));
  for (const auto word : words)
    if (!word.starts_with(kManners)) MILLRACE_TRY(parse_option(word, options));
  return {};
}

Status exchange_plugs(Topology& topology) {
  for (const auto& [from, to] : topology.options.swaps) {
    MILLRACE_TRY(check_end(from, topology));
    MILLRACE_TRY(check_end(to, topology));
    for (Topology::Cable& cable : topology.cables)
      for (Topology::End* const end : {&cable.a, &cable.b}) {
        if (*end == from) {
          *end = to;
        } else if (*end == to) {
          *end = from;
        }
      }
  }
  topology.options.swaps.clear();
  return {};
}

Result<Topology> parse_topology(std::string_view text) {
  Topology topology;
  const auto records = split(text, ';');
  if (records.empty() || records[0] != kFirstRecord)
    return wrong(std::string("does not begin with '") + kFirstRecord + "'; let millrace write it");
  std::set<std::string> names;
  std::set<std::pair<std::uint32_t, std::uint32_t>> used;
  for (std::size_t i = 1; i < records.size(); ++i) {
    const auto words = split(records[i], ' ');
    if (!words.empty() && words[0] == "card") {
      MILLRACE_ASSIGN(auto card, parse_card(words));
      if (!names.insert(card.name).second) return wrong("two cards are called '" + card.name + "'");
      topology.cards.push_back(std::move(card));
      if (topology.cards.size() > kMaxCards)
        return wrong("more than " + std::to_string(kMaxCards) +
                     " cards; use fewer cards, or start one rank on each of several hosts");
    } else if ((words.size() == 3 || words.size() == 5) && words[0] == "cable") {
      MILLRACE_ASSIGN(const auto a, parse_end(words[1]));
      MILLRACE_ASSIGN(const auto b, parse_end(words[2]));
      for (const auto& end : {a, b}) {
        MILLRACE_TRY(check_end(end, topology));
        if (!used.insert({end.card, end.connector}).second)
          return wrong("card " + std::to_string(end.card) + " has two cables on connector " +
                       std::to_string(end.connector));
      }
      topology.cables.push_back({a, b});
      auto& cable = topology.cables.back();
      if (words.size() == 5 &&
          (!parse_number(words[3], cable.gigabits_per_second) || !(cable.gigabits_per_second > 0) ||
           !std::isfinite(cable.gigabits_per_second) || !parse_number(words[4], cable.latency_ns) ||
           !(cable.latency_ns >= 0) || cable.latency_ns > plan::kMostLatencyNs))
        return wrong("cable '" + std::string(records[i]) +
                     "': give its Gbit/s, above 0, and its latency in ns, 0 to 1e10");
      if (topology.cables.size() > kMaxCables)
        return wrong("more than " + std::to_string(kMaxCables) + " cables");
    } else if (!words.empty() && words[0] == "udp") {
      MILLRACE_TRY(parse_udp(words, topology));
    } else if (!words.empty() && words[0] == "faults") {
      MILLRACE_TRY(parse_faults(words, topology));
    } else if (!words.empty() && words[0] == "options") {
      MILLRACE_TRY(parse_options(records[i].substr(words[0].size()), topology.options));
      if (!topology.options.swaps.empty())
        return wrong("option swap is allowed only in MILLRACE_EMULATION_OPTIONS");
    } else {
      return wrong("record '" + std::string(records[i]) + "' is not a card, cable, udp, faults or options");
    }
  }
  if (topology.cards.empty()) return wrong("no card");
  return topology;
}

}  // namespace millrace::runtime::emulator
