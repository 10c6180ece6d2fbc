/// The link table of a card with UDP links: the settings of each link port, which the host writes when it has chosen the cards of a deployment,
/// and the port's counters (image_abi.hpp, kLink… and kUdp…).
///
/// Row i is at 0x100 + 0x40*i of the control registers, and the row's UDP registers are at 0x500 + 0x10*i, so there are at most 16 rows. A row
/// can be written only while its port is out of service. The port goes into service only if its connector exists, its tag is below 16, it has
/// at least one credit, and its packets have at most PACKET bytes. Reading `enable` shows whether the port is in service. `generation` counts
/// how often the port went into service since the card's reset, so it is never 0 in service; both ends of a link accept a neighbour that counts
/// from the start again once it was silent for long enough (runtime/link/README.md).
///
/// `packet` increments the packet counter and adds `bytes` to the byte counter. `again` counts a repeated packet. A link is degraded for a
/// second after `again` or `gap`; `tick` is high for one cycle in each microsecond. `damaged` has the count of each row's connector.
/// Everything is registered except the read data.
`default_nettype none
module mr_udp_table #(
  parameter integer PORTS      = 2,
  parameter integer CONNECTORS = 1,
  parameter integer PACKET     = 1024
) (
  input  logic clk,
  input  logic rst,
  input  logic tick,

  input  logic        link_write,
  input  logic [11:0] link_waddr,
  input  logic [31:0] link_wdata,
  input  logic [11:0] link_raddr,
  output logic [31:0] link_rdata,

  output logic [PORTS-1:0]    enable,
  output logic [PORTS*8-1:0]  connector,
  output logic [PORTS*4-1:0]  tag,
  output logic [PORTS*16-1:0] packet_bytes,
  output logic [PORTS*16-1:0] credits,
  output logic [PORTS*16-1:0] source,
  output logic [PORTS*16-1:0] destination,
  output logic [PORTS*16-1:0] socket,
  output logic [PORTS*32-1:0] generation,
  input  logic [PORTS-1:0]    peer,
  input  logic [PORTS-1:0]    lost,
  input  logic [PORTS*3-1:0]  violation,
  input  logic [PORTS-1:0]    packet,
  input  logic [PORTS*16-1:0] bytes,
  input  logic [PORTS-1:0]    stall,
  input  logic [PORTS-1:0]    again,
  input  logic [PORTS-1:0]    gap,
  input  logic [PORTS*32-1:0] damaged
);
  localparam logic [19:0] DEGRADED = 20'd1000000;  // microseconds
  logic [PORTS*32-1:0] answer;
  logic [31:0]         gathered;
  always_comb begin
    gathered = '0;
    for (integer i = 0; i < PORTS; i = i + 1) gathered = gathered | answer[i*32+:32];
  end
  assign link_rdata = gathered;

  generate
    for (genvar i = 0; i < PORTS; i = i + 1) begin : g_row
      localparam logic [11:0] BASE = 12'(256 + 64 * i);
      localparam logic [11:0] MORE = 12'(1280 + 16 * i);
      logic        here, there, in_service, fits, degraded;
      logic [5:0]  at, from;
      logic [31:0] row_connector, row_tag, row_packet, row_credits, row_ends, row_socket, times, repeats, value, udp_value;
      logic [63:0] packets, payload, stalls;
      logic [19:0] left;
      logic [2:0]  state;
      assign here  = link_write && (link_waddr[11:6] == BASE[11:6]);
      assign there = link_write && (link_waddr[11:4] == MORE[11:4]) && !in_service;
      assign at    = link_waddr[5:0];
      assign from  = link_raddr[5:0];
      assign fits  = (link_wdata == 32'd1) && (row_connector < 32'(CONNECTORS)) && (row_tag < 32'd16) && (row_credits != '0) &&
                     (row_credits < 32'd65536) && (row_packet != '0) && (row_packet <= 32'(PACKET));
      assign degraded = (left != '0);
      assign state    = !in_service ? 3'd0 : lost[i] ? 3'd4 : !peer[i] ? 3'd1 : degraded ? 3'd3 : 3'd2;  // LinkState
      always_ff @(posedge clk)
        if (rst) begin
          in_service    <= 1'b0;
          row_connector <= '0;
          row_tag       <= '0;
          row_packet    <= '0;
          row_credits   <= '0;
          row_ends      <= '0;
          row_socket    <= '0;
          times         <= '0;
          repeats       <= '0;
          packets       <= '0;
          payload       <= '0;
          stalls        <= '0;
          left          <= '0;
        end else begin
          if (here && at == 6'h00) begin
            in_service <= fits;
            if (fits && !in_service) times <= times + 32'd1;
          end
          if (here && !in_service) begin
            if (at == 6'h04) row_connector <= link_wdata;
            if (at == 6'h08) row_tag <= link_wdata;
            if (at == 6'h0c) row_packet <= link_wdata;
            if (at == 6'h10) row_credits <= link_wdata;
          end
          if (there && at[3:0] == 4'h0) row_ends <= link_wdata;
          if (there && at[3:0] == 4'h4) row_socket <= link_wdata;
          if (packet[i]) begin
            packets <= packets + 64'd1;
            payload <= payload + 64'(bytes[i*16+:16]);
          end
          if (stall[i]) stalls <= stalls + 64'd1;
          if (again[i]) repeats <= repeats + 32'd1;
          if (again[i] || gap[i]) left <= DEGRADED;
          else if (tick && degraded) left <= left - 20'd1;
        end
      always_comb
        case (from)
          6'h00:   value = 32'(in_service);
          6'h04:   value = row_connector;
          6'h08:   value = row_tag;
          6'h0c:   value = row_packet;
          6'h10:   value = row_credits;
          6'h14:   value = {30'd0, peer[i], row_connector < 32'(CONNECTORS)};
          6'h18:   value = packets[31:0];
          6'h1c:   value = packets[63:32];
          6'h20:   value = payload[31:0];
          6'h24:   value = payload[63:32];
          6'h28:   value = stalls[31:0];
          6'h2c:   value = stalls[63:32];
          6'h30:   value = repeats;
          6'h34:   value = damaged[i*32+:32];
          6'h3c:   value = 32'(state);
          default: value = '0;
        endcase
      always_comb
        case (from[3:0])
          4'h0:    udp_value = row_ends;
          4'h4:    udp_value = row_socket;
          4'h8:    udp_value = times;
          4'hc:    udp_value = 32'(violation[i*3+:3]);
          default: udp_value = '0;
        endcase
      assign answer[i*32+:32]       = (link_raddr[11:6] == BASE[11:6]) ? value : (link_raddr[11:4] == MORE[11:4]) ? udp_value : '0;
      assign enable[i]              = in_service;
      assign connector[i*8+:8]      = row_connector[7:0];
      assign tag[i*4+:4]            = row_tag[3:0];
      assign packet_bytes[i*16+:16] = row_packet[15:0];
      assign credits[i*16+:16]      = row_credits[15:0];
      assign source[i*16+:16]       = row_ends[15:0];
      assign destination[i*16+:16]  = row_ends[31:16];
      assign socket[i*16+:16]       = row_socket[15:0];
      assign generation[i*32+:32]   = times;
    end
  endgenerate

`ifndef SYNTHESIS
  initial assert (PORTS <= 16 && PACKET % 64 == 0) else $fatal(1, "%m: more rows or other packets than the module supports");
`endif
endmodule
`default_nettype wire
