/// What RAMB18E2 and RAMB36E2 have in common, in the modes Yosys 0.23 infers: no output registers, no cascades, no ECC.
///
/// After AMD UG573 (UltraScale Architecture Memory Resources), "Block RAM": memory of BYTES bytes and a parity bit each; a port of
/// width 1, 2, 4, 9, 18, 36 or 72 sees 1, 2, 4, 8 … 64 data bits at its address (lower address bits ignored), with a parity bit a byte
/// from width 9 on. A clock with enable writes the bytes whose write enable is set, and renews the output: READ_FIRST with what was there,
/// WRITE_FIRST with what is written, NO_CHANGE not at all when writing; a reset gives SRVAL instead. Both ports at one
/// address, one of them writing: what the other reads is undefined (random here) unless CLOCK_DOMAINS is COMMON and the writer
/// READ_FIRST. Data of 64 bits on both sides of a port, of which the width's are used; byte i's parity is bit i.
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
  localparam integer           AW = $clog2(BYTES) + 3
) (
  input  logic          a_clk,
  input  logic          a_en,
  input  logic          a_rst,
  input  logic [AW-1:0] a_addr,
  input  logic [7:0]    a_we,
  input  logic [63:0]   a_di,
  input  logic [7:0]    a_dip,
  input  logic [71:0]   a_srval,  // parity above the data
  output logic [63:0]   a_do,
  output logic [7:0]    a_dop,

  input  logic          b_clk,
  input  logic          b_en,
  input  logic          b_rst,
  input  logic [AW-1:0] b_addr,
  input  logic [7:0]    b_we,
  input  logic [63:0]   b_di,
  input  logic [7:0]    b_dip,
  input  logic [71:0]   b_srval,
  output logic [63:0]   b_do,
  output logic [7:0]    b_dop
);
  function automatic integer data_bits(input integer width);
    data_bits = (width >= 9) ? width / 9 * 8 : width;
  endfunction
  // The bit a port of so many data bits begins at.
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
