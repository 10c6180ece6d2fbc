/// Pooling over windows that neither overlap nor have padding (kernel = stride): one pass without a sliding window.
///
/// OP = 0 computes the largest element of each KH x KW window, OP = 1 the sum, channel by channel. Rows and columns that fill no window are
/// dropped. The input beats of a frame are in the order row, column, channel group (H * W * CF beats); the output beats are in the order
/// row, column, channel group of the windows. Output lanes are OBITS wide: ABITS for OP = 0, wide enough for the sum for OP = 1.
///
/// With PX > 1, a beat contains PX neighbouring pixels of SIMD channels each, the left one in the low bits; this needs CF = 1, and PX must
/// divide KW and W. Latency ((KH-1)*W + KW-PX)/PX * CF + 1 cycles; one frame takes H*W/PX*CF cycles. Partial results (in LUTRAM, read and
/// written in the same clock), m_valid and m_data are registers.
`default_nettype none
module mr_pool #(
  parameter integer OP    = 0,
  parameter integer H     = 4,
  parameter integer W     = 4,
  parameter integer CF    = 1,
  parameter integer SIMD  = 1,
  parameter integer KH    = 2,
  parameter integer KW    = 2,
  parameter integer ABITS = 8,
  parameter integer AKIND = 1,  // 0 unsigned (also bipolar, which has the same order), 1 signed
  parameter integer OBITS = 8,
  parameter integer PX    = 1
) (
  input  logic clk,
  input  logic rst,

  input  logic                  s_valid,
  output logic                  s_ready,
  input  logic [PX*SIMD*ABITS-1:0] s_data,

  output logic                  m_valid,
  input  logic                  m_ready,
  output logic [SIMD*OBITS-1:0] m_data
);
  localparam integer WB = W / PX;    // beats of a row per fold
  localparam integer KB = KW / PX;
  localparam integer OW = W / KW;
  localparam integer OH = H / KH;
  localparam integer D = OW * CF;
  localparam integer AW = (D > 1) ? $clog2(D) : 1;
  localparam integer CW = (CF > 1) ? $clog2(CF) : 1;
  localparam integer XW = (WB > 1) ? $clog2(WB) : 1;
  localparam integer YW = (H > 1) ? $clog2(H) : 1;
  localparam integer KXW = (KB > 1) ? $clog2(KB) : 1;
  localparam integer KYW = (KH > 1) ? $clog2(KH) : 1;
  localparam logic [CW-1:0]  C_LAST = CW'(CF - 1);
  localparam logic [XW-1:0]  X_LAST = XW'(WB - 1);
  localparam logic [YW-1:0]  Y_LAST = YW'(H - 1);
  localparam logic [KXW-1:0] KX_LAST = KXW'(KB - 1);
  localparam logic [KYW-1:0] KY_LAST = KYW'(KH - 1);

  logic [CW-1:0]  c;
  logic [XW-1:0]  x;
  logic [YW-1:0]  y;
  logic [KXW-1:0] kx;
  logic [KYW-1:0] ky;
  logic [AW-1:0]  base, addr;  // base: the first word of the column of windows
  logic           en, step, used, first, last, c_end, x_end;
  assign en      = !m_valid || m_ready;
  assign s_ready = en;
  assign step    = en && s_valid;
  assign used    = (32'(x) < OW * KB) && (32'(y) < OH * KH);
  assign first   = (kx == '0) && (ky == '0);
  assign last    = (kx == KX_LAST) && (ky == KY_LAST);
  assign c_end   = (c == C_LAST);
  assign x_end   = (x == X_LAST);
  assign addr    = base + AW'(c);

  (* ram_style = "distributed" *) logic [SIMD*OBITS-1:0] partial[0:D-1];
  logic [SIMD*OBITS-1:0] so_far, after;
  assign so_far = partial[addr];
  generate
    for (genvar s = 0; s < SIMD; s = s + 1) begin : g_lane
      logic [PX*OBITS-1:0] beat;  // the result over the pixels up to this one
      for (genvar p = 0; p < PX; p = p + 1) begin : g_pixel
        mr_pool_lane #(.OP(OP), .ABITS(ABITS), .AKIND(AKIND), .OBITS(OBITS)) lane (
          .first(p == 0), .a(s_data[(p*SIMD+s)*ABITS+:ABITS]), .so_far(beat[((p == 0) ? 0 : p - 1)*OBITS+:OBITS]),
          .after(beat[p*OBITS+:OBITS]));
      end
      mr_pool_lane #(.OP(OP), .ABITS(OBITS), .AKIND(AKIND), .OBITS(OBITS)) lane (
        .first, .a(beat[(PX-1)*OBITS+:OBITS]), .so_far(so_far[s*OBITS+:OBITS]), .after(after[s*OBITS+:OBITS]));
    end
  endgenerate

  always_ff @(posedge clk) begin
    if (step && used) partial[addr] <= after;
    if (en) m_data <= after;
  end

  always_ff @(posedge clk)
    if (rst) begin
      c       <= '0;
      x       <= '0;
      y       <= '0;
      kx      <= '0;
      ky      <= '0;
      base    <= '0;
      m_valid <= 1'b0;
    end else if (en) begin
      m_valid <= s_valid && used && last;
      if (s_valid) begin
        c <= c_end ? '0 : c + 1'b1;
        if (c_end) begin
          x  <= x_end ? '0 : x + 1'b1;
          kx <= (x_end || kx == KX_LAST) ? '0 : kx + 1'b1;
          if (x_end) base <= '0;
          else if (kx == KX_LAST && 32'(x) < OW * KB - 1) base <= base + AW'(CF);
          if (x_end) begin
            y  <= (y == Y_LAST) ? '0 : y + 1'b1;
            ky <= (y == Y_LAST || ky == KY_LAST) ? '0 : ky + 1'b1;
          end
        end
      end
    end

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(SIMD * OBITS)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
  initial assert (PX == 1 || (CF == 1 && KW % PX == 0 && W % PX == 0)) else $fatal(1, "%m: the pixels a beat do not fit");
`endif
endmodule
`default_nettype wire
