/// Requantises by thresholds: q = LOWEST + number of i with acc >= threshold[c][i], found by binary search.
///
/// Each channel has 2^OBITS - 1 ascending thresholds. If a channel needs fewer, its last thresholds are above every acc. Thresholds are
/// signed numbers of ACCBITS + 1 bits. Lane p of beat nf is channel nf*PE + p. Level l of the binary search (from 0) compares with one of
/// 2^l nodes; node k is threshold (2k+1) * 2^(OBITS-1-l) - 1.
///
/// Level l of lane p reads its thresholds from the file TFILE.l.p (p has three digits). The threshold of beat nf and node k is at line
/// nf * 2^l + k, or at line k for all channels if UNIFORM = 1. With LOADED = 1, the same lines come through the ports whose names begin with
/// l_, lane by lane and level by level. Latency OBITS + 1 cycles; one beat per cycle (CHANNELS / PE cycles per vector). Each level of the
/// search has a register for its input and one for its node; the result is a register, too.
`default_nettype none
module mr_threshold #(
  parameter integer CHANNELS = 4,
  parameter integer PE       = 2,
  parameter integer ACCBITS  = 16,
  parameter integer OBITS    = 4,
  parameter integer LOWEST   = -8,
  parameter integer UNIFORM  = 0,
  parameter integer LOADED   = 0,
  parameter         TFILE    = "thresholds"
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
  input  logic [ACCBITS:0] l_data
);
  localparam integer TB = ACCBITS + 1;
  localparam integer NF = (UNIFORM != 0) ? 1 : CHANNELS / PE;
  localparam integer NFW = (NF > 1) ? $clog2(NF) : 1;
  localparam integer TABLES = PE * OBITS;
  localparam integer TW = $clog2(TABLES + 1);
  localparam integer LW = $clog2(NF << (OBITS - 1)) + 1;
  localparam logic [NFW-1:0] NF_LAST = NFW'(NF - 1);

  logic [NFW-1:0] nf;
  logic [OBITS:1] valid;
  logic           en, loaded;
  assign en      = !m_valid || m_ready;
  assign s_ready = en && loaded;

  always_ff @(posedge clk)
    if (rst) begin
      nf      <= '0;
      valid   <= '0;
      m_valid <= 1'b0;
    end else if (en) begin
      if (s_valid && loaded) nf <= (nf == NF_LAST) ? '0 : nf + 1'b1;
      {m_valid, valid} <= {valid, s_valid && loaded};
    end

  // While constants are loaded: selects the table to which the next line belongs.
  logic [TW-1:0]     table_index;
  logic [TABLES-1:0] table_loaded, table_ready;
  assign l_ready = 1'b1;
  assign loaded  = &table_loaded;
  generate
    if (LOADED != 0) begin : g_load
      logic [TW-1:0] index = '0;
      logic [LW-1:0] line = '0, lines;
      logic [TW-1:0] level = '0;
      logic          line_end;
      assign lines    = LW'(NF) << level;
      assign line_end = (line == lines - 1'b1);
      assign table_index = index;
      always_ff @(posedge clk)
        if (l_valid) begin
          line <= line_end ? '0 : line + 1'b1;
          if (line_end) begin
            level <= (level == TW'(OBITS - 1)) ? '0 : level + 1'b1;
            index <= (index == TW'(TABLES - 1)) ? '0 : index + 1'b1;
          end
        end
    end else begin : g_baked
      assign table_index = '0;
    end
  endgenerate

  generate
    for (genvar p = 0; p < PE; p = p + 1) begin : g_lane
      for (genvar l = 0; l < OBITS; l = l + 1) begin : g_level
        localparam integer LINES = NF << l;
        localparam integer AW = (LINES > 1) ? $clog2(LINES) : 1;
        logic [ACCBITS-1:0] acc;
        logic [NFW-1:0]     channel;
        logic [TB-1:0]      node;
        logic [AW-1:0]      addr;
        logic [l:0]         found;  // the result's top bits, this level's included
        assign found[0] = $signed(TB'($signed(acc))) >= $signed(node);
        if (l == 0) begin : g_top
          assign addr = AW'(nf);
          always_ff @(posedge clk)
            if (en) begin
              acc     <= s_data[p*ACCBITS+:ACCBITS];
              channel <= nf;
            end
        end else begin : g_next
          logic [l-1:0] above;
          assign addr       = AW'({g_level[l-1].channel, g_level[l-1].found});
          assign found[l:1] = above;
          always_ff @(posedge clk)
            if (en) begin
              acc     <= g_level[l-1].acc;
              channel <= g_level[l-1].channel;
              above   <= g_level[l-1].found;
            end
        end
        mr_table #(.WIDTH(TB), .DEPTH(LINES), .STYLE(0), .LOADED(LOADED),
                   .FILE({TFILE, ".", 8'(48 + l), ".", 8'(48 + p / 100), 8'(48 + p / 10 % 10), 8'(48 + p % 10)})) nodes (
          .clk, .en, .addr, .q(node), .l_valid(l_valid && table_index == TW'(p * OBITS + l)),
          .l_ready(table_ready[p*OBITS+l]), .l_data, .loaded(table_loaded[p*OBITS+l]));
      end
      always_ff @(posedge clk)
        if (en) m_data[p*OBITS+:OBITS] <= g_level[OBITS-1].found + OBITS'(LOWEST);
      logic unused;
      assign unused = &{1'b0, g_level[OBITS-1].channel};
    end
  endgenerate

  logic unused;
  assign unused = &{1'b0, table_ready};

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(PE * OBITS)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
  initial assert (CHANNELS % PE == 0) else $fatal(1, "%m: PE does not divide the channels");
`endif
endmodule
`default_nettype wire
