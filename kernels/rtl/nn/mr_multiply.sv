/// The exact product of an activation and a weight of any kind.
///
/// The kind of an operand is 0 for unsigned, 1 for signed, and 2 for bipolar (one bit: 1 is +1, 0 is -1). MUL = 0 multiplies in LUTs, MUL =
/// 1 in a DSP slice. The module is combinational. PBITS is the sum of both operands' bits, each counted as a signed number.
`default_nettype none
module mr_multiply #(
  parameter integer ABITS = 8,
  parameter integer AKIND = 1,
  parameter integer WBITS = 8,
  parameter integer WKIND = 1,
  parameter integer MUL   = 1,
  localparam integer AX    = ABITS + ((AKIND == 1) ? 0 : 1),
  localparam integer WX    = WBITS + ((WKIND == 1) ? 0 : 1),
  localparam integer PBITS = AX + WX
) (
  input  logic [ABITS-1:0] a,
  input  logic [WBITS-1:0] w,
  output logic [PBITS-1:0] p
);
  logic signed [AX-1:0] ax;
  logic signed [WX-1:0] wx;
  generate
    if (AKIND == 0) begin : g_a_unsigned
      assign ax = {1'b0, a};
    end else if (AKIND == 1) begin : g_a_signed
      assign ax = a;
    end else begin : g_a_bipolar
      assign ax = {!a, 1'b1};
    end
    if (WKIND == 0) begin : g_w_unsigned
      assign wx = {1'b0, w};
    end else if (WKIND == 1) begin : g_w_signed
      assign wx = w;
    end else begin : g_w_bipolar
      assign wx = {!w, 1'b1};
    end

    if (WKIND == 2) begin : g_sign
      assign p = wx[WX-1] ? -(PBITS'(ax)) : PBITS'(ax);
    end else if (AKIND == 2) begin : g_sign_of_weight
      assign p = ax[AX-1] ? -(PBITS'(wx)) : PBITS'(wx);
    end else if (MUL == 0) begin : g_soft
      mr_booth #(.ABITS(AX), .WBITS(WX)) booth (.a(ax), .w(wx), .p);
    end else begin : g_dsp
      (* use_dsp = "yes" *) logic signed [PBITS-1:0] product;
      assign product = PBITS'(ax) * PBITS'(wx);
      assign p       = product;
    end
  endgenerate
endmodule
`default_nettype wire
