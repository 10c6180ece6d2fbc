/// Sends packets through a UDP/IP core: each packet becomes a datagram whose length is announced before it.
///
/// s_ and m_ data are a word with its last flag above it ({last, word}). mlen_ is the length in bytes, in whole words. The core adds
/// addresses: a connector of the link table is a peer that the core was configured with. Received datagrams need only their own last flag
/// and go straight to rx_ of mr_link_switch. A datagram has packet_bytes + 32 + BYTES bytes at most. This was never run with a core.
/// Latency 1; interval 1 beat per cycle and one cycle more per packet. Registered: m_valid, m_data, mlen_valid, mlen_data.
`default_nettype none
module mr_udp #(
  parameter integer BYTES = 8
) (
  input  logic clk,
  input  logic rst,

  input  logic             s_valid,
  output logic             s_ready,
  input  logic [BYTES*8:0] s_data,

  output logic             m_valid,
  input  logic             m_ready,
  output logic [BYTES*8:0] m_data,

  output logic        mlen_valid,
  input  logic        mlen_ready,
  output logic [15:0] mlen_data
);
  localparam logic [7:0] DATA = 8'd1;  // the only kind with a payload
  localparam logic [15:0] ROUND = 16'(BYTES - 1);
  logic        en, first, take;
  logic [15:0] payload;
  assign en      = !m_valid || m_ready;
  assign payload = (s_data[7:0] == DATA) ? (s_data[47:32] + ROUND) & ~ROUND : '0;
  assign s_ready = en && !(first && mlen_valid);
  assign take    = s_valid && s_ready;

  always_ff @(posedge clk)
    if (rst) begin
      first      <= 1'b1;
      m_valid    <= 1'b0;
      mlen_valid <= 1'b0;
    end else begin
      if (en) m_valid <= take;
      if (take) first <= s_data[BYTES*8];
      mlen_valid <= (take && first) || (mlen_valid && !mlen_ready);
    end
  always_ff @(posedge clk) begin
    if (en) m_data <= s_data;
    if (take && first) mlen_data <= payload + 16'(32 + BYTES);
  end

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(BYTES * 8 + 1)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
  mr_handshake_check #(.WIDTH(16)) check_length (.clk, .rst, .valid(mlen_valid), .ready(mlen_ready), .data(mlen_data));
`endif
endmodule
`default_nettype wire
