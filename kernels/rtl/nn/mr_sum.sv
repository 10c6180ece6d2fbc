/// y = a + b, kept apart from its neighbours by the synthesiser.
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
