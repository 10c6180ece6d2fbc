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

/// A port of the image and the stream of the dataflow it belongs to.
struct End {
  std::string name;  // unique: "out0", "out0_2"
  const PortDesign* port = nullptr;
  Stream stream;
  bool link = false;
  std::uint32_t row = 0;  // of the link table
};

std::string number(std::uint64_t n) {
  return std::to_string(n);
}

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

  // ---- the module's own ports
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
    text +=
        "///\n/// Registers and runs: runtime/plan/image_abi.hpp. Each port, the supervisor and control have "
        "an AXI4-Lite slave <name>_axil_; "
        "host-fed\n/// inputs read and host-read outputs write memory through <name>_axi_. Links: connector "
        "k's cable core "
        "stands behind the AXI-Streams\n/// link<k>_tx_ and link<k>_rx_ of 64-bit words "
        "(kernels/rtl/README.md, \"A packet\"); "
        "link<k>_up says that it is there.\n" +
        (loads()
             ? std::string("/// Constants are loaded: parameters_axil_ takes the runs, parameters_axi_ reads "
                           "them from memory.\n")
             : std::string()) +
        (streams() ? std::string("/// Weights are read from there all the time, through weights<i>_axi_.\n")
                   : std::string()) +
        "`default_nettype none\nmodule " + design_.partition +
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

  // ---- connections of an instance
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
    std::string text =
        "  // ---- registers, epochs, faults\n"
        "  logic [31:0] epoch;\n  logic [63:0] now;\n"
        "  logic        flush, flow_rst, stop, frame_done, busy, quiet, port_error, port_error_before, "
        "supervisor_error, tags_differ;\n"
        "  logic        link_write, unused;\n  logic [11:0] link_waddr, link_raddr;\n  logic [31:0] "
        "link_wdata, link_rdata, link_fault_code, link_fault_row;\n  logic        link_fault;\n";
    std::string quiet = all("_quiet", " && ", true), errors = all("_error", " || ", true), done, busy;
    // Declared here and not beside its FIFO: it is read before.
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
          text += "  logic        " + end.name + "_quiet, " + end.name + "_error" +
                  (ends == &inputs_ ? ", " + end.name + "_busy" : ", " + end.name + "_done") + ";\n";
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
    // Where no host reads a result, a frame is counted when its tag leaves.
    if (done.empty()) done = outputs_.front().name + "_tag_valid && " + outputs_.front().name + "_tag_ready";
    text += "  assign port_error = tags_differ" + std::string(errors.empty() ? "" : " || ") + errors +
            ";\n  assign error      = port_error || supervisor_error;\n  assign quiet      = " + quiet +
            ";\n  assign frame_done = " + done + ";\n  assign busy       = " + busy.substr(4) + ";\n";
    text += "  mr_control #(.LINK_PORTS(" + number(rows_) + "), .CLOCK_MHZ(" +
            number(static_cast<std::uint64_t>(std::llround(options_.clock_mhz))) + ")) control (.clk, .rst" +
            connect("axil", "control", kAxiLite) +
            ",\n    .epoch, .now, .flush, .quiet, .flow_rst, .supervisor_stop(stop), .frame_done, .busy,\n"
            "    .link_write, .link_waddr, .link_wdata, .link_raddr, .link_rdata);\n" +
            (rows_ == 0
                 ? "  assign link_rdata = '0;\n  assign unused = &{1'b0, link_write, link_waddr, link_wdata, "
                   "link_raddr};\n  assign link_fault = 1'b0;\n  assign link_fault_code = '0;\n"
                   "  assign link_fault_row = '0;\n"
                 : "  assign unused = 1'b0;\n") +
            "  always_ff @(posedge clk) port_error_before <= !rst && port_error;\n"
            "  mr_supervisor #(.DATA_BYTES(" +
            number(kDataBytes) +
            ")) supervisor (.clk, .rst, .error(supervisor_error), .stop,\n"
            "    .fault(link_fault || (port_error && !port_error_before)), .fault_code(link_fault ? "
            "link_fault_code : "
            "32'd4),\n    .fault_link(link_fault ? link_fault_row : 32'd0), .irq(supervisor_irq)" +
            connect("axil", "supervisor", kAxiLite) + connect("axi", "supervisor", kAxiWrite) + ");\n\n";
    return text;
  }

  bool loads() const { return !design_.netlist.loads.empty(); }
  bool streams() const { return !design_.netlist.readers.empty(); }

  /// The unit that takes what is loaded.
  std::string parameters() const {
    if (!loads()) return "";
    const std::string unused =
        streams()
            ? std::string()
            : "  logic        parameters_given, parameters_unused;\n  assign parameters_unused = &{1'b0, "
              "parameters_given, parameters_streamed};\n";
    std::string values;
    for (const auto& [name, value] : generators::loader_parameters(design_.netlist))
      values += (values.empty() ? "." : ", .") + name + "(" + std::to_string(value) + ")";
    return "  // ---- parameters\n  logic        load_valid;\n  logic [63:0] load_data, "
           "parameters_streamed;\n" +
           unused + "  mr_parameters #(" + values +
           ") parameters (\n    .clk, .rst, .error(parameters_error), .irq(parameters_irq), .load_valid, "
           ".load_data, .streamed(parameters_streamed),\n    " +
           (streams() ? ".given(weights_given), .reading(!weights_quiet)"
                      : ".given(parameters_given), .reading(1'b0)") +
           connect("axil", "parameters", kAxiLite) + connect("axi", "parameters", kAxiRead) + ");\n\n";
  }

  std::string dataflow() const {
    std::string text = "  // ---- the network\n";
    for (const auto* ports : {&design_.inputs, &design_.outputs})
      for (const auto& port : *ports)
        text += "  logic " + port.name + "_valid, " + port.name + "_ready;\n  logic " +
                range(design_.netlist.streams[port.stream].width()) + port.name + "_data;\n";
    text += "  " + design_.partition + "_dataflow dataflow (.clk, .rst(flow_rst)";
    if (loads()) text += ",\n    .load_valid, .load_data";
    // New weights begin with the first line, and so do those of a new epoch.
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

  static std::string lane_parameters(const End& end) {
    return "#(.DATA_BYTES(" + number(kDataBytes) + "), .BURST(" + number(kBurst) + "), .LANES(" +
           number(end.stream.lanes) + "), .EBYTES(" + number(end.port->type.storage_bytes()) + "), .ABITS(" +
           number(end.stream.bits) + "), .AKIND(" +
           number(end.port->type.kind == kernels::ElementType::Kind::kUnsigned  ? 0U
                  : end.port->type.kind == kernels::ElementType::Kind::kBipolar ? 2U
                                                                                : 1U) +
           ")) ";
  }

  static std::string tag_handshake(const std::string& name) {
    return "  logic " + name + "_valid, " + name + "_ready;\n";
  }
  static std::string tag_data(const std::string& name) { return "  logic " + range(kTagBits) + name + ";\n"; }
  static std::string tag_wires(const std::string& name) { return tag_handshake(name) + tag_data(name); }

  std::string input(const End& end) const {
    const std::string tag = end.name + "_tag";
    std::string text = "  // ---- " + end.name + "\n" + tag_wires(tag);
    if (end.link) return text + receive(end);
    return text + "  mr_ingress " + lane_parameters(end) + end.name +
           "_ingress (\n    .clk, .rst, .flush, .quiet(" + end.name + "_quiet), .busy(" + end.name +
           "_busy), .error(" + end.name + "_error), .card_epoch(epoch), .now, .irq(" + end.name + "_irq)" +
           connect("axil", end.name, kAxiLite) + connect("axi", end.name, kAxiRead) + ",\n    .m_valid(" +
           end.name + "_valid), .m_ready(" + end.name + "_ready), .m_data(" + end.name +
           "_data),\n    .t_valid(" + tag + "_valid), .t_ready(" + tag + "_ready), .t_data(" + tag +
           "));\n\n";
  }

  // ---- links: table, switch, and a unit a port
  static std::string at(const std::string& name, std::uint64_t row, std::uint64_t width) {
    return name + "[" + (width == 1 ? number(row) : number(row * width) + "+:" + number(width)) + "]";
  }
  static std::string row_connections(std::uint32_t row) {
    return ".enable(" + at("link_enable", row, 1) + "), .tag(" + at("link_tag", row, 4) +
           "), .packet_bytes(" + at("link_packet_bytes", row, 16) + "), .credits(" +
           at("link_credits", row, 16) + "),\n    .peer(" + at("link_peer", row, 1) + "), .fault(" +
           at("link_port_fault", row, 1) + "), .packet(" + at("link_packet", row, 1) + "), .bytes(" +
           at("link_bytes", row, 16) + ")";
  }
  static std::string port_connections(std::uint32_t row, const char* prefix) {
    const std::string p = std::string(".") + prefix + "_";
    return p + "valid(" + at("link_port_valid", row, 1) + "), " + p + "ready(" +
           at("link_port_ready", row, 1) + "), " + p + "data(" + at("link_port_data", row, kLinkBytes * 8) +
           "), " + p + "last(" + at("link_port_last", row, 1) + ")";
  }
  LinkRoom room(const End& end) const {
    const auto found = options_.links.find(end.row);
    return found == options_.links.end() ? LinkRoom{} : found->second;
  }
  std::uint64_t packet_words(const End& end) const {
    return (std::uint64_t{room(end).packet_bytes} + kLinkBytes - 1) / kLinkBytes;
  }

  std::string receive(const End& end) const {
    const std::string tag = end.name + "_tag";
    const std::uint64_t credits = std::max<std::uint64_t>(generators::kLeastLinkCredits, room(end).credits);
    return "  mr_link_receive #(.BYTES(" + number(kLinkBytes) + "), .LANES(" + number(end.stream.lanes) +
           "), .ABITS(" + number(end.stream.bits) + "), .BEATS(" + number(end.stream.beats) + "), .BUFFER(" +
           number(credits * packet_words(end)) + "), .MOST(" + number(credits) + ")) " + end.name +
           "_receive (\n    .clk, .rst, .flush, .card_epoch(epoch), .now, " + row_connections(end.row) +
           ",\n    .start(" + at("link_start", end.row, 1) + "), .header(" + at("link_header", end.row, 256) +
           "), .word(" + at("link_word", end.row, 1) + "), .data(" +
           at("link_data", end.row, kLinkBytes * 8) + "), .finish(" + at("link_finish", end.row, 1) +
           "), .good(" + at("link_good", end.row, 1) + "),\n    .m_valid(" + end.name + "_valid), .m_ready(" +
           end.name + "_ready), .m_data(" + end.name + "_data), .t_valid(" + tag + "_valid), .t_ready(" +
           tag + "_ready), .t_data(" + tag + "),\n    " + port_connections(end.row, "c") + ");\n  assign " +
           at("link_stall", end.row, 1) + " = 1'b0;\n\n";
  }

  std::string send(const End& end) const {
    const std::string tag = end.name + "_tag", sent = end.name + "_sent";
    return "  mr_link_send #(.BYTES(" + number(kLinkBytes) + "), .LANES(" + number(end.stream.lanes) +
           "), .ABITS(" + number(end.stream.bits) + "), .BEATS(" + number(end.stream.beats) + "), .PACKET(" +
           number(kPacket) + ")) " + end.name +
           "_send (\n    .clk, .rst, .flush, .spoilt(port_error), .quiet(" + end.name + "_quiet), " +
           row_connections(end.row) + ", .stall(" + at("link_stall", end.row, 1) + "),\n    .s_valid(" +
           sent + "_valid), .s_ready(" + sent + "_ready), .s_data(" + sent + "), .t_valid(" + tag +
           "_valid), .t_ready(" + tag + "_ready), .t_data(" + tag + "),\n    .finish(" +
           at("link_finish", end.row, 1) + "), .good(" + at("link_good", end.row, 1) + "), .header(" +
           at("link_header", end.row, 256) + "),\n    " + port_connections(end.row, "m") + ");\n\n";
  }

  /// All ports and connectors together. Rows that are another partition's have no port here.
  std::string links() const {
    if (rows_ == 0) return "";
    std::string text =
        "  // ---- the link table and the way from ports to connectors\n  logic " + range(rows_) +
        "link_enable, link_peer, link_port_fault, link_packet, link_stall, link_start, link_word, "
        "link_finish, link_good;\n"
        "  logic " +
        range(rows_) + "link_port_valid, link_port_ready, link_port_last;\n  logic " + range(rows_ * 4) +
        "link_tag;\n  logic " + range(rows_ * 16) + "link_packet_bytes, link_credits, link_bytes;\n  logic " +
        range(rows_ * kLinkBytes * 8) + "link_port_data, link_data;\n  logic " + range(rows_ * 256) +
        "link_header;\n";
    text += "  mr_link_hub #(.BYTES(" + number(kLinkBytes) + "), .PORTS(" + number(rows_) +
            "), .CONNECTORS(" + number(options_.connectors) + "), .PACKET(" + number(kPacket) +
            ")) link_hub (\n    .clk, .rst, .fault(link_fault), .fault_code(link_fault_code), "
            ".fault_link(link_fault_row),\n"
            "    .link_write, .link_waddr, .link_wdata, .link_raddr, .link_rdata, .enable(link_enable), "
            ".tag(link_tag),\n"
            "    .packet_bytes(link_packet_bytes), .credits(link_credits), .peer(link_peer), "
            ".port_fault(link_port_fault),\n"
            "    .packet(link_packet), .bytes(link_bytes), .stall(link_stall), .s_valid(link_port_valid),\n"
            "    .s_ready(link_port_ready), .s_data(link_port_data), .s_last(link_port_last), "
            ".start(link_start),\n"
            "    .header(link_header), .word(link_word), .data(link_data), .finish(link_finish), "
            ".good(link_good),\n"
            "    .up(" +
            connectors("_up") + "), .tx_valid(" + connectors("_tx_tvalid") + "), .tx_ready(" +
            connectors("_tx_tready") + "),\n    .tx_data(" + connectors("_tx_tdata") + "), .tx_last(" +
            connectors("_tx_tlast") + "),\n    .rx_valid(" + connectors("_rx_tvalid") + "), .rx_data(" +
            connectors("_rx_tdata") + "), .rx_last(" + connectors("_rx_tlast") + "));\n";
    return text + idle_rows() +
           "  logic link_unused;\n  assign link_unused = &{1'b0, link_start, link_word, link_data, "
           "link_header};\n\n";
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
      for (const char* name :
           {"link_peer", "link_port_fault", "link_packet", "link_stall", "link_port_valid", "link_port_last"})
        text += "  assign " + at(name, row, 1) + " = 1'b0;\n";
      text += "  assign " + at("link_bytes", row, 16) + " = '0;\n  assign " +
              at("link_port_data", row, kLinkBytes * 8) + " = '0;\n";
    }
    return text;
  }

  /// The frame's tag: that of its inputs, which must agree, to every output.
  std::string tags() const {
    const auto list = [](const std::vector<End>& ends, const char* suffix) {
      std::string text;
      for (std::size_t i = ends.size(); i-- > 0;) text += ends[i].name + suffix + (i > 0 ? ", " : "");
      return "{" + text + "}";
    };
    const std::string n_in = number(inputs_.size()), n_out = number(outputs_.size());
    std::string text = "  // ---- tags: a frame's, from its inputs to its outputs\n" + tag_wires("tag");
    text += "  logic " + range(kTagBits * inputs_.size()) + "tags_in;\n";
    text += "  mr_join #(.WIDTH(" + number(kTagBits) + "), .N(" + n_in +
            ")) tag_join (.clk, .rst(flow_rst),\n    .s_valid(" + list(inputs_, "_tag_valid") +
            "), .s_ready(" + list(inputs_, "_tag_ready") + "), .s_data(" + list(inputs_, "_tag") +
            "),\n    .m_valid(tag_valid), .m_ready(tag_ready), .m_data(tags_in));\n  assign tag = tags_in[" +
            number(kTagBits - 1) + ":0];\n";
    std::string differ;
    for (std::size_t i = 1; i < inputs_.size(); ++i)
      differ +=
          (i > 1 ? " || " : "") + std::string("tags_in[") + number(i * kTagBits) + "+:96] != tags_in[0+:96]";
    text +=
        "  assign tags_differ = " + (differ.empty() ? std::string("1'b0") : "tag_valid && (" + differ + ")") +
        ";\n";
    // Of the other inputs' tags the time is nobody's business.
    if (inputs_.size() > 1) text += "  logic tags_unused;\n  assign tags_unused = &{1'b0, tags_in};\n";
    text +=
        "  logic " + range(outputs_.size()) + "tags_valid, tags_ready;\n  logic " +
        range(kTagBits * outputs_.size()) + "tags_out;\n  mr_fork #(.WIDTH(" + number(kTagBits) + "), .N(" +
        n_out +
        ")) tag_fork (.clk, .rst(flow_rst),\n    .s_valid(tag_valid), .s_ready(tag_ready), .s_data(tag),\n"
        "    .m_valid(tags_valid), .m_ready(tags_ready), .m_data(tags_out));\n";
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const std::string tag = outputs_[i].name + "_tag", at = number(i);
      text += tag_data(tag) + "  mr_fifo #(.WIDTH(" + number(kTagBits) + "), .DEPTH(" + number(kTags) +
              "), .MEMORY(1)) " + tag + "_fifo (.clk, .rst(flow_rst),\n    .s_valid(tags_valid[" + at +
              "]), .s_ready(tags_ready[" + at + "]), .s_data(tags_out[" + number(i * kTagBits) +
              "+:" + number(kTagBits) + "]),\n    .m_valid(" + tag + "_valid), .m_ready(" + tag +
              "_ready), .m_data(" + tag + "));\n";
    }
    return text + "\n" + copies();
  }

  /// An output that several channels take is forked.
  std::string copies() const {
    std::string text;
    for (const auto& port : design_.outputs) {
      std::vector<std::string> names;
      for (const auto& end : outputs_)
        if (end.port == &port) names.push_back(end.name + "_sent");
      const std::string width = number(design_.netlist.streams[port.stream].width());
      for (const auto& name : names)
        text +=
            "  logic " + name + "_valid, " + name + "_ready;\n  logic [" + width + "-1:0] " + name + ";\n";
      if (names.size() == 1) {
        text += "  assign " + names[0] + "_valid = " + port.name + "_valid;\n  assign " + port.name +
                "_ready = " + names[0] + "_ready;\n  assign " + names[0] + " = " + port.name + "_data;\n";
        continue;
      }
      const auto list = [&](const char* suffix) {
        std::string all;
        for (std::size_t i = names.size(); i-- > 0;) all += names[i] + suffix + (i > 0 ? ", " : "");
        return "{" + all + "}";
      };
      text += "  mr_fork #(.WIDTH(" + width + "), .N(" + number(names.size()) + ")) " + port.name +
              "_fork (.clk, .rst(flow_rst),\n    .s_valid(" + port.name + "_valid), .s_ready(" + port.name +
              "_ready), .s_data(" + port.name + "_data),\n    .m_valid(" + list("_valid") + "), .m_ready(" +
              list("_ready") + "), .m_data(" + list("") + "));\n";
    }
    return text + "\n";
  }

  std::string output(const End& end) const {
    const std::string tag = end.name + "_tag", sent = end.name + "_sent";
    std::string text = "  // ---- " + end.name + "\n";
    if (end.link) return text + send(end);
    return text + "  mr_egress " + lane_parameters(end) + end.name +
           "_egress (\n    .clk, .rst, .flush, .quiet(" + end.name + "_quiet), .error(" + end.name +
           "_error), .spoilt(port_error), .frame_done(" + end.name +
           "_done), .card_epoch(epoch), .now, .irq(" + end.name + "_irq)" +
           connect("axil", end.name, kAxiLite) + connect("axi", end.name, kAxiWrite) + ",\n    .s_valid(" +
           sent + "_valid), .s_ready(" + sent + "_ready), .s_data(" + sent + "),\n    .t_valid(" + tag +
           "_valid), .t_ready(" + tag + "_ready), .t_data(" + tag + "));\n\n";
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
