/// Sum of two tensors: q = clamp((a * A_FACTOR + b * B_FACTOR + OFFSET) >> SHIFT, LOWEST, HIGHEST), lane by lane.
///
/// One beat of each input makes one output beat. ZBITS must be wide enough for the sum before the shift. Latency 3 cycles; one beat per
/// cycle. Products, sum and result are registers. The ready of each input depends on the valid of the other input.
`default_nettype none
module mr_add #(
  parameter integer SIMD     = 1,
  parameter integer ABITS    = 8,
  parameter integer AKIND    = 1,  // 0 unsigned, 1 signed
  parameter integer BBITS    = 8,
  parameter integer BKIND    = 1,
  parameter integer A_FACTOR = 1,
  parameter integer B_FACTOR = 1,
  parameter signed [63:0] OFFSET = 0,
  parameter integer SHIFT    = 0,
  parameter integer ZBITS    = 20,
  parameter integer OBITS    = 8,
  parameter integer LOWEST   = -128,
  parameter integer HIGHEST  = 127
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
  output logic [SIMD*OBITS-1:0] m_data
);
  logic       en;
  logic [2:1] valid;
  assign en       = !m_valid || m_ready;
  assign s0_ready = en && s1_valid;
  assign s1_ready = en && s0_valid;

  always_ff @(posedge clk)
    if (rst) begin
      valid   <= '0;
      m_valid <= 1'b0;
    end else if (en) begin
      valid   <= {valid[1], s0_valid && s1_valid};
      m_valid <= valid[2];
    end

  generate
    for (genvar i = 0; i < SIMD; i = i + 1) begin : g_lane
      logic signed [ABITS:0]   a;
      logic signed [BBITS:0]   b;
      logic signed [ZBITS-1:0] a1, b1, sum2, shifted2;
      assign a = (AKIND == 1) ? {s0_data[(i+1)*ABITS-1], s0_data[i*ABITS+:ABITS]} : {1'b0, s0_data[i*ABITS+:ABITS]};
      assign b = (BKIND == 1) ? {s1_data[(i+1)*BBITS-1], s1_data[i*BBITS+:BBITS]} : {1'b0, s1_data[i*BBITS+:BBITS]};
      assign shifted2 = sum2 >>> SHIFT;
      always_ff @(posedge clk)
        if (en) begin
          a1   <= ZBITS'(a) * ZBITS'(A_FACTOR);
          b1   <= ZBITS'(b) * ZBITS'(B_FACTOR);
          sum2 <= a1 + b1 + ZBITS'(OFFSET);
          m_data[i*OBITS+:OBITS] <= (shifted2 < ZBITS'(LOWEST)) ? OBITS'(LOWEST)
                                  : (shifted2 > ZBITS'(HIGHEST)) ? OBITS'(HIGHEST) : OBITS'(shifted2);
        end
    end
  endgenerate

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(SIMD * OBITS)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
`endif
endmodule
`default_nettype wire
