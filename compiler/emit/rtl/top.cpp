#include "compiler/emit/rtl/top.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/emit/rtl/text.hpp"

namespace millrace::compiler::emit {
namespace {

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

/// A port of the image, and its stream in the dataflow.
struct End {
  std::string name;  // unique: "out0", "out0_2"
  const PortDesign* port = nullptr;
  Stream stream;
  bool link = false;
  std::uint32_t row = 0;  // of the link table
};

class Top {
 public:
  Top(const Design& design, const RtlOptions& options) : design_(design), options_(options) {}

  Result<TopModule> run(const std::vector<ImagePort>& ports) {
    MILLRACE_TRY(match(ports));
    const TopInterface interface = this->interface();
    std::string body = control() + links() + parameters() + dataflow();
    for (const auto& end : inputs_) body += input(end);
    body += tags();
    for (const auto& end : outputs_) body += output(end);
    return TopModule{header(interface) + body + "endmodule\n`default_nettype wire\n", interface};
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

  // The module's own ports.
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
    if (rows_ != 0) out.connectors = options_.connectors;
    return out;
  }

  std::string header(const TopInterface& interface) const {
    std::string text = notice(design_.partition + "_top: partition " + design_.partition +
                                  " with its shell for " + clocked(options_.device, options_.clock_mhz) +
                                  ": AXI4-Lite registers, AXI4 to memory, links as AXI-Stream.",
                              options_.generator);
    text += text_of("top_notice");
    if (loads())
      text +=
          "/// Constants are loaded: parameters_axil_ takes the runs, parameters_axi_ reads them from "
          "memory.\n";
    if (streams()) text += "/// Weights are read from memory all the time, through weights<i>_axi_.\n";
    text += "`default_nettype none\nmodule " + design_.partition +
            "_top (\n  input  logic clk,\n  input  logic rst,\n  output logic error";
    for (const TopUnit& unit : interface.units) {
      if (unit.registers) text += bus_ports(unit.name + "_axil", kAxiLite);
      if (unit.interrupt) text += ",\n  output logic " + unit.name + "_irq";
      if (unit.master == Master::kRead) text += bus_ports(unit.name + "_axi", kAxiRead);
      if (unit.master == Master::kWrite) text += bus_ports(unit.name + "_axi", kAxiWrite);
    }
    for (std::uint32_t k = 0; k < interface.connectors; ++k)
      text += bus_ports("link" + number(k), kConnector);
    return text + "\n);\n";
  }

  // Connections of an instance.
  template <std::size_t N>
  static std::string connect(const std::string& port, const std::string& name, const Signal (&signals)[N]) {
    return bus_connections(port, name + "_" + port, signals);
  }

  std::string all(const char* suffix, const char* joint, bool hosts_only) const {
    std::string text;
    for (const auto* ends : {&inputs_, &outputs_})
      for (const auto& end : *ends)
        if (!hosts_only || !end.link) text += (text.empty() ? "" : joint) + end.name + suffix;
    return text;
  }

