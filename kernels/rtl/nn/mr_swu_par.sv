/// Parallel sliding window: PX neighbouring pixels in and M whole windows out per cycle.
///
/// Each input beat contains pixels x*PX to x*PX + PX - 1 of a row, channels innermost. The input beats are in the order row, x (H * W/PX
/// beats). Each output beat contains M = PX/SW windows (one window if SW >= PX). The output beats are in the order oy, g (OH * OW/M beats).
/// The lanes of an output beat are in the order m, ky, kx, channel: the pixel at row oy*SH - PT + ky*DH and column (g*M+m)*SW - PL + kx*DW,
/// or PAD_VALUE outside the image.
///
/// Limits of the parameters: either PX divides SW or SW divides PX. PX must divide W, M must divide OW, and W/PX must be at least 2.
/// Padding is smaller than the window: PT < (KH-1)*DH + 1 and PL < (KW-1)*DW + 1.
///
/// The module scans each image with V = max(PT, PB) rows of padding before the image and U blocks of padding before every row. The same
/// padding ends one row (or frame) and begins the next one, so it costs cycles only once. A frame takes (V+H) * (U + W/PX) cycles, which is
/// H*W/PX without padding. Latency ((KH-1)*DH-PT) * (U + W/PX) + F + 2 cycles, where F = ((M-1)*SW + (KW-1)*DW-PL) / PX. Block RAM or
/// LUTRAM stores (KH-1)*DH rows. The window (which m_data shows) and m_valid are registers. s_ready depends on m_ready.
`default_nettype none
module mr_swu_par #(
  parameter integer H         = 8,
  parameter integer W         = 8,
  parameter integer C         = 1,
  parameter integer ABITS     = 8,
  parameter integer PX        = 1,
  parameter integer KH        = 3,
  parameter integer KW        = 3,
  parameter integer SH        = 1,
  parameter integer SW        = 1,
  parameter integer DH        = 1,
  parameter integer DW        = 1,
  parameter integer PT        = 0,
  parameter integer PL        = 0,
  parameter integer PB        = 0,
  parameter integer PR        = 0,
  parameter integer PAD_VALUE = 0,
  localparam integer M        = (PX > SW) ? PX / SW : 1
) (
  input  logic clk,
  input  logic rst,

  input  logic                  s_valid,
  output logic                  s_ready,
  input  logic [PX*C*ABITS-1:0] s_data,

  output logic                       m_valid,
  input  logic                       m_ready,
  output logic [M*KH*KW*C*ABITS-1:0] m_data
);
  localparam integer RH = (KH - 1) * DH + 1;                  // rows and columns a window reaches over
  localparam integer RC = (KW - 1) * DW + 1;
  localparam integer OH = (H + PT + PB - RH) / SH + 1;
  localparam integer OW = (W + PL + PR - RC) / SW + 1;
  localparam integer G = OW / M;                              // beats a row of windows
  localparam integer STEP = (SW > PX) ? SW / PX : 1;          // blocks from one beat's newest to the next's
  localparam integer F = ((M - 1) * SW + RC - 1 - PL) / PX;   // the first beat's newest block
  localparam integer B = W / PX;                              // blocks a row
  localparam integer LEFT = (PL + PX - 1) / PX;
  localparam integer RIGHT = ((G - 1) * STEP + F + 1 > B) ? (G - 1) * STEP + F + 1 - B : 0;
  localparam integer U = (LEFT > RIGHT) ? LEFT : RIGHT;
  localparam integer V = (PT > PB) ? PT : PB;
  localparam integer OLDER = F + LEFT;                        // blocks of the window behind the newest
  localparam integer PW = C * ABITS;                          // bits a pixel
  localparam integer BW = PX * PW;                            // bits a block
  localparam integer TW = $clog2(V + H + 1);
  localparam integer NW = $clog2(U + B + 1);
  localparam integer RW = $clog2(2 * H + PT + PB + SH + 1);   // row numbers, those of padding below counted on
  localparam integer CW = $clog2(2 * B + U + F + STEP + 1);   // block numbers, likewise
  localparam integer XW = (B > 1) ? $clog2(B) : 1;
  localparam integer GW = $clog2(G + 1);
  localparam integer OW_ = $clog2(OH + 1);

  // Position of the scan: row t and block u of the image with its padding.
  logic [TW-1:0] t;
  logic [NW-1:0] u;
  logic          en, step, real_row, real_block, u_end, t_end;
  assign real_row   = (32'(t) + 1 > V);
  assign real_block = (32'(u) + 1 > U);
  assign u_end      = (u == NW'(U + B - 1));
  assign t_end      = (t == TW'(V + H - 1));
  assign en         = !m_valid || m_ready;
  assign s_ready    = en && real_row && real_block;
  assign step       = en && (s_valid || !(real_row && real_block));

  // Row and block in the image. In the padding before an image, the numbers continue those of the preceding image.
  logic [RW-1:0] r, next_r;  // next_r: the bottom row of the next row of windows
  logic [CW-1:0] n, next_n;  // next_n: the newest block of the next beat
  logic [OW_-1:0] rows_left;
  logic [GW-1:0]  beats_left;
  logic          row_hit, row_hit_before, block_hit, hit;
  logic          below;      // padding rows are below an image, not only above the first one
  assign r         = real_row ? RW'(t) - RW'(V) : RW'(t) + RW'(H);
  assign n         = real_block ? CW'(u) - CW'(U) : CW'(u) + CW'(B);
  assign row_hit   = (r == next_r) && below;
  assign block_hit = (n == next_n);
  assign hit       = block_hit && (real_block ? row_hit : row_hit_before);

  // If the image has fewer rows than the kernel reaches, the first row of windows already ends in the padding below the image. After a
  // reset, the padding above the first image must not be mistaken for padding below an image.
  generate
    if (RH - 1 - PT >= H) begin : g_low
      always_ff @(posedge clk)
        if (rst) below <= 1'b0;
        else if (en && real_row) below <= 1'b1;
    end else begin : g_high
      assign below = 1'b1;
    end
  endgenerate

  logic [1:1] valid, emit;
  always_ff @(posedge clk)
    if (rst) begin
      t              <= '0;
      u              <= '0;
      next_r         <= RW'(RH - 1 - PT);
      next_n         <= CW'(F);
      rows_left      <= OW_'(OH - 1);
      beats_left     <= GW'(G - 1);
      row_hit_before <= 1'b0;
      valid          <= '0;
      m_valid        <= 1'b0;
    end else if (en) begin
      valid[1] <= step;
      m_valid  <= valid[1] && emit[1];
      if (step) begin
        u <= u_end ? '0 : u + 1'b1;
        if (block_hit) begin
          next_n     <= (beats_left == '0) ? CW'(F) : next_n + CW'(STEP);
          beats_left <= (beats_left == '0) ? GW'(G - 1) : beats_left - 1'b1;
        end
        if (u_end) begin
          t              <= t_end ? '0 : t + 1'b1;
          row_hit_before <= row_hit;
          if (row_hit) begin
            next_r    <= (rows_left == '0) ? RW'(RH - 1 - PT) : next_r + RW'(SH);
            rows_left <= (rows_left == '0) ? OW_'(OH - 1) : rows_left - 1'b1;
          end
        end
      end
    end
  always_ff @(posedge clk) if (en) emit[1] <= hit;

  // Stage 1: the block and those above it
  localparam logic [ABITS-1:0] PAD_LANE = ABITS'(PAD_VALUE);
  logic [BW-1:0]    block;
  logic             stored;  // a real block: its rows live in the line buffer
  logic [RH*BW-1:0] column;  // rows the window reaches over, oldest low
  always_ff @(posedge clk)
    if (en) begin
      block  <= (real_row && real_block) ? s_data : {(PX * C) {PAD_LANE}};
      stored <= real_block;
    end
  generate
    if (RH == 1) begin : g_row
      assign column = block;
      logic unused;
      assign unused = stored;
    end else begin : g_rows
      localparam integer LW = (RH - 1) * BW;
      logic [XW-1:0] x, x1;
      logic [LW-1:0] above;
      assign x = real_block ? XW'(u - NW'(U)) : '0;
      always_ff @(posedge clk) if (en) x1 <= x;
      assign column = {block, stored ? above : {((RH - 1) * PX * C) {PAD_LANE}}};
      if (B > 64 && B * LW > 4096) begin : g_block
        (* ram_style = "block" *) logic [LW-1:0] lines[0:B-1];
        always_ff @(posedge clk) begin
          if (en && valid[1] && stored) lines[x1] <= column[RH*BW-1:BW];
          if (en) above <= lines[x];
        end
      end else begin : g_distributed
        (* ram_style = "distributed" *) logic [LW-1:0] lines[0:B-1];
        always_ff @(posedge clk) begin
          if (en && valid[1] && stored) lines[x1] <= column[RH*BW-1:BW];
          if (en) above <= lines[x];
        end
      end
    end
  endgenerate

  // Stage 2 holds the window. The newest block of pixels is in the high part of each row.
  generate
    for (genvar ky = 0; ky < KH; ky = ky + 1) begin : g_line
      logic [(OLDER+1)*BW-1:0] pixels;
      if (OLDER == 0) begin : g_newest
        always_ff @(posedge clk) if (en && valid[1]) pixels <= column[ky*DH*BW+:BW];
      end else begin : g_shift
        always_ff @(posedge clk)
          if (en && valid[1]) pixels <= {column[ky*DH*BW+:BW], pixels[(OLDER+1)*BW-1:BW]};
      end
      for (genvar m = 0; m < M; m = m + 1) begin : g_window
        // Column 0 of `pixels` is column (newest - OLDER) * PX of the image. The first window of the beat begins at column (newest - F) *
        // PX - PL.
        localparam integer FIRST = (OLDER - F) * PX - PL + m * SW;
        for (genvar kx = 0; kx < KW; kx = kx + 1) begin : g_tap
          assign m_data[((m*KH+ky)*KW+kx)*PW+:PW] = pixels[(FIRST+kx*DW)*PW+:PW];
        end
      end
      logic unused;
      assign unused = &{1'b0, pixels};  // strides and dilation may skip some
    end
  endgenerate

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(M * KH * KW * C * ABITS)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
  initial begin
    assert (W % PX == 0 && (PX % SW == 0 || SW % PX == 0) && OW % M == 0 && B >= 2)
      else $fatal(1, "%m: the pixels a cycle do not fit the width, the stride or the output's width");
    assert (PT < RH && PL < RC) else $fatal(1, "%m: padding as large as the kernel");
  end
`endif
endmodule
`default_nettype wire
