/// States the handshake rules of a stream as assertions, for simulation and formal proof. Synthesis never reads this file. The rules are:
///   - once valid is high, it stays high until ready is high
///   - the data do not change while they wait
/// Further assertions state that valid and ready are never X. No tool here can check this, because Verilator knows only 0 and 1, and the
/// proofs leave X out.
`ifndef SYNTHESIS
`default_nettype none
module mr_handshake_check #(
  parameter integer WIDTH = 8
) (
  input logic clk,
  input logic rst,
  input logic valid,
  input logic ready,
  input logic [WIDTH-1:0] data
);
  logic             waiting;
  logic [WIDTH-1:0] held;

  initial waiting = 1'b0;
  always_ff @(posedge clk) begin
    waiting <= !rst && valid && !ready;
    held    <= data;
  end

`ifdef FORMAL
  always @(posedge clk)
    if (!rst && waiting) begin
      assert (valid);
      assert (data == held);
    end
`else
  always_ff @(posedge clk)
    if (!rst) begin
      if (waiting) begin
        assert (valid) else $error("%m: valid fell before its beat was taken");
        assert (data === held) else $error("%m: data changed while it waited");
      end
      assert (!$isunknown({valid, ready})) else $error("%m: unknown valid or ready");
    end
`endif
endmodule
`default_nettype wire
`endif
