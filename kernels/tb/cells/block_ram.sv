/// The common part of the models of RAMB18E2 and RAMB36E2. Contains only the modes that Yosys 0.23 uses: no output registers, no cascades,
/// no ECC.
///
/// Follows AMD UG573 (UltraScale Architecture Memory Resources), section "Block RAM". The memory has BYTES bytes, each with a parity bit. A
/// port of width 1, 2, 4, 9, 18, 36 or 72 accesses 1, 2, 4, 8, 16, 32 or 64 data bits; from width 9 on, it also accesses one parity bit per
/// byte. Address bits below the port's width are ignored.
///
/// A clock edge with enable writes the bytes whose write enable is set, and renews the output. With READ_FIRST, the output shows the old
/// content, and with WRITE_FIRST the written data; with NO_CHANGE, a write leaves the output as it is. A reset sets the output to SRVAL. If
/// both ports access the same address and one of them writes, the other port reads undefined data (random in this model), unless
/// CLOCK_DOMAINS is COMMON and the writing port is READ_FIRST.
///
/// Each port of the block RAM has pins for half of the widest word (HALF data bits). In simple dual-port mode, port A reads and port B
/// writes the whole word: the lower half of data and parity uses the pins of port A, and the upper half those of port B. Every other
/// configuration stops the simulation.
module block_ram #(
  parameter integer            BYTES = 2048,
  parameter [BYTES*8-1:0]      INIT  = '0,
  parameter [BYTES-1:0]        INITP = '0,
  parameter integer            READ_WIDTH_A = 0,
  parameter integer            READ_WIDTH_B = 0,
  parameter integer            WRITE_WIDTH_A = 0,
  parameter integer            WRITE_WIDTH_B = 0,
  parameter                    WRITE_MODE_A = "NO_CHANGE",
  parameter                    WRITE_MODE_B = "NO_CHANGE",
  parameter                    CLOCK_DOMAINS = "INDEPENDENT",
  parameter [71:0]             SRVAL_A = '0,
  parameter [71:0]             SRVAL_B = '0,
  parameter integer            DOA_REG = 1,
  parameter integer            DOB_REG = 1,
  localparam integer           AW = $clog2(BYTES) + 3,
  localparam integer           HALF = BYTES / 128
) (
  input  logic              a_clk,
  input  logic              a_en,
  input  logic              a_rst,
  input  logic [AW-1:0]     a_addr,
  input  logic [HALF/8-1:0] a_pins_we,
  input  logic [HALF-1:0]   a_pins_di,
  input  logic [HALF/8-1:0] a_pins_dip,
  output logic [HALF-1:0]   a_pins_do,
  output logic [HALF/8-1:0] a_pins_dop,

  input  logic              b_clk,
  input  logic              b_en,
  input  logic              b_rst,
  input  logic [AW-1:0]     b_addr,
  input  logic [HALF/4-1:0] b_pins_we,
  input  logic [HALF-1:0]   b_pins_di,
  input  logic [HALF/8-1:0] b_pins_dip,
  output logic [HALF-1:0]   b_pins_do,
  output logic [HALF/8-1:0] b_pins_dop,

  input logic other  // of the cell's pins, any that is not modelled
);
  localparam integer WIDEST = HALF / 16 * 36;
  localparam bit WIDE_READ = (READ_WIDTH_A == WIDEST), WIDE_WRITE = (WRITE_WIDTH_B == WIDEST);

  // Both the read side and the write side of a port have 64 bits here, of which the port uses as many as its width. Bit i of the parity
  // belongs to byte i.
  logic [63:0] a_di, a_do, b_di, b_do;
  logic [7:0]  a_we, a_dip, a_dop, b_we, b_dip, b_dop;
  logic [71:0] a_srval, b_srval;
  assign a_we  = 8'(a_pins_we);
  assign a_di  = 64'(a_pins_di);
  assign a_dip = 8'(a_pins_dip);
  assign b_we  = 8'(b_pins_we);
  assign b_di  = WIDE_WRITE ? 64'({b_pins_di, a_pins_di}) : 64'(b_pins_di);
  assign b_dip = WIDE_WRITE ? 8'({b_pins_dip, a_pins_dip}) : 8'(b_pins_dip);
  assign {b_pins_do, a_pins_do} = WIDE_READ ? a_do[2*HALF-1:0] : {b_do[HALF-1:0], a_do[HALF-1:0]};
  assign {b_pins_dop, a_pins_dop} = WIDE_READ ? a_dop[HALF/4-1:0] : {b_dop[HALF/8-1:0], a_dop[HALF/8-1:0]};
  assign a_srval = value(SRVAL_A, SRVAL_B, READ_WIDTH_A);
  assign b_srval = value(SRVAL_B, 72'd0, READ_WIDTH_B);

  // Returns the value of a parameter, with its parity bits above its data bits. For the widest port, the value consists of halves that come
  // from `low` and `high`; for all other ports, it is the first `width` bits of `low`.
  function automatic logic [71:0] value(input [71:0] low, input [71:0] high, input integer width);
    value = '0;
    if (width < 9) value[7:0] = low[7:0];
    else if (width == WIDEST) begin
      value[2*HALF-1:0] = {high[HALF-1:0], low[HALF-1:0]};
      value[64+:HALF/4] = {high[HALF+:HALF/8], low[HALF+:HALF/8]};
    end else
      for (integer i = 0; i < width / 9; i = i + 1) begin
        value[i*8+:8] = low[i*8+:8];
        value[64+i] = low[width/9*8+i];
      end
  endfunction

  initial
    if (DOA_REG != 0 || DOB_REG != 0 || (WIDE_READ && READ_WIDTH_B != 0) || (WIDE_WRITE && WRITE_WIDTH_A != 0))
      $fatal(1, "%m: the simulation model does not support these parameters");
  always_comb if (other) $fatal(1, "%m: an operation that is not modelled");

  function automatic integer data_bits(input integer width);
    data_bits = (width >= 9) ? width / 9 * 8 : width;
  endfunction
  // Returns the number of the first memory bit that a port with `bits` data bits accesses at address `addr`.
  function automatic [AW-1:0] first_bit(input [AW-1:0] addr, input integer bits);
    first_bit = (bits == 0) ? addr : addr & ~AW'(bits - 1);
  endfunction
  function automatic logic overlap(input [AW-1:0] addr1, input integer bits1, input [AW-1:0] addr2, input integer bits2);
    overlap = bits1 != 0 && bits2 != 0 && first_bit(addr1, (bits1 > bits2) ? bits1 : bits2) ==
                                          first_bit(addr2, (bits1 > bits2) ? bits1 : bits2);
  endfunction

  localparam integer RA = data_bits(READ_WIDTH_A), RB = data_bits(READ_WIDTH_B);
  localparam integer WA = data_bits(WRITE_WIDTH_A), WB = data_bits(WRITE_WIDTH_B);
  logic [7:0] data[0:BYTES-1];
  logic       parity[0:BYTES-1];
  initial
    for (integer i = 0; i < BYTES; i = i + 1) begin
      data[i]   = INIT[i*8+:8];
      parity[i] = INITP[i];
    end

  logic a_writes, b_writes;
  assign a_writes = a_en && WA != 0 && a_we != '0;
  assign b_writes = b_en && WB != 0 && b_we != '0;

  logic [AW-1:0] a_read_at, a_write_at, b_read_at, b_write_at;
  assign a_read_at  = first_bit(a_addr, RA);
  assign a_write_at = first_bit(a_addr, WA);
  assign b_read_at  = first_bit(b_addr, RB);
  assign b_write_at = first_bit(b_addr, WB);

  always_ff @(posedge a_clk)
    if (a_en) begin
      for (integer i = 0; i < 8; i = i + 1)
        if (WA != 0 && a_we[i] && i * 8 < WA) begin
          if (WA < 8) begin
            for (integer k = 0; k < WA; k = k + 1) data[a_write_at[AW-1:3]][32'(a_write_at[2:0])+k] <= a_di[k];
          end else begin
            data[a_write_at[AW-1:3] + (AW-3)'(i)]   <= a_di[i*8+:8];
            parity[a_write_at[AW-1:3] + (AW-3)'(i)] <= a_dip[i];
          end
        end
      if (a_rst) {a_dop, a_do} <= a_srval;
      else if (b_writes && overlap(a_addr, RA, b_addr, WB) && !(WRITE_MODE_B == "READ_FIRST" && CLOCK_DOMAINS == "COMMON"))
        {a_dop, a_do} <= 72'({$urandom, $urandom, $urandom});
      else if (!(a_writes && WRITE_MODE_A == "NO_CHANGE"))
        for (integer i = 0; i < 8; i = i + 1)
          if (i * 8 < RA) begin
            if (a_writes && WRITE_MODE_A == "WRITE_FIRST" && a_we[i]) begin
              a_do[i*8+:8] <= a_di[i*8+:8];
              a_dop[i]     <= a_dip[i];
            end else if (RA < 8) begin
              for (integer k = 0; k < RA; k = k + 1) a_do[k] <= data[a_read_at[AW-1:3]][32'(a_read_at[2:0])+k];
            end else begin
              a_do[i*8+:8] <= data[a_read_at[AW-1:3] + (AW-3)'(i)];
              a_dop[i]     <= parity[a_read_at[AW-1:3] + (AW-3)'(i)];
            end
          end
    end

  always_ff @(posedge b_clk)
    if (b_en) begin
      for (integer i = 0; i < 8; i = i + 1)
        if (WB != 0 && b_we[i] && i * 8 < WB) begin
          if (WB < 8) begin
            for (integer k = 0; k < WB; k = k + 1) data[b_write_at[AW-1:3]][32'(b_write_at[2:0])+k] <= b_di[k];
          end else begin
            data[b_write_at[AW-1:3] + (AW-3)'(i)]   <= b_di[i*8+:8];
            parity[b_write_at[AW-1:3] + (AW-3)'(i)] <= b_dip[i];
          end
        end
      if (b_rst) {b_dop, b_do} <= b_srval;
      else if (a_writes && overlap(b_addr, RB, a_addr, WA) && !(WRITE_MODE_A == "READ_FIRST" && CLOCK_DOMAINS == "COMMON"))
        {b_dop, b_do} <= 72'({$urandom, $urandom, $urandom});
      else if (!(b_writes && WRITE_MODE_B == "NO_CHANGE"))
        for (integer i = 0; i < 8; i = i + 1)
          if (i * 8 < RB) begin
            if (b_writes && WRITE_MODE_B == "WRITE_FIRST" && b_we[i]) begin
              b_do[i*8+:8] <= b_di[i*8+:8];
              b_dop[i]     <= b_dip[i];
            end else if (RB < 8) begin
              for (integer k = 0; k < RB; k = k + 1) b_do[k] <= data[b_read_at[AW-1:3]][32'(b_read_at[2:0])+k];
            end else begin
              b_do[i*8+:8] <= data[b_read_at[AW-1:3] + (AW-3)'(i)];
              b_dop[i]     <= parity[b_read_at[AW-1:3] + (AW-3)'(i)];
            end
          end
    end
endmodule
