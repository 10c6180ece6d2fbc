/// The shell of a partition with one host-fed input and one host-read output: ingress, egress, control, supervisor
/// (which reports faults), and the tags between them.
///
/// The dataflow is between m_ (frames in) and s_ (frames out) and is reset by flow_rst. It may hold up to TAGS frames. A partition with
/// other ports is assembled from the same parts.
`default_nettype none
module mr_shell #(
  parameter integer DATA_BYTES = 64,
  parameter integer BURST      = 16,
  parameter integer TAGS       = 16,
  parameter integer CLOCK_MHZ  = 150,
  parameter integer I_LANES    = 1,
  parameter integer I_EBYTES   = 1,
  parameter integer I_BITS     = 8,
  parameter integer I_KIND     = 1,
  parameter integer O_LANES    = 1,
  parameter integer O_EBYTES   = 1,
  parameter integer O_BITS     = 8,
  parameter integer O_KIND     = 1
) (
  input  logic clk,
  input  logic rst,

  input  logic            ingress_awvalid,
  output logic            ingress_awready,
  input  logic [11:0]     ingress_awaddr,
  input  logic            ingress_wvalid,
  output logic            ingress_wready,
  input  logic [31:0]     ingress_wdata,
  input  logic [3:0]      ingress_wstrb,
  output logic            ingress_bvalid,
  input  logic            ingress_bready,
  output logic [1:0]      ingress_bresp,
  input  logic            ingress_arvalid,
  output logic            ingress_arready,
  input  logic [11:0]     ingress_araddr,
  output logic            ingress_rvalid,
  input  logic            ingress_rready,
  output logic [31:0]     ingress_rdata,
  output logic [1:0]      ingress_rresp,
  input  logic            egress_awvalid,
  output logic            egress_awready,
  input  logic [11:0]     egress_awaddr,
  input  logic            egress_wvalid,
  output logic            egress_wready,
  input  logic [31:0]     egress_wdata,
  input  logic [3:0]      egress_wstrb,
  output logic            egress_bvalid,
  input  logic            egress_bready,
  output logic [1:0]      egress_bresp,
  input  logic            egress_arvalid,
  output logic            egress_arready,
  input  logic [11:0]     egress_araddr,
  output logic            egress_rvalid,
  input  logic            egress_rready,
  output logic [31:0]     egress_rdata,
  output logic [1:0]      egress_rresp,
  input  logic            control_awvalid,
  output logic            control_awready,
  input  logic [11:0]     control_awaddr,
  input  logic            control_wvalid,
  output logic            control_wready,
  input  logic [31:0]     control_wdata,
  input  logic [3:0]      control_wstrb,
  output logic            control_bvalid,
  input  logic            control_bready,
  output logic [1:0]      control_bresp,
  input  logic            control_arvalid,
  output logic            control_arready,
  input  logic [11:0]     control_araddr,
  output logic            control_rvalid,
  input  logic            control_rready,
  output logic [31:0]     control_rdata,
  output logic [1:0]      control_rresp,
  input  logic            supervisor_awvalid,
  output logic            supervisor_awready,
  input  logic [11:0]     supervisor_awaddr,
  input  logic            supervisor_wvalid,
  output logic            supervisor_wready,
  input  logic [31:0]     supervisor_wdata,
  input  logic [3:0]      supervisor_wstrb,
  output logic            supervisor_bvalid,
  input  logic            supervisor_bready,
  output logic [1:0]      supervisor_bresp,
  input  logic            supervisor_arvalid,
  output logic            supervisor_arready,
  input  logic [11:0]     supervisor_araddr,
  output logic            supervisor_rvalid,
  input  logic            supervisor_rready,
  output logic [31:0]     supervisor_rdata,
  output logic [1:0]      supervisor_rresp,
  output logic            ingress_irq,
  output logic            egress_irq,
  output logic            supervisor_irq,
  output logic            error,

  output logic                    axi_arvalid,
  input  logic                    axi_arready,
  output logic [63:0]             axi_araddr,
  output logic [7:0]              axi_arlen,
  input  logic                    axi_rvalid,
  output logic                    axi_rready,
  input  logic [DATA_BYTES*8-1:0] axi_rdata,
  input  logic [1:0]              axi_rresp,
  input  logic                    axi_rlast,
  output logic                    axi_awvalid,
  input  logic                    axi_awready,
  output logic [63:0]             axi_awaddr,
  output logic [7:0]              axi_awlen,
  output logic                    axi_wvalid,
  input  logic                    axi_wready,
  output logic [DATA_BYTES*8-1:0] axi_wdata,
  output logic                    axi_wlast,
  input  logic                    axi_bvalid,
  output logic                    axi_bready,
  input  logic [1:0]              axi_bresp,

  output logic                    supervisor_axi_awvalid,
  input  logic                    supervisor_axi_awready,
  output logic [63:0]             supervisor_axi_awaddr,
  output logic [7:0]              supervisor_axi_awlen,
  output logic                    supervisor_axi_wvalid,
  input  logic                    supervisor_axi_wready,
  output logic [DATA_BYTES*8-1:0] supervisor_axi_wdata,
  output logic                    supervisor_axi_wlast,
  input  logic                    supervisor_axi_bvalid,
  output logic                    supervisor_axi_bready,
  input  logic [1:0]              supervisor_axi_bresp,

  output logic                      flow_rst,
  output logic                      m_valid,
  input  logic                      m_ready,
  output logic [I_LANES*I_BITS-1:0] m_data,
  input  logic                      s_valid,
  output logic                      s_ready,
  input  logic [O_LANES*O_BITS-1:0] s_data
);
  logic [31:0]  epoch;
  logic [63:0]  now;
  logic         flush, ingress_quiet, egress_quiet, ingress_busy, ingress_error, egress_error, frame_done;
  logic         in_valid, in_ready, out_valid, out_ready;
  logic [159:0] in_tag, out_tag;
  logic         port_error, port_error_before, stop, supervisor_error, link_write;
  logic [11:0]  link_waddr, link_raddr;
  logic [31:0]  link_wdata;
  assign port_error = ingress_error || egress_error;
  assign error      = port_error || supervisor_error;

  mr_control #(.CLOCK_MHZ(CLOCK_MHZ)) control (.clk, .rst,
    .axil_awvalid(control_awvalid), .axil_awready(control_awready), .axil_awaddr(control_awaddr), .axil_wvalid(control_wvalid),
    .axil_wready(control_wready), .axil_wdata(control_wdata), .axil_wstrb(control_wstrb), .axil_bvalid(control_bvalid),
    .axil_bready(control_bready), .axil_bresp(control_bresp), .axil_arvalid(control_arvalid), .axil_arready(control_arready),
    .axil_araddr(control_araddr), .axil_rvalid(control_rvalid), .axil_rready(control_rready), .axil_rdata(control_rdata),
    .axil_rresp(control_rresp),
    .epoch, .now, .flush, .quiet(ingress_quiet && egress_quiet), .flow_rst, .supervisor_stop(stop), .frame_done,
    .busy(ingress_busy || out_valid), .link_write, .link_waddr, .link_wdata, .link_raddr, .link_rdata('0));

  // Code 4: kInternal.
  always_ff @(posedge clk) port_error_before <= !rst && port_error;
  mr_supervisor #(.DATA_BYTES(DATA_BYTES)) supervisor (.clk, .rst, .error(supervisor_error), .stop,
    .fault(port_error && !port_error_before), .fault_code(32'd4), .fault_link('0),
    .axil_awvalid(supervisor_awvalid), .axil_awready(supervisor_awready), .axil_awaddr(supervisor_awaddr),
    .axil_wvalid(supervisor_wvalid), .axil_wready(supervisor_wready), .axil_wdata(supervisor_wdata), .axil_wstrb(supervisor_wstrb),
    .axil_bvalid(supervisor_bvalid), .axil_bready(supervisor_bready), .axil_bresp(supervisor_bresp),
    .axil_arvalid(supervisor_arvalid), .axil_arready(supervisor_arready), .axil_araddr(supervisor_araddr),
    .axil_rvalid(supervisor_rvalid), .axil_rready(supervisor_rready), .axil_rdata(supervisor_rdata), .axil_rresp(supervisor_rresp),
    .irq(supervisor_irq),
    .axi_awvalid(supervisor_axi_awvalid), .axi_awready(supervisor_axi_awready), .axi_awaddr(supervisor_axi_awaddr),
    .axi_awlen(supervisor_axi_awlen), .axi_wvalid(supervisor_axi_wvalid), .axi_wready(supervisor_axi_wready),
    .axi_wdata(supervisor_axi_wdata), .axi_wlast(supervisor_axi_wlast), .axi_bvalid(supervisor_axi_bvalid),
    .axi_bready(supervisor_axi_bready), .axi_bresp(supervisor_axi_bresp));
  logic unused;
  assign unused = &{1'b0, link_write, link_waddr, link_wdata, link_raddr};  // no link table without links

  mr_ingress #(.DATA_BYTES(DATA_BYTES), .BURST(BURST), .LANES(I_LANES), .EBYTES(I_EBYTES), .ABITS(I_BITS), .AKIND(I_KIND)) ingress (
    .clk, .rst, .flush, .quiet(ingress_quiet), .busy(ingress_busy), .error(ingress_error), .card_epoch(epoch), .now,
    .axil_awvalid(ingress_awvalid), .axil_awready(ingress_awready), .axil_awaddr(ingress_awaddr), .axil_wvalid(ingress_wvalid),
    .axil_wready(ingress_wready), .axil_wdata(ingress_wdata), .axil_wstrb(ingress_wstrb), .axil_bvalid(ingress_bvalid),
    .axil_bready(ingress_bready), .axil_bresp(ingress_bresp), .axil_arvalid(ingress_arvalid), .axil_arready(ingress_arready),
    .axil_araddr(ingress_araddr), .axil_rvalid(ingress_rvalid), .axil_rready(ingress_rready), .axil_rdata(ingress_rdata),
    .axil_rresp(ingress_rresp),
    .irq(ingress_irq),
    .axi_arvalid, .axi_arready, .axi_araddr, .axi_arlen, .axi_rvalid, .axi_rready, .axi_rdata, .axi_rresp, .axi_rlast,
    .m_valid, .m_ready, .m_data, .t_valid(in_valid), .t_ready(in_ready), .t_data(in_tag));

  mr_fifo #(.WIDTH(160), .DEPTH(TAGS), .MEMORY(1)) tags (
    .clk, .rst(flow_rst), .s_valid(in_valid), .s_ready(in_ready), .s_data(in_tag),
    .m_valid(out_valid), .m_ready(out_ready), .m_data(out_tag));

  mr_egress #(.DATA_BYTES(DATA_BYTES), .BURST(BURST), .LANES(O_LANES), .EBYTES(O_EBYTES), .ABITS(O_BITS), .AKIND(O_KIND)) egress (
    .clk, .rst, .flush, .quiet(egress_quiet), .error(egress_error), .spoilt(port_error), .frame_done, .card_epoch(epoch), .now,
    .axil_awvalid(egress_awvalid), .axil_awready(egress_awready), .axil_awaddr(egress_awaddr), .axil_wvalid(egress_wvalid),
    .axil_wready(egress_wready), .axil_wdata(egress_wdata), .axil_wstrb(egress_wstrb), .axil_bvalid(egress_bvalid),
    .axil_bready(egress_bready), .axil_bresp(egress_bresp), .axil_arvalid(egress_arvalid), .axil_arready(egress_arready),
    .axil_araddr(egress_araddr), .axil_rvalid(egress_rvalid), .axil_rready(egress_rready), .axil_rdata(egress_rdata),
    .axil_rresp(egress_rresp),
    .irq(egress_irq),
    .axi_awvalid, .axi_awready, .axi_awaddr, .axi_awlen, .axi_wvalid, .axi_wready, .axi_wdata, .axi_wlast,
    .axi_bvalid, .axi_bready, .axi_bresp,
    .s_valid, .s_ready, .s_data, .t_valid(out_valid), .t_ready(out_ready), .t_data(out_tag));
endmodule
`default_nettype wire
