/// The RAMB18E2 as Yosys 0.23 infers it: block_ram.sv's modes, 18 kbit. Any other configuration stops the simulation.
///
/// After AMD UG573: port A reads and port B writes 36 bits in simple dual-port mode; the lower half of data and parity is then
/// port A's pins, the upper half port B's.
module RAMB18E2 #(
  parameter [255:0] INITP_00 = '0,  parameter [255:0] INITP_01 = '0,  parameter [255:0] INITP_02 = '0,  parameter [255:0] INITP_03 = '0,
  parameter [255:0] INITP_04 = '0,  parameter [255:0] INITP_05 = '0,  parameter [255:0] INITP_06 = '0,  parameter [255:0] INITP_07 = '0,
  parameter [255:0] INIT_00 = '0,  parameter [255:0] INIT_01 = '0,  parameter [255:0] INIT_02 = '0,  parameter [255:0] INIT_03 = '0,
  parameter [255:0] INIT_04 = '0,  parameter [255:0] INIT_05 = '0,  parameter [255:0] INIT_06 = '0,  parameter [255:0] INIT_07 = '0,
  parameter [255:0] INIT_08 = '0,  parameter [255:0] INIT_09 = '0,  parameter [255:0] INIT_0A = '0,  parameter [255:0] INIT_0B = '0,
  parameter [255:0] INIT_0C = '0,  parameter [255:0] INIT_0D = '0,  parameter [255:0] INIT_0E = '0,  parameter [255:0] INIT_0F = '0,
  parameter [255:0] INIT_10 = '0,  parameter [255:0] INIT_11 = '0,  parameter [255:0] INIT_12 = '0,  parameter [255:0] INIT_13 = '0,
  parameter [255:0] INIT_14 = '0,  parameter [255:0] INIT_15 = '0,  parameter [255:0] INIT_16 = '0,  parameter [255:0] INIT_17 = '0,
  parameter [255:0] INIT_18 = '0,  parameter [255:0] INIT_19 = '0,  parameter [255:0] INIT_1A = '0,  parameter [255:0] INIT_1B = '0,
  parameter [255:0] INIT_1C = '0,  parameter [255:0] INIT_1D = '0,  parameter [255:0] INIT_1E = '0,  parameter [255:0] INIT_1F = '0,
  parameter [255:0] INIT_20 = '0,  parameter [255:0] INIT_21 = '0,  parameter [255:0] INIT_22 = '0,  parameter [255:0] INIT_23 = '0,
  parameter [255:0] INIT_24 = '0,  parameter [255:0] INIT_25 = '0,  parameter [255:0] INIT_26 = '0,  parameter [255:0] INIT_27 = '0,
  parameter [255:0] INIT_28 = '0,  parameter [255:0] INIT_29 = '0,  parameter [255:0] INIT_2A = '0,  parameter [255:0] INIT_2B = '0,
  parameter [255:0] INIT_2C = '0,  parameter [255:0] INIT_2D = '0,  parameter [255:0] INIT_2E = '0,  parameter [255:0] INIT_2F = '0,
  parameter [255:0] INIT_30 = '0,  parameter [255:0] INIT_31 = '0,  parameter [255:0] INIT_32 = '0,  parameter [255:0] INIT_33 = '0,
  parameter [255:0] INIT_34 = '0,  parameter [255:0] INIT_35 = '0,  parameter [255:0] INIT_36 = '0,  parameter [255:0] INIT_37 = '0,
  parameter [255:0] INIT_38 = '0,  parameter [255:0] INIT_39 = '0,  parameter [255:0] INIT_3A = '0,  parameter [255:0] INIT_3B = '0,
  parameter [255:0] INIT_3C = '0,  parameter [255:0] INIT_3D = '0,  parameter [255:0] INIT_3E = '0,  parameter [255:0] INIT_3F = '0,
  parameter integer DOA_REG = 1, parameter integer DOB_REG = 1,
  parameter [71:0] INIT_A = '0, parameter [71:0] INIT_B = '0, parameter [71:0] SRVAL_A = '0, parameter [71:0] SRVAL_B = '0,
  parameter integer READ_WIDTH_A = 0, parameter integer READ_WIDTH_B = 0,
  parameter integer WRITE_WIDTH_A = 0, parameter integer WRITE_WIDTH_B = 0,
  parameter WRITE_MODE_A = "NO_CHANGE", parameter WRITE_MODE_B = "NO_CHANGE", parameter CLOCK_DOMAINS = "INDEPENDENT"
) (
  input  logic CLKARDCLK, input logic CLKBWRCLK, input logic ENARDEN, input logic ENBWREN,
  input  logic ADDRENA, input logic ADDRENB, input logic REGCEAREGCE, input logic REGCEB,
  input  logic RSTRAMARSTRAM, input logic RSTRAMB, input logic RSTREGARSTREG, input logic RSTREGB, input logic SLEEP,
  input  logic [13:0] ADDRARDADDR, input logic [13:0] ADDRBWRADDR,
  input  logic [1:0] WEA, input logic [3:0] WEBWE,
  input  logic [15:0] DINADIN, input logic [15:0] DINBDIN, input logic [1:0] DINPADINP, input logic [1:0] DINPBDINP,
  output logic [15:0] DOUTADOUT, output logic [15:0] DOUTBDOUT,
  output logic [1:0] DOUTPADOUTP, output logic [1:0] DOUTPBDOUTP
);
  localparam bit WIDE_READ = (READ_WIDTH_A == 36), WIDE_WRITE = (WRITE_WIDTH_B == 36);
  logic [63:0] a_do, b_do, b_di;
  logic [7:0]  a_dop, b_dop, b_dip;
  assign b_di  = WIDE_WRITE ? 64'({DINBDIN, DINADIN}) : 64'(DINBDIN);
  assign b_dip = WIDE_WRITE ? 8'({DINPBDINP, DINPADINP}) : 8'(DINPBDINP);
  assign {DOUTBDOUT, DOUTADOUT} = WIDE_READ ? a_do[31:0] : {b_do[15:0], a_do[15:0]};
  assign {DOUTPBDOUTP, DOUTPADOUTP} = WIDE_READ ? a_dop[3:0] : {b_dop[1:0], a_dop[1:0]};
  block_ram #(
    .BYTES(2048),
    .INIT({
      INIT_3F, INIT_3E, INIT_3D, INIT_3C, INIT_3B, INIT_3A, INIT_39, INIT_38, INIT_37, INIT_36, INIT_35, INIT_34, INIT_33,
      INIT_32, INIT_31, INIT_30, INIT_2F, INIT_2E, INIT_2D, INIT_2C, INIT_2B, INIT_2A, INIT_29, INIT_28, INIT_27, INIT_26,
      INIT_25, INIT_24, INIT_23, INIT_22, INIT_21, INIT_20, INIT_1F, INIT_1E, INIT_1D, INIT_1C, INIT_1B, INIT_1A, INIT_19,
      INIT_18, INIT_17, INIT_16, INIT_15, INIT_14, INIT_13, INIT_12, INIT_11, INIT_10, INIT_0F, INIT_0E, INIT_0D, INIT_0C,
      INIT_0B, INIT_0A, INIT_09, INIT_08, INIT_07, INIT_06, INIT_05, INIT_04, INIT_03, INIT_02, INIT_01, INIT_00}),
    .INITP({
      INITP_07, INITP_06, INITP_05, INITP_04, INITP_03, INITP_02, INITP_01, INITP_00}),
    .READ_WIDTH_A(READ_WIDTH_A), .READ_WIDTH_B(READ_WIDTH_B), .WRITE_WIDTH_A(WRITE_WIDTH_A), .WRITE_WIDTH_B(WRITE_WIDTH_B),
    .WRITE_MODE_A(WRITE_MODE_A), .WRITE_MODE_B(WRITE_MODE_B), .CLOCK_DOMAINS(CLOCK_DOMAINS)) ram (
    .a_clk(CLKARDCLK), .a_en(ENARDEN), .a_rst(RSTRAMARSTRAM), .a_addr(ADDRARDADDR), .a_we(8'(WEA)),
    .a_di(64'(DINADIN)), .a_dip(8'(DINPADINP)), .a_srval(value(SRVAL_A, SRVAL_B, READ_WIDTH_A)), .a_do, .a_dop,
    .b_clk(CLKBWRCLK), .b_en(ENBWREN), .b_rst(RSTRAMB), .b_addr(ADDRBWRADDR), .b_we(8'(WEBWE)),
    .b_di, .b_dip, .b_srval(value(SRVAL_B, 72'd0, READ_WIDTH_B)), .b_do, .b_dop);

  // A value as the parameter has it, parity above the data: of `width` bits, or half in each of two.
  function automatic logic [71:0] value(input [71:0] low, input [71:0] high, input integer width);
    value = '0;
    if (width < 9) value[7:0] = low[7:0];
    else if (width == 36) begin
      value[31:0] = {high[15:0], low[15:0]};
      value[64+:4] = {high[16+:2], low[16+:2]};
    end else
      for (integer i = 0; i < width / 9; i = i + 1) begin
        value[i*8+:8] = low[i*8+:8];
        value[64+i] = low[width/9*8+i];
      end
  endfunction

  initial
    if (DOA_REG != 0 || DOB_REG != 0 || (WIDE_READ && READ_WIDTH_B != 0) || (WIDE_WRITE && WRITE_WIDTH_A != 0))
      $fatal(1, "%m: a configuration that is not modelled");
  always_comb
    if (SLEEP || !ADDRENA || !ADDRENB || RSTREGARSTREG || RSTREGB || REGCEAREGCE || REGCEB)
      $fatal(1, "%m: an operation that is not modelled");
endmodule
