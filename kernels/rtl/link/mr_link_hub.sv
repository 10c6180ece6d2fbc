/// The parts that all link ports of an FPGA image share: the link table, the switch between ports and connectors, and the report of faults.
///
/// Port i uses row i of the link table. A port is an mr_link_send, an mr_link_receive, or absent; the inputs of an absent port are 0. A
/// fault raises `fault` for one cycle, with its code (image_abi.hpp: 2 if a cable in service went down, 3 for a protocol error) and its
/// row. If several rows have a fault, the lowest row is reported. mr_supervisor receives the fault. The module has one clock; if a cable's
/// core has another clock, put a clock converter at tx_ and rx_. The sender on rx_ cannot wait.
`default_nettype none
module mr_link_hub #(
  parameter integer BYTES      = 8,
  parameter integer PORTS      = 2,
  parameter integer CONNECTORS = 1,
  parameter integer PACKET     = 1024
) (
  input  logic clk,
  input  logic rst,
  output logic        fault,
  output logic [31:0] fault_code,
  output logic [31:0] fault_link,

  input  logic        link_write,
  input  logic [11:0] link_waddr,
  input  logic [31:0] link_wdata,
  input  logic [11:0] link_raddr,
  output logic [31:0] link_rdata,

  output logic [PORTS-1:0]    enable,
  output logic [PORTS*4-1:0]  tag,
  output logic [PORTS*16-1:0] packet_bytes,
  output logic [PORTS*16-1:0] credits,
  input  logic [PORTS-1:0]    peer,
  input  logic [PORTS-1:0]    port_fault,
  input  logic [PORTS-1:0]    packet,
  input  logic [PORTS*16-1:0] bytes,
  input  logic [PORTS-1:0]    stall,

  input  logic [PORTS-1:0]         s_valid,
  output logic [PORTS-1:0]         s_ready,
  input  logic [PORTS*BYTES*8-1:0] s_data,
  input  logic [PORTS-1:0]         s_last,

  output logic [PORTS-1:0]         start,
  output logic [PORTS*256-1:0]     header,
  output logic [PORTS-1:0]         word,
  output logic [PORTS*BYTES*8-1:0] data,
  output logic [PORTS-1:0]         finish,
  output logic [PORTS-1:0]         good,

  input  logic [CONNECTORS-1:0]         up,
  output logic [CONNECTORS-1:0]         tx_valid,
  input  logic [CONNECTORS-1:0]         tx_ready,
  output logic [CONNECTORS*BYTES*8-1:0] tx_data,
  output logic [CONNECTORS-1:0]         tx_last,
  input  logic [CONNECTORS-1:0]         rx_valid,
  input  logic [CONNECTORS*BYTES*8-1:0] rx_data,
  input  logic [CONNECTORS-1:0]         rx_last
);
  logic [PORTS*8-1:0] connector;
  logic [PORTS-1:0]   cable, cable_before, bad, fallen, faulty;
  mr_link_table #(.PORTS(PORTS), .CONNECTORS(CONNECTORS), .PACKET(PACKET)) table_ (
    .clk, .rst, .link_write, .link_waddr, .link_wdata, .link_raddr, .link_rdata,
    .enable, .connector, .tag, .packet_bytes, .credits, .cable, .peer, .packet, .bytes, .stall);

  mr_link_switch #(.BYTES(BYTES), .PORTS(PORTS), .CONNECTORS(CONNECTORS)) switch_ (
    .clk, .rst, .connector, .cable, .bad, .s_valid, .s_ready, .s_data, .s_last,
    .start, .header, .word, .data, .finish, .good,
    .up, .tx_valid, .tx_ready, .tx_data, .tx_last, .rx_valid, .rx_data, .rx_last);

  assign fallen = enable & cable_before & ~cable;
  assign faulty = fallen | (enable & (port_fault | bad));
  always_ff @(posedge clk) begin
    cable_before <= cable;
    fault        <= !rst && (faulty != '0);
    fault_code   <= (fallen != '0) ? 32'd2 : 32'd3;
    fault_link   <= '0;
    for (integer i = PORTS - 1; i >= 0; i = i - 1) if (faulty[i]) fault_link <= 32'(i);
  end
endmodule
`default_nettype wire
