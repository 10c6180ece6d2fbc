/// part0_top: partition part0 with its shell for ku060 at 156.25 MHz: AXI4-Lite registers, AXI4 to memory, links as AXI-Stream.
///
/// Written by millrace. Simulated with Verilator and synthesised with Yosys; never been through Vivado or on a card.
///
/// runtime/plan/image_abi.hpp describes registers and runs. Each port, the supervisor and control have an AXI4-Lite slave
/// <name>_axil_. Inputs from the host read memory through <name>_axi_, and outputs to the host write it. The cable core of
/// connector k is connected to the AXI-Streams link<k>_tx_ and link<k>_rx_ of 64-bit words (kernels/rtl/README.md,
/// "A packet"); link<k>_up says whether the cable core's link is up.
/// Constants are loaded: parameters_axil_ takes the runs, parameters_axi_ reads them from memory.
/// Weights are read from memory all the time, through weights<i>_axi_.
`default_nettype none
module part0_top (
  input  logic clk,
  input  logic rst,
  output logic error,

  input  logic control_axil_awvalid,
  output logic control_axil_awready,
  input  logic [11:0] control_axil_awaddr,
  input  logic control_axil_wvalid,
  output logic control_axil_wready,
  input  logic [31:0] control_axil_wdata,
  input  logic [3:0] control_axil_wstrb,
  output logic control_axil_bvalid,
  input  logic control_axil_bready,
  output logic [1:0] control_axil_bresp,
  input  logic control_axil_arvalid,
  output logic control_axil_arready,
  input  logic [11:0] control_axil_araddr,
  output logic control_axil_rvalid,
  input  logic control_axil_rready,
  output logic [31:0] control_axil_rdata,
  output logic [1:0] control_axil_rresp,

  input  logic supervisor_axil_awvalid,
  output logic supervisor_axil_awready,
  input  logic [11:0] supervisor_axil_awaddr,
  input  logic supervisor_axil_wvalid,
  output logic supervisor_axil_wready,
  input  logic [31:0] supervisor_axil_wdata,
  input  logic [3:0] supervisor_axil_wstrb,
  output logic supervisor_axil_bvalid,
  input  logic supervisor_axil_bready,
  output logic [1:0] supervisor_axil_bresp,
  input  logic supervisor_axil_arvalid,
  output logic supervisor_axil_arready,
  input  logic [11:0] supervisor_axil_araddr,
  output logic supervisor_axil_rvalid,
  input  logic supervisor_axil_rready,
  output logic [31:0] supervisor_axil_rdata,
  output logic [1:0] supervisor_axil_rresp,
  output logic supervisor_irq,

  output logic supervisor_axi_awvalid,
  input  logic supervisor_axi_awready,
  output logic [63:0] supervisor_axi_awaddr,
  output logic [7:0] supervisor_axi_awlen,
  output logic supervisor_axi_wvalid,
  input  logic supervisor_axi_wready,
  output logic [511:0] supervisor_axi_wdata,
  output logic supervisor_axi_wlast,
  input  logic supervisor_axi_bvalid,
  output logic supervisor_axi_bready,
  input  logic [1:0] supervisor_axi_bresp,

  input  logic parameters_axil_awvalid,
  output logic parameters_axil_awready,
  input  logic [11:0] parameters_axil_awaddr,
  input  logic parameters_axil_wvalid,
  output logic parameters_axil_wready,
  input  logic [31:0] parameters_axil_wdata,
  input  logic [3:0] parameters_axil_wstrb,
  output logic parameters_axil_bvalid,
  input  logic parameters_axil_bready,
  output logic [1:0] parameters_axil_bresp,
  input  logic parameters_axil_arvalid,
  output logic parameters_axil_arready,
  input  logic [11:0] parameters_axil_araddr,
  output logic parameters_axil_rvalid,
  input  logic parameters_axil_rready,
  output logic [31:0] parameters_axil_rdata,
  output logic [1:0] parameters_axil_rresp,
  output logic parameters_irq,

  output logic parameters_axi_arvalid,
  input  logic parameters_axi_arready,
  output logic [63:0] parameters_axi_araddr,
  output logic [7:0] parameters_axi_arlen,
  input  logic parameters_axi_rvalid,
  output logic parameters_axi_rready,
  input  logic [511:0] parameters_axi_rdata,
  input  logic [1:0] parameters_axi_rresp,
  input  logic parameters_axi_rlast,

  output logic weights0_axi_arvalid,
  input  logic weights0_axi_arready,
  output logic [63:0] weights0_axi_araddr,
  output logic [7:0] weights0_axi_arlen,
  input  logic weights0_axi_rvalid,
  output logic weights0_axi_rready,
  input  logic [511:0] weights0_axi_rdata,
  input  logic [1:0] weights0_axi_rresp,
  input  logic weights0_axi_rlast,

  input  logic in0_axil_awvalid,
  output logic in0_axil_awready,
  input  logic [11:0] in0_axil_awaddr,
  input  logic in0_axil_wvalid,
  output logic in0_axil_wready,
  input  logic [31:0] in0_axil_wdata,
  input  logic [3:0] in0_axil_wstrb,
  output logic in0_axil_bvalid,
  input  logic in0_axil_bready,
  output logic [1:0] in0_axil_bresp,
  input  logic in0_axil_arvalid,
  output logic in0_axil_arready,
  input  logic [11:0] in0_axil_araddr,
  output logic in0_axil_rvalid,
  input  logic in0_axil_rready,
  output logic [31:0] in0_axil_rdata,
  output logic [1:0] in0_axil_rresp,
  output logic in0_irq,

  output logic in0_axi_arvalid,
  input  logic in0_axi_arready,
  output logic [63:0] in0_axi_araddr,
  output logic [7:0] in0_axi_arlen,
  input  logic in0_axi_rvalid,
  output logic in0_axi_rready,
  input  logic [511:0] in0_axi_rdata,
  input  logic [1:0] in0_axi_rresp,
  input  logic in0_axi_rlast,

  input  logic out0_axil_awvalid,
  output logic out0_axil_awready,
  input  logic [11:0] out0_axil_awaddr,
  input  logic out0_axil_wvalid,
  output logic out0_axil_wready,
  input  logic [31:0] out0_axil_wdata,
  input  logic [3:0] out0_axil_wstrb,
  output logic out0_axil_bvalid,
  input  logic out0_axil_bready,
  output logic [1:0] out0_axil_bresp,
  input  logic out0_axil_arvalid,
  output logic out0_axil_arready,
  input  logic [11:0] out0_axil_araddr,
  output logic out0_axil_rvalid,
  input  logic out0_axil_rready,
  output logic [31:0] out0_axil_rdata,
  output logic [1:0] out0_axil_rresp,
  output logic out0_irq,

  output logic out0_axi_awvalid,
  input  logic out0_axi_awready,
  output logic [63:0] out0_axi_awaddr,
  output logic [7:0] out0_axi_awlen,
  output logic out0_axi_wvalid,
  input  logic out0_axi_wready,
  output logic [511:0] out0_axi_wdata,
  output logic out0_axi_wlast,
  input  logic out0_axi_bvalid,
  output logic out0_axi_bready,
  input  logic [1:0] out0_axi_bresp
);
  // Registers, epochs, faults.
  logic [31:0] epoch;
  logic [63:0] now;
  logic        flush, flow_rst, stop, frame_done, busy, quiet, port_error, port_error_before, supervisor_error, tags_differ;
  logic        link_write, unused;
  logic [11:0] link_waddr, link_raddr;
  logic [31:0] link_wdata, link_rdata, link_fault_code, link_fault_row;
  logic        link_fault;
  logic out0_tag_valid, out0_tag_ready;
  logic        in0_quiet, in0_error, in0_busy;
  logic        out0_quiet, out0_error, out0_done;
  logic        parameters_error;
  logic        weights_quiet, weights_error, weights_given;
  assign port_error = tags_differ || in0_error || out0_error || parameters_error || weights_error;
  assign error      = port_error || supervisor_error;
  assign quiet      = in0_quiet && out0_quiet && weights_quiet;
  assign frame_done = out0_done;
  assign busy       = out0_tag_valid || in0_busy;
  mr_control #(.LINK_PORTS(0), .CLOCK_MHZ(156)) control (.clk, .rst,
    .axil_awvalid(control_axil_awvalid), .axil_awready(control_axil_awready), .axil_awaddr(control_axil_awaddr),
    .axil_wvalid(control_axil_wvalid), .axil_wready(control_axil_wready), .axil_wdata(control_axil_wdata),
    .axil_wstrb(control_axil_wstrb), .axil_bvalid(control_axil_bvalid), .axil_bready(control_axil_bready),
    .axil_bresp(control_axil_bresp), .axil_arvalid(control_axil_arvalid), .axil_arready(control_axil_arready),
    .axil_araddr(control_axil_araddr), .axil_rvalid(control_axil_rvalid), .axil_rready(control_axil_rready),
    .axil_rdata(control_axil_rdata), .axil_rresp(control_axil_rresp),
    .epoch, .now, .flush, .quiet, .flow_rst, .supervisor_stop(stop), .frame_done, .busy,
    .link_write, .link_waddr, .link_wdata, .link_raddr, .link_rdata);
  assign link_rdata = '0;
  assign unused = &{1'b0, link_write, link_waddr, link_wdata, link_raddr};
  assign link_fault = 1'b0;
  assign link_fault_code = '0;
  assign link_fault_row = '0;
  always_ff @(posedge clk) port_error_before <= !rst && port_error;
  mr_supervisor #(.DATA_BYTES(64)) supervisor (.clk, .rst, .error(supervisor_error), .stop,
    .fault(link_fault || (port_error && !port_error_before)), .fault_code(link_fault ? link_fault_code : 32'd4),
    .fault_link(link_fault ? link_fault_row : 32'd0), .irq(supervisor_irq),
    .axil_awvalid(supervisor_axil_awvalid), .axil_awready(supervisor_axil_awready), .axil_awaddr(supervisor_axil_awaddr),
    .axil_wvalid(supervisor_axil_wvalid), .axil_wready(supervisor_axil_wready), .axil_wdata(supervisor_axil_wdata),
    .axil_wstrb(supervisor_axil_wstrb), .axil_bvalid(supervisor_axil_bvalid), .axil_bready(supervisor_axil_bready),
    .axil_bresp(supervisor_axil_bresp), .axil_arvalid(supervisor_axil_arvalid), .axil_arready(supervisor_axil_arready),
    .axil_araddr(supervisor_axil_araddr), .axil_rvalid(supervisor_axil_rvalid), .axil_rready(supervisor_axil_rready),
    .axil_rdata(supervisor_axil_rdata), .axil_rresp(supervisor_axil_rresp),
    .axi_awvalid(supervisor_axi_awvalid), .axi_awready(supervisor_axi_awready), .axi_awaddr(supervisor_axi_awaddr),
    .axi_awlen(supervisor_axi_awlen), .axi_wvalid(supervisor_axi_wvalid), .axi_wready(supervisor_axi_wready),
    .axi_wdata(supervisor_axi_wdata), .axi_wlast(supervisor_axi_wlast), .axi_bvalid(supervisor_axi_bvalid),
    .axi_bready(supervisor_axi_bready), .axi_bresp(supervisor_axi_bresp));

  // Parameters.
  logic        load_valid;
  logic [63:0] load_data, parameters_streamed;
  mr_parameters #(.DATA_BYTES(64), .BURST(16), .WORDS(104), .HOPS(3)) parameters (
    .clk, .rst, .error(parameters_error), .irq(parameters_irq), .load_valid, .load_data, .streamed(parameters_streamed),
    .given(weights_given), .reading(!weights_quiet),
    .axil_awvalid(parameters_axil_awvalid), .axil_awready(parameters_axil_awready), .axil_awaddr(parameters_axil_awaddr),
    .axil_wvalid(parameters_axil_wvalid), .axil_wready(parameters_axil_wready), .axil_wdata(parameters_axil_wdata),
    .axil_wstrb(parameters_axil_wstrb), .axil_bvalid(parameters_axil_bvalid), .axil_bready(parameters_axil_bready),
    .axil_bresp(parameters_axil_bresp), .axil_arvalid(parameters_axil_arvalid), .axil_arready(parameters_axil_arready),
    .axil_araddr(parameters_axil_araddr), .axil_rvalid(parameters_axil_rvalid), .axil_rready(parameters_axil_rready),
    .axil_rdata(parameters_axil_rdata), .axil_rresp(parameters_axil_rresp),
    .axi_arvalid(parameters_axi_arvalid), .axi_arready(parameters_axi_arready), .axi_araddr(parameters_axi_araddr),
    .axi_arlen(parameters_axi_arlen), .axi_rvalid(parameters_axi_rvalid), .axi_rready(parameters_axi_rready),
    .axi_rdata(parameters_axi_rdata), .axi_rresp(parameters_axi_rresp), .axi_rlast(parameters_axi_rlast));

  // The network.
  logic in0_valid, in0_ready;
  logic [31:0] in0_data;
  logic out0_valid, out0_ready;
  logic [15:0] out0_data;
  part0_dataflow dataflow (.clk, .rst(flow_rst),
    .load_valid, .load_data,
    .weights_active(weights_given), .weights_flush(flush || !weights_given), .weights_addr(parameters_streamed), .weights_quiet,
        .weights_error,
    .weights0_axi_arvalid(weights0_axi_arvalid), .weights0_axi_arready(weights0_axi_arready), .weights0_axi_araddr(weights0_axi_araddr),
    .weights0_axi_arlen(weights0_axi_arlen), .weights0_axi_rvalid(weights0_axi_rvalid), .weights0_axi_rready(weights0_axi_rready),
    .weights0_axi_rdata(weights0_axi_rdata), .weights0_axi_rresp(weights0_axi_rresp), .weights0_axi_rlast(weights0_axi_rlast),
    .in0_valid, .in0_ready, .in0_data,
    .out0_valid, .out0_ready, .out0_data);

  // Input in0.
  logic in0_tag_valid, in0_tag_ready;
  logic [159:0] in0_tag;
  mr_ingress #(.DATA_BYTES(64), .BURST(16), .LANES(4), .EBYTES(1), .ABITS(8), .AKIND(1)) in0_ingress (
    .clk, .rst, .flush, .quiet(in0_quiet), .busy(in0_busy), .error(in0_error), .card_epoch(epoch), .now, .irq(in0_irq),
    .axil_awvalid(in0_axil_awvalid), .axil_awready(in0_axil_awready), .axil_awaddr(in0_axil_awaddr),
    .axil_wvalid(in0_axil_wvalid), .axil_wready(in0_axil_wready), .axil_wdata(in0_axil_wdata),
    .axil_wstrb(in0_axil_wstrb), .axil_bvalid(in0_axil_bvalid), .axil_bready(in0_axil_bready),
    .axil_bresp(in0_axil_bresp), .axil_arvalid(in0_axil_arvalid), .axil_arready(in0_axil_arready),
    .axil_araddr(in0_axil_araddr), .axil_rvalid(in0_axil_rvalid), .axil_rready(in0_axil_rready),
    .axil_rdata(in0_axil_rdata), .axil_rresp(in0_axil_rresp),
    .axi_arvalid(in0_axi_arvalid), .axi_arready(in0_axi_arready), .axi_araddr(in0_axi_araddr),
    .axi_arlen(in0_axi_arlen), .axi_rvalid(in0_axi_rvalid), .axi_rready(in0_axi_rready),
    .axi_rdata(in0_axi_rdata), .axi_rresp(in0_axi_rresp), .axi_rlast(in0_axi_rlast),
    .m_valid(in0_valid), .m_ready(in0_ready), .m_data(in0_data),
    .t_valid(in0_tag_valid), .t_ready(in0_tag_ready), .t_data(in0_tag));

  // Passes the tag of each frame from the inputs to the outputs.
  logic tag_valid, tag_ready;
  logic [159:0] tag;
  logic [159:0] tags_in;
  mr_join #(.WIDTH(160), .N(1)) tag_join (.clk, .rst(flow_rst),
    .s_valid({in0_tag_valid}), .s_ready({in0_tag_ready}), .s_data({in0_tag}),
    .m_valid(tag_valid), .m_ready(tag_ready), .m_data(tags_in));
  assign tag = tags_in[159:0];
  assign tags_differ = 1'b0;
  logic [0:0] tags_valid, tags_ready;
  logic [159:0] tags_out;
  mr_fork #(.WIDTH(160), .N(1)) tag_fork (.clk, .rst(flow_rst),
    .s_valid(tag_valid), .s_ready(tag_ready), .s_data(tag),
    .m_valid(tags_valid), .m_ready(tags_ready), .m_data(tags_out));
  logic [159:0] out0_tag;
  mr_fifo #(.WIDTH(160), .DEPTH(16), .MEMORY(1)) out0_tag_fifo (.clk, .rst(flow_rst),
    .s_valid(tags_valid[0]), .s_ready(tags_ready[0]), .s_data(tags_out[0+:160]),
    .m_valid(out0_tag_valid), .m_ready(out0_tag_ready), .m_data(out0_tag));

  logic out0_sent_valid, out0_sent_ready;
  logic [16-1:0] out0_sent;
  assign out0_sent_valid = out0_valid;
  assign out0_ready = out0_sent_ready;
  assign out0_sent = out0_data;

  // Output out0.
  mr_egress #(.DATA_BYTES(64), .BURST(16), .LANES(2), .EBYTES(1), .ABITS(8), .AKIND(1)) out0_egress (
    .clk, .rst, .flush, .quiet(out0_quiet), .error(out0_error), .spoilt(port_error), .frame_done(out0_done), .card_epoch(epoch), .now,
        .irq(out0_irq),
    .axil_awvalid(out0_axil_awvalid), .axil_awready(out0_axil_awready), .axil_awaddr(out0_axil_awaddr),
    .axil_wvalid(out0_axil_wvalid), .axil_wready(out0_axil_wready), .axil_wdata(out0_axil_wdata),
    .axil_wstrb(out0_axil_wstrb), .axil_bvalid(out0_axil_bvalid), .axil_bready(out0_axil_bready),
    .axil_bresp(out0_axil_bresp), .axil_arvalid(out0_axil_arvalid), .axil_arready(out0_axil_arready),
    .axil_araddr(out0_axil_araddr), .axil_rvalid(out0_axil_rvalid), .axil_rready(out0_axil_rready),
    .axil_rdata(out0_axil_rdata), .axil_rresp(out0_axil_rresp),
    .axi_awvalid(out0_axi_awvalid), .axi_awready(out0_axi_awready), .axi_awaddr(out0_axi_awaddr),
    .axi_awlen(out0_axi_awlen), .axi_wvalid(out0_axi_wvalid), .axi_wready(out0_axi_wready),
    .axi_wdata(out0_axi_wdata), .axi_wlast(out0_axi_wlast), .axi_bvalid(out0_axi_bvalid),
    .axi_bready(out0_axi_bready), .axi_bresp(out0_axi_bresp),
    .s_valid(out0_sent_valid), .s_ready(out0_sent_ready), .s_data(out0_sent),
    .t_valid(out0_tag_valid), .t_ready(out0_tag_ready), .t_data(out0_tag));

endmodule
`default_nettype wire
