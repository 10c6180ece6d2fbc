#include "compiler/emit/rtl/top.hpp"

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

constexpr unsigned kDataBytes = 64;  // of an AXI4 port
constexpr unsigned kBurst = 16;      // words
constexpr unsigned kTags = 16;       // frames in a partition at once
constexpr unsigned kTagBits = 160;

struct Signal {
  const char* name;
  bool input;  // of the unit that is controlled, or that masters the bus
  unsigned width;
};

constexpr Signal kAxiLite[] = {{"awvalid", true, 1}, {"awready", false, 1}, {"awaddr", true, 12},
                               {"wvalid", true, 1},  {"wready", false, 1},  {"wdata", true, 32},
                               {"wstrb", true, 4},   {"bvalid", false, 1},  {"bready", true, 1},
                               {"bresp", false, 2},  {"arvalid", true, 1},  {"arready", false, 1},
                               {"araddr", true, 12}, {"rvalid", false, 1},  {"rready", true, 1},
                               {"rdata", false, 32}, {"rresp", false, 2}};
constexpr Signal kAxiRead[] = {
    {"arvalid", false, 1}, {"arready", true, 1}, {"araddr", false, 64},           {"arlen", false, 8},
    {"rvalid", true, 1},   {"rready", false, 1}, {"rdata", true, kDataBytes * 8}, {"rresp", true, 2},
    {"rlast", true, 1}};
constexpr Signal kAxiWrite[] = {{"awvalid", false, 1},
                                {"awready", true, 1},
                                {"awaddr", false, 64},
                                {"awlen", false, 8},
                                {"wvalid", false, 1},
                                {"wready", true, 1},
                                {"wdata", false, kDataBytes * 8},
                                {"wlast", false, 1},
                                {"bvalid", true, 1},
                                {"bready", false, 1},
                                {"bresp", true, 2}};

/// A port of the image and the stream of the dataflow it belongs to.
struct End {
  std::string name;  // unique: "out0", "out0_2"
  const PortDesign* port = nullptr;
  Stream stream;
  bool link = false;
};

std::string number(std::uint64_t n) {
  return std::to_string(n);
}

class Top {
 public:
  Top(const Design& design, const RtlOptions& options) : design_(design), options_(options) {}

