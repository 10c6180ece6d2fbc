/// Removes the border of each frame.
///
/// The input beats of a frame are in the order row, column, channel group: H * W * CF beats. The output beats are those of rows TOP to
/// H-BOTTOM-1 and columns LEFT to W-RIGHT-1. Latency 1 cycle; one input beat per cycle. m_valid and m_data are registers; s_ready depends
/// on m_ready.
`default_nettype none
module mr_crop #(
  parameter integer H      = 4,
  parameter integer W      = 4,
  parameter integer CF     = 1,  // beats a pixel
  parameter integer WIDTH  = 8,
  parameter integer TOP    = 1,
  parameter integer LEFT   = 1,
  parameter integer BOTTOM = 1,
  parameter integer RIGHT  = 1
) (
  input  logic clk,
  input  logic rst,

  input  logic             s_valid,
  output logic             s_ready,
  input  logic [WIDTH-1:0] s_data,

  output logic             m_valid,
  input  logic             m_ready,
  output logic [WIDTH-1:0] m_data
);
  localparam integer YW = (H > 1) ? $clog2(H) : 1;
  localparam integer XW = (W > 1) ? $clog2(W) : 1;
  localparam integer CW = (CF > 1) ? $clog2(CF) : 1;

  localparam logic [YW-1:0] Y_LAST = YW'(H - 1);
  localparam logic [XW-1:0] X_LAST = XW'(W - 1);
  localparam logic [CW-1:0] C_LAST = CW'(CF - 1);

  logic [YW-1:0] y;
  logic [XW-1:0] x;
  logic [CW-1:0] c;
  logic          keep, en;

  // The subtraction wraps in 32 bits: for a row before TOP or a column before LEFT it gives a huge number. So one comparison is enough.
  assign keep    = (32'(y) - TOP) < 32'(H - TOP - BOTTOM) && (32'(x) - LEFT) < 32'(W - LEFT - RIGHT);
  assign en      = !m_valid || m_ready;
  assign s_ready = en;

  always_ff @(posedge clk) begin
    if (en) m_data <= s_data;
    if (rst) begin
      y       <= '0;
      x       <= '0;
      c       <= '0;
      m_valid <= 1'b0;
    end else if (en) begin
      m_valid <= s_valid && keep;
      if (s_valid) begin
        c <= (c == C_LAST) ? '0 : c + 1'b1;
        if (c == C_LAST) begin
          x <= (x == X_LAST) ? '0 : x + 1'b1;
          if (x == X_LAST) y <= (y == Y_LAST) ? '0 : y + 1'b1;
        end
      end
    end
  end

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(WIDTH)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
`endif
endmodule
`default_nettype wire
