/// Requantise by multiply and shift: q = clamp((acc * multiplier[c] + offset[c]) >> shift[c], LOWEST, HIGHEST).
///
/// `>>` is arithmetic; clamp to a signed or unsigned OBITS field. Channels run nf*PE + p as a matrix-vector unit emits them.
/// QFILE: CHANNELS / PE lines (UNIFORM = 1: one line for all), lane p = {shift[SBITS], offset[OFFBITS], multiplier[MBITS]},
/// multiplier and offset signed. SHIFT >= 0 fixes the shift (SBITS is still in the line). LOADED = 1: lines come through l_.
/// Latency 4, interval CHANNELS / PE (one beat a cycle). Registered: table and input, product, sum, result.
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
  localparam integer ZBITS = ((PBITS > OFFBITS) ? PBITS : OFFBITS) + 1;

  logic [NFW-1:0]     nf;
  logic [PE*LINE-1:0] line;
  logic [3:1]         valid;
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
      valid   <= {valid[2:1], s_valid && loaded};
      m_valid <= valid[3];
    end

  mr_table #(.WIDTH(PE * LINE), .DEPTH(NF), .STYLE(0), .LOADED(LOADED), .FILE(QFILE)) table_ (
    .clk, .en, .addr(nf), .q(line), .l_valid, .l_ready, .l_data, .loaded);

  generate
    for (genvar p = 0; p < PE; p = p + 1) begin : g_lane
      logic signed [ACCBITS-1:0] acc1;
      logic signed [MBITS-1:0]   multiplier1;
      logic signed [OFFBITS-1:0] offset1, offset2;
      logic        [SBITS-1:0]   shift1, shift2, shift3;
      logic signed [PBITS-1:0]   product2;
      logic signed [ZBITS-1:0]   sum3, shifted3;
      assign {shift1, offset1, multiplier1} = line[p*LINE+:LINE];
      assign shifted3 = (SHIFT >= 0) ? sum3 >>> SHIFT : sum3 >>> shift3;
      always_ff @(posedge clk)
        if (en) begin
          acc1     <= s_data[p*ACCBITS+:ACCBITS];
          product2 <= PBITS'(acc1) * PBITS'(multiplier1);
          offset2  <= offset1;
          shift2   <= shift1;
          sum3     <= ZBITS'(product2) + ZBITS'(offset2);
          shift3   <= shift2;
          m_data[p*OBITS+:OBITS] <= (shifted3 < ZBITS'(LOWEST)) ? OBITS'(LOWEST)
                                  : (shifted3 > ZBITS'(HIGHEST)) ? OBITS'(HIGHEST) : OBITS'(shifted3);
        end
    end
  endgenerate

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(PE * OBITS)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
  initial assert (CHANNELS % PE == 0) else $fatal(1, "%m: PE does not divide the channels");
`endif
endmodule
`default_nettype wire
