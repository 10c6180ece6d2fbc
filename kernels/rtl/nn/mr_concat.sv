/// Joins two tensors along the channels: for every pixel, CF0 beats of the first input and then CF1 beats of the second.
///
/// Both inputs have as many lanes as the output. To join more than two tensors, chain instances of this module. Latency 1 cycle; CF0 + CF1
/// beats per pixel, one per cycle. m_valid and m_data are registers; the ready signals of both inputs depend on m_ready.
`default_nettype none
module mr_concat #(
  parameter integer WIDTH = 8,
  parameter integer CF0   = 1,
  parameter integer CF1   = 1
) (
  input  logic clk,
  input  logic rst,

  input  logic             s0_valid,
  output logic             s0_ready,
  input  logic [WIDTH-1:0] s0_data,

  input  logic             s1_valid,
  output logic             s1_ready,
  input  logic [WIDTH-1:0] s1_data,

  output logic             m_valid,
  input  logic             m_ready,
  output logic [WIDTH-1:0] m_data
);
  localparam integer CW = $clog2(CF0 + CF1);
  localparam logic [CW-1:0] SECOND = CW'(CF0);
  localparam logic [CW-1:0] LAST = CW'(CF0 + CF1 - 1);

  logic [CW-1:0] c;
  logic          en, second, taken;
  assign en       = !m_valid || m_ready;
  assign second   = (c >= SECOND);
  assign s0_ready = en && !second;
  assign s1_ready = en && second;
  assign taken    = second ? s1_valid : s0_valid;

  always_ff @(posedge clk) begin
    if (en) m_data <= second ? s1_data : s0_data;
    if (rst) begin
      c       <= '0;
      m_valid <= 1'b0;
    end else if (en) begin
      m_valid <= taken;
      if (taken) c <= (c == LAST) ? '0 : c + 1'b1;
    end
  end

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(WIDTH)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
`endif
endmodule
`default_nettype wire
