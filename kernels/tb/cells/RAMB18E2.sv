/// A model of the block RAM RAMB18E2: its parameters and pins (AMD UG573), around an instance of block_ram with 18 kbit.
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
    .WRITE_MODE_A(WRITE_MODE_A), .WRITE_MODE_B(WRITE_MODE_B), .CLOCK_DOMAINS(CLOCK_DOMAINS),
    .SRVAL_A(SRVAL_A), .SRVAL_B(SRVAL_B), .DOA_REG(DOA_REG), .DOB_REG(DOB_REG)) ram (
    .a_clk(CLKARDCLK), .a_en(ENARDEN), .a_rst(RSTRAMARSTRAM), .a_addr(ADDRARDADDR), .a_pins_we(WEA), .a_pins_di(DINADIN),
    .a_pins_dip(DINPADINP), .a_pins_do(DOUTADOUT), .a_pins_dop(DOUTPADOUTP),
    .b_clk(CLKBWRCLK), .b_en(ENBWREN), .b_rst(RSTRAMB), .b_addr(ADDRBWRADDR), .b_pins_we(WEBWE), .b_pins_di(DINBDIN),
    .b_pins_dip(DINPBDINP), .b_pins_do(DOUTBDOUT), .b_pins_dop(DOUTPBDOUTP),
    .other(SLEEP || !ADDRENA || !ADDRENB || RSTREGARSTREG || RSTREGB || REGCEAREGCE || REGCEB));
endmodule
