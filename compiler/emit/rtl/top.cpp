#include <algorithm>
#include <bit>
#include <boost/json.hpp>
#include <cmath>
#include <map>

#include "compiler/emit/rtl/parts.hpp"
#include "compiler/emit/rtl/text.hpp"

namespace millrace::compiler::emit {
namespace {

namespace json = boost::json;
using generators::Design;
using generators::PortDesign;
using generators::Stream;
using runtime::plan::ImagePort;
using runtime::plan::PortKind;

using generators::kBurst;
using generators::kLinkBytes;
using generators::kTagBits;
using generators::kTags;
constexpr unsigned kPacket = generators::kLinkPacket;
constexpr std::uint64_t kUdpWord = 64;  // bytes of a word of a UDP network layer

/// A port of the FPGA image, with the network's stream that it belongs to.
struct End {
  std::string name;  // unique among the ports: "out0", "out0_2"
  const PortDesign* port = nullptr;
  Stream stream;
  bool link = false;
  std::uint32_t row = 0;  // the port's row of the link table
};

class Top {
 public:
  Top(const Design& design, const RtlOptions& options) : design_(design), options_(options) {}

  Result<TopModule> run(const std::vector<ImagePort>& ports) {
    MILLRACE_TRY(match(ports));
    const TopInterface interface = this->interface();
    std::string header;
    for (const TopUnit& unit : interface.units) {
      if (unit.registers) header += bus_ports(unit.name + "_axil", kAxiLite);
      if (unit.interrupt) header += ",\n  output logic " + unit.name + "_irq";
      if (unit.master != Master::kNone) header += bus_ports(unit.name + "_axi", signals_of(unit.master));
    }
    for (std::uint32_t k = 0; k < interface.connectors; ++k)
      header += bus_ports("link" + number(k), connector_signals_of(interface));
    json::object values = {{"partition", design_.partition},
                           {"device", clocked(options_.device)},
                           {"generator", options_.generator},
                           {"clock", std::llround(options_.device.clock_mhz)},
                           {"ports", header},
                           {"loads", loads()},
                           {"streams", streams()},
                           {"data_bytes", kDataBytes},
                           {"burst", kBurst},
                           {"link_bytes", kLinkBytes},
                           {"packet", kPacket},
                           {"tag_bits", kTagBits},
                           {"tag_depth", kTags}};
    for (const char* unit : {"control", "supervisor", "parameters"})
      values[std::string(unit) + "_axil"] = connect("axil", unit, kAxiLite);
    values["supervisor_axi"] = connect("axi", "supervisor", kAxiWrite);
    add_control(values);
    add_links(values);
    add_network(values);
    add_tags(values);
    return TopModule{fill(text_of("top"), values), interface};
  }

 private:
  Status match(const std::vector<ImagePort>& ports) {
    std::map<std::string, int> copies;
    for (const auto& port : ports) {
      const bool in = port.kind == PortKind::kIngress || port.kind == PortKind::kLinkReceive;
      const PortDesign* found = nullptr;
      for (const auto& candidate : in ? design_.inputs : design_.outputs)
        if (candidate.name == port.name) found = &candidate;
      if (found == nullptr)
        return Error(ErrorCode::kInternal,
                     "rtl: partition '" + design_.partition + "' has no port '" + port.name + "'");
      const Stream& stream = design_.netlist.streams[found->stream];
      if (stream.lanes * stream.beats != port.elements)
        return Error(ErrorCode::kInternal, "rtl: port '" + port.name + "' of partition '" +
                                               design_.partition + "' has " + number(port.elements) +
                                               " elements, its stream " +
                                               number(stream.lanes * stream.beats));
      const int copy = ++copies[port.name];
      const bool link = port.kind == PortKind::kLinkReceive || port.kind == PortKind::kLinkSend;
      (in ? inputs_ : outputs_)
          .push_back({port.name + (copy > 1 ? "_" + number(static_cast<unsigned>(copy)) : ""), found, stream,
                      link, port.link_index});
      if (link) rows_ = std::max(rows_, port.link_index + 1);
    }
    if (inputs_.size() != design_.inputs.size() || outputs_.size() < design_.outputs.size())
      return Error(ErrorCode::kInternal,
                   "rtl: the image of partition '" + design_.partition + "' lacks one of its ports");
    return {};
  }

  TopInterface interface() const {
    TopInterface out;
    out.units = {{"control", true, false, Master::kNone}, {"supervisor", true, true, Master::kWrite}};
    if (loads()) out.units.push_back({"parameters", true, true, Master::kRead});
    for (std::size_t i = 0; i < design_.netlist.readers.size(); ++i)
      out.units.push_back({weights_port(i), false, false, Master::kRead});
    for (const auto& end : inputs_)
      if (!end.link) out.units.push_back({end.name, true, true, Master::kRead});
    for (const auto& end : outputs_)
      if (!end.link) out.units.push_back({end.name, true, true, Master::kWrite});
    if (rows_ != 0) out.connectors = connectors();
    out.udp = udp();
    return out;
  }

