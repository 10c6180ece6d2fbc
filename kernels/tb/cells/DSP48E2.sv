/// A model of the DSP48E2 slice in the only configuration that Yosys 0.23 uses for UltraScale: a 27 x 18 multiplier without registers.
///
/// Follows AMD UG579 (UltraScale Architecture DSP Slice), sections "Multiplier" and "X, Y and Z multiplexers". With OPMODE 0_00_00_01_01
/// and ALUMODE 0000, P is the sum of the multiplier's two partial products and the carry-in: P = A[26:0] * B[17:0] + carry-in, with
/// operands in two's complement and the product sign-extended to 48 bits. Every other configuration stops the simulation, because this
/// model does not contain the necessary parts of the slice.
module DSP48E2 #(
  parameter integer ACASCREG = 1,
  parameter integer ADREG = 1,
  parameter         A_INPUT = "DIRECT",
  parameter integer ALUMODEREG = 1,
  parameter integer AREG = 1,
  parameter integer BCASCREG = 1,
  parameter         B_INPUT = "DIRECT",
  parameter integer BREG = 1,
  parameter integer CARRYINREG = 1,
  parameter integer CARRYINSELREG = 1,
  parameter integer CREG = 1,
  parameter integer DREG = 1,
  parameter integer INMODEREG = 1,
  parameter integer MREG = 1,
  parameter integer OPMODEREG = 1,
  parameter integer PREG = 1,
  parameter         USE_MULT = "MULTIPLY",
  parameter         USE_SIMD = "ONE48",
  parameter         AMULTSEL = "A",
  parameter         BMULTSEL = "B"
) (
  input  logic [29:0] A,
  input  logic [17:0] B,
  input  logic [47:0] C,
  input  logic [26:0] D,
  input  logic [4:0]  INMODE,
  input  logic [3:0]  ALUMODE,
  input  logic [8:0]  OPMODE,
  input  logic [2:0]  CARRYINSEL,
  input  logic [29:0] ACIN,
  input  logic [17:0] BCIN,
  input  logic [47:0] PCIN,
  input  logic        CARRYIN,
  output logic [47:0] P
);
  assign P = 48'($signed(A[26:0])) * 48'($signed(B)) + 48'(CARRYIN);

  initial
    if (ADREG + AREG + BREG + CARRYINREG + CARRYINSELREG + CREG + DREG + INMODEREG + MREG + OPMODEREG + ALUMODEREG + PREG != 0 ||
        A_INPUT != "DIRECT" || B_INPUT != "DIRECT" || USE_MULT != "MULTIPLY" || USE_SIMD != "ONE48" || AMULTSEL != "A" || BMULTSEL != "B")
      $fatal(1, "%m: the simulation model does not support these parameters");
  always_comb
    if (OPMODE != 9'b000000101 || ALUMODE != 4'b0000 || INMODE != 5'b00000 || CARRYINSEL != 3'b000)
      $fatal(1, "%m: an operation that is not modelled");
endmodule
