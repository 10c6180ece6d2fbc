/// One lane of pooling: the largest element, or the sum, of `a` and the elements before it. `first` begins a new window. Combinational.
`default_nettype none
module mr_pool_lane #(
  parameter integer OP    = 0,
  parameter integer ABITS = 8,
  parameter integer AKIND = 1,
  parameter integer OBITS = 8
) (
  input  logic             first,
  input  logic [ABITS-1:0] a,
  input  logic [OBITS-1:0] so_far,
  output logic [OBITS-1:0] after
);
  logic [OBITS-1:0] wide;
  generate
    if (AKIND == 1) begin : g_signed
      assign wide = OBITS'($signed(a));
    end else begin : g_unsigned
      assign wide = OBITS'(a);
    end
    if (OP == 1) begin : g_sum
      assign after = wide + (first ? '0 : so_far);
    end else begin : g_largest
      logic larger;
      if (AKIND == 1) begin : g_compare_signed
        assign larger = $signed(wide) > $signed(so_far);
      end else begin : g_compare_unsigned
        assign larger = wide > so_far;
      end
      assign after = (first || larger) ? wide : so_far;
    end
  endgenerate
endmodule
`default_nettype wire
