/// Pooling over TAPS successive beats of each channel group. Behind a sliding window, TAPS is KH*KW; the padding for OP = 0 must then be
/// the type's lowest value. For global pooling, TAPS is H*W.
///
/// OP = 0 computes the largest element, OP = 1 the sum. The input beats are in the order tap, channel group (TAPS * CF beats). The output
/// has one beat per channel group, with lanes of OBITS. Latency (TAPS-1)*CF + 1 cycles; one output frame takes TAPS*CF cycles. Partial
/// results (in LUTRAM), m_valid and m_data are registers.
`default_nettype none
module mr_reduce #(
  parameter integer OP    = 0,
  parameter integer TAPS  = 9,
  parameter integer CF    = 1,
  parameter integer SIMD  = 1,
  parameter integer ABITS = 8,
  parameter integer AKIND = 1,  // 0 unsigned (also bipolar), 1 signed
  parameter integer OBITS = 8
) (
  input  logic clk,
  input  logic rst,

  input  logic                  s_valid,
  output logic                  s_ready,
  input  logic [SIMD*ABITS-1:0] s_data,

  output logic                  m_valid,
  input  logic                  m_ready,
  output logic [SIMD*OBITS-1:0] m_data
);
  localparam integer CW = (CF > 1) ? $clog2(CF) : 1;
  localparam integer TW = (TAPS > 1) ? $clog2(TAPS) : 1;
  localparam integer D = (CF > 1) ? CF : 2;
  localparam logic [CW-1:0] C_LAST = CW'(CF - 1);
  localparam logic [TW-1:0] T_LAST = TW'(TAPS - 1);

  logic [CW-1:0] c;
  logic [TW-1:0] tap;
  logic          en;
  assign en      = !m_valid || m_ready;
  assign s_ready = en;

  (* ram_style = "distributed" *) logic [SIMD*OBITS-1:0] partial[0:D-1];
  logic [SIMD*OBITS-1:0] so_far, after;
  assign so_far = partial[c];
  generate
    for (genvar s = 0; s < SIMD; s = s + 1) begin : g_lane
      mr_pool_lane #(.OP(OP), .ABITS(ABITS), .AKIND(AKIND), .OBITS(OBITS)) lane (
        .first(tap == '0), .a(s_data[s*ABITS+:ABITS]), .so_far(so_far[s*OBITS+:OBITS]), .after(after[s*OBITS+:OBITS]));
    end
  endgenerate

  always_ff @(posedge clk) begin
    if (en && s_valid) partial[c] <= after;
    if (en) m_data <= after;
  end

  always_ff @(posedge clk)
    if (rst) begin
      c       <= '0;
      tap     <= '0;
      m_valid <= 1'b0;
    end else if (en) begin
      m_valid <= s_valid && (tap == T_LAST);
      if (s_valid) begin
        c <= (c == C_LAST) ? '0 : c + 1'b1;
        if (c == C_LAST) tap <= (tap == T_LAST) ? '0 : tap + 1'b1;
      end
    end

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(SIMD * OBITS)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
`endif
endmodule
`default_nettype wire
