/// Two dot products over the same activations with one DSP slice per lane: a * (w1 * 2^18 + w0).
///
/// sum0 = Σ a[i] * w0[i], and sum1 + carry1 = Σ a[i] * w1[i]. Both weights share one multiplier: w1 in the high field, w0 in the low field.
/// The stored w1 is 1 smaller if w0 is negative, which compensates for the borrow that the low field takes from the high field. Weights are
/// signed and within ±(2^(WBITS-1) - 1); ABITS and WBITS are at most 8. The sum of four products then fits a field of 18 bits, so four
/// products are added before their fields are separated.
///
/// The output `carry1` is the last borrow of a group of four products. The accumulator behind this module uses it as carry-in, so no borrow
/// costs an adder. Latency 1 + ceil(log2 SIMD) enabled clocks, as in mr_dot. Products and every level of the tree are registers. The macro
/// SIM_FAST works as in mr_dot.
`default_nettype none
module mr_dot_pair #(
  parameter integer SIMD  = 4,
  parameter integer ABITS = 8,
  parameter integer AKIND = 1,  // 0 unsigned, 1 signed
  parameter integer WBITS = 8,
  localparam integer LEVELS  = $clog2(SIMD),
  localparam integer SUMBITS = 18 + LEVELS
) (
  input  logic clk,
  input  logic en,

  input  logic [SIMD*ABITS-1:0] a,
  input  logic [SIMD*WBITS-1:0] w0,
  input  logic [SIMD*WBITS-1:0] w1,
  output logic [SUMBITS-1:0]    sum0,
  output logic [SUMBITS-1:0]    sum1,
  output logic                  carry1
);
`ifdef SIM_FAST
  // With SIM_FAST, one large sum and a chain of registers replace the adder tree. The chain has as many registers as the tree has levels,
  // so results and timing are the same, but the simulation is faster.
  function automatic integer activation(input logic [ABITS-1:0] field);
    activation = (AKIND == 1) ? 32'($signed(field)) : 32'(field);
  endfunction
  integer                        total0, total1;
  logic [(LEVELS+1)*SUMBITS-1:0] chain0, chain1;
  always_comb begin
    total0 = 0;
    total1 = 0;
    for (integer i = 0; i < SIMD; i = i + 1) begin
      total0 = total0 + activation(a[i*ABITS+:ABITS]) * 32'($signed(w0[i*WBITS+:WBITS]));
      total1 = total1 + activation(a[i*ABITS+:ABITS]) * (32'($signed(w1[i*WBITS+:WBITS])) + 32'(w0[i*WBITS+WBITS-1]));
    end
  end
  always_ff @(posedge clk)
    if (en) begin
      chain0 <= ((LEVELS+1)*SUMBITS)'({chain0, SUMBITS'(total0)});
      chain1 <= ((LEVELS+1)*SUMBITS)'({chain1, SUMBITS'(total1)});
    end
  assign sum0   = chain0[LEVELS*SUMBITS+:SUMBITS];
  assign sum1   = chain1[LEVELS*SUMBITS+:SUMBITS];
  assign carry1 = 1'b0;
`else
  localparam integer LEAVES = 1 << LEVELS;
  localparam integer GROUP = (LEAVES < 4) ? LEAVES : 4;
  localparam integer GROUPS = LEAVES / GROUP;

  generate
    // The adders form a binary tree as in mr_dot. Nodes with number GROUPS and higher hold the sums for both weights packed in one word.
    for (genvar n = GROUPS; n < 2 * LEAVES; n = n + 1) begin : g_packed
      logic signed [35:0] value;
      if (n < LEAVES) begin : g_add
        always_ff @(posedge clk) if (en) value <= g_packed[2*n].value + g_packed[2*n+1].value;
      end else if (n - LEAVES >= SIMD) begin : g_empty
        assign value = '0;
      end else begin : g_leaf
        localparam integer I = n - LEAVES;
        logic signed [26:0] weights;
        logic signed [8:0]  activation;
        (* use_dsp = "yes" *) logic signed [35:0] product;
        assign weights = {(9)'($signed(w1[I*WBITS+:WBITS])), 18'($signed(w0[I*WBITS+:WBITS]))};
        assign activation = (AKIND == 1) ? 9'($signed(a[I*ABITS+:ABITS])) : 9'(a[I*ABITS+:ABITS]);
        always_ff @(posedge clk) if (en) product <= 36'(weights) * 36'(activation);
        assign value = product;
      end
    end
    // Nodes with numbers below GROUPS add the two fields separately. Each adder takes the borrow of its left operand as its carry-in and
    // passes on the borrow of its right operand.
    for (genvar n = 1; n < 2 * GROUPS; n = n + 1) begin : g_split
      logic signed [SUMBITS-1:0] low, high;
      logic                      carry;
      if (n >= GROUPS) begin : g_group
        assign low   = SUMBITS'($signed(g_packed[n].value[17:0]));
        assign high  = SUMBITS'($signed(g_packed[n].value[35:18]));
        assign carry = g_packed[n].value[17];
      end else begin : g_add
        logic [SUMBITS:0] with_carry;
        assign with_carry = {g_split[2*n].high, 1'b1} + {g_split[2*n+1].high, g_split[2*n].carry};
        logic unused;
        assign unused = with_carry[0];
        always_ff @(posedge clk)
          if (en) begin
            low   <= g_split[2*n].low + g_split[2*n+1].low;
            high  <= with_carry[SUMBITS:1];
            carry <= g_split[2*n+1].carry;
          end
      end
    end
    assign sum0   = g_split[1].low;
    assign sum1   = g_split[1].high;
    assign carry1 = g_split[1].carry;
  endgenerate
`endif
endmodule
`default_nettype wire
