/// A receiving port (row 0 of the link table) and a sending port (row 1) on CONNECTORS cables, with their hub.
///
/// An image with other ports is assembled from the same parts. Frames of both ports have BEATS beats of LANES elements of ABITS bits. in_
/// is the dataflow's output with its tags; out_ is the dataflow's input.
`default_nettype none
module mr_link #(
  parameter integer BYTES      = 8,
  parameter integer CONNECTORS = 1,
  parameter integer LANES      = 1,
  parameter integer ABITS      = 8,
  parameter integer BEATS      = 64,
  parameter integer PACKET     = 1024,
  parameter integer BUFFER     = 512,
  parameter integer MOST       = 16,
  parameter integer REFRESH    = 4096
) (
  input  logic clk,
  input  logic rst,
  input  logic flush,
  input  logic spoilt,
  output logic quiet,

  input  logic [31:0] card_epoch,
  input  logic [63:0] now,
  output logic        fault,
  output logic [31:0] fault_code,
  output logic [31:0] fault_link,

  input  logic        link_write,
  input  logic [11:0] link_waddr,
  input  logic [31:0] link_wdata,
  input  logic [11:0] link_raddr,
  output logic [31:0] link_rdata,

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

  input  logic [CONNECTORS-1:0]         up,
  output logic [CONNECTORS-1:0]         tx_valid,
  input  logic [CONNECTORS-1:0]         tx_ready,
  output logic [CONNECTORS*BYTES*8-1:0] tx_data,
  output logic [CONNECTORS-1:0]         tx_last,
  input  logic [CONNECTORS-1:0]         rx_valid,
  input  logic [CONNECTORS*BYTES*8-1:0] rx_data,
  input  logic [CONNECTORS-1:0]         rx_last
);
  localparam integer W = BYTES * 8;
  logic [1:0]     enable, peer, packet, port_fault, stall, port_valid, port_ready, port_last;
  logic [1:0]     start, word, finish, good;
  logic [7:0]     tag;
  logic [31:0]    packet_bytes, credits, bytes;
  logic [2*W-1:0] port_data, data;
  logic [511:0]   header;
  mr_link_hub #(.BYTES(BYTES), .PORTS(2), .CONNECTORS(CONNECTORS), .PACKET(PACKET)) hub (
    .clk, .rst, .fault, .fault_code, .fault_link, .link_write, .link_waddr, .link_wdata, .link_raddr, .link_rdata,
    .enable, .tag, .packet_bytes, .credits, .peer, .port_fault, .packet, .bytes, .stall,
    .s_valid(port_valid), .s_ready(port_ready), .s_data(port_data), .s_last(port_last),
    .start, .header, .word, .data, .finish, .good,
    .up, .tx_valid, .tx_ready, .tx_data, .tx_last, .rx_valid, .rx_data, .rx_last);

  mr_link_receive #(.BYTES(BYTES), .LANES(LANES), .ABITS(ABITS), .BEATS(BEATS), .BUFFER(BUFFER), .MOST(MOST), .REFRESH(REFRESH)) receive (
    .clk, .rst, .flush, .card_epoch, .now,
    .enable(enable[0]), .tag(tag[3:0]), .packet_bytes(packet_bytes[15:0]), .credits(credits[15:0]), .peer(peer[0]),
    .fault(port_fault[0]), .packet(packet[0]), .bytes(bytes[15:0]),
    .start(start[0]), .header(header[255:0]), .word(word[0]), .data(data[W-1:0]), .finish(finish[0]), .good(good[0]),
    .m_valid(out_valid), .m_ready(out_ready), .m_data(out_data),
    .t_valid(out_tag_valid), .t_ready(out_tag_ready), .t_data(out_tag_data),
    .c_valid(port_valid[0]), .c_ready(port_ready[0]), .c_data(port_data[W-1:0]), .c_last(port_last[0]));
  assign stall[0] = 1'b0;

  mr_link_send #(.BYTES(BYTES), .LANES(LANES), .ABITS(ABITS), .BEATS(BEATS), .PACKET(PACKET), .REFRESH(REFRESH)) send (
    .clk, .rst, .flush, .spoilt, .quiet,
    .enable(enable[1]), .tag(tag[7:4]), .packet_bytes(packet_bytes[31:16]), .credits(credits[31:16]), .peer(peer[1]),
    .fault(port_fault[1]), .packet(packet[1]), .bytes(bytes[31:16]), .stall(stall[1]),
    .s_valid(in_valid), .s_ready(in_ready), .s_data(in_data),
    .t_valid(in_tag_valid), .t_ready(in_tag_ready), .t_data(in_tag_data),
    .finish(finish[1]), .good(good[1]), .header(header[511:256]),
    .m_valid(port_valid[1]), .m_ready(port_ready[1]), .m_data(port_data[2*W-1:W]), .m_last(port_last[1]));
  logic unused;
  assign unused = &{1'b0, start[1], word[1], data[2*W-1:W]};
endmodule
`default_nettype wire
