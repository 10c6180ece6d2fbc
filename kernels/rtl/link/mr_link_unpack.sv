/// Outputs the elements and tags of frames from the packets of a channel, for its receiving port.
///
/// The port p_ describes the next packet in order while the packet's words are taken: whether the packet is the last of its frame, its
/// offset in the frame, its length in bytes, and the frame's {sequence, epoch}. p_ready is high with the packet's last word. The port w_
/// offers the packet's words of BYTES bytes. Elements are packed as in mr_link_pack.
///
/// From the cycle after a frame's first beat, the frame's tag {time of this beat, sequence, epoch} is offered on t_; the next frame begins
/// when the tag has been accepted. If a packet does not continue its frame, or if `restart` (one cycle: no packet of the present frame will
/// come any more) comes in the middle of a frame, `wrong` rises and nothing more is taken until `clear`. `clear` drops everything. t_valid
/// and t_data are registers; m_data and m_valid come from the adapter.
`default_nettype none
module mr_link_unpack #(
  parameter integer BYTES = 64,
  parameter integer LANES = 1,
  parameter integer ABITS = 8,
  parameter integer BEATS = 64
) (
  input  logic        clk,
  input  logic        rst,
  input  logic        clear,
  input  logic        restart,
  output logic        wrong,
  input  logic [63:0] now,

  input  logic               p_valid,
  output logic               p_ready,
  input  logic               p_last,
  input  logic [31:0]        p_offset,
  input  logic [15:0]        p_length,
  input  logic [95:0]        p_tag,
  input  logic               w_valid,
  output logic               w_ready,
  input  logic [BYTES*8-1:0] w_data,

  output logic                   m_valid,
  input  logic                   m_ready,
  output logic [LANES*ABITS-1:0] m_data,
  output logic                   t_valid,
  input  logic                   t_ready,
  output logic [159:0]           t_data
);
  localparam integer W = BYTES * 8;
  localparam integer BEAT = LANES * ABITS;
  localparam integer LOW = BEAT & -BEAT;
  localparam integer UNIT = (LOW < W) ? LOW : W;
  localparam integer FRAME_BYTES = (BEATS * BEAT + 7) / 8;
  localparam integer SHIFT = $clog2(BYTES);
  localparam integer BW = $clog2(BEATS + 1);

  logic [31:0]   offset;
  logic [16:0]   words, words_taken;
  logic [BW-1:0] beats_left;
  logic          all_words, torn, streaming, word_in, frame_end, adapter_ready, beat_valid, fire, first, tag_known;
  logic [95:0]   tag;
  assign words     = (17'(p_length) + 17'(BYTES - 1)) >> SHIFT;
  assign wrong     = torn || (p_valid && words_taken == '0 && !all_words &&
                     (p_offset != offset || p_last != (offset + 32'(p_length) >= 32'(FRAME_BYTES))));
  assign streaming = p_valid && !wrong && !all_words;
  assign w_ready   = streaming && adapter_ready;
  assign word_in   = w_valid && w_ready;
  assign p_ready   = word_in && (words_taken + 17'd1 == words);

  mr_width_adapter #(.LANE(UNIT), .S_LANES(W / UNIT), .M_LANES(BEAT / UNIT)) adapter (
    .clk, .rst(rst || clear || frame_end), .s_valid(streaming && w_valid), .s_ready(adapter_ready), .s_data(w_data),
    .m_valid(beat_valid), .m_ready(fire), .m_data(m_data));
  assign m_valid   = beat_valid && !clear && (beats_left != '0) && !(first && t_valid);
  assign fire      = m_valid && m_ready;
  assign frame_end = (beats_left == '0) && all_words;

  always_ff @(posedge clk)
    if (rst || clear) begin
      words_taken <= '0;
      offset      <= '0;
      all_words   <= 1'b0;
      first       <= 1'b1;
      tag_known   <= 1'b0;
      torn        <= 1'b0;
      beats_left  <= BW'(BEATS);
    end else begin
      if (word_in) begin
        words_taken <= p_ready ? '0 : words_taken + 1'b1;
        tag_known   <= 1'b1;
      end
      if (p_ready) offset <= p_last ? '0 : offset + 32'(p_length);
      if (fire) begin
        first      <= 1'b0;
        beats_left <= beats_left - 1'b1;
      end
      if (p_ready && p_last) all_words <= 1'b1;
      if (frame_end) begin
        all_words  <= 1'b0;
        first      <= 1'b1;
        tag_known  <= 1'b0;
        beats_left <= BW'(BEATS);
      end
      if (restart) begin
        words_taken <= '0;
        // If the last word of the frame has already been taken, the frame is complete in spite of the
        // restart.
        if (!(all_words || (p_ready && p_last)) && (tag_known || word_in || offset != '0)) torn <= 1'b1;
      end
    end
  always_ff @(posedge clk) begin
    if (word_in && !tag_known) tag <= p_tag;
    t_valid <= !rst && !clear && ((fire && first) || (t_valid && !t_ready));
    if (fire && first) t_data <= {now, tag_known ? tag : p_tag};
  end

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(BEAT)) check (.clk, .rst(rst || clear), .valid(m_valid), .ready(m_ready), .data(m_data));
  mr_handshake_check #(.WIDTH(160)) check_tag (.clk, .rst(rst || clear), .valid(t_valid), .ready(t_ready), .data(t_data));
`endif
endmodule
`default_nettype wire