  std::string control() const {
    std::string text(text_of("registers"));
    std::string quiet = all("_quiet", " && ", true), errors = all("_error", " || ", true), done, busy;
    // Declared here and not beside its FIFO, because it is read before that.
    for (const auto& end : outputs_) {
      text += tag_handshake(end.name + "_tag");
      if (!end.link) done += (done.empty() ? "" : " || ") + end.name + "_done";
      busy += " || " + end.name + "_tag_valid";
    }
    for (const auto& end : inputs_)
      if (!end.link) busy += " || " + end.name + "_busy";
    for (const auto* ends : {&inputs_, &outputs_})
      for (const auto& end : *ends)
        if (!end.link)
          text += fill("  logic        %n%_quiet, %n%_error, %n%%more%;\n",
                       {{"n", end.name}, {"more", ends == &inputs_ ? "_busy" : "_done"}});
    for (const auto& end : outputs_)
      if (end.link) {
        text += "  logic        " + end.name + "_quiet;\n";
        quiet += (quiet.empty() ? "" : " && ") + end.name + "_quiet";
      }
    if (loads()) {
      text += "  logic        parameters_error;\n";
      errors += (errors.empty() ? "" : " || ") + std::string("parameters_error");
    }
    if (streams()) {
      text += "  logic        weights_quiet, weights_error, weights_given;\n";
      quiet += (quiet.empty() ? "" : " && ") + std::string("weights_quiet");
      errors += " || weights_error";
    }
    if (quiet.empty()) quiet = "1'b1";
    // If no host reads a result, a frame counts as done when its tag leaves.
    if (done.empty()) done = outputs_.front().name + "_tag_valid && " + outputs_.front().name + "_tag_ready";
    return text +
           fill(text_of("control"),
                {{"errors", (errors.empty() ? "" : " || ") + errors},
                 {"quiet", quiet},
                 {"done", done},
                 {"busy", busy.substr(4)},
                 {"rows", number(rows_)},
                 {"clock", number(static_cast<std::uint64_t>(std::llround(options_.clock_mhz)))},
                 {"control_axil", connect("axil", "control", kAxiLite)},
                 {"no_links", rows_ == 0 ? std::string(text_of("no_links")) : "  assign unused = 1'b0;\n"},
                 {"bytes", number(kDataBytes)},
                 {"axil", connect("axil", "supervisor", kAxiLite)},
                 {"axi", connect("axi", "supervisor", kAxiWrite)}});
  }

  bool loads() const { return !design_.netlist.loads.empty(); }
  bool streams() const { return !design_.netlist.readers.empty(); }

