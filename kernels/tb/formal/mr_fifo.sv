// Proves four properties of mr_fifo with depth 3, so that the pointers do not wrap at a power of two. No beat is lost, duplicated or
// reordered. The output is held until it is taken. A beat is accepted exactly while the memory has room. The output offers a beat at most
// one cycle after the FIFO has one.
//
// A model of a queue (the "ghost") with the capacity of the FIFO receives the same beats as the FIFO, and is compared with what leaves the
// FIFO.
//
// Each line "probe MODULE WIRE PATH" connects a wire of this proof to a register inside the module (tools/rtl-sweep).
// probe fifo wp dut.wp
// probe fifo rp dut.rp
// probe fifo count dut.count
// probe fifo mem0 dut.g_distributed.mem[0]
// probe fifo mem1 dut.g_distributed.mem[1]
// probe fifo mem2 dut.g_distributed.mem[2]
module fifo (
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
  wire [1:0] m_data, wp, rp, count, mem0, mem1, mem2;
  mr_fifo #(.WIDTH(2), .DEPTH(3)) dut (.clk, .rst, .s_valid, .s_ready, .s_data, .m_valid, .m_ready, .m_data);

  // Oldest lowest.
  logic [7:0] q;
  logic [2:0] n;
  wire        push = s_valid && s_ready, pop = m_valid && m_ready;
  wire  [7:0] rest = pop ? q >> 2 : q;
  wire  [2:0] stay = pop ? n - 3'd1 : n;
  always_ff @(posedge clk)
    if (rst) n <= 3'd0;
    else begin
      n <= stay + {2'b0, push};
      q <= rest;
      if (push)
        case (stay)
          3'd0: q[1:0] <= s_data;
          3'd1: q[3:2] <= s_data;
          3'd2: q[5:4] <= s_data;
          default: q[7:6] <= s_data;
        endcase
    end

  // The memory's beats, oldest first, must equal the beats of the ghost queue that follow the beat in the output register.
  wire [5:0] order = (rp == 2'd0) ? {mem2, mem1, mem0} : (rp == 2'd1) ? {mem0, mem2, mem1} : {mem1, mem0, mem2};
  wire [5:0] behind = m_valid ? q[7:2] : q[5:0];
  wire [2:0] ahead = {1'b0, rp} + {1'b0, count};

  logic had_beat = 1'b0;
  always_ff @(posedge clk) had_beat <= !rst && n != 3'd0 && !m_valid;

  always @(posedge clk)
    if (!rst) begin
      assert (!m_valid || (n != 3'd0 && m_data == q[1:0]));
      assert (s_ready == (count != 2'd3));
      assert (!had_beat || m_valid);
      assert (rp < 2'd3 && wp < 2'd3 && n == {1'b0, count} + {2'b0, m_valid});
      assert ({1'b0, wp} == (ahead >= 3'd3 ? ahead - 3'd3 : ahead));
      assert (count < 2'd1 || order[1:0] == behind[1:0]);
      assert (count < 2'd2 || order[3:2] == behind[3:2]);
      assert (count < 2'd3 || order[5:4] == behind[5:4]);
    end
endmodule
