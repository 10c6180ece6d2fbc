/// Joins N streams beat by beat: output beat i holds the i-th beat of every input.
///
/// Input k is s_data[k*WIDTH +: WIDTH], and m_data equals s_data. Latency 0; one beat per cycle. The module has no registers, and each
/// input's ready depends on the valids of all other inputs. Therefore put skid buffers or FIFOs before and behind this module.
`default_nettype none
module mr_join #(
  parameter integer WIDTH = 8,
  parameter integer N     = 2
) (
  input  logic clk,
  input  logic rst,

  input  logic [N-1:0]       s_valid,
  output logic [N-1:0]       s_ready,
  input  logic [N*WIDTH-1:0] s_data,

  output logic               m_valid,
  input  logic               m_ready,
  output logic [N*WIDTH-1:0] m_data
);
  assign m_valid = &s_valid;
  assign m_data  = s_data;
  assign s_ready = {N{m_valid && m_ready}};

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(N * WIDTH)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
`endif
endmodule
`default_nettype wire
