/// Checks link datagrams (runtime/link/README.md) as they come from a UDP network layer: 512-bit AXI-Stream, one datagram per packet.
///
/// The beats pass through, one cycle later. With a datagram's last beat, m_good says whether the datagram passes every check: magic, version,
/// both CRCs, type, fields and length. The reader must discard the datagram otherwise, so it buffers a datagram until its last beat. The first
/// beat of a datagram is the header; the payload fills the further beats, without gaps. A payload longer than MOST bytes is refused.
///
/// All outputs are registers. s_ready depends combinationally on m_ready. A beat in each cycle is possible.
`default_nettype none
module mr_udp_in #(
  parameter integer MOST = 8896
) (
  input  logic         clk,
  input  logic         rst,

  input  logic         s_valid,
  output logic         s_ready,
  input  logic [511:0] s_data,
  input  logic [63:0]  s_keep,
  input  logic         s_last,

  output logic         m_valid,
  input  logic         m_ready,
  output logic [511:0] m_data,
  output logic         m_last,
  output logic         m_good
);
  localparam logic [31:0] MAGIC        = 32'h4b4c524d;  // "MRLK"
  localparam logic [7:0]  VERSION      = 8'd2;
  localparam logic [31:0] MOST_PACKET  = 32'd65443;
  localparam logic [31:0] MOST_CREDITS = 32'd65536;

  logic        in_payload;  // the header has passed
  logic        sound;       // all checks so far hold
  logic [31:0] left;        // payload bytes that still have to come
  logic [31:0] crc, wanted; // of the payload: so far, and as the header says

  // The header's fields, as they are in the first beat.
  logic [7:0]  h_type, h_flags;
  logic [31:0] h_number, h_offset, h_length, h_next, h_limit;
  logic [63:0] h_sequence, h_arrived;
  assign h_type     = s_data[47:40];
  assign h_flags    = s_data[55:48];
  assign h_number   = s_data[191:160];
  assign h_sequence = s_data[255:192];
  assign h_offset   = s_data[287:256];
  assign h_length   = s_data[319:288];
  assign h_next     = s_data[351:320];
  assign h_limit    = s_data[383:352];
  assign h_arrived  = s_data[447:384];

  // In datagrams without data, the receiver's incarnation takes the place of a frame's sequence.
  logic bare, names_receiver, no_state, fields;
  assign bare     = h_flags == 8'd0 && h_length == 32'd0 && h_sequence[63:32] == 32'd0;
  assign names_receiver = h_sequence[31:0] != 32'd0;
  assign no_state = h_next == 32'd0 && h_arrived == 64'd0;
  always_comb
    case (h_type)
      8'd1: fields = h_flags <= 8'd1 && h_length >= 32'd1 && h_length <= 32'(MOST) && no_state && h_limit == 32'd0;
      8'd2: fields = bare && names_receiver && h_number == 32'd0 && h_offset == 32'd0;
      8'd3: fields = bare && no_state && h_offset >= 32'd1 && h_offset <= MOST_PACKET && h_limit >= 32'd1 && h_limit <= MOST_CREDITS;
      8'd4: fields = bare && !names_receiver && no_state && h_number == 32'd0 && h_offset == 32'd0 && h_limit == 32'd0;
      8'd5, 8'd6: fields = bare && names_receiver && no_state && h_number == 32'd0 && h_offset == 32'd0 && h_limit == 32'd0;
      default: fields = 1'b0;
    endcase

  // The number of bytes of this beat that a CRC covers.
  logic [6:0] counted;
  always_comb
    if (!in_payload) counted = 7'd60;
    else if (left >= 32'd64) counted = 7'd64;
    else counted = left[6:0];

  logic [31:0] crc_next;
  mr_crc32c #(.BYTES(64)) extended (.crc(in_payload ? crc : '1), .data(s_data), .count(counted), .next(crc_next));

  // The bytes that this beat must contain: 64 bytes in the header's beat, and the remaining bytes of the payload (at most 64) in later
  // beats.
  logic [63:0] keep_wanted;
  always_comb
    for (integer i = 0; i < 64; i = i + 1) keep_wanted[i] = !in_payload || 32'(i) < left;

  logic header_holds, payload_holds, ends_here, beat_holds;
  assign header_holds  = s_data[31:0] == MAGIC && s_data[39:32] == VERSION && s_data[511:480] == ~crc_next && fields;
  assign ends_here     = in_payload ? left <= 32'd64 : h_length == 32'd0;
  assign payload_holds = in_payload ? ~crc_next == wanted : s_data[479:448] == 32'd0;
  assign beat_holds    = s_keep == keep_wanted && s_last == ends_here && (!ends_here || payload_holds) && (in_payload || header_holds);

  logic takes;
  assign s_ready = !m_valid || m_ready;
  assign takes   = s_valid && s_ready;

  always_ff @(posedge clk) begin
    if (s_ready) begin
      m_data <= s_data;
      m_last <= s_last;
      m_good <= beat_holds && (!in_payload || sound);
    end
    if (takes) begin
      crc    <= in_payload ? crc_next : '1;
      left   <= !in_payload ? h_length : left >= 32'd64 ? left - 32'd64 : '0;
      wanted <= in_payload ? wanted : s_data[479:448];
      sound  <= beat_holds && (!in_payload || sound);
    end
    if (rst) begin
      m_valid    <= 1'b0;
      in_payload <= 1'b0;
    end else begin
      if (s_ready) m_valid <= s_valid;
      if (takes) in_payload <= !s_last;
    end
  end

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(514)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data({m_last, m_good, m_data}));
`endif
endmodule
`default_nettype wire
