// Proves three properties of mr_crop. Every beat inside the border leaves exactly once, unchanged, in order and one cycle later, and no
// beat of the border leaves. The output is held until it is taken. A beat is accepted whenever there is room. The proof covers two
// instances: one with a border on all sides and two beats per pixel, and one with a border only below and at the right.
//
// KEPT has one bit for each beat of a frame, the first beat in the lowest bit. The bit says whether the beat must leave. A model that
// stores one beat (the "ghost") receives each beat that must leave, and is compared with what leaves.
//
// Each line "probe MODULE WIRE PATH" connects a wire of this proof to a register inside the module (tools/rtl-sweep).
// probe ring y dut.y
// probe ring x dut.x
// probe ring c dut.c
// probe corner y dut.y
// probe corner x dut.x
// probe corner c dut.c
module ring (
  input logic       clk,
  input logic       any_reset,
  input logic       s_valid,
  input logic [1:0] s_data,
  input logic       m_ready
);
  localparam logic [23:0] KEPT = {8'b00_00_00_00, 8'b00_11_11_00, 8'b00_00_00_00};
  localparam logic [4:0] LAST = 5'd23;
  logic started = 1'b0;
  always_ff @(posedge clk) started <= 1'b1;
  wire rst = !started || any_reset;
  wire       s_ready, m_valid;
  wire [1:0] m_data;
  wire [1:0] y, x;
  wire       c;
  mr_crop #(.H(3), .W(4), .CF(2), .WIDTH(2), .TOP(1), .LEFT(1), .BOTTOM(1), .RIGHT(1)) dut (
    .clk, .rst, .s_valid, .s_ready, .s_data, .m_valid, .m_ready, .m_data);

  logic [4:0] given;  // beats of this frame that went in
  logic       held;   // the ghost has a beat:
  logic [1:0] q;
  wire        push = s_valid && s_ready && KEPT[given], pop = m_valid && m_ready;
  always_ff @(posedge clk) begin
    if (push) q <= s_data;
    if (rst) begin
      given <= 5'd0;
      held  <= 1'b0;
    end else begin
      if (s_valid && s_ready) given <= (given == LAST) ? 5'd0 : given + 5'd1;
      held <= push || (held && !pop);
    end
  end
  always @(posedge clk)
    if (!rst) begin
      assert (!(push && held) || pop);  // nothing overtaken
      assert (m_valid == held);         // nothing lost, doubled or late, nothing of the border
      assert (!m_valid || m_data == q);
      assert (s_ready == (!m_valid || m_ready));
      assert (given <= LAST && y < 2'd3 && given == {y, x, c});
    end
endmodule

module corner (
  input logic       clk,
  input logic       any_reset,
  input logic       s_valid,
  input logic [1:0] s_data,
  input logic       m_ready
);
  localparam logic [8:0] KEPT = 9'b000_011_011;
  localparam logic [3:0] LAST = 4'd8;
  logic started = 1'b0;
  always_ff @(posedge clk) started <= 1'b1;
  wire rst = !started || any_reset;
  wire       s_ready, m_valid;
  wire [1:0] m_data;
  wire [1:0] y, x;
  wire       c;
  mr_crop #(.H(3), .W(3), .CF(1), .WIDTH(2), .TOP(0), .LEFT(0), .BOTTOM(1), .RIGHT(1)) dut (
    .clk, .rst, .s_valid, .s_ready, .s_data, .m_valid, .m_ready, .m_data);

  logic [3:0] given;  // beats of this frame that went in
  logic       held;   // the ghost has a beat:
  logic [1:0] q;
  wire        push = s_valid && s_ready && KEPT[given], pop = m_valid && m_ready;
  always_ff @(posedge clk) begin
    if (push) q <= s_data;
    if (rst) begin
      given <= 4'd0;
      held  <= 1'b0;
    end else begin
      if (s_valid && s_ready) given <= (given == LAST) ? 4'd0 : given + 4'd1;
      held <= push || (held && !pop);
    end
  end
  always @(posedge clk)
    if (!rst) begin
      assert (!(push && held) || pop);  // nothing overtaken
      assert (m_valid == held);         // nothing lost, doubled or late, nothing of the border
      assert (!m_valid || m_data == q);
      assert (s_ready == (!m_valid || m_ready));
      assert (given <= LAST && y < 2'd3 && x < 2'd3 && !c && given == {2'b0, y} * 4'd3 + {2'b0, x});
    end
endmodule
