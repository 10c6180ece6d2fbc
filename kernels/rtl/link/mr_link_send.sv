/// The sending port of a channel: packs the elements of frames, cuts the frames into packets, and sends as many packets as the receiver has
/// room for.
///
/// A frame arrives in BEATS beats of LANES elements, with ABITS each. Elements are packed without gaps, the first in the lowest bits; each
/// frame begins with a new word. The port t_ brings each frame's tag {time, sequence, epoch}, which is accepted with the frame's last beat.
/// A packet begins only when it is complete, so it never holds up the cable; its size is rounded up to whole words. The port's row of the
/// link table provides enable, tag, packet_bytes and credits.
///
/// A port in service sends a greeting every REFRESH cycles until the receiver welcomes it. Then it sends packets while fewer than `credits`
/// packets are unacknowledged. `flush` drops frames and the unsent rest of a frame, but completes a packet that has begun; then `quiet`
/// rises. `spoilt` says that memory has failed: no further packet begins until the flush.
///
/// Outputs for monitoring: `peer` says that the port was welcomed. `fault` says that the receiver acknowledged a packet that was not sent.
/// `stall` says that a packet began to wait for credit. All outputs are registers except the selection of m_data's word.
`default_nettype none
module mr_link_send #(
  parameter integer BYTES   = 8,
  parameter integer LANES   = 1,
  parameter integer ABITS   = 8,
  parameter integer BEATS   = 64,
  parameter integer PACKET  = 1024,
  parameter integer REFRESH = 4096
) (
  input  logic clk,
  input  logic rst,
  input  logic flush,
  input  logic spoilt,
  output logic quiet,

  input  logic        enable,
  input  logic [3:0]  tag,
  input  logic [15:0] packet_bytes,
  input  logic [15:0] credits,
  output logic        peer,
  output logic        fault,
  output logic        packet,  // one cycle: a packet was sent; `bytes` is its size
  output logic [15:0] bytes,
  output logic        stall,

  input  logic                   s_valid,
  output logic                   s_ready,
  input  logic [LANES*ABITS-1:0] s_data,
  input  logic                   t_valid,
  output logic                   t_ready,
  input  logic [159:0]           t_data,

  input  logic         finish,
  input  logic         good,
  input  logic [255:0] header,

  output logic               m_valid,
  input  logic               m_ready,
  output logic [BYTES*8-1:0] m_data,
  output logic               m_last
);
  localparam integer W = BYTES * 8;
  localparam integer BEAT = LANES * ABITS;
  localparam integer LOW = BEAT & -BEAT;
  localparam integer UNIT = (LOW < W) ? LOW : W;  // bits both sides of the adapter share
  localparam integer FRAME_BYTES = (BEATS * BEAT + 7) / 8;
  localparam integer WORDS = (BEATS * BEAT + W - 1) / W;
  localparam integer DEPTH = 2 * PACKET / BYTES;
  localparam integer HEADER = 32 / BYTES;
  localparam integer SHIFT = $clog2(BYTES);
  localparam integer BW = $clog2(BEATS + 1);
  localparam integer FW = $clog2(WORDS + 1);
  localparam integer HW = $clog2(DEPTH + 3);
  localparam integer RW = $clog2(REFRESH + 1);
  localparam logic [7:0] DATA = 8'd1, TAKEN = 8'd2, GREETING = 8'd3, WELCOME = 8'd4;

  // Converts elements to words. Zeros fill the last word of a frame.
  logic [BW-1:0] beats_left;
  logic [FW-1:0] words_left;
  logic          packing, first, adapter_ready, word_valid, word_ready, push, tag_ready, feed;
  logic [W-1:0]  word;
  assign feed    = packing && (beats_left != '0);
  assign s_ready = feed && adapter_ready && (!first || (t_valid && tag_ready));
  assign t_ready = s_valid && s_ready && (beats_left == BW'(1));
  mr_width_adapter #(.LANE(UNIT), .S_LANES(BEAT / UNIT), .M_LANES(W / UNIT)) adapter (
    .clk, .rst(rst || !packing),
    .s_valid(feed ? s_valid && (!first || (t_valid && tag_ready)) : packing), .s_ready(adapter_ready),
    .s_data(feed ? s_data : '0), .m_valid(word_valid), .m_ready(word_ready), .m_data(word));
  assign push = packing && word_valid && word_ready;
  always_ff @(posedge clk)
    if (rst || flush) begin
      packing    <= 1'b0;
      first      <= 1'b1;
      beats_left <= BW'(BEATS);
      words_left <= FW'(WORDS);
    end else begin
      packing <= !(push && words_left == FW'(1));  // between frames the adapter forgets
      if (s_valid && s_ready) begin
        beats_left <= beats_left - 1'b1;
        first      <= 1'b0;
      end
      if (push) words_left <= words_left - 1'b1;
      if (!packing) begin
        beats_left <= BW'(BEATS);
        words_left <= FW'(WORDS);
        first      <= 1'b1;
      end
    end

  // Holds frame tags and words until their packet is complete.
  logic         frame_valid, frame_done, held_valid, held_take, empty;
  logic [95:0]  frame;  // {sequence, epoch}
  logic [W-1:0] held;
  mr_fifo #(.WIDTH(96), .DEPTH(4), .MEMORY(1)) frames (
    .clk, .rst(empty), .s_valid(s_valid && s_ready && first), .s_ready(tag_ready), .s_data(t_data[95:0]),
    .m_valid(frame_valid), .m_ready(frame_done), .m_data(frame));
  mr_fifo #(.WIDTH(W), .DEPTH(DEPTH)) payload (
    .clk, .rst(empty), .s_valid(packing && word_valid), .s_ready(word_ready), .s_data(word),
    .m_valid(held_valid), .m_ready(held_take), .m_data(held));

  // Packets
  typedef enum logic [1:0] {IDLE, BEGIN, HEAD, PAYLOAD} state_t;
  state_t state;
  logic [HW-1:0]  waiting;       // words that no packet has taken
  logic [31:0]    offset, rest;  // bytes of the frame sent, not sent
  logic [15:0]    most;          // of a packet: whole words
  logic [15:0]    length;        // of the next packet, of the present one
  logic [16:0]    length_words, left;
  logic [31:0]    sent, taken;
  logic [7:0]     generation;
  logic [RW-1:0]  refresh;
  logic [255:0]   head;
  logic [3:0]     head_left;
  logic           greeting, greet, enable_before, starved, complete, credit, last_packet, word_sent;
  assign rest         = 32'(FRAME_BYTES) - offset;
  assign most         = (packet_bytes + 16'(BYTES - 1)) & ~16'(BYTES - 1);
  assign last_packet  = (rest <= 32'(most));
  assign length_words = (17'(length) + 17'(BYTES - 1)) >> SHIFT;
  assign complete     = frame_valid && (32'(waiting) >= 32'(length_words));
  assign credit       = (sent - taken < 32'(credits));
  assign m_valid      = (state == HEAD) || (state == PAYLOAD && held_valid);
  assign m_data       = (state == HEAD) ? head[W-1:0] : held;
  assign m_last       = (state == HEAD) ? greeting && head_left == 4'd1 : (left == 17'd1);
  assign held_take    = (state == PAYLOAD) && m_ready;
  assign word_sent    = m_valid && m_ready;
  assign frame_done   = (state == PAYLOAD) && word_sent && m_last && (offset == '0);
  assign greet        = (refresh == RW'(1));
  assign quiet        = (state == IDLE || state == BEGIN);
  assign empty        = rst || (flush && quiet);

  always_ff @(posedge clk) begin
    packet <= 1'b0;
    stall  <= 1'b0;
    if (rst) begin
      state   <= IDLE;
      offset  <= '0;
      waiting <= '0;
      starved <= 1'b0;
      sent    <= '0;
      refresh <= '0;
    end else begin
      waiting <= flush ? '0 : waiting + HW'(push) - ((state == BEGIN && !flush && !greeting) ? HW'(length_words) : '0);
      case (state)
        IDLE: begin
          greeting <= !peer;
          if (enable && !flush && (peer ? complete && credit && !spoilt : greet)) state <= BEGIN;
        end
        BEGIN: begin
          state     <= flush ? IDLE : HEAD;
          head_left <= 4'(HEADER);
          left      <= length_words;
          head      <= greeting ? {32'd0, 32'd0, 32'd0, 32'd0, 16'd0, credits, 16'd0, packet_bytes,
                                   32'd0, generation, 8'd0, 4'd0, tag, GREETING}
                                : {32'd0, sent, offset, frame[31:0], frame[95:32],
                                   16'd0, length, generation, 7'd0, last_packet, 4'd0, tag, DATA};
          if (!greeting && !flush) begin
            bytes   <= length;
            offset  <= last_packet ? '0 : offset + 32'(most);
            sent    <= sent + 32'd1;
          end
        end
        HEAD: if (word_sent) begin
          head      <= head >> W;
          head_left <= head_left - 1'b1;
          if (head_left == 4'd1) state <= greeting ? IDLE : PAYLOAD;
        end
        default: if (word_sent) begin
          left   <= left - 1'b1;
          packet <= m_last;
          if (m_last) state <= IDLE;
        end
      endcase
        // A flush drops the current frame after the packet that is being sent.
      if (flush && quiet) offset <= '0;
      if (enable && !enable_before) sent <= '0;
      refresh <= (refresh == RW'(REFRESH) || (enable && !enable_before)) ? '0 : refresh + 1'b1;
      starved <= peer && complete && !credit;
      stall   <= state == IDLE && peer && complete && !credit && !starved;
    end
  end
  always_ff @(posedge clk) length <= last_packet ? 16'(rest) : most;

  // What the receiver says
  logic mine;
  assign mine = finish && good && enable && (header[15:8] == {4'd0, tag}) && (header[31:24] == generation);
  always_ff @(posedge clk) begin
    fault         <= 1'b0;
    enable_before <= enable && !rst;
    if (rst || !enable) begin
      peer  <= 1'b0;
      taken <= '0;
    end else if (mine && header[7:0] == WELCOME) begin
      peer <= 1'b1;
    end else if (mine && header[7:0] == TAKEN && peer) begin
      if (header[223:192] - taken <= sent - taken) taken <= header[223:192];
      else fault <= 1'b1;
    end
    if (rst) generation <= '0;
    else if (enable && !enable_before) generation <= generation + 1'b1;
  end

  logic unused;
  assign unused = &{1'b0, header, t_data};

`ifndef SYNTHESIS
  initial assert (PACKET % BYTES == 0 && 32 % BYTES == 0 && BYTES >= 8) else $fatal(1, "%m: words that packets do not consist of");
`endif
endmodule
`default_nettype wire
