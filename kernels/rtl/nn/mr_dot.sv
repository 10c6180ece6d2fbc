/// Dot product of SIMD activations and weights: products, then an adder tree with a register behind every level.
///
/// sum = Σ a[i] * w[i], exactly. The operands' kinds and the parameter MUL are those of mr_multiply. If both operands are bipolar, the
/// module counts equal bits instead of adding products. Latency 1 + ceil(log2 SIMD) enabled clocks; one dot product per clock. Products and
/// every level of the tree are registers. In simulators, the macro SIM_FAST replaces the tree by one sum with the same delay.
`default_nettype none
module mr_dot #(
  parameter integer SIMD  = 4,
  parameter integer ABITS = 8,
  parameter integer AKIND = 1,
  parameter integer WBITS = 8,
  parameter integer WKIND = 1,
  parameter integer MUL   = 1,
  localparam integer LEVELS = $clog2(SIMD),
  localparam integer PBITS  = ABITS + ((AKIND == 1) ? 0 : 1) + WBITS + ((WKIND == 1) ? 0 : 1),
  localparam integer SUMBITS = PBITS + LEVELS
) (
  input  logic clk,
  input  logic en,

  input  logic [SIMD*ABITS-1:0] a,
  input  logic [SIMD*WBITS-1:0] w,
  output logic [SUMBITS-1:0]    sum
);
`ifdef SIM_FAST
  // With SIM_FAST, one large sum and a chain of registers replace the adder tree. The chain has as many registers as the tree has levels,
  // so results and timing are the same, but the simulation is faster.
  function automatic integer activation(input logic [ABITS-1:0] field);
    activation = (AKIND == 1) ? 32'($signed(field)) : (AKIND == 0) ? 32'(field) : field[0] ? 1 : -1;
  endfunction
  function automatic integer weight(input logic [WBITS-1:0] field);
    weight = (WKIND == 1) ? 32'($signed(field)) : (WKIND == 0) ? 32'(field) : field[0] ? 1 : -1;
  endfunction
  integer                      total;
  logic [(LEVELS+1)*SUMBITS-1:0] chain;
  always_comb begin
    total = 0;
    for (integer i = 0; i < SIMD; i = i + 1)
      total = total + activation(a[i*ABITS+:ABITS]) * weight(w[i*WBITS+:WBITS]);
  end
  always_ff @(posedge clk) if (en) chain <= ((LEVELS+1)*SUMBITS)'({chain, SUMBITS'(total)});
  assign sum = chain[LEVELS*SUMBITS+:SUMBITS];
  logic unused;
  assign unused = (MUL != 0);
`else
  localparam integer LEAVES = 1 << LEVELS;
  localparam bit     COUNT = (AKIND == 2) && (WKIND == 2);
  // The adders form a binary tree: node n adds nodes 2n and 2n+1, and the leaves are nodes LEAVES to 2*LEAVES-1. If equal bits are counted
  // instead of products, the nodes are narrower.
  localparam integer NW = COUNT ? LEVELS + 1 : SUMBITS;

  generate
    for (genvar n = 1; n < 2 * LEAVES; n = n + 1) begin : g_node
      logic [NW-1:0] value;
      if (n < LEAVES) begin : g_add
        always_ff @(posedge clk) if (en) value <= g_node[2*n].value + g_node[2*n+1].value;
      end else if (n - LEAVES >= SIMD) begin : g_empty
        assign value = '0;
      end else begin : g_leaf
        localparam integer I = n - LEAVES;
        if (COUNT) begin : g_equal
          always_ff @(posedge clk) if (en) value <= NW'(a[I] == w[I]);
        end else begin : g_product
          logic [PBITS-1:0] product;
          mr_multiply #(.ABITS(ABITS), .AKIND(AKIND), .WBITS(WBITS), .WKIND(WKIND), .MUL(MUL)) multiply (
            .a(a[I*ABITS+:ABITS]), .w(w[I*WBITS+:WBITS]), .p(product));
          always_ff @(posedge clk) if (en) value <= NW'($signed(product));
        end
      end
    end
    if (COUNT) begin : g_count
      assign sum = SUMBITS'({g_node[1].value, 1'b0}) - SUMBITS'(SIMD);
    end else begin : g_sum
      assign sum = g_node[1].value;
    end
  endgenerate
`endif
endmodule
`default_nettype wire
