/// Ports of the vendor's cores that vitis/aurora_<device>/millrace_aurora.v instantiates, for lint alone: AMD PG074 (Aurora 64B/66B, one lane,
/// framing, shared logic in the core), PG085 (AXI4-Stream data FIFO, independent clocks), UG974 (XPM_CDC).
`default_nettype none
module aurora_64b66b_0 (
  input  logic [0:0]  rxp,
  input  logic [0:0]  rxn,
  output logic [0:0]  txp,
  output logic [0:0]  txn,
  input  logic        gt_refclk1_p,
  input  logic        gt_refclk1_n,
  input  logic        init_clk,
  input  logic        reset_pb,
  input  logic        pma_init,
  input  logic        power_down,
  input  logic [2:0]  loopback,
  input  logic        gt_rxcdrovrden_in,
  output logic        user_clk_out,
  output logic        channel_up,
  output logic        hard_err,
  input  logic        s_axi_tx_tvalid,
  output logic        s_axi_tx_tready,
  input  logic [63:0] s_axi_tx_tdata,
  input  logic [7:0]  s_axi_tx_tkeep,
  input  logic        s_axi_tx_tlast,
  output logic        m_axi_rx_tvalid,
  output logic [63:0] m_axi_rx_tdata,
  output logic        m_axi_rx_tlast,
  input  logic [9:0]  gt0_drpaddr,
  input  logic [15:0] gt0_drpdi,
  input  logic        gt0_drpwe,
  input  logic        gt0_drpen
);
endmodule

module axis_data_fifo_0 (
  input  logic        s_axis_aresetn,
  input  logic        s_axis_aclk,
  input  logic        s_axis_tvalid,
  output logic        s_axis_tready,
  input  logic [63:0] s_axis_tdata,
  input  logic        s_axis_tlast,
  input  logic        m_axis_aclk,
  output logic        m_axis_tvalid,
  input  logic        m_axis_tready,
  output logic [63:0] m_axis_tdata,
  output logic        m_axis_tlast
);
endmodule

module xpm_cdc_async_rst #(
  parameter integer RST_ACTIVE_HIGH = 0
) (
  input  logic src_arst,
  input  logic dest_clk,
  output logic dest_arst
);
endmodule

module xpm_cdc_single (
  input  logic src_clk,
  input  logic src_in,
  input  logic dest_clk,
  output logic dest_out
);
endmodule
`default_nettype wire