  bool udp() const { return rows_ != 0 && uses_udp(options_); }

  static std::string connect(const std::string& port, const std::string& name,
                             std::span<const Signal> signals) {
    return bus_connections(port, name + "_" + port, signals);
  }

  std::uint32_t connectors() const { return std::max(1U, options_.device.connectors); }
  bool loads() const { return !design_.netlist.loads.empty(); }
  bool streams() const { return !design_.netlist.readers.empty(); }

  static std::vector<std::string> names_of(const std::vector<End>& ends, bool all = true) {
    std::vector<std::string> names;
    for (const End& end : ends)
      if (all || !end.link) names.push_back(end.name);
    return names;
  }

  /// Adds the signals that combine all ports (quiet, busy, errors), and the unit that receives loaded constants.
  void add_control(json::object& values) const {
    std::vector<std::string> quiet, errors, busy;
    for (const auto* ends : {&inputs_, &outputs_})
      for (const auto& name : names_of(*ends, false)) {
        quiet.push_back(name + "_quiet");
        errors.push_back(name + "_error");
      }
    for (const auto& end : outputs_) {
      if (end.link) quiet.push_back(end.name + "_quiet");
      busy.push_back(end.name + "_tag_valid");
    }
    for (const auto& name : names_of(inputs_, false)) busy.push_back(name + "_busy");
    if (loads()) errors.emplace_back("parameters_error");
    if (streams()) {
      quiet.emplace_back("weights_quiet");
      errors.emplace_back("weights_error");
    }
    const std::string done = joined(names_of(outputs_, false), " || ", "_done");
    // If the host reads no output, a frame counts as done when the frame's tag (epoch and sequence) leaves.
    const std::string& first = outputs_.front().name;
    values["done"] = done.empty() ? first + "_tag_valid && " + first + "_tag_ready" : done;
    values["quiet"] = quiet.empty() ? "1'b1" : joined(quiet, " && ");
    values["errors"] = json::value_from(errors);
    values["busy"] = joined(busy, " || ");
    std::vector<std::string> loader;
    for (const auto& [name, value] : generators::loader_parameters(design_.netlist))
      loader.push_back("." + name + "(" + std::to_string(value) + ")");
    values["loader"] = joined(loader, ", ");
    values["parameters_axi"] = connect("axi", "parameters", kAxiRead);
  }

  /// Adds the hub between link ports and connectors. Rows of the link table that belong to other partitions stay idle.
  void add_links(json::object& values) const {
    values["rows"] = rows_;
    values["udp"] = udp();
    values["aurora"] = rows_ != 0 && !udp();
    if (rows_ == 0) return;
    std::uint64_t packet = 0;
    for (const auto& [row, room] : options_.links) packet = std::max(packet, udp_packet(room));
    values["udp_packet"] = packet;
    values["rows3"] = rows_ * 3;
    values["rows32"] = rows_ * 32;
    values["rows512"] = rows_ * 512;
    values["rows4"] = rows_ * 4;
    values["rows16"] = rows_ * 16;
    values["rows_word"] = rows_ * kLinkBytes * 8;
    values["rows256"] = rows_ * 256;
    values["connectors"] = connectors();
    std::vector<std::string> links;
    for (std::uint32_t k = 0; k < connectors(); ++k) links.push_back("link" + number(k));
    for (const Signal& signal :
         udp() ? std::span<const Signal>(kUdpConnector) : std::span<const Signal>(kConnector))
      values[signal.name] = concatenation(links, (std::string("_") + signal.name).c_str());
    json::array idle;
    for (std::uint32_t row = 0; row < rows_; ++row) {
      const auto uses = [&](const End& end) { return end.link && end.row == row; };
      if (std::none_of(inputs_.begin(), inputs_.end(), uses) &&
          std::none_of(outputs_.begin(), outputs_.end(), uses))
        idle.push_back(bits_of_row(row));
    }
    values["idle"] = std::move(idle);
  }

  /// Returns the part of a vector that belongs to this row of the link table, for vectors with 1, 4, 16, … bits per
  /// row.
  static json::object bits_of_row(std::uint64_t row) {
    const auto bits = [&](std::uint64_t width) {
      return "[" + number(row * width) + "+:" + number(width) + "]";
    };
    return {{"r", "[" + number(row) + "]"},
            {"r3", bits(3)},
            {"r4", bits(4)},
            {"r16", bits(16)},
            {"r32", bits(32)},
            {"rword", bits(kLinkBytes * 8)},
            {"r256", bits(256)},
            {"r512", bits(512)}};
  }

  /// Returns the largest packet of a port over UDP in whole words.
  static std::uint64_t udp_packet(const LinkRoom& room) {
    return (std::uint64_t{room.packet_bytes} + kUdpWord - 1) / kUdpWord * kUdpWord;
  }

