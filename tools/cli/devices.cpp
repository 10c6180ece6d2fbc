// `millrace devices`: lists the cards of the cluster file and those that XRT finds. --check opens each card. With a
// deployment, --check also tests the cables (preflight.cpp). --impair changes the cables of a running server instead (impair.cpp).
//
// The keys of the JSON output are schema, emulated, devices[] (index, name, bdf, kind, shell, memory_bytes, image,
// state, problem), cables[] (name, ends). The states are ready, missing (XRT does not find the card), failed.
#include <boost/json.hpp>

#include <iomanip>
#include <ostream>

#include "runtime/card/card.hpp"
#include "runtime/emulator/backend.hpp"
#include "runtime/plan/cluster.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/impair.hpp"
#include "tools/cli/preflight.hpp"

namespace millrace::cli {

namespace plan = runtime::plan;
namespace card = runtime::card;
namespace json = boost::json;

namespace {

struct Row {
  card::CardInfo info;
  std::string name, kind;
  std::uint64_t memory_bytes = 0;
  std::string state = "ready", problem;
};

std::uint64_t memory_of(const plan::Device& device) {
  std::uint64_t bytes = 0;
  for (const plan::MemoryBank& bank : device.memory) bytes += bank.capacity_bytes;
  return bytes;
}

void check(Row& row, const plan::ClusterCard& wanted, std::uint32_t index) {
  auto opened = card::open({index, wanted.bdf});
  if (opened.ok()) {
    row.info = (*opened)->info();
    return;
  }
  row.state = opened.error().code() == ErrorCode::kNotFound ? "missing" : "failed";
  row.problem = opened.error().message();
}

std::vector<Row> rows_of(const plan::Cluster& cluster, const std::vector<card::CardInfo>& found,
                         bool open_each) {
  std::vector<Row> rows;
  for (std::uint32_t index = 0; index < cluster.cards.size(); ++index) {
    const plan::ClusterCard& wanted = cluster.cards[index];
    Row row;
    row.name = wanted.name;
    row.kind = wanted.device;
    row.memory_bytes = memory_of(cluster.device_of(wanted));
    row.info.index = index;
    row.info.bdf = wanted.bdf;
    row.state = "missing";
    row.problem =
        wanted.bdf.empty()
            ? "XRT does not show a card " + std::to_string(index) + "; it shows " +
                  std::to_string(found.size()) + ": correct cards[] of the cluster file"
            : "XRT does not show this card; compare its bdf in the cluster file with `xbutil examine`";
    for (const card::CardInfo& info : found) {
      if (wanted.bdf.empty() ? info.index != index : info.bdf != wanted.bdf) continue;
      row.info = info;
      row.state = "ready";
      row.problem.clear();
    }
    if (open_each && row.state == "ready") check(row, wanted, index);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Row> rows_of(const std::vector<card::CardInfo>& found) {
  std::vector<Row> rows;
  for (const card::CardInfo& info : found) {
    Row row;
    row.info = info;
    rows.push_back(std::move(row));
  }
  return rows;
}

void print_json(const std::vector<Row>& rows, const plan::Cluster& cluster, std::ostream& out) {
  json::array devices, cables;
  for (const Row& row : rows) {
    devices.push_back({{"index", row.info.index},
                       {"name", row.name},
                       {"bdf", row.info.bdf},
                       {"kind", row.kind},
                       {"shell", row.info.name},
                       {"memory_bytes", row.memory_bytes},
                       {"image", row.info.image_uuid},
                       {"state", row.state},
                       {"problem", row.problem}});
  }
  for (const plan::Cable& cable : cluster.cables) {
    cables.push_back({{"name", cable.name},
                      {"a", {{"card", cable.a.card}, {"connector", cable.a.connector}}},
                      {"b", {{"card", cable.b.card}, {"connector", cable.b.connector}}}});
  }
  out << json::serialize(json::object{{"schema", 1},
                                      {"emulated", cluster.emulated},
                                      {"devices", std::move(devices)},
                                      {"cables", std::move(cables)}})
      << '\n';
}

std::string text_or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

std::string memory_text(const Row& row) {
  if (row.memory_bytes == 0) return "-";
  return std::to_string(row.memory_bytes >> 20U) + " MiB";
}

void print_text(const std::vector<Row>& rows, const plan::Cluster& cluster, bool checked, std::ostream& out) {
  const auto line = [&](const std::string& index, const std::string& name, const std::string& bdf,
                        const std::string& kind, const std::string& memory, const std::string& state) {
    out << std::left << std::setw(7) << index << std::setw(14) << name << std::setw(15) << bdf
        << std::setw(12) << kind << std::setw(12) << memory << state << '\n';
  };
  line("index", "name", "bdf", "kind", "memory", "state");
  for (const Row& row : rows) {
    std::string state = cluster.emulated ? row.state + " (emulated)" : row.state;
    if (!row.problem.empty()) state += ": " + row.problem;
    line(std::to_string(row.info.index), text_or_dash(row.name.empty() ? row.info.name : row.name),
         text_or_dash(row.info.bdf), text_or_dash(row.kind), memory_text(row), state);
  }
  for (const plan::Cable& cable : cluster.cables) {
    out << "cable " << cable.name << ": " << cable.a.card << "/" << cable.a.connector << " - " << cable.b.card
        << "/" << cable.b.connector << ", " << cable.gigabits_per_second << " Gbit/s each way"
        << (cable.protocol == plan::CableProtocol::kUdp ? " over UDP" : "")
        << (cable.limit.empty() ? "" : ", limited by " + cable.limit) << '\n';
  }
  if (checked && !cluster.cables.empty()) {
    out << "cables are listed as in the cluster file; to test them, add --deployment DIR, "
           "because a cable works only between cards that are programmed\n";
  }
}

}  // namespace

Status run(const DevicesCommand& command, std::ostream& out) {
  if (!command.impair.empty()) return impair(command, out);
  if (!command.deployment.empty()) return preflight(command, out);
  plan::Cluster cluster;
  cluster.name = "this machine";
  if (!command.cluster.empty()) {
    MILLRACE_ASSIGN(cluster, plan::load_cluster(command.cluster));
  }
  if (Status selected = runtime::emulator::select_backend(cluster); !selected.ok()) {
    if (!command.cluster.empty()) return selected;
    return Error(selected.error().code(),
                 selected.error().message() + "; for emulated cards give --cluster FILE");
  }
  MILLRACE_ASSIGN(const std::vector<card::CardInfo> found, card::enumerate());
  const std::vector<Row> rows =
      command.cluster.empty() ? rows_of(found) : rows_of(cluster, found, command.check);
  if (command.common.json) {
    print_json(rows, cluster, out);
  } else {
    print_text(rows, cluster, command.check, out);
  }
  for (const Row& row : rows) {
    if (command.check && row.state != "ready") {
      return Error(ErrorCode::kDoesNotFit, "card '" + row.name + "' is " + row.state + ": " + row.problem);
    }
  }
  return {};
}

}  // namespace millrace::cli
