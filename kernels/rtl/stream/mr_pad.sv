/// Surrounds each frame with pixels of one value.
///
/// The input beats of a frame are in the order row, column, channel group: H * W * CF beats. The output frame has (TOP+H+BOTTOM) *
/// (LEFT+W+RIGHT) * CF beats, in the same order; all lanes of added pixels are VALUE. The first output beat of a frame waits for the
/// frame's first input beat. Latency 1 cycle; one output beat per cycle. m_valid and m_data are registers; s_ready depends on m_ready.
`default_nettype none
module mr_pad #(
  parameter integer H      = 4,
  parameter integer W      = 4,
  parameter integer CF     = 1,  // beats a pixel
  parameter integer SIMD   = 1,  // lanes a beat
  parameter integer ABITS  = 8,
  parameter integer TOP    = 1,
  parameter integer LEFT   = 1,
  parameter integer BOTTOM = 1,
  parameter integer RIGHT  = 1,
  parameter integer VALUE  = 0
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
  localparam integer OH = TOP + H + BOTTOM;
  localparam integer OW = LEFT + W + RIGHT;
  localparam integer YW = (OH > 1) ? $clog2(OH) : 1;
  localparam integer XW = (OW > 1) ? $clog2(OW) : 1;
  localparam integer CW = (CF > 1) ? $clog2(CF) : 1;

  localparam logic [YW-1:0] Y_LAST = YW'(OH - 1);
  localparam logic [XW-1:0] X_LAST = XW'(OW - 1);
  localparam logic [CW-1:0] C_LAST = CW'(CF - 1);
  localparam logic [ABITS-1:0] PIXEL = ABITS'(VALUE);

  logic [YW-1:0] y;
  logic [XW-1:0] x;
  logic [CW-1:0] c;
  logic          in_rows, in_columns, in_frame, first, en, step;

  // The subtraction wraps in 32 bits: for a row before TOP or a column before LEFT it gives a huge number. So one comparison is enough.
  assign in_rows    = (32'(y) - TOP) < 32'(H);
  assign in_columns = (32'(x) - LEFT) < 32'(W);
  assign in_frame     = in_rows && in_columns;
  assign first      = (y == '0) && (x == '0) && (c == '0);
  assign en         = !m_valid || m_ready;
  assign s_ready    = en && in_frame;
  assign step       = en && (s_valid || !(in_frame || first));

  always_ff @(posedge clk) begin
    if (en) m_data <= in_frame ? s_data : {SIMD{PIXEL}};
    if (rst) begin
      y       <= '0;
      x       <= '0;
      c       <= '0;
      m_valid <= 1'b0;
    end else begin
      if (en) m_valid <= step;
      if (step) begin
        c <= (c == C_LAST) ? '0 : c + 1'b1;
        if (c == C_LAST) begin
          x <= (x == X_LAST) ? '0 : x + 1'b1;
          if (x == X_LAST) y <= (y == Y_LAST) ? '0 : y + 1'b1;
        end
      end
    end
  end

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(SIMD * ABITS)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
`endif
endmodule
`default_nettype wire
