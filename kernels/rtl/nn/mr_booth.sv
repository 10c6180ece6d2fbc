/// Signed product in LUTs by radix-4 Booth recoding: the cheapest soft multiplier for weights of 3 to 9 bits on UltraScale.
///
/// p = a * w, both in two's complement. The module is combinational: it selects multiples for the digits, then adds them with (WBITS+1)/2 -
/// 1 adders in series. Each adder is an instance of its own, because synthesis would otherwise merge the adders into a compressor tree,
/// which costs more.
`default_nettype none
module mr_booth #(
  parameter integer ABITS = 8,
  parameter integer WBITS = 8
) (
  input  logic [ABITS-1:0]       a,
  input  logic [WBITS-1:0]       w,
  output logic [ABITS+WBITS-1:0] p
);
  localparam integer N = (WBITS + 1) / 2;  // digits of -2..2
  localparam integer RW = ABITS + 1;       // bits of a row: 2a
  localparam integer SW = ABITS + 3;       // bits of a running sum
  localparam integer PW = ABITS + WBITS;

  logic [2*N:0]    digits;  // w, sign-extended, with a zero below
  logic [N*RW-1:0] row;     // digit times a, ones' complement where negative
  logic [N-1:0]    negative;
  assign digits = {{(2 * N - WBITS + 1) {w[WBITS-1]}}, w} << 1;

  generate
    for (genvar i = 0; i < N; i = i + 1) begin : g_digit
      logic [2:0]    d;
      logic [RW-1:0] magnitude;
      assign d                  = digits[2*i+:3];
      assign magnitude          = (d == 3'b011 || d == 3'b100) ? {a, 1'b0} : (d[0] ^ d[1]) ? {a[ABITS-1], a} : '0;
      assign negative[i]        = d[2];  // also of digit 111, which is minus zero
      assign row[i*RW+:RW]      = magnitude ^ {RW{negative[i]}};
    end

    // A negative row needs +1 in two's complement. The empty low bits of the next row hold this +1. The last row has no next row, so its +1
    // is added here.
    logic [SW-1:0] top;
    mr_sum #(.WIDTH(SW)) complete (
      .a({{2{row[N*RW-1]}}, row[(N-1)*RW+:RW]}), .b({{(SW - 1) {1'b0}}, negative[N-1]}), .y(top));

    if (N == 1) begin : g_one
      assign p = PW'($signed(top));
      logic unused;
      assign unused = &{1'b0, top};
    end else begin : g_chain
      // Sum i covers bits 2i and up. It adds three numbers: sum i-1 without the two low bits that are final, row i+1, and the +1 of row i
      // in the empty bits below row i+1.
      logic [(N-1)*(SW+2)-1:0] sum;
      logic [2*N+SW-1:0]       result;
      for (genvar i = 0; i < N - 1; i = i + 1) begin : g_sum
        logic [SW+1:0] above, below;
        if (i == N - 2) begin : g_last
          assign above = {top, 1'b0, negative[i]};
        end else begin : g_middle
          assign above = {{2{row[(i+2)*RW-1]}}, row[(i+1)*RW+:RW], 1'b0, negative[i]};
        end
        if (i == 0) begin : g_first
          assign below = {{(SW + 2 - RW) {row[RW-1]}}, row[RW-1:0]};
        end else begin : g_next
          assign below = {{2{sum[i*(SW+2)-1]}}, sum[(i-1)*(SW+2)+2+:SW]};
          assign result[2*(i-1)+:2] = sum[(i-1)*(SW+2)+:2];
        end
        mr_sum #(.WIDTH(SW + 2)) add (.a(above), .b(below), .y(sum[i*(SW+2)+:SW+2]));
      end
      assign result[2*N+SW-1:2*(N-2)] = (SW + 4)'($signed(sum[(N-2)*(SW+2)+:SW+2]));
      assign p = PW'(result);
      logic unused;
      assign unused = &{1'b0, result[2*N+SW-1:PW]};
    end
  endgenerate
endmodule
`default_nettype wire
