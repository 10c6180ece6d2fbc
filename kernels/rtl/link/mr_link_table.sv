/// The link table: the settings of each link port, which the host writes when it has chosen the cards of a deployment,
/// and the port's counters (image_abi.hpp, kLink…).
///
/// Row i is at 0x100 + 0x40*i of the control registers. A row can be written only while its port is out of service. The port goes into
/// service only if its connector exists, its tag is below 16, it has at least one credit, and its packets have at most PACKET bytes.
/// Reading `enable` shows whether the port is in service. Counters run from the card's reset on. `packet` increments the packet counter and
/// adds `bytes` to the byte counter. Everything is registered except the read data.
`default_nettype none
module mr_link_table #(
  parameter integer PORTS      = 2,
  parameter integer CONNECTORS = 1,
  parameter integer PACKET     = 1024
) (
  input  logic clk,
  input  logic rst,

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
  input  logic [PORTS-1:0]    cable,   // there and up
  input  logic [PORTS-1:0]    peer,    // in service
  input  logic [PORTS-1:0]    packet,
  input  logic [PORTS*16-1:0] bytes,
  input  logic [PORTS-1:0]    stall
);
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
      logic        here, in_service;
      logic [5:0]  at, from;
      logic [31:0] row_connector, row_tag, row_packet, row_credits, value;
      logic [63:0] packets, payload, stalls;
      assign here = link_write && (link_waddr[11:6] == BASE[11:6]);
      assign at   = link_waddr[5:0];
      assign from = link_raddr[5:0];
      always_ff @(posedge clk)
        if (rst) begin
          in_service    <= 1'b0;
          row_connector <= '0;
          row_tag       <= '0;
          row_packet    <= '0;
          row_credits   <= '0;
          packets       <= '0;
          payload       <= '0;
          stalls        <= '0;
        end else begin
          if (here && at == 6'h00)
            in_service <= (link_wdata == 32'd1) && (row_connector < 32'(CONNECTORS)) && (row_tag < 32'd16) && (row_credits != '0) &&
                          (row_credits < 32'd65536) && (row_packet != '0) && (row_packet <= 32'(PACKET));
          if (here && !in_service) begin
            if (at == 6'h04) row_connector <= link_wdata;
            if (at == 6'h08) row_tag <= link_wdata;
            if (at == 6'h0c) row_packet <= link_wdata;
            if (at == 6'h10) row_credits <= link_wdata;
          end
          if (packet[i]) begin
            packets <= packets + 64'd1;
            payload <= payload + 64'(bytes[i*16+:16]);
          end
          if (stall[i]) stalls <= stalls + 64'd1;
        end
      always_comb
        case (from)
          6'h00:   value = 32'(in_service);
          6'h04:   value = row_connector;
          6'h08:   value = row_tag;
          6'h0c:   value = row_packet;
          6'h10:   value = row_credits;
          6'h14:   value = {30'd0, peer[i], cable[i]};
          6'h18:   value = packets[31:0];
          6'h1c:   value = packets[63:32];
          6'h20:   value = payload[31:0];
          6'h24:   value = payload[63:32];
          6'h28:   value = stalls[31:0];
          6'h2c:   value = stalls[63:32];
          default: value = '0;
        endcase
      assign answer[i*32+:32]        = (link_raddr[11:6] == BASE[11:6]) ? value : '0;
      assign enable[i]               = in_service;
      assign connector[i*8+:8]       = row_connector[7:0];
      assign tag[i*4+:4]             = row_tag[3:0];
      assign packet_bytes[i*16+:16]  = row_packet[15:0];
      assign credits[i*16+:16]       = row_credits[15:0];
    end
  endgenerate
endmodule
`default_nettype wire
