/// Sends link datagrams (runtime/link/README.md) of N sources to a UDP network layer, one datagram after the other: 512-bit AXI-Stream, one
/// datagram per packet, as the input S_AXIS_sk2nl of AMD's VNx network layer expects it.
///
/// A source offers a header beat, then the payload in whole beats, the last beat with s_last. s_dest is the index of the neighbour in the
/// network layer's socket table. The module fills in the header's magic, version and both CRCs, so a source leaves these bytes free. The
/// header's length states how many payload bytes follow; m_keep marks these bytes. Sources take turns datagram by datagram.
///
/// The header contains the payload's CRC, so the module buffers a payload of at most MOST bytes before it sends the datagram. Meanwhile it
/// sends the previous datagram. m_data is a selection of two registers; m_valid, m_keep, m_last and m_dest depend only on registers.
`default_nettype none
module mr_udp_out #(
  parameter integer N    = 2,
  parameter integer MOST = 8896
) (
  input  logic clk,
  input  logic rst,

  input  logic [N-1:0]     s_valid,
  output logic [N-1:0]     s_ready,
  input  logic [N*512-1:0] s_data,
  input  logic [N-1:0]     s_last,
  input  logic [N*16-1:0]  s_dest,

  output logic         m_valid,
  input  logic         m_ready,
  output logic [511:0] m_data,
  output logic [63:0]  m_keep,
  output logic         m_last,
  output logic [15:0]  m_dest
);
  localparam integer NW = (N > 1) ? $clog2(N) : 1;
  localparam integer BEATS = (MOST + 63) / 64;
  localparam logic [31:0] MAGIC   = 32'h4b4c524d;  // "MRLK"
  localparam logic [7:0]  VERSION = 8'd2;

  // Takes a datagram of a source: its header into a register, its payload into a buffer.
  typedef enum logic [1:0] {CHOOSE, HEADER, PAYLOAD, SEAL} state_t;
  state_t state;
  logic [NW-1:0]  turn, choice;
  logic           any, open, take, last, room, put;
  logic [511:0]   word;
  logic [447:40]  header;  // without what the module fills in
  logic [15:0]    dest, to;
  logic [31:0]    left, crc, crc_next;
  // Round robin: choose the next source, after the one that was served last, that offers a datagram.
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
  assign open = (state == HEADER) || (state == PAYLOAD && room);
  always_comb begin
    word    = '0;
    to      = '0;
    last    = 1'b0;
    take    = 1'b0;
    s_ready = '0;
    for (integer k = 0; k < N; k = k + 1)
      if (turn == NW'(k)) begin
        word       = s_data[k*512+:512];
        to         = s_dest[k*16+:16];
        last       = s_last[k];
        take       = s_valid[k] && open;
        s_ready[k] = open;
      end
  end
  assign put = take && (state == PAYLOAD);
  mr_crc32c #(.BYTES(64)) payload_crc (.crc, .data(word), .count((left >= 32'd64) ? 7'd64 : left[6:0]), .next(crc_next));

  // The sealed datagram: a header and a payload that are ready to be sent, except that the header's CRC is
  // missing until `summed` is high.
  logic         sealed, summed, seals, sealed_take;
  logic [511:0] sealed_header;
  logic [31:0]  header_crc;
  mr_crc32c #(.BYTES(64)) whole_crc (.crc('1), .data({32'd0, sealed_header[479:0]}), .count(7'd60), .next(header_crc));
  assign seals = (state == SEAL) && !sealed;
  always_ff @(posedge clk)
    if (rst) begin
      state  <= CHOOSE;
      turn   <= '0;
      sealed <= 1'b0;
      summed <= 1'b0;
    end else begin
      case (state)
        CHOOSE: if (any) begin
          turn  <= choice;
          state <= HEADER;
        end
        HEADER:  if (take) state <= last ? SEAL : PAYLOAD;
        PAYLOAD: if (take && last) state <= SEAL;
        default: if (seals) state <= CHOOSE;
      endcase
      sealed <= seals || (sealed && !sealed_take);
      summed <= sealed && !sealed_take;
    end
  always_ff @(posedge clk) begin
    if (state == HEADER) begin
      header <= word[447:40];
      dest   <= to;
      left   <= word[319:288];
      crc    <= '1;
    end else if (put) begin
      left <= (left >= 32'd64) ? left - 32'd64 : '0;
      crc  <= crc_next;
    end
    if (seals) begin
      sealed_header[479:0] <= {~crc, header, VERSION, MAGIC};
      m_dest               <= dest;
    end
    if (!summed) sealed_header[511:480] <= ~header_crc;
  end

  logic         held_valid, held_take;
  logic [511:0] held;
  mr_fifo #(.WIDTH(512), .DEPTH(2 * BEATS), .MEMORY(2)) buffer (
    .clk, .rst, .s_valid(put), .s_ready(room), .s_data(word), .m_valid(held_valid), .m_ready(held_take), .m_data(held));

  // Sends the sealed datagram: its header, then its payload from the buffer.
  logic        in_payload;
  logic [31:0] rest;  // payload bytes to be sent
  assign m_valid     = in_payload ? held_valid : summed;
  assign m_data      = in_payload ? held : sealed_header;
  assign m_last      = in_payload ? (rest <= 32'd64) : (sealed_header[319:288] == '0);
  assign held_take   = in_payload && m_ready;
  assign sealed_take = m_valid && m_ready && m_last;
  always_comb
    for (integer i = 0; i < 64; i = i + 1) m_keep[i] = !in_payload || (32'(i) < rest);
  always_ff @(posedge clk)
    if (rst) in_payload <= 1'b0;
    else if (m_valid && m_ready) in_payload <= !m_last;
  always_ff @(posedge clk)
    if (!in_payload) rest <= sealed_header[319:288];
    else if (m_valid && m_ready) rest <= rest - 32'd64;

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(593)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data({m_dest, m_last, m_keep, m_data}));
  always_ff @(posedge clk)
    if (!rst && take) begin
      assert (state == HEADER ? word[319:288] <= 32'(MOST) : left != '0) else $error("%m: a payload longer than its header says");
      assert (last == (state == HEADER ? word[319:288] == '0 : left <= 32'd64))
        else $error("%m: a payload ends at another beat than its header says");
    end
`endif
endmodule
`default_nettype wire
