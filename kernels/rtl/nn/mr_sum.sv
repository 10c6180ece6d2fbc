/// Computes y = a + b. The adder is a separate module so that the synthesiser does not merge it with neighbouring logic.
`default_nettype none
(* keep_hierarchy *)
module mr_sum #(
  parameter integer WIDTH = 8
) (
  input  logic [WIDTH-1:0] a,
  input  logic [WIDTH-1:0] b,
  output logic [WIDTH-1:0] y
);
  assign y = a + b;
endmodule
`default_nettype wire
