// Proves that mr_split gives each reader its part of every beat exactly once, unchanged, stable until the reader takes it, and as soon as
// the reader is ready. The proof assumes that the source keeps an offered beat until it is taken, as the handshake rules demand.
// Each line "probe MODULE WIRE PATH" connects a wire of this proof to a register inside the module (tools/rtl-sweep).
// probe three_readers served dut.served
module three_readers (
  input logic       clk,
  input logic       any_reset,
  input logic       s_valid,
  input logic [5:0] s_data,
  input logic [2:0] m_ready
);
  logic started = 1'b0;
  always_ff @(posedge clk) started <= 1'b1;
  wire rst = !started || any_reset;
  wire       s_ready;
  wire [2:0] m_valid, served;
  wire [5:0] m_data;
  mr_split #(.WIDTH(2), .N(3)) dut (.clk, .rst, .s_valid, .s_ready, .s_data, .m_valid, .m_ready, .m_data);

  logic       waiting = 1'b0;
  logic [5:0] offered;
  logic [2:0] got;  // readers that took the present beat before this cycle
  wire  [2:0] taking = m_valid & m_ready;
  always_ff @(posedge clk) begin
    waiting <= !rst && s_valid && !s_ready;
    offered <= s_data;
    if (rst || (s_valid && s_ready)) got <= 3'b0;
    else got <= got | taking;
  end
  always @(posedge clk) begin
    if (waiting && !rst) assume (s_valid && s_data == offered);
    if (!rst) begin
      assert ((taking & got) == 3'b0);                                // not twice
      assert (!(s_valid && s_ready) || (taking | got) == 3'b111);     // not lost
      assert (!s_valid || (m_valid | got) == 3'b111);                 // offered to all who lack it
      assert (s_valid || m_valid == 3'b0);                            // nothing out of nothing
      assert (m_data == s_data);
      assert (!s_valid || s_ready == &(got | m_ready));               // and no longer than needed
      assert ((waiting || got == 3'b0) && served == got);
    end
  end
endmodule
