/// The parts that all UDP link ports of an FPGA image share: the link table, the switch between ports and connectors, the checks of arriving
/// datagrams, the CRCs of leaving ones, and the report of faults.
///
/// A connector is a UDP network layer, such as the one of AMD's VNx example: rx_ comes from its output M_AXIS_nl2sk, tx_ goes to its input
/// S_AXIS_sk2nl. Port i uses row i of the link table. A port is an mr_udp_send, an mr_udp_receive, or absent; the inputs of an absent port are
/// 0. Each port sees all datagrams of its connector (r_), without waiting. Several ports of a connector take turns datagram by datagram. A port
/// changes its connector only between datagrams.
///
/// A fault raises `fault` for one cycle, with its code (image_abi.hpp: 2 if the neighbour does not answer any more, 3 if it violates the
/// protocol) and its row. If several rows have a fault, the lowest row is reported. mr_supervisor receives the fault. `tick` is high for one
/// cycle in each microsecond, for the timers of the ports.
`default_nettype none
module mr_udp_hub #(
  parameter integer PORTS      = 2,
  parameter integer CONNECTORS = 1,
  parameter integer PACKET     = 1024,
  parameter integer CLOCK_MHZ  = 200
) (
  input  logic clk,
  input  logic rst,
  output logic tick,
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
  output logic [PORTS*16-1:0] source,
  output logic [PORTS*16-1:0] destination,
  output logic [PORTS*16-1:0] socket,
  output logic [PORTS*32-1:0] generation,
  input  logic [PORTS-1:0]    peer,
  input  logic [PORTS-1:0]    lost,
  input  logic [PORTS-1:0]    port_fault,
  input  logic [PORTS*3-1:0]  violation,
  input  logic [PORTS-1:0]    packet,
  input  logic [PORTS*16-1:0] bytes,
  input  logic [PORTS-1:0]    stall,
  input  logic [PORTS-1:0]    again,
  input  logic [PORTS-1:0]    gap,

  input  logic [PORTS-1:0]     s_valid,
  output logic [PORTS-1:0]     s_ready,
  input  logic [PORTS*512-1:0] s_data,
  input  logic [PORTS-1:0]     s_last,
  input  logic [PORTS*16-1:0]  s_dest,

  output logic [PORTS-1:0]     r_valid,
  output logic [PORTS-1:0]     r_first,
  output logic [PORTS*512-1:0] r_data,
  output logic [PORTS-1:0]     r_last,
  output logic [PORTS-1:0]     r_good,
  output logic [PORTS*16-1:0]  r_dest,

  output logic [CONNECTORS-1:0]     tx_valid,
  input  logic [CONNECTORS-1:0]     tx_ready,
  output logic [CONNECTORS*512-1:0] tx_data,
  output logic [CONNECTORS*64-1:0]  tx_keep,
  output logic [CONNECTORS-1:0]     tx_last,
  output logic [CONNECTORS*16-1:0]  tx_dest,
  input  logic [CONNECTORS-1:0]     rx_valid,
  output logic [CONNECTORS-1:0]     rx_ready,
  input  logic [CONNECTORS*512-1:0] rx_data,
  input  logic [CONNECTORS*64-1:0]  rx_keep,
  input  logic [CONNECTORS-1:0]     rx_last,
  input  logic [CONNECTORS*16-1:0]  rx_dest
);
  localparam integer TW = $clog2(CLOCK_MHZ + 1);
  logic [TW-1:0] cycles;
  always_ff @(posedge clk) begin
    tick   <= !rst && (cycles == TW'(CLOCK_MHZ - 1));
    cycles <= (rst || cycles == TW'(CLOCK_MHZ - 1)) ? '0 : cycles + 1'b1;
  end

  logic [PORTS*8-1:0]      connector;
  logic [PORTS*32-1:0]     damaged;
  mr_udp_table #(.PORTS(PORTS), .CONNECTORS(CONNECTORS), .PACKET(PACKET)) table_ (
    .clk, .rst, .tick, .link_write, .link_waddr, .link_wdata, .link_raddr, .link_rdata,
    .enable, .connector, .tag, .packet_bytes, .credits, .source, .destination, .socket, .generation,
    .peer, .lost, .violation, .packet, .bytes, .stall, .again, .gap, .damaged);

  logic [PORTS*8-1:0] present;  // the connector a port is on
  logic [PORTS-1:0]   amid;     // a datagram
  always_ff @(posedge clk)
    for (integer p = 0; p < PORTS; p = p + 1) begin
      if (!amid[p] && !s_valid[p]) present[p*8+:8] <= connector[p*8+:8];
      if (rst) amid[p] <= 1'b0;
      else if (s_valid[p] && s_ready[p]) amid[p] <= !s_last[p];
    end

  logic [CONNECTORS*PORTS-1:0] mine, ready;
  logic [CONNECTORS-1:0]       c_valid, c_first, c_last, c_good;
  logic [CONNECTORS*512-1:0]   c_data;
  logic [CONNECTORS*16-1:0]    c_dest;
  logic [CONNECTORS*32-1:0]    c_damaged;
  generate
    for (genvar c = 0; c < CONNECTORS; c = c + 1) begin : g_connector
      for (genvar p = 0; p < PORTS; p = p + 1) begin : g_port
        assign mine[c*PORTS+p] = (present[p*8+:8] == 8'(c));
      end
      mr_udp_out #(.N(PORTS), .MOST(PACKET)) out (
        .clk, .rst, .s_valid(s_valid & mine[c*PORTS+:PORTS]), .s_ready(ready[c*PORTS+:PORTS]), .s_data, .s_last, .s_dest,
        .m_valid(tx_valid[c]), .m_ready(tx_ready[c]), .m_data(tx_data[c*512+:512]), .m_keep(tx_keep[c*64+:64]), .m_last(tx_last[c]),
        .m_dest(tx_dest[c*16+:16]));
      // The ports take every beat, so the checked datagrams pass without waiting.
      mr_udp_in #(.MOST(PACKET)) in (
        .clk, .rst, .s_valid(rx_valid[c]), .s_ready(rx_ready[c]), .s_data(rx_data[c*512+:512]), .s_keep(rx_keep[c*64+:64]),
        .s_last(rx_last[c]), .m_valid(c_valid[c]), .m_ready(1'b1), .m_data(c_data[c*512+:512]), .m_last(c_last[c]), .m_good(c_good[c]));
      always_ff @(posedge clk) begin
        if (rx_ready[c]) c_dest[c*16+:16] <= rx_dest[c*16+:16];
        if (rst) c_first[c] <= 1'b1;
        else if (c_valid[c]) c_first[c] <= c_last[c];
        if (rst) c_damaged[c*32+:32] <= '0;
        else if (c_valid[c] && c_last[c] && !c_good[c]) c_damaged[c*32+:32] <= c_damaged[c*32+:32] + 32'd1;
      end
    end
  endgenerate

  always_comb begin
    s_ready = '0;
    r_valid = '0;
    r_first = '0;
    r_data  = '0;
    r_last  = '0;
    r_good  = '0;
    r_dest  = '0;
    damaged = '0;
    for (integer c = 0; c < CONNECTORS; c = c + 1)
      for (integer p = 0; p < PORTS; p = p + 1)
        if (mine[c*PORTS+p]) begin
          s_ready[p]          = ready[c*PORTS+p];
          r_valid[p]          = c_valid[c];
          r_first[p]          = c_first[c];
          r_data[p*512+:512]  = c_data[c*512+:512];
          r_last[p]           = c_last[c];
          r_good[p]           = c_good[c];
          r_dest[p*16+:16]    = c_dest[c*16+:16];
          damaged[p*32+:32]   = c_damaged[c*32+:32];
        end
  end

  logic [PORTS-1:0] lost_before, silent, faulty;
  assign silent = enable & lost & ~lost_before;
  assign faulty = silent | (enable & port_fault);
  always_ff @(posedge clk) begin
    lost_before <= lost;
    fault       <= !rst && (faulty != '0);
    fault_code  <= (silent != '0) ? 32'd2 : 32'd3;
    fault_link  <= '0;
    for (integer i = PORTS - 1; i >= 0; i = i - 1) if (faulty[i]) fault_link <= 32'(i);
  end
endmodule
`default_nettype wire
