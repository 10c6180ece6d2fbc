/// Computes any function of a lane with a table: q = table[lane ^ FLIP].
///
/// FLIP inverts the sign bit of a signed lane, so that line 0 of the table belongs to the lowest value. For a function of two operands, a
/// lane is {a, b} with a in the high bits, and FLIP contains both sign bits. FILE has 2^IBITS lines of OBITS bits; every lane has its own
/// copy of the table. With LOADED = 1, the lines come through the port l_ instead. Latency 2 cycles; one beat per cycle. The table's
/// output, m_data and m_valid are registers.
`default_nettype none
module mr_lut #(
  parameter integer SIMD   = 1,
  parameter integer IBITS  = 8,
  parameter integer OBITS  = 8,
  parameter integer FLIP   = 128,
  parameter integer STYLE  = 0,
  parameter integer LOADED = 0,
  parameter         FILE   = "lut.hex"
) (
  input  logic clk,
  input  logic rst,

  input  logic                  s_valid,
  output logic                  s_ready,
  input  logic [SIMD*IBITS-1:0] s_data,

  output logic                  m_valid,
  input  logic                  m_ready,
  output logic [SIMD*OBITS-1:0] m_data,

  input  logic             l_valid,
  output logic             l_ready,
  input  logic [OBITS-1:0] l_data
);
  logic                  en, valid;
  logic [SIMD-1:0]       loaded, load_ready;
  logic [SIMD*OBITS-1:0] q;
  assign en      = !m_valid || m_ready;
  assign s_ready = en && loaded[0];
  assign l_ready = load_ready[0];

  generate
    for (genvar i = 0; i < SIMD; i = i + 1) begin : g_lane
      mr_table #(.WIDTH(OBITS), .DEPTH(1 << IBITS), .STYLE(STYLE), .LOADED(LOADED), .FILE(FILE)) values (
        .clk, .en, .addr(s_data[i*IBITS+:IBITS] ^ IBITS'(FLIP)), .q(q[i*OBITS+:OBITS]),
        .l_valid, .l_ready(load_ready[i]), .l_data, .loaded(loaded[i]));
    end
  endgenerate

  always_ff @(posedge clk) begin
    if (en) m_data <= q;
    if (rst) begin
      valid   <= 1'b0;
      m_valid <= 1'b0;
    end else if (en) begin
      valid   <= s_valid && loaded[0];
      m_valid <= valid;
    end
  end
  logic unused;
  assign unused = &{1'b0, loaded, load_ready};  // all lanes load together

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(SIMD * OBITS)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
`endif
endmodule
`default_nettype wire
