/// The receiving port of a channel: takes the channel's packets from a connector, keeps those of the card's current
/// epoch (the host starts a new epoch to discard all frames on the way), and outputs the elements of the frames.
///
/// start, header, word, data, finish and good come from the port's connector (mr_link_in). Elements, frames and the row of the link table
/// are as in mr_link_send. From the cycle after a frame's first beat, the frame's tag {time of this beat, sequence, epoch} is offered on
/// t_; the next frame begins when the tag has been accepted. The buffer holds BUFFER words and MOST packets, and must have room for
/// `credits` packets.
///
/// The receiver welcomes a sender whose greeting states the receiver's own packet size and credits. It acknowledges each packet that it
/// takes out of the buffer or drops because of the packet's epoch. It repeats the last acknowledgement every REFRESH cycles, so a lost
/// acknowledgement costs only time.
///
/// Outputs for monitoring: `peer` says that a sender was welcomed. `fault` reports a greeting with another packet size
/// or other credits, a missing packet, a packet without room in the buffer, or a packet that does not continue the
/// frame. `packet` reports an arrived packet and its number of bytes. The input `flush` drops everything in the buffer.
/// All outputs are registers except m_data and m_valid, which come from the adapter.
`default_nettype none
module mr_link_receive #(
  parameter integer BYTES   = 8,
  parameter integer LANES   = 1,
  parameter integer ABITS   = 8,
  parameter integer BEATS   = 64,
  parameter integer BUFFER  = 512,
  parameter integer MOST    = 16,
  parameter integer REFRESH = 4096
) (
  input  logic clk,
  input  logic rst,
  input  logic flush,

  input  logic [31:0] card_epoch,
  input  logic [63:0] now,

  input  logic        enable,
  input  logic [3:0]  tag,
  input  logic [15:0] packet_bytes,
  input  logic [15:0] credits,
  output logic        peer,
  output logic        fault,
  output logic        packet,
  output logic [15:0] bytes,

  input  logic               start,
  input  logic [255:0]       header,
  input  logic               word,
  input  logic [BYTES*8-1:0] data,
  input  logic               finish,
  input  logic               good,

  output logic                   m_valid,
  input  logic                   m_ready,
  output logic [LANES*ABITS-1:0] m_data,
  output logic                   t_valid,
  input  logic                   t_ready,
  output logic [159:0]           t_data,

  output logic               c_valid,
  input  logic               c_ready,
  output logic [BYTES*8-1:0] c_data,
  output logic               c_last
);
  localparam integer W = BYTES * 8;
  localparam integer BEAT = LANES * ABITS;
  localparam integer LOW = BEAT & -BEAT;
  localparam integer UNIT = (LOW < W) ? LOW : W;
  localparam integer FRAME_BYTES = (BEATS * BEAT + 7) / 8;
  localparam integer SHIFT = $clog2(BYTES);
  localparam integer HEADER = 32 / BYTES;
  localparam integer BW = $clog2(BEATS + 1);
  localparam integer RW = $clog2(REFRESH + 1);
  localparam logic [7:0] DATA = 8'd1, TAKEN = 8'd2, GREETING = 8'd3, WELCOME = 8'd4;

  // Packets in
  logic        mine, accepting, keep, overflow, complete, room, list_room, taking_word;
  logic [31:0] expected, taken;
  logic [7:0]  generation;
  logic        is_data, is_greeting, fits, restart, commit, broken, late;
  assign mine        = enable && (header[15:8] == {4'd0, tag});
  assign is_data     = mine && (header[7:0] == DATA) && peer && (header[31:24] == generation);
  assign is_greeting = mine && (header[7:0] == GREETING);
  assign fits        = (header[95:64] == 32'(packet_bytes)) && (header[127:96] == 32'(credits));
  assign taking_word = accepting && keep && word;
  assign complete    = accepting && finish && good;
  assign restart     = is_greeting && finish && good && fits;
  assign commit      = complete && keep && !flush && !overflow && list_room && (header[47:32] != '0) && (header[223:192] == expected);
  // High for an undamaged packet that is dropped because its epoch is not the card's epoch.
  assign late        = complete && (header[223:192] == expected) && (!keep || flush);
  assign broken      = complete && !commit && !late;
  logic unused;
  assign unused = &{1'b0, header};

  // Packets and frames out
  logic         entry_valid, entry_take, held_valid, held_take, frame_end, word_in, beat_valid, fire, first;
  logic [144:0] entry;  // {last, offset, length, sequence, epoch}
  logic [W-1:0] held;
  logic [31:0]  offset, entry_offset;
  logic [15:0]  entry_length;
  logic [16:0]  entry_words, words_taken;
  logic [BW-1:0] beats_left;
  logic         streaming, all_words, wrong, wrong_before, torn, adapter_ready, packet_out, entry_last, tag_known;
  logic [95:0]   frame;
  mr_packet_buffer #(.WIDTH(W), .DEPTH(BUFFER)) buffer (
    .clk, .rst, .clear(flush || restart), .room, .write(taking_word), .data, .commit, .abort(accepting && finish && !commit),
    .m_valid(held_valid), .m_ready(held_take), .m_data(held));
  mr_fifo #(.WIDTH(145), .DEPTH(MOST), .MEMORY(1)) list (
    .clk, .rst(rst || flush || restart), .s_valid(commit), .s_ready(list_room),
    .s_data({header[16], header[191:160], header[47:32], header[127:64], header[159:128]}),
    .m_valid(entry_valid), .m_ready(entry_take), .m_data(entry));
  assign {entry_last, entry_offset, entry_length} = entry[144:96];
  assign entry_words = (17'(entry_length) + 17'(BYTES - 1)) >> SHIFT;
  assign wrong       = torn || entry_valid && (words_taken == '0) &&
                       (entry_offset != offset || entry_last != (offset + 32'(entry_length) >= 32'(FRAME_BYTES)));
  assign streaming   = entry_valid && !wrong && !all_words;
  assign word_in     = held_valid && held_take;
  assign held_take   = streaming && adapter_ready;
  assign packet_out  = word_in && (words_taken + 17'd1 == entry_words);
  assign entry_take  = packet_out;

  mr_width_adapter #(.LANE(UNIT), .S_LANES(W / UNIT), .M_LANES(BEAT / UNIT)) adapter (
    .clk, .rst(rst || flush || frame_end), .s_valid(streaming && held_valid), .s_ready(adapter_ready), .s_data(held),
    .m_valid(beat_valid), .m_ready(fire), .m_data(m_data));
  assign m_valid = beat_valid && !flush && (beats_left != '0) && !(first && t_valid);
  assign fire    = m_valid && m_ready;
  always_ff @(posedge clk) begin
    t_valid <= !rst && !flush && ((fire && first) || (t_valid && !t_ready));
    if (fire && first) t_data <= {now, tag_known ? frame : entry[95:0]};
  end
  assign frame_end = (beats_left == '0) && all_words;

  always_ff @(posedge clk)
    if (rst || flush) begin
      words_taken <= '0;
      offset      <= '0;
      all_words   <= 1'b0;
      first       <= 1'b1;
      tag_known   <= 1'b0;
      torn        <= 1'b0;
      beats_left  <= BW'(BEATS);
    end else begin
      // The sender restarted in the middle of a frame, so the rest of that frame will not come.
      if (restart && (tag_known || offset != '0)) torn <= 1'b1;
      if (word_in) words_taken <= packet_out ? '0 : words_taken + 1'b1;
      if (packet_out) offset <= entry_last ? '0 : offset + 32'(entry_length);
      if (word_in) tag_known <= 1'b1;
      if (fire) begin
        first      <= 1'b0;
        beats_left <= beats_left - 1'b1;
      end
      if (packet_out && entry_last) all_words <= 1'b1;
      if (frame_end) begin
        all_words  <= 1'b0;
        first      <= 1'b1;
        tag_known  <= 1'b0;
        beats_left <= BW'(BEATS);
      end
    end
  always_ff @(posedge clk) if (word_in && !tag_known) frame <= entry[95:0];

  // What came, what is taken
  always_ff @(posedge clk) begin
    packet <= complete && (commit || late);
    bytes  <= header[47:32];
    fault  <= broken || (wrong && !wrong_before) || (is_greeting && finish && good && !fits);
    if (rst) begin
      peer         <= 1'b0;
      accepting    <= 1'b0;
      expected     <= '0;
      taken        <= '0;
      generation   <= '0;
      wrong_before <= 1'b0;
    end else begin
      wrong_before <= wrong && !flush;
      if (start) begin
        accepting <= is_data;
        keep      <= (header[159:128] == card_epoch) && !flush;
        overflow  <= 1'b0;
      end else if (finish) begin
        accepting <= 1'b0;
      end else begin
        if (flush) keep <= 1'b0;
        if (taking_word && !room) overflow <= 1'b1;
      end
      if (restart) begin
        peer       <= 1'b1;
        generation <= header[31:24];
        expected   <= '0;
        taken      <= '0;
      end else begin
        if (commit || late) expected <= expected + 32'd1;
        // A flush empties the buffer, so all packets that arrived count as taken.
        taken <= flush ? expected + 32'(late) : taken + 32'(packet_out) + 32'(late);
      end
    end
  end
  // Sends welcomes and acknowledgements to the sender.
  localparam logic [3:0] HEAD_WORDS = 4'(HEADER);
  logic [255:0]  note;
  logic [3:0]    note_left;
  logic [31:0]   told;
  logic [RW-1:0] refresh;
  logic          welcome, again;
  assign c_valid = (note_left != '0);
  assign c_data  = note[W-1:0];
  assign c_last  = (note_left == 4'd1);
  always_ff @(posedge clk)
    if (rst) begin
      note_left <= '0;
      welcome   <= 1'b0;
      again     <= 1'b0;
      refresh   <= '0;
      told      <= '0;
    end else begin
      refresh <= (refresh == RW'(REFRESH)) ? '0 : refresh + 1'b1;
      if (refresh == RW'(REFRESH)) again <= 1'b1;
      if (restart) welcome <= 1'b1;
      if (c_valid) begin
        if (c_ready) begin
          note      <= note >> W;
          note_left <= note_left - 1'b1;
        end
      end else if (enable && welcome) begin
        note      <= {224'd0, generation, 12'd0, tag, WELCOME};
        note_left <= HEAD_WORDS;
        welcome   <= restart;
      end else if (enable && peer && (taken != told || again)) begin
        note      <= {32'd0, taken, 160'd0, generation, 12'd0, tag, TAKEN};
        note_left <= HEAD_WORDS;
        told      <= taken;
        again     <= 1'b0;
      end
    end

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(BEAT)) check (.clk, .rst(rst || flush), .valid(m_valid), .ready(m_ready), .data(m_data));
  mr_handshake_check #(.WIDTH(160)) check_tag (.clk, .rst(rst || flush), .valid(t_valid), .ready(t_ready), .data(t_data));
  initial assert (32 % BYTES == 0 && BYTES >= 8) else $fatal(1, "%m: words that packets do not consist of");
`endif
endmodule
`default_nettype wire
