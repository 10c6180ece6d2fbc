/// Requantises by multiply and shift: q = clamp(((acc * multiplier[c] + offset[c]) >> shift[c]) + ZERO_POINT, LOWEST, HIGHEST).
///
/// `>>` is an arithmetic shift (rounds towards minus infinity). With ROUND_HALF_EVEN = 1, the quotient by 2^shift is instead rounded to the
/// nearest integer, and a half to the even neighbour. These two forms are kMultiplyShift and kMultiplyShiftHalfEven of
/// kernels/program/program.hpp. Every shift that fits SBITS gives the exact result. The result is clamped to a signed or unsigned field of
/// OBITS. Lane p of beat nf is channel nf*PE + p, as in the output of a matrix-vector unit.
///
/// With MBITS = 0, the multiplier is 1 and needs no hardware. With OFFBITS = 0, the offset is 0 and needs no hardware. SHIFT >= 0 fixes the
/// shift. QFILE has CHANNELS / PE lines, or one line for all channels if UNIFORM = 1. Lane p of a line is {shift[SBITS], offset[OFFBITS],
/// multiplier[MBITS]}; multiplier and offset are signed. SBITS is at least 1, and the shift's field is present even if SHIFT is fixed. With
/// LOADED = 1, the lines come through the port l_.
///
/// Latency 2 cycles, plus one cycle each for MBITS > 0, OFFBITS > 0 and ROUND_HALF_EVEN. One beat per cycle: CHANNELS / PE cycles per
/// vector. The table's output, the input, product, sum, rounded sum and result are registers.
`default_nettype none
module mr_requant #(
  parameter integer CHANNELS = 4,
  parameter integer PE       = 2,
  parameter integer ACCBITS  = 24,
  parameter integer MBITS    = 17,
  parameter integer OFFBITS  = 40,
  parameter integer SBITS    = 6,
  parameter integer SHIFT    = -1,
  parameter integer OBITS    = 8,
  parameter integer LOWEST   = -128,
  parameter integer HIGHEST  = 127,
  parameter integer ROUND_HALF_EVEN = 0,
  parameter integer ZERO_POINT      = 0,
  parameter integer UNIFORM  = 0,
  parameter integer LOADED   = 0,
  parameter         QFILE    = "requant.hex",
  localparam integer LINE    = SBITS + OFFBITS + MBITS
) (
  input  logic clk,
  input  logic rst,

  input  logic                  s_valid,
  output logic                  s_ready,
  input  logic [PE*ACCBITS-1:0] s_data,

  output logic                m_valid,
  input  logic                m_ready,
  output logic [PE*OBITS-1:0] m_data,

  input  logic               l_valid,
  output logic               l_ready,
  input  logic [PE*LINE-1:0] l_data
);
  localparam integer NF = (UNIFORM != 0) ? 1 : CHANNELS / PE;
  localparam integer NFW = (NF > 1) ? $clog2(NF) : 1;
  localparam logic [NFW-1:0] NF_LAST = NFW'(NF - 1);
  localparam integer PBITS = ACCBITS + MBITS;
  localparam integer ZBITS = (OFFBITS == 0) ? PBITS : ((PBITS > OFFBITS) ? PBITS : OFFBITS) + 1;
  localparam integer RBITS = ZBITS + ((ROUND_HALF_EVEN != 0) ? 1 : 0);
  localparam integer CBITS = (RBITS > OBITS + 2) ? RBITS : OBITS + 2;
  localparam integer QLOW  = LOWEST - ZERO_POINT;
  localparam integer QHIGH = HIGHEST - ZERO_POINT;
  localparam integer BEFORE = 1 + ((MBITS != 0) ? 1 : 0) + ((OFFBITS != 0) ? 1 : 0) + ((ROUND_HALF_EVEN != 0) ? 1 : 0);

  logic [NFW-1:0]     nf;
  logic [PE*LINE-1:0] line;
  logic [BEFORE-1:0]  valid;
  logic               en, loaded;
  assign en      = !m_valid || m_ready;
  assign s_ready = en && loaded;

  always_ff @(posedge clk)
    if (rst) begin
      nf      <= '0;
      valid   <= '0;
      m_valid <= 1'b0;
    end else if (en) begin
      if (s_valid && loaded) nf <= (nf == NF_LAST) ? '0 : nf + 1'b1;
      valid   <= BEFORE'({valid, s_valid && loaded});
      m_valid <= valid[BEFORE-1];
    end

  mr_table #(.WIDTH(PE * LINE), .DEPTH(NF), .STYLE(0), .LOADED(LOADED), .FILE(QFILE)) table_ (
    .clk, .en, .addr(nf), .q(line), .l_valid, .l_ready, .l_data, .loaded);

  generate
    for (genvar p = 0; p < PE; p = p + 1) begin : g_lane
      logic signed [ACCBITS-1:0]       acc;
      logic signed [PBITS-1:0]         product;
      logic        [SBITS+OFFBITS-1:0] rest;  // the rest of the line, which travels with the product
      logic signed [ZBITS-1:0]         sum;
      logic        [SBITS-1:0]         shift, shift_last;
      logic signed [RBITS-1:0]         rounded;
      logic signed [CBITS-1:0]         quotient;
      always_ff @(posedge clk) if (en) acc <= s_data[p*ACCBITS+:ACCBITS];

      if (MBITS != 0) begin : g_multiply
        logic signed [MBITS-1:0] multiplier;
        (* use_dsp = "yes" *) logic signed [PBITS-1:0] scaled;
        assign multiplier = line[p*LINE+:MBITS];
        assign product    = scaled;
        always_ff @(posedge clk)
          if (en) begin
            scaled <= PBITS'(acc) * PBITS'(multiplier);
            rest   <= line[p*LINE+MBITS+:SBITS+OFFBITS];
          end
      end else begin : g_unscaled
        assign product = acc;
        assign rest    = line[p*LINE+:SBITS+OFFBITS];
      end

      if (OFFBITS != 0) begin : g_offset
        logic signed [OFFBITS-1:0] offset;
        assign offset = rest[OFFBITS-1:0];
        always_ff @(posedge clk)
          if (en) begin
            sum   <= ZBITS'(product) + ZBITS'(offset);
            shift <= (SHIFT >= 0) ? SBITS'(SHIFT) : rest[OFFBITS+:SBITS];
          end
      end else begin : g_no_offset
        assign sum   = product;
        assign shift = (SHIFT >= 0) ? SBITS'(SHIFT) : rest;
      end

      if (ROUND_HALF_EVEN != 0) begin : g_half_even
        // Rounding half to even: add 2^(shift-1) - 1 and the lowest bit that remains after the shift. Nothing is added if the shift is 0.
        // Shifts above ZBITS are treated as ZBITS: both give 0, because |sum| is at most half of 2^ZBITS.
        localparam logic [SBITS:0] MOST = (ZBITS < (1 << SBITS)) ? (SBITS+1)'(ZBITS) : (SBITS+1)'((1 << SBITS) - 1);
        logic [SBITS-1:0] by;
        logic [ZBITS:0]   below;
        logic             odd;
        logic signed [RBITS:0] twice;
        assign by    = ({1'b0, shift} > MOST) ? MOST[SBITS-1:0] : shift;
        assign below = ~({(ZBITS+1){1'b1}} << by);  // the bits that are shifted out
        assign odd   = by != '0 && 1'(sum >>> by);
        assign twice = $signed({sum[ZBITS-1], sum, 1'b1}) + $signed({2'b00, below[ZBITS-1:1], odd});
        always_ff @(posedge clk)
          if (en) begin
            rounded    <= twice[RBITS:1];
            shift_last <= by;
          end
        logic unused;
        assign unused = &{1'b0, twice[0], below[ZBITS], below[0]};
      end else begin : g_floor
        assign rounded    = sum;
        assign shift_last = shift;
      end

      assign quotient = CBITS'(rounded) >>> shift_last;
      always_ff @(posedge clk)
        if (en)
          m_data[p*OBITS+:OBITS] <= (quotient < CBITS'(QLOW)) ? OBITS'(LOWEST)
                                  : (quotient > CBITS'(QHIGH)) ? OBITS'(HIGHEST)
                                  : OBITS'(quotient) + OBITS'(ZERO_POINT);
    end
  endgenerate

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(PE * OBITS)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
  initial assert (CHANNELS % PE == 0) else $fatal(1, "%m: PE does not divide the channels");
`endif
endmodule
`default_nettype wire
