/// The carry chain of four bits, after AMD UG574 (UltraScale Architecture CLB), "Carry Logic".
///
/// This model replaces the one of Yosys, whose carry vector depends on itself. Verilator 5.006 evaluates chains of such loops wrongly, so
/// correct netlists would fail in simulation. Yosys' equiv_induct proves these netlists right.
module CARRY4 (
  output logic [3:0] CO,
  output logic [3:0] O,
  input  logic       CI,
  input  logic       CYINIT,
  input  logic [3:0] DI,
  input  logic [3:0] S
);
  logic c0, c1, c2, c3, c4;
  assign c0 = CI | CYINIT;
  assign c1 = S[0] ? c0 : DI[0];
  assign c2 = S[1] ? c1 : DI[1];
  assign c3 = S[2] ? c2 : DI[2];
  assign c4 = S[3] ? c3 : DI[3];
  assign O  = S ^ {c3, c2, c1, c0};
  assign CO = {c4, c3, c2, c1};
endmodule
