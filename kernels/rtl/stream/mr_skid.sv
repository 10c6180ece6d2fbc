/// Two-entry register slice, which cuts every combinational path through a stream.
///
/// Output beat i equals input beat i. Latency 1 cycle; one beat per cycle. m_valid, m_data and s_ready are registers.
`default_nettype none
module mr_skid #(
  parameter integer WIDTH = 8
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
  logic             spare_valid;  // a beat that came while the output was blocked
  logic [WIDTH-1:0] spare;
  logic             en;

  assign en      = !m_valid || m_ready;
  assign s_ready = !spare_valid;

  always_ff @(posedge clk) begin
    if (en) m_data <= spare_valid ? spare : s_data;
    if (!spare_valid) spare <= s_data;
    if (rst) begin
      m_valid     <= 1'b0;
      spare_valid <= 1'b0;
    end else if (en) begin
      m_valid     <= spare_valid || s_valid;
      spare_valid <= 1'b0;
    end else if (s_valid) begin
      spare_valid <= 1'b1;
    end
  end

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(WIDTH)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
`endif
endmodule
`default_nettype wire
