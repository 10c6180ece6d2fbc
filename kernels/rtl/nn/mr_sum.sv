/// y = a + b, in a module of its own so that the synthesiser does not merge it with its neighbours.
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