  Result<std::string> run(const std::vector<ImagePort>& ports) {
    MILLRACE_TRY(match(ports));
    std::string body = control() + dataflow();
    for (const auto& end : inputs_) body += input(end);
    body += tags();
    for (const auto& end : outputs_) body += output(end);
    return header() + body + "endmodule\n`default_nettype wire\n";
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
          .push_back(
              {port.name + (copy > 1 ? "_" + number(static_cast<unsigned>(copy)) : ""), found, stream, link});
      links_ = links_ || link;
    }
    if (inputs_.size() != design_.inputs.size() || outputs_.size() < design_.outputs.size())
      return Error(ErrorCode::kInternal,
                   "rtl: the image of partition '" + design_.partition + "' lacks one of its ports");
    return {};
  }

  // ---- the module's own ports
  std::string header() const {
    std::string text =
        notice(design_.partition + "_top: partition " + design_.partition + " with its shell for " +
                   comment(options_.device) + ": AXI4-Lite registers, AXI4 to memory, links as AXI-Stream.",
               options_.generator);
    text +=
        "///\n/// Registers and runs: runtime/plan/image_abi.hpp. Each port, the supervisor and control have "
        "an AXI4-Lite slave <name>_axil_; "
        "host-fed\n/// inputs read and host-read outputs write memory through <name>_axi_. A link port is an "
        "AXI-Stream of the dataflow's beats,\n"
        "/// zeros above the lanes, and one of tags {time, sequence, epoch}, a tag a frame, to be given "
        "before the frame's last beat.\n"
        "`default_nettype none\nmodule " +
        design_.partition + "_top (\n  input  logic clk,\n  input  logic rst,\n  output logic error";
    text += bus("control", "axil", kAxiLite) + unit_ports("supervisor") + bus("supervisor", "axi", kAxiWrite);
    for (const auto& end : inputs_)
      text += end.link ? stream_ports(end, true) : unit_ports(end.name) + bus(end.name, "axi", kAxiRead);
    for (const auto& end : outputs_)
      text += end.link ? stream_ports(end, false) : unit_ports(end.name) + bus(end.name, "axi", kAxiWrite);
    if (links_)
      text +=
          ",\n\n  output logic [31:0] link_epoch,\n  output logic [63:0] link_now,\n  output logic "
          "link_flush,\n  input  logic link_quiet";
    return text + "\n);\n";
  }

  static std::string unit_ports(const std::string& name) {
    return bus(name, "axil", kAxiLite) + ",\n  output logic " + name + "_irq";
  }

  template <std::size_t N>
  static std::string bus(const std::string& name, const char* kind, const Signal (&signals)[N]) {
    std::string text = ",\n";
    for (std::size_t i = 0; i < N; ++i) {
      const Signal& s = signals[i];
      text += std::string(i > 0 ? ",\n" : "\n") + "  " + (s.input ? "input " : "output") + " logic " +
              (s.width > 1 ? range(s.width) : "") + name + "_" + kind + "_" + s.name;
    }
    return text;
  }

  static std::string stream_ports(const End& end, bool input) {
    const std::string forward = input ? "input " : "output", back = input ? "output" : "input ";
    const auto one = [&](const std::string& name, std::uint64_t width) {
      return ",\n  " + forward + " logic " + name + "_tvalid,\n  " + back + " logic " + name +
             "_tready,\n  " + forward + " logic " + range(width) + name + "_tdata";
    };
    return ",\n" + one(end.name, bytes(end) * 8).substr(1) + one(end.name + "_tag", kTagBits);
  }
  static std::uint64_t bytes(const End& end) { return (end.stream.width() + 7) / 8; }

  // ---- connections of an instance
  template <std::size_t N>
  static std::string connect(const std::string& port, const std::string& name, const Signal (&signals)[N]) {
    std::string text;
    for (std::size_t i = 0; i < N; ++i)
      text += std::string(i % 4 == 0 ? ",\n    " : ", ") + "." + port + "_" + signals[i].name + "(" + name +
              "_" + port + "_" + signals[i].name + ")";
    return text;
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
        "link_wdata;\n";
    std::string quiet = all("_quiet", " && ", true), errors = all("_error", " || ", true), done, busy;
    for (const auto& end : outputs_) {
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
    if (links_) quiet += std::string(quiet.empty() ? "" : " && ") + "link_quiet";
    // Where no host reads a result, a frame is counted when its tag leaves.
    if (done.empty()) done = outputs_.front().name + "_tag_valid && " + outputs_.front().name + "_tag_ready";
    text += "  assign port_error = tags_differ" + std::string(errors.empty() ? "" : " || ") + errors +
            ";\n  assign error      = port_error || supervisor_error;\n  assign quiet      = " + quiet +
            ";\n  assign frame_done = " + done + ";\n  assign busy       = " + busy.substr(4) + ";\n";
    if (links_)
      text += "  assign link_epoch = epoch;\n  assign link_now   = now;\n  assign link_flush = flush;\n";
    text += "  mr_control #(.CLOCK_MHZ(" +
            number(static_cast<std::uint64_t>(std::llround(options_.clock_mhz))) + ")) control (.clk, .rst" +
            connect("axil", "control", kAxiLite) +
            ",\n    .epoch, .now, .flush, .quiet, .flow_rst, .supervisor_stop(stop), .frame_done, .busy,\n"
            "    .link_write, .link_waddr, .link_wdata, .link_raddr, .link_rdata('0));\n"
            "  assign unused = &{1'b0, link_write, link_waddr, link_wdata, link_raddr};\n"
            "  always_ff @(posedge clk) port_error_before <= !rst && port_error;\n"
            "  mr_supervisor #(.DATA_BYTES(" +
            number(kDataBytes) +
            ")) supervisor (.clk, .rst, .error(supervisor_error), .stop,\n"
            "    .fault(port_error && !port_error_before), .fault_code(32'd4), .fault_link('0), "
            ".irq(supervisor_irq)" +
            connect("axil", "supervisor", kAxiLite) + connect("axi", "supervisor", kAxiWrite) + ");\n\n";
    return text;
  }

  std::string dataflow() const {
    std::string text = "  // ---- the network\n";
    for (const auto* ports : {&design_.inputs, &design_.outputs})
      for (const auto& port : *ports)
        text += "  logic " + port.name + "_valid, " + port.name + "_ready;\n  logic " +
                range(design_.netlist.streams[port.stream].width()) + port.name + "_data;\n";
    text += "  " + design_.partition + "_dataflow dataflow (.clk, .rst(flow_rst)";
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

  static std::string tag_wires(const std::string& name) {
    return "  logic " + name + "_valid, " + name + "_ready;\n  logic " + range(kTagBits) + name + ";\n";
  }

  std::string input(const End& end) const {
    const std::string tag = end.name + "_tag";
    std::string text = "  // ---- " + end.name + "\n" + tag_wires(tag);
    if (end.link) {
      text += "  assign " + end.name + "_valid = " + end.name + "_tvalid;\n  assign " + end.name +
              "_tready = " + end.name + "_ready;\n  assign " + end.name + "_data = " + end.name + "_tdata[" +
              number(end.stream.width() - 1) + ":0];\n";
      if (bytes(end) * 8 > end.stream.width())
        text += "  logic " + end.name + "_unused;\n  assign " + end.name + "_unused = &{1'b0, " + end.name +
                "_tdata[" + number(bytes(end) * 8 - 1) + ":" + number(end.stream.width()) + "]};\n";
      return text + "  assign " + tag + "_valid = " + tag + "_tvalid;\n  assign " + tag + "_tready = " + tag +
             "_ready;\n  assign " + tag + " = " + tag + "_tdata;\n\n";
    }
    return text + "  mr_ingress " + lane_parameters(end) + end.name +
           "_ingress (\n    .clk, .rst, .flush, .quiet(" + end.name + "_quiet), .busy(" + end.name +
           "_busy), .error(" + end.name + "_error), .card_epoch(epoch), .now, .irq(" + end.name + "_irq)" +
           connect("axil", end.name, kAxiLite) + connect("axi", end.name, kAxiRead) + ",\n    .m_valid(" +
           end.name + "_valid), .m_ready(" + end.name + "_ready), .m_data(" + end.name +
           "_data),\n    .t_valid(" + tag + "_valid), .t_ready(" + tag + "_ready), .t_data(" + tag +
           "));\n\n";
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
      text += tag_wires(tag) + "  mr_fifo #(.WIDTH(" + number(kTagBits) + "), .DEPTH(" + number(kTags) +
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
    if (end.link)
      return text + "  assign " + end.name + "_tvalid = " + sent + "_valid;\n  assign " + sent +
             "_ready = " + end.name + "_tready;\n  assign " + end.name +
             "_tdata = " + number(bytes(end) * 8) + "'(" + sent + ");\n  assign " + tag + "_tvalid = " + tag +
             "_valid;\n  assign " + tag + "_ready = " + tag + "_tready;\n  assign " + tag +
             "_tdata = " + tag + ";\n\n";
    return text + "  mr_egress " + lane_parameters(end) + end.name +
           "_egress (\n    .clk, .rst, .flush, .quiet(" + end.name + "_quiet), .error(" + end.name +
           "_error), .frame_done(" + end.name + "_done), .card_epoch(epoch), .now, .irq(" + end.name +
           "_irq)" + connect("axil", end.name, kAxiLite) + connect("axi", end.name, kAxiWrite) +
           ",\n    .s_valid(" + sent + "_valid), .s_ready(" + sent + "_ready), .s_data(" + sent +
           "),\n    .t_valid(" + tag + "_valid), .t_ready(" + tag + "_ready), .t_data(" + tag + "));\n\n";
  }

  const Design& design_;
  const RtlOptions& options_;
  std::vector<End> inputs_, outputs_;
  bool links_ = false;
};

}  // namespace

std::set<std::string> top_modules() {
  return {"mr_control", "mr_supervisor", "mr_ingress", "mr_egress", "mr_fifo", "mr_fork", "mr_join"};
}

Result<std::string> top_text(const Design& design, const std::vector<ImagePort>& ports,
                             const RtlOptions& options) {
  return Top(design, options).run(ports);
}

}  // namespace millrace::compiler::emit
