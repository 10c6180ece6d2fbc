/// Distributes a stream to N readers: part i of each beat goes to reader i when reader i is ready. The next beat follows when all readers
/// have their parts. This module is the reverse of mr_join.
///
/// The part of reader i is s_data[i*WIDTH +: WIDTH], and m_data equals s_data. Latency 0; one beat per cycle. The only registers are one
/// bit per reader, which says that this reader has its part. Data, valid and ready pass through combinationally, so put a skid buffer or
/// FIFO behind this module.
`default_nettype none
module mr_split #(
  parameter integer WIDTH = 8,
  parameter integer N     = 2
) (
  input  logic clk,
  input  logic rst,

  input  logic               s_valid,
  output logic               s_ready,
  input  logic [N*WIDTH-1:0] s_data,

  output logic [N-1:0]       m_valid,
  input  logic [N-1:0]       m_ready,
  output logic [N*WIDTH-1:0] m_data
);
  logic [N-1:0] served;  // this reader has its part of the present beat

  assign m_valid = {N{s_valid}} & ~served;
  assign m_data  = s_data;
  assign s_ready = &(served | m_ready);

  always_ff @(posedge clk)
    if (rst || (s_valid && s_ready)) served <= '0;
    else if (s_valid) served <= served | m_ready;

`ifndef SYNTHESIS
  for (genvar i = 0; i < N; i = i + 1) begin : g_check
    mr_handshake_check #(.WIDTH(WIDTH)) check (
      .clk, .rst, .valid(m_valid[i]), .ready(m_ready[i]), .data(m_data[i*WIDTH+:WIDTH]));
  end
`endif
endmodule
`default_nettype wire
