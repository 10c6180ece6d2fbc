/// Folded sliding window: turns an image into the windows of a convolution or pooling, one tap per beat.
///
/// The input beats of an image are in the order row, column, channel group (H * W * CF beats). For each output position (oy, ox), the
/// output has the taps (ky, kx) of the window, with CF beats each: the pixel at row oy*SH - PT + ky*DH and column ox*SW - PL + kx*DW, or
/// lanes of PAD_VALUE if that position is outside the image. A circular buffer holds ROWS rows of the image. Writing runs ahead of reading
/// as far as the buffer has room, also into the next frame.
///
/// Latency CF + 3 cycles, because tap 0 needs one pixel. A frame takes OH*OW*KH*KW*CF cycles if reading limits the rate, H*W*CF cycles if
/// writing does, and more if ROWS is below (KH-1)*DH + 1 + SH. The first output beat of a frame leaves only after the frame's first whole
/// pixel has arrived. The read address, the memory's output, m_valid, m_data (behind the choice of padding), and everything that s_ready
/// depends on are registers.
`default_nettype none
module mr_swu #(
  parameter integer H         = 8,
  parameter integer W         = 8,
  parameter integer CF        = 1,  // beats a pixel
  parameter integer SIMD      = 1,  // lanes a beat
  parameter integer ABITS     = 8,
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
  parameter integer ROWS      = 4   // >= (KH-1)*DH + 1
) (
  input  logic clk,
  input  logic rst,

  input  logic                  s_valid,
  output logic                  s_ready,
  input  logic [SIMD*ABITS-1:0] s_data,

  output logic                  m_valid,
  input  logic                  m_ready,
  output logic [SIMD*ABITS-1:0] m_data
);
  localparam integer OH = (H + PT + PB - (KH - 1) * DH - 1) / SH + 1;
  localparam integer OW = (W + PL + PR - (KW - 1) * DW - 1) / SW + 1;
  localparam integer RL = W * CF;      // words a row
  localparam integer D = ROWS * RL;    // words held
  localparam integer AW = (D > 1) ? $clog2(D) : 1;
  localparam integer CW = (CF > 1) ? $clog2(CF) : 1;
  localparam integer KXW = (KW > 1) ? $clog2(KW) : 1;
  localparam integer KYW = (KH > 1) ? $clog2(KH) : 1;
  localparam integer OXW = (OW > 1) ? $clog2(OW) : 1;
  localparam integer OYW = (OH > 1) ? $clog2(OH) : 1;
  localparam integer YW = $clog2(H + PT + PB + SH + ROWS + 1) + 2;       // signed row positions and row counts
  localparam integer XW = $clog2(W + PL + PR + SW + 1) + 2;              // signed column positions
  localparam integer FW = $clog2((W + PL + PR + SW + DW) * CF + 1) + 2;  // signed word offsets in a row

  localparam logic [CW-1:0]  C_LAST = CW'(CF - 1);
  localparam logic [KXW-1:0] KX_LAST = KXW'(KW - 1);
  localparam logic [KYW-1:0] KY_LAST = KYW'(KH - 1);
  localparam logic [OXW-1:0] OX_LAST = OXW'(OW - 1);
  localparam logic [OYW-1:0] OY_LAST = OYW'(OH - 1);
  localparam logic [AW-1:0]  A_LAST = AW'(D - 1);
  localparam logic [XW-1:0]  W_LAST = XW'(W - 1);
  localparam logic signed [YW-1:0] Y_ROWS = YW'(H);
  localparam logic signed [XW-1:0] X_COLUMNS = XW'(W);
  localparam logic signed [YW-1:0] Y_FIRST = YW'(-PT);
  localparam logic signed [XW-1:0] X_FIRST = XW'(-PL);
  localparam logic signed [FW-1:0] F_FIRST = FW'(-PL * CF);
  localparam logic signed [FW-1:0] F_TAP = FW'(DW * CF - (CF - 1));
  localparam logic signed [FW-1:0] F_WINDOW = FW'(SW * CF);
  // By how many rows, modulo ROWS, the read position in the buffer moves: to the next row of taps, to the next row of windows, or to the
  // next frame.
  localparam integer MOVE_TAP = DH % ROWS;
  localparam integer MOVE_WINDOW = SH % ROWS;
  localparam integer MOVE_FRAME = (((H - (OH - 1) * SH) % ROWS) + ROWS) % ROWS;
  localparam integer TOP_FIRST = (ROWS - PT % ROWS) % ROWS;

  // Returns a row's address in the buffer of D words, advanced by `move` words. The address wraps at the buffer's end.
  function automatic logic [AW-1:0] moved(input logic [AW-1:0] from, input logic [AW:0] move);
    logic [AW:0] sum;
    sum = {1'b0, from} + move;
    if (sum >= (AW+1)'(D)) sum = sum - (AW+1)'(D);
    moved = sum[AW-1:0];
  endfunction

  // Limits a row number to the range 0 to H. The result is the number of image rows above this row.
  function automatic logic signed [YW-1:0] clipped(input logic signed [YW-1:0] y);
    clipped = (y < 0) ? '0 : (y > Y_ROWS) ? Y_ROWS : y;
  endfunction

  // Writer
  logic [AW-1:0]        waddr;
  logic [CW-1:0]        wc;
  logic [XW-1:0]        columns_in;  // whole pixels of the row being written
  logic signed [YW-1:0] rows_in;     // whole rows written since row 0 of the frame being read; may fall below 0
  logic signed [YW-1:0] held;        // whole rows written that reading has not passed; below 0 where it skipped ahead
  logic                 write, row_in;

  assign s_ready = held < YW'(ROWS);
  assign write   = s_valid && s_ready;
  assign row_in  = write && wc == C_LAST && columns_in == W_LAST;

  // Stage 0 of the reader holds the position of the current tap in the image.
  logic [CW-1:0]        c;
  logic [KXW-1:0]       kx;
  logic [KYW-1:0]       ky;
  logic [OXW-1:0]       ox;
  logic [OYW-1:0]       oy;
  logic signed [YW-1:0] iy, iy0;     // row of the tap, of the window's top
  logic signed [XW-1:0] ix, ix0;
  logic [AW-1:0]        row, row0;   // address of that row (modulo the buffer, above the image too)
  logic signed [FW-1:0] offset, offset0;
  logic                 first;       // the frame's first beat

  logic c_end, kx_end, ky_end, ox_end, oy_end, row_end, frame_end;
  assign c_end     = (c == C_LAST);
  assign kx_end    = c_end && (kx == KX_LAST);
  assign ky_end    = kx_end && (ky == KY_LAST);
  assign ox_end    = (ox == OX_LAST);
  assign oy_end    = (oy == OY_LAST);
  assign row_end   = ky_end && ox_end;
  assign frame_end = row_end && oy_end;

  logic in_image, present, en, step;
  assign in_image = (iy >= 0) && (iy < Y_ROWS) && (ix >= 0) && (ix < X_COLUMNS);
  assign present  = in_image ? (iy < rows_in) || (iy == rows_in && ix < $signed(columns_in))
                             : !first || (rows_in > 0) || (rows_in == 0 && columns_in != '0);
  assign en       = !m_valid || m_ready;
  assign step     = en && present;

  logic [AW-1:0] next_row0;
  assign next_row0 = moved(row0, oy_end ? (AW+1)'(MOVE_FRAME * RL) : (AW+1)'(MOVE_WINDOW * RL));

  logic signed [YW-1:0] passed;  // rows not needed once this row of windows is read
  assign passed = (oy_end ? Y_ROWS : clipped(iy0 + YW'(SH))) - clipped(iy0);

  // The reader's later stages: 1 computes the address, 2 reads the memory, 3 is the output.
  logic [AW-1:0]         raddr;
  logic signed [YW-1:0]  passed1;
  logic [2:1]            valid, pad;
  logic [SIMD*ABITS-1:0] q;

  always_ff @(posedge clk) begin
    if (rst) begin
      waddr      <= '0;
      wc         <= '0;
      columns_in <= '0;
      rows_in    <= '0;
      held       <= '0;
    end else begin
      if (write) begin
        waddr <= (waddr == A_LAST) ? '0 : waddr + 1'b1;
        wc    <= (wc == C_LAST) ? '0 : wc + 1'b1;
        if (wc == C_LAST) columns_in <= (columns_in == W_LAST) ? '0 : columns_in + 1'b1;
      end
      rows_in <= rows_in + (row_in ? YW'(1) : '0) - ((step && frame_end) ? Y_ROWS : '0);
      // A buffer row is released one enabled clock late, because its last word is read in stage 1.
      held    <= held + (row_in ? YW'(1) : '0) - (en ? passed1 : '0);
    end
  end

  always_ff @(posedge clk)
    if (rst) begin
      c       <= '0;
      kx      <= '0;
      ky      <= '0;
      ox      <= '0;
      oy      <= '0;
      iy      <= Y_FIRST;
      iy0     <= Y_FIRST;
      ix      <= X_FIRST;
      ix0     <= X_FIRST;
      row     <= AW'(TOP_FIRST * RL);
      row0    <= AW'(TOP_FIRST * RL);
      offset  <= F_FIRST;
      offset0 <= F_FIRST;
      first   <= 1'b1;
      passed1 <= '0;
      valid   <= '0;
      m_valid <= 1'b0;
    end else if (en) begin
      valid   <= {valid[1], step};
      m_valid <= valid[2];
      passed1 <= (step && row_end) ? passed : '0;
      if (step) begin
        first <= frame_end;
        c     <= c_end ? '0 : c + 1'b1;
        if (c_end) kx <= kx_end ? '0 : kx + 1'b1;
        if (kx_end) ky <= ky_end ? '0 : ky + 1'b1;
        if (ky_end) ox <= ox_end ? '0 : ox + 1'b1;
        if (row_end) oy <= oy_end ? '0 : oy + 1'b1;
        if (!c_end) begin
          offset <= offset + FW'(1);
        end else if (!kx_end) begin
          ix     <= ix + XW'(DW);
          offset <= offset + F_TAP;
        end else if (!ky_end) begin
          ix     <= ix0;
          offset <= offset0;
          iy     <= iy + YW'(DH);
          row    <= moved(row, (AW+1)'(MOVE_TAP * RL));
        end else if (!ox_end) begin
          ix      <= ix0 + XW'(SW);
          ix0     <= ix0 + XW'(SW);
          offset  <= offset0 + F_WINDOW;
          offset0 <= offset0 + F_WINDOW;
          iy      <= iy0;
          row     <= row0;
        end else begin
          ix      <= X_FIRST;
          ix0     <= X_FIRST;
          offset  <= F_FIRST;
          offset0 <= F_FIRST;
          iy      <= oy_end ? Y_FIRST : iy0 + YW'(SH);
          iy0     <= oy_end ? Y_FIRST : iy0 + YW'(SH);
          row     <= next_row0;
          row0    <= next_row0;
        end
      end
    end

  localparam logic [ABITS-1:0] PAD_LANE = ABITS'(PAD_VALUE);
  always_ff @(posedge clk)
    if (en) begin
      raddr  <= row + AW'(offset);
      pad    <= {pad[1], !in_image};
      m_data <= pad[2] ? {SIMD{PAD_LANE}} : q;
    end

  generate
    if (D > 64 && D * SIMD * ABITS > 4096) begin : g_block
      (* ram_style = "block" *) logic [SIMD*ABITS-1:0] mem[0:D-1];
      always_ff @(posedge clk) begin
        if (write) mem[waddr] <= s_data;
        if (en) q <= mem[raddr];
      end
    end else begin : g_distributed
      (* ram_style = "distributed" *) logic [SIMD*ABITS-1:0] mem[0:D-1];
      always_ff @(posedge clk) begin
        if (write) mem[waddr] <= s_data;
        if (en) q <= mem[raddr];
      end
    end
  endgenerate

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(SIMD * ABITS)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
  initial assert (ROWS >= (KH - 1) * DH + 1) else $fatal(1, "%m: ROWS cannot hold one window");
`endif
endmodule
`default_nettype wire
