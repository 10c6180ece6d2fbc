/// One end of a UDP cable with a sending port and a receiving port, and the modules that check and make their datagrams.
///
/// n_ is what a UDP network layer delivers, x_ is what it gets. in_ is the dataflow's output with its tags; out_ is the dataflow's input. Both
/// channels have the same tag, packet size and credits. If the card is its own neighbour (remote is local), the two ports are the two ends of
/// one channel.
`default_nettype none
module mr_udp_link #(
  parameter integer LANES          = 1,
  parameter integer ABITS          = 8,
  parameter integer BEATS          = 64,
  parameter integer PACKET         = 128,
  parameter integer SLOTS          = 4,
  parameter integer LEAST_REPEAT   = 4000,
  parameter integer MOST_REPEAT    = 20000,
  parameter integer STATE_DELAY    = 1000,
  parameter integer KEEPALIVE      = 250000,
  parameter integer SILENCE        = 80000,
  parameter integer FIRST_GREETING = 2000,
  parameter integer LAST_GREETING  = 50000
) (
  input  logic clk,
  input  logic rst,
  input  logic tick,
  input  logic flush,
  input  logic spoilt,
  output logic quiet,

  input  logic [31:0] card_epoch,
  input  logic [63:0] now,
  input  logic        send_enable,
  input  logic [31:0] generation,
  input  logic        receive_enable,
  input  logic [31:0] incarnation,
  input  logic [15:0] local_end,
  input  logic [15:0] remote_end,
  input  logic [3:0]  tag,
  input  logic [15:0] socket,
  input  logic [15:0] packet_bytes,
  input  logic [15:0] credits,
  output logic [1:0]  peer,  // of the sending port, the receiving port
  output logic        lost,
  output logic [1:0]  fault,
  output logic [2:0]  send_violation,
  output logic [2:0]  receive_violation,
  output logic [1:0]  packet,
  output logic [31:0] bytes,
  output logic        again,
  output logic        gap,
  output logic        stall,

  input  logic                   in_valid,
  output logic                   in_ready,
  input  logic [LANES*ABITS-1:0] in_data,
  input  logic                   in_tag_valid,
  output logic                   in_tag_ready,
  input  logic [159:0]           in_tag_data,
  output logic                   out_valid,
  input  logic                   out_ready,
  output logic [LANES*ABITS-1:0] out_data,
  output logic                   out_tag_valid,
  input  logic                   out_tag_ready,
  output logic [159:0]           out_tag_data,

  input  logic         n_valid,
  output logic         n_ready,
  input  logic [511:0] n_data,
  input  logic [63:0]  n_keep,
  input  logic         n_last,
  input  logic [15:0]  n_dest,
  output logic         x_valid,
  input  logic         x_ready,
  output logic [511:0] x_data,
  output logic [63:0]  x_keep,
  output logic         x_last,
  output logic [15:0]  x_dest
);
  // The ports take every beat, so the checked datagrams pass without waiting.
  logic         r_valid, r_first, r_last, r_good;
  logic [511:0] r_data;
  logic [15:0]  r_dest;
  mr_udp_in #(.MOST(PACKET)) in (
    .clk, .rst, .s_valid(n_valid), .s_ready(n_ready), .s_data(n_data), .s_keep(n_keep), .s_last(n_last),
    .m_valid(r_valid), .m_ready(1'b1), .m_data(r_data), .m_last(r_last), .m_good(r_good));
  always_ff @(posedge clk) begin
    if (n_ready) r_dest <= n_dest;
    if (rst) r_first <= 1'b1;
    else if (r_valid) r_first <= r_last;
  end

  logic [1:0]    valid, ready, last;
  logic [1023:0] data;
  logic [31:0]   dest;
  mr_udp_out #(.N(2), .MOST(PACKET)) out (
    .clk, .rst, .s_valid(valid), .s_ready(ready), .s_data(data), .s_last(last), .s_dest(dest),
    .m_valid(x_valid), .m_ready(x_ready), .m_data(x_data), .m_keep(x_keep), .m_last(x_last), .m_dest(x_dest));

  mr_udp_send #(.LANES(LANES), .ABITS(ABITS), .BEATS(BEATS), .PACKET(PACKET), .SLOTS(SLOTS), .LEAST_REPEAT(LEAST_REPEAT),
    .MOST_REPEAT(MOST_REPEAT), .STATE_DELAY(STATE_DELAY), .KEEPALIVE(KEEPALIVE), .SILENCE(SILENCE), .FIRST_GREETING(FIRST_GREETING),
    .LAST_GREETING(LAST_GREETING)) send (
    .clk, .rst, .tick, .flush, .spoilt, .quiet, .card_epoch,
    .enable(send_enable), .generation, .source(local_end), .destination(remote_end), .tag, .socket, .packet_bytes, .credits,
    .peer(peer[0]), .lost, .fault(fault[0]), .violation(send_violation), .packet(packet[0]), .bytes(bytes[15:0]), .again, .stall,
    .s_valid(in_valid), .s_ready(in_ready), .s_data(in_data), .t_valid(in_tag_valid), .t_ready(in_tag_ready), .t_data(in_tag_data),
    .r_valid, .r_first, .r_data, .r_last, .r_good, .r_dest,
    .m_valid(valid[0]), .m_ready(ready[0]), .m_data(data[511:0]), .m_last(last[0]), .m_dest(dest[15:0]));

  mr_udp_receive #(.LANES(LANES), .ABITS(ABITS), .BEATS(BEATS), .PACKET(PACKET), .SLOTS(SLOTS), .STATE_DELAY(STATE_DELAY),
    .STOPPED(3 * KEEPALIVE + SILENCE)) receive (
    .clk, .rst, .tick, .flush, .card_epoch, .now,
    .enable(receive_enable), .incarnation, .source(remote_end), .destination(local_end), .tag, .socket, .packet_bytes, .credits,
    .peer(peer[1]), .fault(fault[1]), .violation(receive_violation), .packet(packet[1]), .bytes(bytes[31:16]), .gap,
    .r_valid, .r_first, .r_data, .r_last, .r_good, .r_dest,
    .m_valid(out_valid), .m_ready(out_ready), .m_data(out_data),
    .t_valid(out_tag_valid), .t_ready(out_tag_ready), .t_data(out_tag_data),
    .c_valid(valid[1]), .c_ready(ready[1]), .c_data(data[1023:512]), .c_last(last[1]), .c_dest(dest[31:16]));
endmodule
`default_nettype wire
