/// The outgoing side of a connector: sends the packets of N sources, one packet after the other, and appends the CRC to each.
///
/// A source offers header and payload words, the last one with s_last. Sources take turns packet by packet, with one cycle between packets.
/// kernels/rtl/README.md defines the packet format. tx_valid, tx_data, tx_last and the number of the current source are registers.
`default_nettype none
module mr_link_out #(
  parameter integer BYTES = 8,
  parameter integer N     = 2
) (
  input  logic clk,
  input  logic rst,

  input  logic [N-1:0]         s_valid,
  output logic [N-1:0]         s_ready,
  input  logic [N*BYTES*8-1:0] s_data,
  input  logic [N-1:0]         s_last,

  output logic               tx_valid,
  input  logic               tx_ready,
  output logic [BYTES*8-1:0] tx_data,
  output logic               tx_last
);
  localparam integer W = BYTES * 8;
  localparam integer NW = (N > 1) ? $clog2(N) : 1;

  typedef enum logic [1:0] {CHOOSE, PACKET, TRAILER} state_t;
  state_t state;

  logic [NW-1:0] turn, choice;
  logic          en, any, take, open;
  logic [W-1:0]  word;
  logic          last;
  logic [31:0]   crc, crc_next;
  // Round robin: choose the next source, after the one that was served last, that offers a packet.
  always_comb begin
    any    = 1'b0;
    choice = turn;
    for (integer i = N; i >= 1; i = i - 1)
      for (integer k = 0; k < N; k = k + 1)
        if (s_valid[k] && (k == 32'(turn) + i || k + N == 32'(turn) + i)) begin
          any    = 1'b1;
          choice = NW'(k);
        end
  end
  always_comb begin
    word    = '0;
    last    = 1'b0;
    take    = 1'b0;
    s_ready = '0;
    for (integer k = 0; k < N; k = k + 1)
      if (turn == NW'(k)) begin
        word       = s_data[k*W+:W];
        last       = s_last[k];
        take       = s_valid[k] && open;
        s_ready[k] = open;
      end
  end
  assign en   = !tx_valid || tx_ready;
  assign open = (state == PACKET) && en;
  mr_crc32 #(.BYTES(BYTES)) check (.crc, .data(word), .next(crc_next));

  always_ff @(posedge clk)
    if (rst) begin
      state    <= CHOOSE;
      turn     <= '0;
      tx_valid <= 1'b0;
    end else begin
      if (state == CHOOSE && any) begin
        turn  <= choice;
        state <= PACKET;
      end else if (take && last) state <= TRAILER;
      else if (state == TRAILER && en) state <= CHOOSE;
      if (en) tx_valid <= take || (state == TRAILER);
    end
  always_ff @(posedge clk) begin
    if (state == CHOOSE) crc <= '1;
    else if (take) crc <= crc_next;
    if (en) begin
      tx_data <= (state == TRAILER) ? {{(W-32){1'b0}}, ~crc} : word;
      tx_last <= (state == TRAILER);
    end
  end

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(W + 1)) check_tx (
    .clk, .rst, .valid(tx_valid), .ready(tx_ready), .data({tx_last, tx_data}));
`endif
endmodule
`default_nettype wire
