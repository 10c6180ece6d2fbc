/// Exact product of two tensors, lane by lane: p = a * b. Together with an mr_requant behind it, this module multiplies quantised tensors.
///
/// The operands' kinds and the parameter MUL are those of mr_multiply. The lanes of p are signed and PBITS wide. One beat of each input
/// makes one output beat. Latency 2 cycles; one beat per cycle. Operands and products are registers. The ready of each input depends on the
/// valid of the other input.
`default_nettype none
module mr_mul #(
  parameter integer SIMD  = 1,
  parameter integer ABITS = 8,
  parameter integer AKIND = 1,
  parameter integer BBITS = 8,
  parameter integer BKIND = 1,
  parameter integer MUL   = 1,
  localparam integer AX    = (AKIND == 1) ? ABITS : ABITS + 1,
  localparam integer BX    = (BKIND == 1) ? BBITS : BBITS + 1,
  localparam integer PBITS = AX + BX
) (
  input  logic clk,
  input  logic rst,

  input  logic                  s0_valid,
  output logic                  s0_ready,
  input  logic [SIMD*ABITS-1:0] s0_data,

  input  logic                  s1_valid,
  output logic                  s1_ready,
  input  logic [SIMD*BBITS-1:0] s1_data,

  output logic                  m_valid,
  input  logic                  m_ready,
  output logic [SIMD*PBITS-1:0] m_data
);
  logic                  en, valid;
  logic [SIMD*ABITS-1:0] a;
  logic [SIMD*BBITS-1:0] b;
  logic [SIMD*PBITS-1:0] products;
  assign en       = !m_valid || m_ready;
  assign s0_ready = en && s1_valid;
  assign s1_ready = en && s0_valid;

  always_ff @(posedge clk)
    if (rst) begin
      valid   <= 1'b0;
      m_valid <= 1'b0;
    end else if (en) begin
      valid   <= s0_valid && s1_valid;
      m_valid <= valid;
    end
  always_ff @(posedge clk)
    if (en) begin
      a      <= s0_data;
      b      <= s1_data;
      m_data <= products;
    end
  generate
    for (genvar i = 0; i < SIMD; i = i + 1) begin : g_lane
      mr_multiply #(.ABITS(ABITS), .AKIND(AKIND), .WBITS(BBITS), .WKIND(BKIND), .MUL(MUL)) multiply (
        .a(a[i*ABITS+:ABITS]), .w(b[i*BBITS+:BBITS]), .p(products[i*PBITS+:PBITS]));
    end
  endgenerate

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(SIMD * PBITS)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
`endif
endmodule
`default_nettype wire
