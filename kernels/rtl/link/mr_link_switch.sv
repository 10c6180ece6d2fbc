/// Connects link ports to connectors in both directions, as the link table says. Any port of the image may use any
/// cable; the host assigns the cables when it chooses the cards of a deployment.
///
/// A port's outgoing packets go to the port's connector, where several ports take turns. Each port sees all incoming packets of its
/// connector (start, header, words, finish; as in mr_link_in) and selects its own packets by kind and tag. `cable` says that the port's
/// connector exists and is up. `bad` says that this connector received a damaged packet. A port whose connector does not exist is never
/// served. Whole packets to a connector that is down are discarded, so no port waits for it. A port changes its connector only between
/// packets.
`default_nettype none
module mr_link_switch #(
  parameter integer BYTES      = 8,
  parameter integer PORTS      = 2,
  parameter integer CONNECTORS = 1
) (
  input  logic clk,
  input  logic rst,

  input  logic [PORTS*8-1:0] connector,
  output logic [PORTS-1:0]   cable,
  output logic [PORTS-1:0]   bad,

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
  localparam integer W = BYTES * 8;
  logic [PORTS*8-1:0]          present;  // the connector a port is on
  logic [PORTS-1:0]            amid;   // a packet
  always_ff @(posedge clk)
    for (integer p = 0; p < PORTS; p = p + 1) begin
      if (!amid[p] && !s_valid[p]) present[p*8+:8] <= connector[p*8+:8];
      if (rst) amid[p] <= 1'b0;
      else if (s_valid[p] && s_ready[p]) amid[p] <= !s_last[p];
    end

  logic [CONNECTORS*PORTS-1:0] mine, ready;
  logic [CONNECTORS-1:0]       out_valid, lost, cut, begun;  // cut: the rest of a packet that is lost
  assign lost     = cut | ~up;
  assign tx_valid = out_valid & ~lost;
  always_ff @(posedge clk)
    for (integer c = 0; c < CONNECTORS; c = c + 1)
      if (rst) begin
        begun[c] <= 1'b0;
        cut[c]   <= 1'b0;
      end else if (out_valid[c] && (tx_ready[c] || lost[c])) begin
        begun[c] <= !tx_last[c];
        cut[c]   <= lost[c] && !tx_last[c];
      end else if (!up[c] && begun[c]) cut[c] <= 1'b1;

  logic [CONNECTORS-1:0]       c_start, c_word, c_finish, c_good, c_bad;
  logic [CONNECTORS*256-1:0]   c_header;
  logic [CONNECTORS*W-1:0]     c_data;
  generate
    for (genvar c = 0; c < CONNECTORS; c = c + 1) begin : g_connector
      for (genvar p = 0; p < PORTS; p = p + 1) begin : g_port
        assign mine[c*PORTS+p] = (present[p*8+:8] == 8'(c));
      end
      mr_link_out #(.BYTES(BYTES), .N(PORTS)) out (
        .clk, .rst, .s_valid(s_valid & mine[c*PORTS+:PORTS]), .s_ready(ready[c*PORTS+:PORTS]), .s_data, .s_last,
        .tx_valid(out_valid[c]), .tx_ready(tx_ready[c] || lost[c]), .tx_data(tx_data[c*W+:W]), .tx_last(tx_last[c]));
      mr_link_in #(.BYTES(BYTES)) in (
        .clk, .rst, .rx_valid(rx_valid[c]), .rx_data(rx_data[c*W+:W]), .rx_last(rx_last[c]),
        .start(c_start[c]), .header(c_header[c*256+:256]), .word(c_word[c]), .data(c_data[c*W+:W]),
        .finish(c_finish[c]), .good(c_good[c]), .bad(c_bad[c]));
    end
  endgenerate

  always_comb begin
    s_ready = '0;
    cable   = '0;
    bad     = '0;
    start   = '0;
    header  = '0;
    word    = '0;
    data    = '0;
    finish  = '0;
    good    = '0;
    for (integer c = 0; c < CONNECTORS; c = c + 1)
      for (integer p = 0; p < PORTS; p = p + 1)
        if (mine[c*PORTS+p]) begin
          s_ready[p]         = ready[c*PORTS+p];
          cable[p]           = up[c];
          bad[p]             = c_bad[c];
          start[p]           = c_start[c];
          header[p*256+:256] = c_header[c*256+:256];
          word[p]            = c_word[c];
          data[p*W+:W]       = c_data[c*W+:W];
          finish[p]          = c_finish[c];
          good[p]            = c_good[c];
        end
  end
endmodule
`default_nettype wire
