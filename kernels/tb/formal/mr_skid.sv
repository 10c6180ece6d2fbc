// Proves three properties of mr_skid. No beat is lost, duplicated or reordered. The output is held until it is taken. Every stored beat is
// offered. A model of a queue (the "ghost", q0 and q1) receives each input beat, and is compared with what leaves.
// Each line "probe MODULE WIRE PATH" connects a wire of this proof to a register inside the module (tools/rtl-sweep).
// probe skid spare_valid dut.spare_valid
// probe skid spare dut.spare
module skid (
  input logic       clk,
  input logic       any_reset,
  input logic       s_valid,
  input logic [1:0] s_data,
  input logic       m_ready
);
  logic started = 1'b0;
  always_ff @(posedge clk) started <= 1'b1;
  wire rst = !started || any_reset;

  wire       s_ready, m_valid, spare_valid;
  wire [1:0] m_data, spare;
  mr_skid #(.WIDTH(2)) dut (.clk, .rst, .s_valid, .s_ready, .s_data, .m_valid, .m_ready, .m_data);

  logic [1:0] q0, q1, n;
  wire        push = s_valid && s_ready, pop = m_valid && m_ready;
  always_ff @(posedge clk)
    if (rst) n <= 2'd0;
    else begin
      n <= n + {1'b0, push} - {1'b0, pop};
      if (pop) begin
        q0 <= (n == 2'd1) ? s_data : q1;
        q1 <= s_data;
      end else if (push) begin
        if (n == 2'd0) q0 <= s_data;
        else q1 <= s_data;
      end
    end

  always @(posedge clk)
    if (!rst) begin
      assert (m_valid == (n != 2'd0));
      assert (!m_valid || m_data == q0);
      assert (n == {1'b0, m_valid} + {1'b0, spare_valid});
      assert (!spare_valid || (m_valid && spare == q1));
    end
endmodule