  /// The unit that receives loaded constants.
  std::string parameters() const {
    if (!loads()) return "";
    std::string values;
    for (const auto& [name, value] : generators::loader_parameters(design_.netlist))
      values += (values.empty() ? "." : ", .") + name + "(" + std::to_string(value) + ")";
    return fill(text_of("parameters"),
                {{"unused", streams() ? "" : R"(  logic        parameters_given, parameters_unused;
  assign parameters_unused = &{1'b0, parameters_given, parameters_streamed};
)"},
                 {"values", values},
                 {"given", streams() ? ".given(weights_given), .reading(!weights_quiet)"
                                     : ".given(parameters_given), .reading(1'b0)"},
                 {"axil", connect("axil", "parameters", kAxiLite)},
                 {"axi", connect("axi", "parameters", kAxiRead)}});
  }

  std::string dataflow() const {
    std::string text = "  // The network.\n";
    for (const auto* ports : {&design_.inputs, &design_.outputs})
      for (const auto& port : *ports)
        text += "  logic " + port.name + "_valid, " + port.name + "_ready;\n  logic " +
                range(design_.netlist.streams[port.stream].width()) + port.name + "_data;\n";
    text += "  " + design_.partition + "_dataflow dataflow (.clk, .rst(flow_rst)";
    if (loads()) text += ",\n    .load_valid, .load_data";
    // Readers start from the first line for new weights, and in a new epoch.
    if (streams())
      text +=
          ",\n    .weights_active(weights_given), .weights_flush(flush || !weights_given), "
          ".weights_addr(parameters_streamed), .weights_quiet, .weights_error";
    for (std::size_t i = 0; i < design_.netlist.readers.size(); ++i)
      text += bus_connections(weights_port(i) + "_axi", weights_port(i) + "_axi", kAxiRead);
    for (const auto* ports : {&design_.inputs, &design_.outputs})
      for (const auto& port : *ports)
        text += ",\n    ." + port.name + "_valid, ." + port.name + "_ready, ." + port.name + "_data";
    return text + ");\n\n";
  }

  using Names = std::map<std::string_view, std::string>;

  /// The names in the texts of one port. r, r4, … are its bits in vectors with 1, 4, … bits for each row of
  /// the link table.
  Names names(const End& end) const {
    using Kind = kernels::ElementType::Kind;
    const Kind kind = end.port->type.kind;
    const auto found = options_.links.find(end.row);
    const LinkRoom room = found == options_.links.end() ? LinkRoom{} : found->second;
    const std::uint64_t words = (std::uint64_t{room.packet_bytes} + kLinkBytes - 1) / kLinkBytes;
    const std::uint64_t credits = std::max<std::uint64_t>(generators::kLeastLinkCredits, room.credits);
    const bool master_reads =
        end.port >= design_.inputs.data() && end.port < design_.inputs.data() + design_.inputs.size();
    Names made = {
        {"n", end.name},
        {"lanes", number(end.stream.lanes)},
        {"bits", number(end.stream.bits)},
        {"beats", number(end.stream.beats)},
        {"bytes", number(kDataBytes)},
        {"burst", number(kBurst)},
        {"ebytes", number(end.port->type.storage_bytes())},
        {"kind", kind == Kind::kUnsigned  ? "0"
                 : kind == Kind::kBipolar ? "2"
                                          : "1"},
        {"axil", connect("axil", end.name, kAxiLite)},
        {"axi", master_reads ? connect("axi", end.name, kAxiRead) : connect("axi", end.name, kAxiWrite)},
        {"link_bytes", number(kLinkBytes)},
        {"packet", number(kPacket)},
        {"buffer", number(credits * words)},
        {"credits", number(credits)},
        {"r", bits_of_row(end.row, 1)},
        {"r4", bits_of_row(end.row, 4)},
        {"r16", bits_of_row(end.row, 16)},
        {"rword", bits_of_row(end.row, kLinkBytes * 8)},
        {"r256", bits_of_row(end.row, 256)}};
    made["row"] = fill(text_of("link_row"), made);
    return made;
  }
  static std::string bits_of_row(std::uint64_t row, std::uint64_t width) {
    return "[" + (width == 1 ? number(row) : number(row * width) + "+:" + number(width)) + "]";
  }

  static std::string tag_handshake(const std::string& name) {
    return "  logic " + name + "_valid, " + name + "_ready;\n";
  }
  static std::string tag_data(const std::string& name) { return "  logic " + range(kTagBits) + name + ";\n"; }
  static std::string tag_wires(const std::string& name) { return tag_handshake(name) + tag_data(name); }

  std::string input(const End& end) const {
    return "  // Input " + end.name + ".\n" + tag_wires(end.name + "_tag") +
           fill(end.link ? text_of("link_receive") : text_of("ingress"), names(end));
  }

  std::string output(const End& end) const {
    return "  // Output " + end.name + ".\n" +
           fill(end.link ? text_of("link_send") : text_of("egress"), names(end));
  }

  /// The hub of all ports and connectors. Rows of other partitions have no port here.
  std::string links() const {
    if (rows_ == 0) return "";
    return fill(text_of("link_hub"), {{"rows1", range(rows_)},
                                      {"rows4", range(rows_ * 4)},
                                      {"rows16", range(rows_ * 16)},
                                      {"rows_word", range(rows_ * kLinkBytes * 8)},
                                      {"rows256", range(rows_ * 256)},
                                      {"rows", number(rows_)},
                                      {"bytes", number(kLinkBytes)},
                                      {"connectors", number(options_.connectors)},
                                      {"packet", number(kPacket)},
                                      {"up", connectors("_up")},
                                      {"tx_valid", connectors("_tx_tvalid")},
                                      {"tx_ready", connectors("_tx_tready")},
                                      {"tx_data", connectors("_tx_tdata")},
                                      {"tx_last", connectors("_tx_tlast")},
                                      {"rx_valid", connectors("_rx_tvalid")},
                                      {"rx_data", connectors("_rx_tdata")},
                                      {"rx_last", connectors("_rx_tlast")},
                                      {"idle", idle_rows()}});
  }

  /// {last, …, first} of the connectors' signals.
  std::string connectors(const char* what) const {
    std::string list;
    for (std::uint32_t k = options_.connectors; k-- > 0;)
      list += "link" + number(k) + what + (k > 0 ? ", " : "");
    return "{" + list + "}";
  }

  std::string idle_rows() const {
    std::set<std::uint32_t> used;
    for (const auto* ends : {&inputs_, &outputs_})
      for (const auto& end : *ends)
        if (end.link) used.insert(end.row);
    std::string text;
    for (std::uint32_t row = 0; row < rows_; ++row) {
      if (used.contains(row)) continue;
      const std::string at = bits_of_row(row, 1);
      for (const char* name :
           {"link_peer", "link_port_fault", "link_packet", "link_stall", "link_port_valid", "link_port_last"})
        text += "  assign " + (name + at) + " = 1'b0;\n";
      text += "  assign link_bytes" + bits_of_row(row, 16) + " = '0;\n  assign link_port_data" +
              bits_of_row(row, kLinkBytes * 8) + " = '0;\n";
    }
    return text;
  }

  /// Passes the tag of a frame, on which all inputs must agree, to every output.
  std::string tags() const {
    std::string differ;
    for (std::size_t i = 1; i < inputs_.size(); ++i)
      differ += (i > 1 ? " || tags_in[" : "tags_in[") + number(i * kTagBits) + "+:96] != tags_in[0+:96]";
    std::string text = "  // The tag of a frame, from its inputs to its outputs.\n" + tag_wires("tag");
    text +=
        fill(text_of("tags"),
             {{"all_in", range(kTagBits * inputs_.size())},
              {"width", number(kTagBits)},
              {"inputs", number(inputs_.size())},
              {"in_valid", list(names_of(inputs_), "_tag_valid")},
              {"in_ready", list(names_of(inputs_), "_tag_ready")},
              {"in_data", list(names_of(inputs_), "_tag")},
              {"top", number(kTagBits - 1)},
              {"differ", differ.empty() ? "1'b0" : "tag_valid && (" + differ + ")"},
              // The time in the other inputs' tags is not used.
              {"unused",
               inputs_.size() < 2 ? "" : "  logic tags_unused;\n  assign tags_unused = &{1'b0, tags_in};\n"},
              {"outs", range(outputs_.size())},
              {"all_out", range(kTagBits * outputs_.size())},
              {"outputs", number(outputs_.size())}});
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      text += fill(text_of("tag_fifo"), {{"range", range(kTagBits)},
                                         {"tag", outputs_[i].name + "_tag"},
                                         {"width", number(kTagBits)},
                                         {"tags", number(kTags)},
                                         {"i", number(i)},
                                         {"begin", number(i * kTagBits)}});
    return text + "\n" + copies();
  }

  static std::vector<std::string> names_of(const std::vector<End>& ends) {
    std::vector<std::string> names;
    for (const End& end : ends) names.push_back(end.name);
    return names;
  }

  /// "{last, …, first}", each name with a suffix.
  static std::string list(const std::vector<std::string>& names, const char* suffix) {
    std::string text;
    for (std::size_t i = names.size(); i-- > 0;) text += names[i] + suffix + (i > 0 ? ", " : "");
    return "{" + text + "}";
  }

  /// Forks an output that has several channels.
  std::string copies() const {
    std::string text;
    for (const auto& port : design_.outputs) {
      std::vector<std::string> names;
      for (const auto& end : outputs_)
        if (end.port == &port) names.push_back(end.name + "_sent");
      const std::string width = number(design_.netlist.streams[port.stream].width());
      for (const auto& name : names)
        text += fill("  logic %name%_valid, %name%_ready;\n  logic [%width%-1:0] %name%;\n",
                     {{"name", name}, {"width", width}});
      text += fill(names.size() == 1 ? text_of("output_wires") : text_of("output_fork"),
                   {{"to", names[0]},
                    {"from", port.name},
                    {"width", width},
                    {"n", number(names.size())},
                    {"valid", list(names, "_valid")},
                    {"ready", list(names, "_ready")},
                    {"data", list(names, "")}});
    }
    return text + "\n";
  }

  const Design& design_;
  const RtlOptions& options_;
  std::vector<End> inputs_, outputs_;
  std::uint32_t rows_ = 0;  // of the link table; 0: no links
};

}  // namespace

std::set<std::string> top_modules() {
  return {"mr_control", "mr_supervisor", "mr_ingress",  "mr_egress",    "mr_fifo",
          "mr_fork",    "mr_join",       "mr_link_hub", "mr_link_send", "mr_link_receive"};
}

Result<TopModule> top_module(const Design& design, const std::vector<ImagePort>& ports,
                             const RtlOptions& options) {
  return Top(design, options).run(ports);
}

}  // namespace millrace::compiler::emit
