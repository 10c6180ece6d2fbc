#include "compiler/report/communication.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <map>

#include "compiler/emit/deployment.hpp"
#include "compiler/report/columns.hpp"
#include "compiler/report/figures.hpp"
#include "compiler/report/parts.hpp"

namespace millrace::compiler::report {
namespace {

constexpr char kProof[] =
    "no deadlock: three frames pass in a simulation of the worst case. "
    "In the worst case, every partition takes its inputs in lock-step. "
    "A partition sends nothing before it has all inputs of a frame. "
    "A partition takes nothing of the next frame before it has sent all outputs";

std::string name_of(const runtime::plan::PortRef& end) {
  return (end.partition.empty() ? "model" : end.partition) + "." + end.port;
}

std::string bound_card(const emit::Artifacts& made, const runtime::plan::PortRef& end) {
  const auto* partition = made.plan.find_partition(end.partition);
  if (partition == nullptr) return {};
  const auto bound = made.binding.find(partition->endpoint);
  return bound == made.binding.end() ? std::string() : bound->second;
}

void add_cables(const runtime::plan::Cluster& cluster, CableLoad& load) {
  for (const auto& cable : cluster.cables) {
    const bool forth = cable.a.card == load.from && cable.b.card == load.to;
    const bool back = cable.b.card == load.from && cable.a.card == load.to;
    if (!forth && !back) continue;
    load.cables.push_back(cable.name);
    load.capacity += cable.gigabits_per_second;
    if (!cable.limit.empty()) load.limit = cable.limit;
  }
}

std::string joined_names(const std::vector<std::string>& names) {
  std::string out;
  for (const auto& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

}  // namespace

Result<Communication> communication(const Plan& planned) {
  const runtime::plan::Cluster& cluster = planned.cluster();
  MILLRACE_ASSIGN(const auto made, emit::outline_deployment(planned.placed.program, planned.placed.solution,
                                                            cluster, planned.model.info));
  const double frames_per_second =
      planned.unpredicted().empty() && planned.interval_seconds > 0 ? 1 / planned.interval_seconds : 0;
  Communication out;
  std::map<std::pair<std::string, std::string>, CableLoad> loads;
  for (const auto& channel : made.plan.channels) {
    Message message{name_of(channel.producer),
                    name_of(channel.consumer),
                    bound_card(made, channel.producer),
                    bound_card(made, channel.consumer),
                    channel.frame_bytes,
                    0,
                    channel.packet_bytes,
                    channel.credits};
    if (channel.transport != runtime::plan::Transport::kHost) {
      const bool packets = !runtime::plan::passes_hosts(channel.transport);
      if (packets) message.packets = (channel.frame_bytes + channel.packet_bytes - 1) / channel.packet_bytes;
      CableLoad& load = loads[{message.from_card, message.to_card}];
      load.from = message.from_card;
      load.to = message.to_card;
      ++load.messages;
      message.wire_bytes = packets ? emit::bytes_on_wire(channel) : channel.frame_bytes;
      load.wire_bytes += message.wire_bytes;
    }
    out.messages.push_back(std::move(message));
  }
  for (auto& [cards, load] : loads) {
    add_cables(cluster, load);
    load.gigabits_per_second = static_cast<double>(load.wire_bytes) * frames_per_second * 8e-9;
    out.loads.push_back(std::move(load));
  }
  out.check = emit::check_communication(
      made.plan, cluster, made.binding,
      frames_per_second > 0 ? std::optional<double>(frames_per_second) : std::nullopt);
  return out;
}

std::string terminal(const Communication& communication, bool colour) {
  const auto bold = [colour](const std::string& text) {
    return colour ? "\x1b[1m" + text + "\x1b[0m" : text;
  };
  const auto number = [](std::uint64_t value) { return with_commas(static_cast<double>(value)); };
  std::string out =
      "\n" + bold("  from               to                    bytes  packets  credits      buffer") + "\n";
  for (const auto& message : communication.messages) {
    out += "  " + left(message.from, 18) + " " + left(message.to, 16) + right(number(message.bytes), 12);
    out += message.between_cards() ? right(number(message.packets), 9) + right(number(message.credits), 9) +
                                         right(number(message.buffer_bytes()), 12)
           : message.over_mpi() ? "  from host to host over MPI"
                                : "  through the host's memory";
    out += "\n";
  }
  if (!communication.loads.empty()) {
    out +=
        "\n" + bold("  cable                    messages  bytes a frame    Gbit/s       of    used") + "\n";
    for (const auto& load : communication.loads)
      out += "  " + left(load.from + " > " + load.to, 24) + right(number(load.messages), 9) +
             right(number(load.wire_bytes), 15) + right(fixed(load.gigabits_per_second, 3), 10) +
             right(fixed(load.capacity, 0), 9) + right(percent(load.share()), 8) + "\n";
    out += "  the bytes that a cable carries for a frame include headers, padding and CRCs\n";
    for (const auto& load : communication.loads)
      if (!load.limit.empty())
        out += wrapped(load.from + " > " + load.to + " is limited by " + load.limit, "  ", "  ");
  }
  if (communication.check.ok()) out += wrapped(kProof, "  ", "  ");
  return out;
}

boost::json::object facts(const Communication& communication) {
  namespace json = boost::json;
  json::array messages, loads;
  const auto card = [](const std::string& name) {
    return name.empty() ? json::value(nullptr) : json::value(name);
  };
  for (const auto& m : communication.messages)
    messages.push_back(json::object{{"from", m.from},
                                    {"to", m.to},
                                    {"from_card", card(m.from_card)},
                                    {"to_card", card(m.to_card)},
                                    {"bytes", m.bytes},
                                    {"between_cards", m.between_cards()},
                                    {"over_mpi", m.over_mpi()},
                                    {"packets", m.packets},
                                    {"packet_bytes", m.packet_bytes},
                                    {"credits", m.credits},
                                    {"buffer_bytes", m.buffer_bytes()}});
  for (const auto& load : communication.loads)
    loads.push_back(
        json::object{{"from", load.from},
                     {"to", load.to},
                     {"cables", joined_names(load.cables)},
                     {"messages", load.messages},
                     {"wire_bytes", load.wire_bytes},
                     {"gigabits_per_second", load.gigabits_per_second},
                     {"capacity_gigabits_per_second", load.capacity},
                     {"limit", load.limit.empty() ? json::value(nullptr) : json::value(load.limit)},
                     {"share", load.share()}});
  return {{"messages", std::move(messages)},
          {"loads", std::move(loads)},
          {"fault", communication.check.ok() ? json::value(nullptr)
                                             : json::value(communication.check.error().message())}};
}

}  // namespace millrace::compiler::report
