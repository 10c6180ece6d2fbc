/// Connects mr_link_switch to the user interface of an Aurora 64B/66B core (AMD PG074): framing, little endian, 8 bytes per lane.
///
/// `up` rises after the channel was up for SETTLE cycles without a hard error. Packets consist of whole words, so all bits of tkeep are 1;
/// if a frame arrives with an incomplete word, its CRC is wrong. Everything runs on the core's user_clk. If mr_link_switch has another
/// clock, put the vendor's axis_clock_converter between them. This module was never run with a real core. The receive side and `up` are
/// registers; the transmit side consists of wires.
`default_nettype none
module mr_aurora #(
  parameter integer BYTES  = 8,
  parameter integer SETTLE = 1024
) (
  input  logic clk,
  input  logic rst,

  output logic               up,
  input  logic               tx_valid,
  output logic               tx_ready,
  input  logic [BYTES*8-1:0] tx_data,
  input  logic               tx_last,
  output logic               rx_valid,
  output logic [BYTES*8-1:0] rx_data,
  output logic               rx_last,

  input  logic               channel_up,
  input  logic               hard_err,
  output logic               s_axi_tx_tvalid,
  input  logic               s_axi_tx_tready,
  output logic [BYTES*8-1:0] s_axi_tx_tdata,
  output logic [BYTES-1:0]   s_axi_tx_tkeep,
  output logic               s_axi_tx_tlast,
  input  logic               m_axi_rx_tvalid,
  input  logic [BYTES*8-1:0] m_axi_rx_tdata,
  input  logic               m_axi_rx_tlast
);
  localparam integer CW = $clog2(SETTLE + 1);
  logic [CW-1:0] steady;
  // While the channel is down, packets are lost completely or in part. The loss shows in the CRC, in the packet numbers, and in the fault
  // that the link raises.
  assign s_axi_tx_tvalid = tx_valid && channel_up;
  assign s_axi_tx_tdata  = tx_data;
  assign s_axi_tx_tkeep  = '1;
  assign s_axi_tx_tlast  = tx_last;
  assign tx_ready        = !channel_up || s_axi_tx_tready;

  always_ff @(posedge clk) begin
    rx_data <= m_axi_rx_tdata;
    rx_last <= m_axi_rx_tlast;
    if (rst) begin
      rx_valid <= 1'b0;
      steady   <= '0;
      up       <= 1'b0;
    end else begin
      rx_valid <= m_axi_rx_tvalid;
      if (!channel_up || hard_err) steady <= '0;
      else if (steady != CW'(SETTLE)) steady <= steady + 1'b1;
      up <= channel_up && !hard_err && (steady == CW'(SETTLE));
    end
  end
endmodule
`default_nettype wire
