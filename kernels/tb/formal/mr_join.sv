// Proves that mr_join takes a beat from each input exactly when its output is taken, and that the output then contains these beats,
// unchanged and side by side.
module three_inputs (
  input logic       clk,
  input logic       any_reset,
  input logic [2:0] s_valid,
  input logic [5:0] s_data,
  input logic       m_ready
);
  logic started = 1'b0;
  always_ff @(posedge clk) started <= 1'b1;
  wire rst = !started || any_reset;
  wire [2:0] s_ready;
  wire       m_valid;
  wire [5:0] m_data;
  mr_join #(.WIDTH(2), .N(3)) dut (.clk, .rst, .s_valid, .s_ready, .s_data, .m_valid, .m_ready, .m_data);

  logic [2:0] waiting = 3'b0;
  logic [5:0] offered;
  always_ff @(posedge clk) begin
    waiting <= {3{!rst}} & s_valid & ~s_ready;
    offered <= s_data;
  end
  always @(posedge clk)
    if (!rst) begin
      assume ((waiting & ~s_valid) == 3'b0);
      assume (!waiting[0] || s_data[1:0] == offered[1:0]);
      assume (!waiting[1] || s_data[3:2] == offered[3:2]);
      assume (!waiting[2] || s_data[5:4] == offered[5:4]);
      assert ((s_valid & s_ready) == {3{m_valid && m_ready}});
      assert (m_valid == (s_valid == 3'b111));
      assert (m_data == s_data);
    end
endmodule
