/// The RAMB36E2 as Yosys 0.23 infers it: block_ram.sv's modes, 36 kbit. Any other configuration stops the simulation.
///
/// After AMD UG573: port A reads and port B writes 72 bits in simple dual-port mode; the lower half of data and parity is then
/// port A's pins, the upper half port B's.
module RAMB36E2 #(
  parameter [255:0] INITP_00 = '0,  parameter [255:0] INITP_01 = '0,  parameter [255:0] INITP_02 = '0,  parameter [255:0] INITP_03 = '0,
  parameter [255:0] INITP_04 = '0,  parameter [255:0] INITP_05 = '0,  parameter [255:0] INITP_06 = '0,  parameter [255:0] INITP_07 = '0,
  parameter [255:0] INITP_08 = '0,  parameter [255:0] INITP_09 = '0,  parameter [255:0] INITP_0A = '0,  parameter [255:0] INITP_0B = '0,
  parameter [255:0] INITP_0C = '0,  parameter [255:0] INITP_0D = '0,  parameter [255:0] INITP_0E = '0,  parameter [255:0] INITP_0F = '0,
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
  parameter [255:0] INIT_40 = '0,  parameter [255:0] INIT_41 = '0,  parameter [255:0] INIT_42 = '0,  parameter [255:0] INIT_43 = '0,
  parameter [255:0] INIT_44 = '0,  parameter [255:0] INIT_45 = '0,  parameter [255:0] INIT_46 = '0,  parameter [255:0] INIT_47 = '0,
  parameter [255:0] INIT_48 = '0,  parameter [255:0] INIT_49 = '0,  parameter [255:0] INIT_4A = '0,  parameter [255:0] INIT_4B = '0,
  parameter [255:0] INIT_4C = '0,  parameter [255:0] INIT_4D = '0,  parameter [255:0] INIT_4E = '0,  parameter [255:0] INIT_4F = '0,
  parameter [255:0] INIT_50 = '0,  parameter [255:0] INIT_51 = '0,  parameter [255:0] INIT_52 = '0,  parameter [255:0] INIT_53 = '0,
  parameter [255:0] INIT_54 = '0,  parameter [255:0] INIT_55 = '0,  parameter [255:0] INIT_56 = '0,  parameter [255:0] INIT_57 = '0,
  parameter [255:0] INIT_58 = '0,  parameter [255:0] INIT_59 = '0,  parameter [255:0] INIT_5A = '0,  parameter [255:0] INIT_5B = '0,
  parameter [255:0] INIT_5C = '0,  parameter [255:0] INIT_5D = '0,  parameter [255:0] INIT_5E = '0,  parameter [255:0] INIT_5F = '0,
  parameter [255:0] INIT_60 = '0,  parameter [255:0] INIT_61 = '0,  parameter [255:0] INIT_62 = '0,  parameter [255:0] INIT_63 = '0,
  parameter [255:0] INIT_64 = '0,  parameter [255:0] INIT_65 = '0,  parameter [255:0] INIT_66 = '0,  parameter [255:0] INIT_67 = '0,
  parameter [255:0] INIT_68 = '0,  parameter [255:0] INIT_69 = '0,  parameter [255:0] INIT_6A = '0,  parameter [255:0] INIT_6B = '0,
  parameter [255:0] INIT_6C = '0,  parameter [255:0] INIT_6D = '0,  parameter [255:0] INIT_6E = '0,  parameter [255:0] INIT_6F = '0,
  parameter [255:0] INIT_70 = '0,  parameter [255:0] INIT_71 = '0,  parameter [255:0] INIT_72 = '0,  parameter [255:0] INIT_73 = '0,
  parameter [255:0] INIT_74 = '0,  parameter [255:0] INIT_75 = '0,  parameter [255:0] INIT_76 = '0,  parameter [255:0] INIT_77 = '0,
  parameter [255:0] INIT_78 = '0,  parameter [255:0] INIT_79 = '0,  parameter [255:0] INIT_7A = '0,  parameter [255:0] INIT_7B = '0,
  parameter [255:0] INIT_7C = '0,  parameter [255:0] INIT_7D = '0,  parameter [255:0] INIT_7E = '0,  parameter [255:0] INIT_7F = '0,
  parameter integer DOA_REG = 1, parameter integer DOB_REG = 1,
  parameter [71:0] INIT_A = '0, parameter [71:0] INIT_B = '0, parameter [71:0] SRVAL_A = '0, parameter [71:0] SRVAL_B = '0,
  parameter integer READ_WIDTH_A = 0, parameter integer READ_WIDTH_B = 0,
  parameter integer WRITE_WIDTH_A = 0, parameter integer WRITE_WIDTH_B = 0,
  parameter WRITE_MODE_A = "NO_CHANGE", parameter WRITE_MODE_B = "NO_CHANGE", parameter CLOCK_DOMAINS = "INDEPENDENT"
) (
  input  logic CLKARDCLK, input logic CLKBWRCLK, input logic ENARDEN, input logic ENBWREN,
  input  logic ADDRENA, input logic ADDRENB, input logic REGCEAREGCE, input logic REGCEB,
  input  logic RSTRAMARSTRAM, input logic RSTRAMB, input logic RSTREGARSTREG, input logic RSTREGB, input logic SLEEP,
  input  logic [14:0] ADDRARDADDR, input logic [14:0] ADDRBWRADDR,
  input  logic [3:0] WEA, input logic [7:0] WEBWE,
  input  logic [31:0] DINADIN, input logic [31:0] DINBDIN, input logic [3:0] DINPADINP, input logic [3:0] DINPBDINP,
  output logic [31:0] DOUTADOUT, output logic [31:0] DOUTBDOUT,
  output logic [3:0] DOUTPADOUTP, output logic [3:0] DOUTPBDOUTP
);
  localparam bit WIDE_READ = (READ_WIDTH_A == 72), WIDE_WRITE = (WRITE_WIDTH_B == 72);
  logic [63:0] a_do, b_do, b_di;
  logic [7:0]  a_dop, b_dop, b_dip;
  assign b_di  = WIDE_WRITE ? 64'({DINBDIN, DINADIN}) : 64'(DINBDIN);
  assign b_dip = WIDE_WRITE ? 8'({DINPBDINP, DINPADINP}) : 8'(DINPBDINP);
  assign {DOUTBDOUT, DOUTADOUT} = WIDE_READ ? a_do[63:0] : {b_do[31:0], a_do[31:0]};
  assign {DOUTPBDOUTP, DOUTPADOUTP} = WIDE_READ ? a_dop[7:0] : {b_dop[3:0], a_dop[3:0]};
  block_ram #(
    .BYTES(4096),
    .INIT({
      INIT_7F, INIT_7E, INIT_7D, INIT_7C, INIT_7B, INIT_7A, INIT_79, INIT_78, INIT_77, INIT_76, INIT_75, INIT_74, INIT_73,
      INIT_72, INIT_71, INIT_70, INIT_6F, INIT_6E, INIT_6D, INIT_6C, INIT_6B, INIT_6A, INIT_69, INIT_68, INIT_67, INIT_66,
      INIT_65, INIT_64, INIT_63, INIT_62, INIT_61, INIT_60, INIT_5F, INIT_5E, INIT_5D, INIT_5C, INIT_5B, INIT_5A, INIT_59,
      INIT_58, INIT_57, INIT_56, INIT_55, INIT_54, INIT_53, INIT_52, INIT_51, INIT_50, INIT_4F, INIT_4E, INIT_4D, INIT_4C,
      INIT_4B, INIT_4A, INIT_49, INIT_48, INIT_47, INIT_46, INIT_45, INIT_44, INIT_43, INIT_42, INIT_41, INIT_40, INIT_3F,
      INIT_3E, INIT_3D, INIT_3C, INIT_3B, INIT_3A, INIT_39, INIT_38, INIT_37, INIT_36, INIT_35, INIT_34, INIT_33, INIT_32,
      INIT_31, INIT_30, INIT_2F, INIT_2E, INIT_2D, INIT_2C, INIT_2B, INIT_2A, INIT_29, INIT_28, INIT_27, INIT_26, INIT_25,
      INIT_24, INIT_23, INIT_22, INIT_21, INIT_20, INIT_1F, INIT_1E, INIT_1D, INIT_1C, INIT_1B, INIT_1A, INIT_19, INIT_18,
      INIT_17, INIT_16, INIT_15, INIT_14, INIT_13, INIT_12, INIT_11, INIT_10, INIT_0F, INIT_0E, INIT_0D, INIT_0C, INIT_0B,
      INIT_0A, INIT_09, INIT_08, INIT_07, INIT_06, INIT_05, INIT_04, INIT_03, INIT_02, INIT_01, INIT_00}),
    .INITP({
      INITP_0F, INITP_0E, INITP_0D, INITP_0C, INITP_0B, INITP_0A, INITP_09, INITP_08, INITP_07, INITP_06, INITP_05, INITP_04,
      INITP_03, INITP_02, INITP_01, INITP_00}),
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
    else if (width == 72) begin
      value[63:0] = {high[31:0], low[31:0]};
      value[64+:8] = {high[32+:4], low[32+:4]};
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
