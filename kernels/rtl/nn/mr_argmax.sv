/// The index of the largest element of a vector; if several are equal, the first of them.
///
/// The input has BEATS beats of SIMD lanes; lane l of beat b is element b*SIMD + l. The output is one beat of IBITS bits. Latency BEATS + 1
/// cycles; one vector every BEATS cycles. Registers hold the largest element of a beat with its lane, the largest element so far, and the
/// output.
`default_nettype none
module mr_argmax #(
  parameter integer BEATS = 10,
  parameter integer SIMD  = 1,
  parameter integer ABITS = 8,
  parameter integer AKIND = 1,  // 0 unsigned (bipolar too), 1 signed
  parameter integer IBITS = 4
) (
  input  logic clk,
  input  logic rst,

  input  logic                  s_valid,
  output logic                  s_ready,
  input  logic [SIMD*ABITS-1:0] s_data,

  output logic             m_valid,
  input  logic             m_ready,
  output logic [IBITS-1:0] m_data
);
  localparam integer LEAVES = 1 << $clog2(SIMD);
  localparam integer BW = (BEATS > 1) ? $clog2(BEATS) : 1;
  localparam logic [BW-1:0] LAST = BW'(BEATS - 1);
  localparam logic [ABITS-1:0] ORDER = (AKIND == 1) ? ABITS'(1 << (ABITS - 1)) : '0;  // makes signed fields order as unsigned

  logic          en, valid, last, first;
  logic [BW-1:0] beat;
  assign en      = !m_valid || m_ready;
  assign s_ready = en;

  // The comparisons form a binary tree. Node n holds the larger of nodes 2n and 2n+1, or the left one if both are equal. The leaves are
  // nodes LEAVES to 2*LEAVES-1.
  generate
    for (genvar n = 1; n < 2 * LEAVES; n = n + 1) begin : g_node
      logic             there;
      logic [ABITS-1:0] value;
      logic [IBITS-1:0] lane;
      if (n >= LEAVES) begin : g_leaf
        assign there = (n - LEAVES < SIMD);
        assign value = there ? s_data[((n-LEAVES<SIMD)?n-LEAVES:0)*ABITS+:ABITS] ^ ORDER : '0;
        assign lane  = IBITS'(n - LEAVES);
      end else begin : g_better
        logic right;
        assign right = g_node[2*n+1].there && (g_node[2*n+1].value > g_node[2*n].value);
        assign there = g_node[2*n].there;
        assign value = right ? g_node[2*n+1].value : g_node[2*n].value;
        assign lane  = right ? g_node[2*n+1].lane : g_node[2*n].lane;
      end
    end
  endgenerate

  logic [ABITS-1:0] value1, best;
  logic [IBITS-1:0] index1, index, base;
  logic             better;
  assign better = first || (value1 > best);
  always_ff @(posedge clk) begin
    if (en && s_valid) begin
      value1 <= g_node[1].value;
      index1 <= base + g_node[1].lane;
      first  <= (beat == '0);
      last   <= (beat == LAST);
    end
    if (en && valid) begin
      if (better) best <= value1;
      if (better) index <= index1;
      m_data <= better ? index1 : index;
    end
    if (rst) begin
      beat    <= '0;
      base    <= '0;
      valid   <= 1'b0;
      m_valid <= 1'b0;
    end else if (en) begin
      valid   <= s_valid;
      m_valid <= valid && last;
      if (s_valid) begin
        beat <= (beat == LAST) ? '0 : beat + 1'b1;
        base <= (beat == LAST) ? '0 : base + IBITS'(SIMD);
      end
    end
  end
  logic unused;
  assign unused = g_node[1].there;

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(IBITS)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
`endif
endmodule
`default_nettype wire
