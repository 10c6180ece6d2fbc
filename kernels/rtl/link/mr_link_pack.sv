/// Packs the elements of frames into words of BYTES bytes, for the sending port of a channel.
///
/// A frame arrives in BEATS beats of LANES elements, with ABITS each. Elements are packed without gaps, the first in the lowest bits. Each
/// frame begins with a new word, and zeros fill its last word. The port t_ brings each frame's tag {time, sequence, epoch}, which is accepted
/// with the frame's last beat. m_tag is {sequence, epoch} of the frame whose words leave; the reader takes it with the frame's last word. A
/// frame's tag may be valid later than its first word.
///
/// `clear` drops everything. All m_ outputs are registers.
`default_nettype none
module mr_link_pack #(
  parameter integer BYTES = 64,
  parameter integer LANES = 1,
  parameter integer ABITS = 8,
  parameter integer BEATS = 64
) (
  input  logic clk,
  input  logic rst,
  input  logic clear,

  input  logic                   s_valid,
  output logic                   s_ready,
  input  logic [LANES*ABITS-1:0] s_data,
  input  logic                   t_valid,
  output logic                   t_ready,
  input  logic [95:0]            t_data,

  output logic               m_valid,
  input  logic               m_ready,
  output logic [BYTES*8-1:0] m_data,
  output logic               m_tag_valid,
  input  logic               m_tag_ready,
  output logic [95:0]        m_tag
);
  localparam integer W = BYTES * 8;
  localparam integer BEAT = LANES * ABITS;
  localparam integer LOW = BEAT & -BEAT;
  localparam integer UNIT = (LOW < W) ? LOW : W;  // bits both sides of the adapter share
  localparam integer WORDS = (BEATS * BEAT + W - 1) / W;
  localparam integer BW = $clog2(BEATS + 1);
  localparam integer FW = $clog2(WORDS + 1);

  logic [BW-1:0] beats_left;
  logic [FW-1:0] words_left;
  logic          packing, first, adapter_ready, word_valid, push, tag_room, feed, goes, word_room;
  logic [W-1:0]  word;
  assign feed    = packing && (beats_left != '0);
  assign goes    = !first || (t_valid && tag_room);
  assign s_ready = feed && adapter_ready && goes;
  assign t_ready = s_valid && s_ready && (beats_left == BW'(1));
  assign push    = packing && word_valid && word_room;
  mr_width_adapter #(.LANE(UNIT), .S_LANES(BEAT / UNIT), .M_LANES(W / UNIT)) adapter (
    .clk, .rst(rst || clear || !packing), .s_valid(feed ? s_valid && goes : packing), .s_ready(adapter_ready),
    .s_data(feed ? s_data : '0), .m_valid(word_valid), .m_ready(word_room), .m_data(word));
  // Without this register, a reader that waits for the frame's tag would hold up the beat that brings the tag.
  mr_skid #(.WIDTH(W)) skid (
    .clk, .rst(rst || clear), .s_valid(packing && word_valid), .s_ready(word_room), .s_data(word), .m_valid, .m_ready, .m_data);
  always_ff @(posedge clk)
    if (rst || clear) begin
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

  mr_fifo #(.WIDTH(96), .DEPTH(4), .MEMORY(1)) tags (
    .clk, .rst(rst || clear), .s_valid(s_valid && s_ready && first), .s_ready(tag_room), .s_data(t_data),
    .m_valid(m_tag_valid), .m_ready(m_tag_ready), .m_data(m_tag));
endmodule
`default_nettype wire
