// Proves three properties of mr_width_adapter for the ratios 1:3, 3:1, 3:2 and 2:3. No lane is lost, duplicated or reordered. The output is
// held until it is taken. An output beat is offered exactly while the adapter holds enough lanes for one. A model of a queue of lanes (the
// "ghost") receives each input beat, and is compared with what leaves.
//
// Each line "probe MODULE WIRE PATH" connects a wire of this proof to a register inside the module (tools/rtl-sweep).
// probe up n dut.genblk1.g_up.n
// probe down left dut.genblk1.genblk1.g_down.left
// probe down word dut.genblk1.genblk1.g_down.word
// probe three_two count dut.genblk1.genblk1.g_any.count
// probe three_two held dut.genblk1.genblk1.g_any.held
// probe two_three count dut.genblk1.genblk1.g_any.count
// probe two_three held dut.genblk1.genblk1.g_any.held
module up (
  input logic       clk,
  input logic       any_reset,
  input logic       s_valid,
  input logic [1:0] s_data,
  input logic       m_ready
);
  logic started = 1'b0;
  always_ff @(posedge clk) started <= 1'b1;
  wire rst = !started || any_reset;
  wire       s_ready, m_valid;
  wire [5:0] m_data;
  wire [1:0] n;
  mr_width_adapter #(.LANE(2), .S_LANES(1), .M_LANES(3)) dut (
    .clk, .rst, .s_valid, .s_ready, .s_data, .m_valid, .m_ready, .m_data);
  wire [5:0] q;
  wire [3:0] c;
  lane_queue #(.LANE(2), .S(1), .M(3), .CAPACITY(3)) ghost (
    .clk, .rst, .push(s_valid && s_ready), .s_data, .pop(m_valid && m_ready), .q, .count(c));
  always @(posedge clk)
    if (!rst) begin
      assert ((q >> (c * 2)) == '0);
      assert (m_valid == (c == 4'd3));
      assert (!m_valid || m_data == q);
      assert (c == (m_valid ? 4'd3 : {2'b0, n}) && (!m_valid || n == 2'd0) && n < 2'd3);
      assert (m_valid || n != 2'd1 || m_data[5:4] == q[1:0]);
      assert (m_valid || n != 2'd2 || m_data[5:2] == q[3:0]);
    end
endmodule

module down (
  input logic       clk,
  input logic       any_reset,
  input logic       s_valid,
  input logic [5:0] s_data,
  input logic       m_ready
);
  logic started = 1'b0;
  always_ff @(posedge clk) started <= 1'b1;
  wire rst = !started || any_reset;
  wire       s_ready, m_valid;
  wire [1:0] m_data, left;
  wire [5:0] word, q;
  wire [3:0] c;
  mr_width_adapter #(.LANE(2), .S_LANES(3), .M_LANES(1)) dut (
    .clk, .rst, .s_valid, .s_ready, .s_data, .m_valid, .m_ready, .m_data);
  lane_queue #(.LANE(2), .S(3), .M(1), .CAPACITY(3)) ghost (
    .clk, .rst, .push(s_valid && s_ready), .s_data, .pop(m_valid && m_ready), .q, .count(c));
  always @(posedge clk)
    if (!rst) begin
      assert ((q >> (c * 2)) == '0);
      assert (m_valid == (c != 4'd0));
      assert (!m_valid || m_data == q[1:0]);
      assert (c == (m_valid ? {2'b0, left} + 4'd1 : 4'd0) && left < 2'd3 && (m_valid || left == 2'd0));
      assert (!m_valid || left < 2'd1 || word[3:2] == q[3:2]);
      assert (!m_valid || left < 2'd2 || word[5:4] == q[5:4]);
    end
endmodule

module three_two (
  input logic       clk,
  input logic       any_reset,
  input logic       s_valid,
  input logic [5:0] s_data,
  input logic       m_ready
);
  logic started = 1'b0;
  always_ff @(posedge clk) started <= 1'b1;
  wire rst = !started || any_reset;
  wire       s_ready, m_valid;
  wire [3:0] m_data;
  wire [2:0] count;
  wire [7:0] held, q;
  wire [3:0] c;
  mr_width_adapter #(.LANE(2), .S_LANES(3), .M_LANES(2)) dut (
    .clk, .rst, .s_valid, .s_ready, .s_data, .m_valid, .m_ready, .m_data);
  lane_queue #(.LANE(2), .S(3), .M(2), .CAPACITY(4)) ghost (
    .clk, .rst, .push(s_valid && s_ready), .s_data, .pop(m_valid && m_ready), .q, .count(c));
  always @(posedge clk)
    if (!rst) begin
      assert ((q >> (c * 2)) == '0);
      assert (m_valid == (c >= 4'd2));
      assert (!m_valid || m_data == q[3:0]);
      assert ({1'b0, count} == c && held == q && c <= 4'd4);
    end
endmodule

module two_three (
  input logic       clk,
  input logic       any_reset,
  input logic       s_valid,
  input logic [3:0] s_data,
  input logic       m_ready
);
  logic started = 1'b0;
  always_ff @(posedge clk) started <= 1'b1;
  wire rst = !started || any_reset;
  wire       s_ready, m_valid;
  wire [5:0] m_data;
  wire [2:0] count;
  wire [7:0] held, q;
  wire [3:0] c;
  mr_width_adapter #(.LANE(2), .S_LANES(2), .M_LANES(3)) dut (
    .clk, .rst, .s_valid, .s_ready, .s_data, .m_valid, .m_ready, .m_data);
  lane_queue #(.LANE(2), .S(2), .M(3), .CAPACITY(4)) ghost (
    .clk, .rst, .push(s_valid && s_ready), .s_data, .pop(m_valid && m_ready), .q, .count(c));
  always @(posedge clk)
    if (!rst) begin
      assert ((q >> (c * 2)) == '0);
      assert (m_valid == (c >= 4'd3));
      assert (!m_valid || m_data == q[5:0]);
      assert ({1'b0, count} == c && held == q && c <= 4'd4);
    end
endmodule

/// The ghost queue (a model of the adapter) stores lanes in order, the oldest in the lowest bits, with zeros above the last one. If the
/// adapter overflows or underflows, its count differs from the queue's.
(* ghost *)
module lane_queue #(
  parameter integer LANE     = 2,
  parameter integer S        = 1,
  parameter integer M        = 1,
  parameter integer CAPACITY = 4
) (
  input  logic                     clk,
  input  logic                     rst,
  input  logic                     push,
  input  logic [S*LANE-1:0]        s_data,
  input  logic                     pop,
  output logic [CAPACITY*LANE-1:0] q,
  output logic [3:0]               count
);
  wire [CAPACITY*LANE-1:0] rest = pop ? q >> (M * LANE) : q;
  wire [3:0]               stay = pop ? count - 4'(M) : count;
  wire [CAPACITY*LANE-1:0] wide = {{(CAPACITY * LANE) {1'b0}}, s_data};
  always_ff @(posedge clk)
    if (rst) begin
      q     <= '0;
      count <= 4'd0;
    end else begin
      q     <= push ? rest | (wide << (stay * LANE)) : rest;
      count <= push ? stay + 4'(S) : stay;
    end
endmodule
