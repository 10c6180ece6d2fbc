/// The receiving port of a channel over UDP: places the channel's packets in a window, repairs their order, acknowledges them, and outputs
/// the elements of the frames. runtime/link/README.md specifies the protocol; runtime/link/receiver.cpp is the same state machine in
/// software.
///
/// Elements and tags leave as in mr_link_unpack. The port goes into service when `enable` is high, if packet_bytes is a multiple of 64 or has
/// room for a whole frame, and is at most PACKET, and if credits is 1 to SLOTS. The row of settings must not change while `enable` is high.
/// `incarnation` must grow each time the port goes into service, and must not be 0.
///
/// The window has SLOTS (a power of two, 2 to 64) packets, in a memory of SLOTS * PACKET bytes; a packet's place in the memory is rounded up
/// to a power of two beats. `tick` is high for one cycle in each microsecond. STATE_DELAY is the longest time in microseconds for which the
/// port keeps its state to itself. A sender that was silent for STOPPED microseconds has stopped.
///
/// The sender's datagrams come from mr_udp_in, without waiting: r_first marks a datagram's header, and r_good, with its last beat, says that
/// it passes all checks. A payload is written to its place before this is known, but only to a place without a packet. The port's datagrams
/// leave through mr_udp_out, which makes their CRCs. `flush` drops everything.
///
/// Outputs for monitoring: `peer` says that a sender has greeted. `fault` is high for one cycle if the sender violates the protocol
/// (link/channel.hpp, Violation): 1 greeted with other settings, 2 sent too long a packet, 3 sent without credit. It is also high if a packet
/// does not continue its frame. `packet` reports a new packet and its number of bytes, `gap` one that came before an earlier packet. c_valid
/// and c_data are registers; m_data and m_valid come from the adapter.
`default_nettype none
module mr_udp_receive #(
  parameter integer LANES       = 1,
  parameter integer ABITS       = 8,
  parameter integer BEATS       = 64,
  parameter integer PACKET      = 1024,
  parameter integer SLOTS       = 16,
  parameter integer STATE_DELAY = 1000,
  parameter integer STOPPED     = 830000
) (
  input  logic clk,
  input  logic rst,
  input  logic tick,
  input  logic flush,

  input  logic [31:0] card_epoch,
  input  logic [63:0] now,
  input  logic        enable,
  input  logic [31:0] incarnation,
  input  logic [15:0] source,
  input  logic [15:0] destination,
  input  logic [3:0]  tag,
  input  logic [15:0] socket,
  input  logic [15:0] packet_bytes,
  input  logic [15:0] credits,
  output logic        peer,
  output logic        fault,
  output logic [2:0]  violation,
  output logic        packet,
  output logic [15:0] bytes,
  output logic        gap,

  input  logic         r_valid,
  input  logic         r_first,
  input  logic [511:0] r_data,
  input  logic         r_last,
  input  logic         r_good,
  input  logic [15:0]  r_dest,

  output logic                   m_valid,
  input  logic                   m_ready,
  output logic [LANES*ABITS-1:0] m_data,
  output logic                   t_valid,
  input  logic                   t_ready,
  output logic [159:0]           t_data,

  output logic         c_valid,
  input  logic         c_ready,
  output logic [511:0] c_data,
  output logic         c_last,
  output logic [15:0]  c_dest
);
  localparam integer FRAME_BYTES = (BEATS * LANES * ABITS + 7) / 8;
  localparam integer SW = $clog2(SLOTS);
  localparam integer PW = (PACKET > 64) ? $clog2((PACKET + 63) / 64) : 1;  // bits of a beat's number in its packet
  localparam logic [7:0] DATA = 8'd1, STATE = 8'd2, GREETING = 8'd3, SENDER_CLOSED = 8'd4, RECEIVER_CLOSED = 8'd5, RECEIVER_OPENED = 8'd6;

  // Service
  logic        in_service, wanted, starts, stops, greeted, known, closing, opening;
  logic        newer, silent, greets, informed, fits, renews, refuses, restarts;
  logic [31:0] own, generation, sender_epoch, opening_for;
  logic [15:0] id_source, id_destination;
  logic [3:0]  id_tag;
  assign wanted = enable && (packet_bytes[5:0] == '0 || 32'(packet_bytes) >= FRAME_BYTES) && (packet_bytes != '0) &&
                  (32'(packet_bytes) <= PACKET) && (credits != '0) && (32'(credits) <= SLOTS);
  assign starts = wanted && !in_service && !closing;
  assign stops  = !wanted && in_service;
  assign peer   = greeted;

  // The window. All packets below `next` have arrived, and those below `taken` have left. `held` counts the arrived packets
  // from `next` on.
  logic [31:0]      next, taken, limit;
  logic [SLOTS-1:0] arrived;
  logic [SW:0]      held;
  logic             advance, packet_out;
  assign limit   = taken + 32'(credits);
  assign advance = (held != '0) && arrived[next[SW-1:0]];

  // A datagram's header, in its first beat, and whether its payload can be placed.
  logic        for_me, here, f_old;
  logic [7:0]  f_type;
  logic [31:0] f_number, f_ahead;
  assign f_type   = r_data[47:40];
  assign f_number = r_data[191:160];
  assign f_ahead  = f_number - taken;
  assign f_old    = ($signed(f_number - next) < 0);
  assign here     = arrived[f_number[SW-1:0]];
  assign for_me   = in_service && (r_dest == c_dest) && (r_data[63:56] == {4'd0, id_tag}) && (r_data[79:64] == id_source) &&
                    (r_data[95:80] == id_destination);
  logic        open, h_mine, h_old, h_here, h_beyond, h_long, h_last;  // the datagram whose beats come
  logic [7:0]  h_type;
  logic [15:0] h_length;
  logic [31:0] h_generation, h_epoch, h_number, h_receiver, h_offset, h_credits;
  logic [63:0] h_sequence;
  logic [PW:0] h_beat;
  logic [SW-1:0] h_slot;
  assign h_slot     = h_number[SW-1:0];
  assign h_receiver = h_sequence[31:0];
  always_ff @(posedge clk)
    if (r_valid) begin
      if (r_first) begin
        h_mine       <= for_me;
        h_type       <= f_type;
        h_last       <= r_data[48];
        h_generation <= r_data[127:96];
        h_epoch      <= r_data[159:128];
        h_number     <= f_number;
        h_sequence   <= r_data[255:192];
        h_offset     <= r_data[287:256];
        h_length     <= r_data[303:288];
        h_credits    <= r_data[383:352];
        h_old        <= f_old;
        h_here       <= here;
        h_beyond     <= (f_ahead >= 32'(credits)) && !f_old;
        h_long       <= (r_data[319:288] > 32'(packet_bytes));
        h_beat       <= '0;
      end else h_beat <= h_beat + 1'b1;
    end
  // `open` says that the present datagram's payload may be placed in the window. If the window is emptied
  // (`restarts`) while the payload arrives, the payload is no longer accepted.
  always_ff @(posedge clk)
    if (rst || restarts) open <= 1'b0;
    else if (r_valid && r_first) open <= !here && !f_old && (f_ahead < 32'(credits)) && (r_data[319:288] <= 32'(packet_bytes));

  (* ram_style = "block" *) logic [511:0] mem[0:(SLOTS<<PW)-1];
  (* ram_style = "distributed" *) logic [112:0] info[0:SLOTS-1];  // {last, length, offset, sequence}
  logic keep, ends, data_ends, placed, control;
  assign ends      = r_valid && r_last && r_good && !r_first && h_mine;
  assign data_ends = ends && (h_type == DATA) && greeted && (h_generation == generation);
  assign keep      = data_ends && (h_epoch == card_epoch) && !newer && !flush;
  assign placed    = keep && open;
  always_ff @(posedge clk) begin
    if (r_valid && !r_first && open && h_mine && h_type == DATA) mem[{h_slot, h_beat[PW-1:0]}] <= r_data;
    if (placed) info[h_slot] <= {h_last, h_length, h_offset, h_sequence};
  end

  // Greetings and closings have one beat, so they are judged in the next cycle.
  logic [31:0] us, heard_at, unreported_at;
  always_ff @(posedge clk) begin
    us      <= rst ? '0 : us + 32'(tick);
    silent  <= (us - heard_at >= 32'(STOPPED));
    control <= !rst && r_valid && r_first && r_last && r_good && for_me;
  end
  assign newer    = (($signed(card_epoch - sender_epoch)) < 0);  // the sender has already discarded the packets of this epoch
  assign known    = greeted && (h_generation == generation);
  assign greets   = control && (h_type == GREETING) && in_service && !(greeted && ($signed(h_generation - generation) < 0) && !silent);
  assign informed = greets && (h_receiver == own);  // the sender has seen this receiver's incarnation
  assign fits     = (h_offset == 32'(packet_bytes)) && (h_credits == 32'(credits));
  assign renews   = informed && fits && !known;
  assign refuses  = informed && !fits;

  // States
  localparam logic [31:0] LEAST = 32'd1;
  logic [31:0] reported_next, reported_limit, report_after, first;
  logic        report_now, unreported, must_report, late, tells;
  assign report_after = (credits < 16'd8) ? LEAST : 32'(credits) >> 2;
  assign late         = unreported && (us - unreported_at >= 32'(STATE_DELAY));
  assign must_report  = greeted && (report_now || late || (next == reported_limit && limit != reported_limit) ||
                        (next - reported_next >= report_after) || (limit - reported_limit >= report_after));
  assign tells        = (!c_valid || c_ready) && !closing && !opening && in_service && must_report && !advance && !renews && !flush;
  assign first        = (renews && h_epoch == card_epoch) ? h_number : '0;
  assign restarts     = flush || starts || stops || renews;
  logic wrong, wrong_before;
  always_ff @(posedge clk) begin
    fault        <= !rst && (refuses || (keep && (h_beyond || (h_long && !h_old))) || (wrong && !wrong_before));
    wrong_before <= !rst && wrong && !flush;
    packet       <= !rst && placed;
    gap          <= !rst && placed && (h_number != next);
    bytes        <= h_length;
    if (rst) begin
      in_service <= 1'b0;
      greeted    <= 1'b0;
      closing    <= 1'b0;
      opening    <= 1'b0;
      violation  <= '0;
      next       <= '0;
      taken      <= '0;
      arrived    <= '0;
      held       <= '0;
      report_now <= 1'b0;
      unreported <= 1'b0;
      sender_epoch <= '0;
    end else begin
      if (violation == '0 && refuses) violation <= 3'd1;
      if (violation == '0 && keep && h_beyond) violation <= 3'd3;
      else if (violation == '0 && keep && h_long && !h_old) violation <= 3'd2;

      // Packets
      if (advance) next <= next + 32'd1;
      held <= held + (SW+1)'(placed) - (SW+1)'(advance);
      if (packet_out) begin
        taken <= taken + 32'd1;
        arrived[taken[SW-1:0]] <= 1'b0;
      end
      if (placed) arrived[h_slot] <= 1'b1;
      if (tells) begin
        report_now     <= 1'b0;
        unreported     <= 1'b0;
        reported_next  <= next;
        reported_limit <= limit;
      end
      if (data_ends) begin
        heard_at <= us;
        if (!unreported || tells) unreported_at <= us;
        unreported <= 1'b1;
      end
      if (keep && (h_old || h_here || (placed && (h_number != next || held != '0)))) report_now <= 1'b1;

      // Greetings
      if (control && h_type == SENDER_CLOSED && known) greeted <= 1'b0;
      // If a known sender was silent for long, it has started again with the same generation.
      if (greets && !informed && !(known && !silent)) begin
        opening     <= 1'b1;
        opening_for <= h_generation;
        if (known) greeted <= 1'b0;
      end else if (opening && (!c_valid || c_ready)) opening <= 1'b0;
      if (informed && fits) begin
        heard_at   <= us;
        greeted    <= 1'b1;
        generation <= h_generation;
        opening    <= 1'b0;
        report_now <= 1'b1;
        if (renews || !($signed(h_epoch - sender_epoch) < 0)) sender_epoch <= h_epoch;
      end

      // Service
      if (restarts) begin
        next           <= first;
        taken          <= first;
        reported_next  <= first;
        reported_limit <= first + 32'(credits);
        arrived        <= '0;
        held           <= '0;
        unreported     <= 1'b0;
        report_now     <= renews;
      end
      if (starts) begin
        in_service     <= 1'b1;
        greeted        <= 1'b0;
        opening        <= 1'b0;
        own            <= incarnation;
        violation      <= '0;
        id_source      <= source;
        id_destination <= destination;
        id_tag         <= tag;
        c_dest         <= socket;
      end
      if (stops) begin
        in_service <= 1'b0;
        greeted    <= 1'b0;
        opening    <= 1'b0;
        closing    <= greeted;
      end else if (closing && (!c_valid || c_ready)) closing <= 1'b0;
    end
  end

  // Sends states, and says that the port opens or closes.
  logic [SLOTS-1:0] turned, allowed, beyond_next;
  logic [31:0]      room;
  logic [SW-1:0]    turn;
  assign turn        = next[SW-1:0] + 1'b1;
  assign turned      = (arrived >> turn) | (arrived << ((SW+1)'(SLOTS) - (SW+1)'(turn)));
  assign beyond_next = (held != '0) ? turned & allowed : '0;
  assign room   = limit - next - 32'd1;  // packets after packet next that the sender may send
  always_comb
    for (integer i = 0; i < SLOTS; i = i + 1) allowed[i] = !room[31] && (32'(i) < room);
  assign c_last = 1'b1;
  always_ff @(posedge clk)
    if (rst) c_valid <= 1'b0;
    else if (!c_valid || c_ready) begin
      c_valid <= closing || (opening && in_service) || tells;
      c_data  <= '0;
      c_data[47:40]   <= closing ? RECEIVER_CLOSED : opening ? RECEIVER_OPENED : STATE;
      c_data[63:56]   <= {4'd0, id_tag};
      c_data[79:64]   <= id_source;
      c_data[95:80]   <= id_destination;
      c_data[127:96]  <= (opening && !closing) ? opening_for : generation;
      c_data[159:128] <= card_epoch;
      c_data[223:192] <= own;
      if (!closing && !opening) begin
        c_data[351:320] <= next;
        c_data[383:352] <= limit;
        c_data[447:384] <= 64'(beyond_next);
      end
    end

  // Reads the packets in order.
  logic         held_valid, held_take, entry_valid, read;
  logic [511:0] word;
  logic [112:0] entry;
  logic [10:0]  entry_beats, beats_read;
  assign entry_valid = in_service && (taken != next);
  assign entry       = info[taken[SW-1:0]];
  assign entry_beats = 11'((17'(entry[111:96]) + 17'd63) >> 6);
  assign read        = entry_valid && (!held_valid || held_take) && (beats_read != entry_beats);
  always_ff @(posedge clk) begin
    if (rst || restarts) begin
      held_valid <= 1'b0;
      beats_read <= '0;
    end else begin
      if (!held_valid || held_take) held_valid <= read;
      if (packet_out) beats_read <= '0;
      else if (read) beats_read <= beats_read + 11'd1;
    end
    if (read) word <= mem[{taken[SW-1:0], beats_read[PW-1:0]}];
  end
  mr_link_unpack #(.BYTES(64), .LANES(LANES), .ABITS(ABITS), .BEATS(BEATS)) unpack (
    .clk, .rst, .clear(flush), .restart(starts || stops || renews), .wrong, .now,
    .p_valid(entry_valid), .p_ready(packet_out), .p_last(entry[112]), .p_offset(entry[95:64]), .p_length(entry[111:96]),
    .p_tag({entry[63:0], card_epoch}), .w_valid(held_valid), .w_ready(held_take), .w_data(word),
    .m_valid, .m_ready, .m_data, .t_valid, .t_ready, .t_data);

  logic unused;
  assign unused = &{1'b0, r_data};

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(528)) check (.clk, .rst, .valid(c_valid), .ready(c_ready), .data({c_dest, c_data}));
  initial assert (SLOTS == 1 << $clog2(SLOTS) && SLOTS >= 2 && SLOTS <= 64 && PACKET % 64 == 0)
    else $fatal(1, "%m: a window of another size than the module supports");
`endif
endmodule
`default_nettype wire
