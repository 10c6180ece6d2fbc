// millrace_image0: part0_top as a Vitis RTL kernel: its register slaves as windows of one, 4 KiB each, and full AXI4 masters.
// Window i at i * 0x1000: control, supervisor, parameters, in0, out0.
// Verilog-2001, as the packager's top must be; what it instantiates is SystemVerilog. Never been through Vivado or on a card.
`default_nettype none
module millrace_image0 (
  input  wire ap_clk,
  input  wire ap_rst_n,
  output wire interrupt,
  input  wire s_axi_control_awvalid,
  output wire s_axi_control_awready,
  input  wire [15:0] s_axi_control_awaddr,
  input  wire s_axi_control_wvalid,
  output wire s_axi_control_wready,
  input  wire [31:0] s_axi_control_wdata,
  input  wire [3:0] s_axi_control_wstrb,
  output wire s_axi_control_bvalid,
  input  wire s_axi_control_bready,
  output wire [1:0] s_axi_control_bresp,
  input  wire s_axi_control_arvalid,
  output wire s_axi_control_arready,
  input  wire [15:0] s_axi_control_araddr,
  output wire s_axi_control_rvalid,
  input  wire s_axi_control_rready,
  output wire [31:0] s_axi_control_rdata,
  output wire [1:0] s_axi_control_rresp,
  output wire m_axi_supervisor_awvalid,
  input  wire m_axi_supervisor_awready,
  output wire [63:0] m_axi_supervisor_awaddr,
  output wire [7:0] m_axi_supervisor_awlen,
  output wire m_axi_supervisor_wvalid,
  input  wire m_axi_supervisor_wready,
  output wire [511:0] m_axi_supervisor_wdata,
  output wire m_axi_supervisor_wlast,
  input  wire m_axi_supervisor_bvalid,
  output wire m_axi_supervisor_bready,
  input  wire [1:0] m_axi_supervisor_bresp,
  output wire [2:0] m_axi_supervisor_awsize,
  output wire [1:0] m_axi_supervisor_awburst,
  output wire [3:0] m_axi_supervisor_awcache,
  output wire [2:0] m_axi_supervisor_awprot,
  output wire [63:0] m_axi_supervisor_wstrb,
  output wire m_axi_parameters_arvalid,
  input  wire m_axi_parameters_arready,
  output wire [63:0] m_axi_parameters_araddr,
  output wire [7:0] m_axi_parameters_arlen,
  input  wire m_axi_parameters_rvalid,
  output wire m_axi_parameters_rready,
  input  wire [511:0] m_axi_parameters_rdata,
  input  wire [1:0] m_axi_parameters_rresp,
  input  wire m_axi_parameters_rlast,
  output wire [2:0] m_axi_parameters_arsize,
  output wire [1:0] m_axi_parameters_arburst,
  output wire [3:0] m_axi_parameters_arcache,
  output wire [2:0] m_axi_parameters_arprot,
  output wire m_axi_in0_arvalid,
  input  wire m_axi_in0_arready,
  output wire [63:0] m_axi_in0_araddr,
  output wire [7:0] m_axi_in0_arlen,
  input  wire m_axi_in0_rvalid,
  output wire m_axi_in0_rready,
  input  wire [511:0] m_axi_in0_rdata,
  input  wire [1:0] m_axi_in0_rresp,
  input  wire m_axi_in0_rlast,
  output wire [2:0] m_axi_in0_arsize,
  output wire [1:0] m_axi_in0_arburst,
  output wire [3:0] m_axi_in0_arcache,
  output wire [2:0] m_axi_in0_arprot,
  output wire m_axi_out0_awvalid,
  input  wire m_axi_out0_awready,
  output wire [63:0] m_axi_out0_awaddr,
  output wire [7:0] m_axi_out0_awlen,
  output wire m_axi_out0_wvalid,
  input  wire m_axi_out0_wready,
  output wire [511:0] m_axi_out0_wdata,
  output wire m_axi_out0_wlast,
  input  wire m_axi_out0_bvalid,
  output wire m_axi_out0_bready,
  input  wire [1:0] m_axi_out0_bresp,
  output wire [2:0] m_axi_out0_awsize,
  output wire [1:0] m_axi_out0_awburst,
  output wire [3:0] m_axi_out0_awcache,
  output wire [2:0] m_axi_out0_awprot,
  output wire [63:0] m_axi_out0_wstrb,
  output wire m_axi_weights0_arvalid,
  input  wire m_axi_weights0_arready,
  output wire [63:0] m_axi_weights0_araddr,
  output wire [7:0] m_axi_weights0_arlen,
  input  wire m_axi_weights0_rvalid,
  output wire m_axi_weights0_rready,
  input  wire [511:0] m_axi_weights0_rdata,
  input  wire [1:0] m_axi_weights0_rresp,
  input  wire m_axi_weights0_rlast,
  output wire [2:0] m_axi_weights0_arsize,
  output wire [1:0] m_axi_weights0_arburst,
  output wire [3:0] m_axi_weights0_arcache,
  output wire [2:0] m_axi_weights0_arprot,
  input  wire link0_up,
  output wire link0_tx_tvalid,
  input  wire link0_tx_tready,
  output wire [63:0] link0_tx_tdata,
  output wire link0_tx_tlast,
  input  wire link0_rx_tvalid,
  input  wire [63:0] link0_rx_tdata,
  input  wire link0_rx_tlast,
  output wire link0_rx_tready
);
  reg rst;
  always @(posedge ap_clk) rst <= !ap_rst_n;
  wire error, unused;
  wire supervisor_irq;
  wire parameters_irq;
  wire in0_irq;
  wire out0_irq;
  assign interrupt = |{supervisor_irq, parameters_irq, in0_irq, out0_irq};
  assign unused = error;
  assign m_axi_supervisor_awsize = 3'd6;
  assign m_axi_supervisor_awburst = 2'b01;
  assign m_axi_supervisor_awcache = 4'b0011;
  assign m_axi_supervisor_awprot = 3'b000;
  assign m_axi_supervisor_wstrb = {64{1'b1}};
  assign m_axi_parameters_arsize = 3'd6;
  assign m_axi_parameters_arburst = 2'b01;
  assign m_axi_parameters_arcache = 4'b0011;
  assign m_axi_parameters_arprot = 3'b000;
  assign m_axi_in0_arsize = 3'd6;
  assign m_axi_in0_arburst = 2'b01;
  assign m_axi_in0_arcache = 4'b0011;
  assign m_axi_in0_arprot = 3'b000;
  assign m_axi_out0_awsize = 3'd6;
  assign m_axi_out0_awburst = 2'b01;
  assign m_axi_out0_awcache = 4'b0011;
  assign m_axi_out0_awprot = 3'b000;
  assign m_axi_out0_wstrb = {64{1'b1}};
  assign m_axi_weights0_arsize = 3'd6;
  assign m_axi_weights0_arburst = 2'b01;
  assign m_axi_weights0_arcache = 4'b0011;
  assign m_axi_weights0_arprot = 3'b000;
  assign link0_rx_tready = 1'b1;
  wire [4:0] w_awvalid;
  wire [4:0] w_awready;
  wire [11:0] w_awaddr;
  wire [4:0] w_wvalid;
  wire [4:0] w_wready;
  wire [31:0] w_wdata;
  wire [3:0] w_wstrb;
  wire [4:0] w_bvalid;
  wire [4:0] w_bready;
  wire [9:0] w_bresp;
  wire [4:0] w_arvalid;
  wire [4:0] w_arready;
  wire [11:0] w_araddr;
  wire [4:0] w_rvalid;
  wire [4:0] w_rready;
  wire [159:0] w_rdata;
  wire [9:0] w_rresp;
  mr_axil_split #(.N(5)) windows (
    .clk(ap_clk), .rst(rst), .s_awvalid(s_axi_control_awvalid), .m_awvalid(w_awvalid),
    .s_awready(s_axi_control_awready), .m_awready(w_awready), .s_awaddr(s_axi_control_awaddr),
    .m_awaddr(w_awaddr), .s_wvalid(s_axi_control_wvalid), .m_wvalid(w_wvalid),
    .s_wready(s_axi_control_wready), .m_wready(w_wready), .s_wdata(s_axi_control_wdata),
    .m_wdata(w_wdata), .s_wstrb(s_axi_control_wstrb), .m_wstrb(w_wstrb), .s_bvalid(s_axi_control_bvalid),
    .m_bvalid(w_bvalid), .s_bready(s_axi_control_bready), .m_bready(w_bready),
    .s_bresp(s_axi_control_bresp), .m_bresp(w_bresp), .s_arvalid(s_axi_control_arvalid),
    .m_arvalid(w_arvalid), .s_arready(s_axi_control_arready), .m_arready(w_arready),
    .s_araddr(s_axi_control_araddr), .m_araddr(w_araddr), .s_rvalid(s_axi_control_rvalid),
    .m_rvalid(w_rvalid), .s_rready(s_axi_control_rready), .m_rready(w_rready),
    .s_rdata(s_axi_control_rdata), .m_rdata(w_rdata), .s_rresp(s_axi_control_rresp), .m_rresp(w_rresp));
  part0_top top (
    .clk(ap_clk), .rst(rst), .error(error),
    .supervisor_irq(supervisor_irq), .parameters_irq(parameters_irq), .in0_irq(in0_irq),
    .out0_irq(out0_irq),
    .control_axil_awvalid(w_awvalid[0+:1]), .control_axil_awready(w_awready[0+:1]),
    .control_axil_awaddr(w_awaddr), .control_axil_wvalid(w_wvalid[0+:1]),
    .control_axil_wready(w_wready[0+:1]), .control_axil_wdata(w_wdata), .control_axil_wstrb(w_wstrb),
    .control_axil_bvalid(w_bvalid[0+:1]), .control_axil_bready(w_bready[0+:1]),
    .control_axil_bresp(w_bresp[0+:2]), .control_axil_arvalid(w_arvalid[0+:1]),
    .control_axil_arready(w_arready[0+:1]), .control_axil_araddr(w_araddr),
    .control_axil_rvalid(w_rvalid[0+:1]), .control_axil_rready(w_rready[0+:1]),
    .control_axil_rdata(w_rdata[0+:32]), .control_axil_rresp(w_rresp[0+:2]),
    .supervisor_axil_awvalid(w_awvalid[1+:1]), .supervisor_axil_awready(w_awready[1+:1]),
    .supervisor_axil_awaddr(w_awaddr), .supervisor_axil_wvalid(w_wvalid[1+:1]),
    .supervisor_axil_wready(w_wready[1+:1]), .supervisor_axil_wdata(w_wdata),
    .supervisor_axil_wstrb(w_wstrb), .supervisor_axil_bvalid(w_bvalid[1+:1]),
    .supervisor_axil_bready(w_bready[1+:1]), .supervisor_axil_bresp(w_bresp[2+:2]),
    .supervisor_axil_arvalid(w_arvalid[1+:1]), .supervisor_axil_arready(w_arready[1+:1]),
    .supervisor_axil_araddr(w_araddr), .supervisor_axil_rvalid(w_rvalid[1+:1]),
    .supervisor_axil_rready(w_rready[1+:1]), .supervisor_axil_rdata(w_rdata[32+:32]),
    .supervisor_axil_rresp(w_rresp[2+:2]),
    .parameters_axil_awvalid(w_awvalid[2+:1]), .parameters_axil_awready(w_awready[2+:1]),
    .parameters_axil_awaddr(w_awaddr), .parameters_axil_wvalid(w_wvalid[2+:1]),
    .parameters_axil_wready(w_wready[2+:1]), .parameters_axil_wdata(w_wdata),
    .parameters_axil_wstrb(w_wstrb), .parameters_axil_bvalid(w_bvalid[2+:1]),
    .parameters_axil_bready(w_bready[2+:1]), .parameters_axil_bresp(w_bresp[4+:2]),
    .parameters_axil_arvalid(w_arvalid[2+:1]), .parameters_axil_arready(w_arready[2+:1]),
    .parameters_axil_araddr(w_araddr), .parameters_axil_rvalid(w_rvalid[2+:1]),
    .parameters_axil_rready(w_rready[2+:1]), .parameters_axil_rdata(w_rdata[64+:32]),
    .parameters_axil_rresp(w_rresp[4+:2]),
    .in0_axil_awvalid(w_awvalid[3+:1]), .in0_axil_awready(w_awready[3+:1]), .in0_axil_awaddr(w_awaddr),
    .in0_axil_wvalid(w_wvalid[3+:1]), .in0_axil_wready(w_wready[3+:1]), .in0_axil_wdata(w_wdata),
    .in0_axil_wstrb(w_wstrb), .in0_axil_bvalid(w_bvalid[3+:1]), .in0_axil_bready(w_bready[3+:1]),
    .in0_axil_bresp(w_bresp[6+:2]), .in0_axil_arvalid(w_arvalid[3+:1]),
    .in0_axil_arready(w_arready[3+:1]), .in0_axil_araddr(w_araddr), .in0_axil_rvalid(w_rvalid[3+:1]),
    .in0_axil_rready(w_rready[3+:1]), .in0_axil_rdata(w_rdata[96+:32]), .in0_axil_rresp(w_rresp[6+:2]),
    .out0_axil_awvalid(w_awvalid[4+:1]), .out0_axil_awready(w_awready[4+:1]),
    .out0_axil_awaddr(w_awaddr), .out0_axil_wvalid(w_wvalid[4+:1]), .out0_axil_wready(w_wready[4+:1]),
    .out0_axil_wdata(w_wdata), .out0_axil_wstrb(w_wstrb), .out0_axil_bvalid(w_bvalid[4+:1]),
    .out0_axil_bready(w_bready[4+:1]), .out0_axil_bresp(w_bresp[8+:2]),
    .out0_axil_arvalid(w_arvalid[4+:1]), .out0_axil_arready(w_arready[4+:1]),
    .out0_axil_araddr(w_araddr), .out0_axil_rvalid(w_rvalid[4+:1]), .out0_axil_rready(w_rready[4+:1]),
    .out0_axil_rdata(w_rdata[128+:32]), .out0_axil_rresp(w_rresp[8+:2]),
    .supervisor_axi_awvalid(m_axi_supervisor_awvalid), .supervisor_axi_awready(m_axi_supervisor_awready),
    .supervisor_axi_awaddr(m_axi_supervisor_awaddr), .supervisor_axi_awlen(m_axi_supervisor_awlen),
    .supervisor_axi_wvalid(m_axi_supervisor_wvalid), .supervisor_axi_wready(m_axi_supervisor_wready),
    .supervisor_axi_wdata(m_axi_supervisor_wdata), .supervisor_axi_wlast(m_axi_supervisor_wlast),
    .supervisor_axi_bvalid(m_axi_supervisor_bvalid), .supervisor_axi_bready(m_axi_supervisor_bready),
    .supervisor_axi_bresp(m_axi_supervisor_bresp),
    .parameters_axi_arvalid(m_axi_parameters_arvalid), .parameters_axi_arready(m_axi_parameters_arready),
    .parameters_axi_araddr(m_axi_parameters_araddr), .parameters_axi_arlen(m_axi_parameters_arlen),
    .parameters_axi_rvalid(m_axi_parameters_rvalid), .parameters_axi_rready(m_axi_parameters_rready),
    .parameters_axi_rdata(m_axi_parameters_rdata), .parameters_axi_rresp(m_axi_parameters_rresp),
    .parameters_axi_rlast(m_axi_parameters_rlast),
    .in0_axi_arvalid(m_axi_in0_arvalid), .in0_axi_arready(m_axi_in0_arready),
    .in0_axi_araddr(m_axi_in0_araddr), .in0_axi_arlen(m_axi_in0_arlen),
    .in0_axi_rvalid(m_axi_in0_rvalid), .in0_axi_rready(m_axi_in0_rready),
    .in0_axi_rdata(m_axi_in0_rdata), .in0_axi_rresp(m_axi_in0_rresp), .in0_axi_rlast(m_axi_in0_rlast),
    .out0_axi_awvalid(m_axi_out0_awvalid), .out0_axi_awready(m_axi_out0_awready),
    .out0_axi_awaddr(m_axi_out0_awaddr), .out0_axi_awlen(m_axi_out0_awlen),
    .out0_axi_wvalid(m_axi_out0_wvalid), .out0_axi_wready(m_axi_out0_wready),
    .out0_axi_wdata(m_axi_out0_wdata), .out0_axi_wlast(m_axi_out0_wlast),
    .out0_axi_bvalid(m_axi_out0_bvalid), .out0_axi_bready(m_axi_out0_bready),
    .out0_axi_bresp(m_axi_out0_bresp),
    .weights0_axi_arvalid(m_axi_weights0_arvalid), .weights0_axi_arready(m_axi_weights0_arready),
    .weights0_axi_araddr(m_axi_weights0_araddr), .weights0_axi_arlen(m_axi_weights0_arlen),
    .weights0_axi_rvalid(m_axi_weights0_rvalid), .weights0_axi_rready(m_axi_weights0_rready),
    .weights0_axi_rdata(m_axi_weights0_rdata), .weights0_axi_rresp(m_axi_weights0_rresp),
    .weights0_axi_rlast(m_axi_weights0_rlast),
    .link0_up(link0_up), .link0_tx_tvalid(link0_tx_tvalid), .link0_tx_tready(link0_tx_tready),
    .link0_tx_tdata(link0_tx_tdata), .link0_tx_tlast(link0_tx_tlast), .link0_rx_tvalid(link0_rx_tvalid),
    .link0_rx_tdata(link0_rx_tdata), .link0_rx_tlast(link0_rx_tlast));
endmodule
`default_nettype wire