  void add_network(json::object& values) const {
    json::array network;
    for (const auto* ports : {&design_.inputs, &design_.outputs})
      for (const auto& port : *ports)
        network.push_back({{"port", port.name}, {"width", design_.netlist.streams[port.stream].width()}});
    values["network"] = std::move(network);
    std::string readers;
    for (std::size_t i = 0; i < design_.netlist.readers.size(); ++i)
      readers += bus_connections(weights_port(i) + "_axi", weights_port(i) + "_axi", kAxiRead);
    values["readers"] = readers;
    json::array inputs, outputs;
    for (const auto& end : inputs_) inputs.push_back(values_of(end, connect("axi", end.name, kAxiRead)));
    for (const auto& end : outputs_) {
      json::object made = values_of(end, connect("axi", end.name, kAxiWrite));
      made["i"] = outputs.size();
      made["begin"] = outputs.size() * kTagBits;
      outputs.push_back(std::move(made));
    }
    values["inputs"] = std::move(inputs);
    values["outputs"] = std::move(outputs);
  }

  json::object values_of(const End& end, const std::string& axi) const {
    using Kind = kernels::ElementType::Kind;
    const Kind kind = end.port->type.kind;
    const auto found = options_.links.find(end.row);
    const LinkRoom room = found == options_.links.end() ? LinkRoom{} : found->second;
    const std::uint64_t words = (std::uint64_t{room.packet_bytes} + kLinkBytes - 1) / kLinkBytes;
    const std::uint64_t credits = std::max<std::uint64_t>(generators::kLeastLinkCredits, room.credits);
    json::object made = bits_of_row(end.row);
    for (const auto& [key, value] :
         json::object{{"n", end.name},
                      {"link", end.link},
                      {"lanes", end.stream.lanes},
                      {"bits", end.stream.bits},
                      {"beats", end.stream.beats},
                      {"ebytes", end.port->type.storage_bytes()},
                      {"kind", kind == Kind::kUnsigned  ? 0
                               : kind == Kind::kBipolar ? 2
                                                        : 1},
                      {"axil", connect("axil", end.name, kAxiLite)},
                      {"axi", axi},
                      {"buffer", credits * words},
                      {"udp_port_packet", udp_packet(room)},
                      {"slots", std::clamp<std::uint64_t>(std::bit_ceil(credits), 2, kMostUdpSlots)},
                      {"credits", credits}})
      made[key] = value;
    return made;
  }

  /// Adds the path of frame tags: all inputs must have the same tag for a frame, and the tag goes to every output. Also
  /// adds a fork to each output with several communication channels.
  void add_tags(json::object& values) const {
    std::vector<std::string> differ;
    for (std::size_t i = 1; i < inputs_.size(); ++i)
      differ.push_back("tags_in[" + number(i * kTagBits) + "+:96] != tags_in[0+:96]");
    values["differ"] = joined(differ, " || ");
    values["input_count"] = inputs_.size();
    values["output_count"] = outputs_.size();
    values["all_in"] = kTagBits * inputs_.size();
    values["all_out"] = kTagBits * outputs_.size();
    values["highest_tag_bit"] = kTagBits - 1;
    values["tags_valid"] = concatenation(names_of(inputs_), "_tag_valid");
    values["tags_ready"] = concatenation(names_of(inputs_), "_tag_ready");
    values["tags"] = concatenation(names_of(inputs_), "_tag");
    json::array sent;
    for (const auto& port : design_.outputs) {
      std::vector<std::string> names;
      for (const auto& end : outputs_)
        if (end.port == &port) names.push_back(end.name + "_sent");
      sent.push_back({{"port", port.name},
                      {"width", design_.netlist.streams[port.stream].width()},
                      {"copies", json::value_from(names)},
                      {"fork", names.size() > 1},
                      {"n", names.size()},
                      {"to", names[0]},
                      {"valid", concatenation(names, "_valid")},
                      {"ready", concatenation(names, "_ready")},
                      {"data", concatenation(names, "")}});
    }
    values["sent"] = std::move(sent);
  }

  const Design& design_;
  const RtlOptions& options_;
  std::vector<End> inputs_, outputs_;
  std::uint32_t rows_ = 0;  // number of rows of the link table; 0: no links
};

}  // namespace

bool uses_udp(const RtlOptions& options) {
  return !options.links.empty() && std::all_of(options.links.begin(), options.links.end(),
                                               [](const auto& link) { return link.second.udp; });
}

std::set<std::string> top_modules(const RtlOptions& options) {
  std::set<std::string> modules{"mr_control", "mr_supervisor", "mr_ingress", "mr_egress",
                                "mr_fifo",    "mr_fork",       "mr_join"};
  if (uses_udp(options)) {
    modules.insert({"mr_udp_hub", "mr_udp_send", "mr_udp_receive"});
  } else {
    modules.insert({"mr_link_hub", "mr_link_send", "mr_link_receive"});
  }
  return modules;
}

Result<TopModule> top_module(const Design& design, const std::vector<ImagePort>& ports,
                             const RtlOptions& options) {
  return Top(design, options).run(ports);
}

}  // namespace millrace::compiler::emit
