/// Distributes the beats of a loading stream to two tables: FIRST beats to the first table, then SECOND beats to the second table, then
/// again from the beginning.
///
/// A reset affects neither this module nor the tables. Only the beat counter is a register; everything else is combinational.
`default_nettype none
module mr_load_order #(
  parameter integer FIRST  = 8,
  parameter integer SECOND = 2
) (
  input  logic clk,
  input  logic l_valid,
  output logic to_first,
  output logic to_second
);
  localparam integer CW = $clog2(FIRST + SECOND);
  localparam logic [CW-1:0] SECOND_FROM = CW'(FIRST);
  localparam logic [CW-1:0] LAST = CW'(FIRST + SECOND - 1);
  logic [CW-1:0] count = '0;
  always_ff @(posedge clk) if (l_valid) count <= (count == LAST) ? '0 : count + 1'b1;
  assign to_first  = l_valid && (count < SECOND_FROM);
  assign to_second = l_valid && (count >= SECOND_FROM);
endmodule
`default_nettype wire
