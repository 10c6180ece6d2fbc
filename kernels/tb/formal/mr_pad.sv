// Proves five properties of mr_pad. No input beat is lost, duplicated or reordered. Beats of the pad value leave exactly where the frame's
// border is. The output is held until it is taken. No frame begins before its first input beat has arrived. The output waits for nothing
// else. The proof covers two instances: one with a border on all sides and two beats per pixel, and one with a border only below and at the
// right and two lanes per beat.
//
// PIXELS has one bit for each beat of a frame, the first beat in the lowest bit. The bit says whether the beat comes from the input. A
// model that stores one beat (the "ghost") receives each input beat, and is compared with what leaves.
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
  localparam logic [23:0] PIXELS = {8'b00_00_00_00, 8'b00_11_11_00, 8'b00_00_00_00};
  localparam logic [4:0] LAST = 5'd23;
  logic started = 1'b0;
  always_ff @(posedge clk) started <= 1'b1;
  wire rst = !started || any_reset;
  wire       s_ready, m_valid;
  wire [1:0] m_data;
  wire [1:0] y, x;
  wire       c;
  mr_pad #(.H(1), .W(2), .CF(2), .SIMD(1), .ABITS(2), .TOP(1), .LEFT(1), .BOTTOM(1), .RIGHT(1), .VALUE(-2)) dut (
    .clk, .rst, .s_valid, .s_ready, .s_data, .m_valid, .m_ready, .m_data);

  logic [4:0] taken;  // beats of this frame that were taken
  logic       held;   // the ghost has a beat:
  logic [1:0] q;
  logic       due = 1'b0;
  wire  [4:0] next = !m_valid ? taken : (taken == LAST) ? 5'd0 : taken + 5'd1;
  wire        push = s_valid && s_ready, pop = m_valid && m_ready, room = !m_valid || m_ready;
  always_ff @(posedge clk) begin
    due <= !rst && (!room || s_valid || !(PIXELS[next] || next == 5'd0));
    if (push) q <= s_data;
    if (rst) begin
      taken <= 5'd0;
      held  <= 1'b0;
    end else begin
      if (pop) taken <= (taken == LAST) ? 5'd0 : taken + 5'd1;
      held <= push || (held && !(pop && PIXELS[taken]));
    end
  end
  always @(posedge clk)
    if (!rst) begin
      assert (!(push && held) || pop);                           // nothing overtaken
      assert (held == (m_valid && PIXELS[taken]));               // nothing lost or doubled
      assert (!m_valid || m_data == (PIXELS[taken] ? q : 2'b10));
      assert (m_valid == due);
      assert (s_ready == (room && PIXELS[next]));
      assert (taken <= LAST && y < 2'd3 && next == {y, x, c});
    end
endmodule

module corner (
  input logic       clk,
  input logic       any_reset,
  input logic       s_valid,
  input logic [3:0] s_data,
  input logic       m_ready
);
  localparam logic [8:0] PIXELS = 9'b000_011_011;
  localparam logic [3:0] LAST = 4'd8;
  logic started = 1'b0;
  always_ff @(posedge clk) started <= 1'b1;
  wire rst = !started || any_reset;
  wire       s_ready, m_valid;
  wire [3:0] m_data;
  wire [1:0] y, x;
  wire       c;
  mr_pad #(.H(2), .W(2), .CF(1), .SIMD(2), .ABITS(2), .TOP(0), .LEFT(0), .BOTTOM(1), .RIGHT(1), .VALUE(1)) dut (
    .clk, .rst, .s_valid, .s_ready, .s_data, .m_valid, .m_ready, .m_data);

  logic [3:0] taken;  // beats of this frame that were taken
  logic       held;   // the ghost has a beat:
  logic [3:0] q;
  logic       due = 1'b0;
  wire  [3:0] next = !m_valid ? taken : (taken == LAST) ? 4'd0 : taken + 4'd1;
  wire        push = s_valid && s_ready, pop = m_valid && m_ready, room = !m_valid || m_ready;
  always_ff @(posedge clk) begin
    due <= !rst && (!room || s_valid || !(PIXELS[next] || next == 4'd0));
    if (push) q <= s_data;
    if (rst) begin
      taken <= 4'd0;
      held  <= 1'b0;
    end else begin
      if (pop) taken <= (taken == LAST) ? 4'd0 : taken + 4'd1;
      held <= push || (held && !(pop && PIXELS[taken]));
    end
  end
  always @(posedge clk)
    if (!rst) begin
      assert (!(push && held) || pop);                           // nothing overtaken
      assert (held == (m_valid && PIXELS[taken]));               // nothing lost or doubled
      assert (!m_valid || m_data == (PIXELS[taken] ? q : 4'b0101));
      assert (m_valid == due);
      assert (s_ready == (room && PIXELS[next]));
      assert (taken <= LAST && y < 2'd3 && x < 2'd3 && !c && next == {2'b0, y} * 4'd3 + {2'b0, x});
    end
endmodule
