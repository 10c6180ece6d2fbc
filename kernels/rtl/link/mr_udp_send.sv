/// The sending port of a channel over UDP: packs the elements of frames, cuts the frames into packets, and sends the packets with credit and
/// selective repair. runtime/link/README.md specifies the protocol; runtime/link/sender.cpp is the same state machine in software. The file has
/// more than 500 lines because the window of packets is shared by sending, repair and the receiver's answers.
///
/// Elements and tags arrive as in mr_link_pack. Each packet has packet_bytes bytes of a frame; the frame's last packet has the remaining
/// bytes. The port goes into service when `enable` is high, if packet_bytes is a multiple of 64 or has room for a whole frame, and is at
/// most PACKET, and if credits is 1 to SLOTS. The row of settings must not change while `enable` is high. `generation` must grow each time
/// the port goes into service. A port that goes out of service drops its packets; if it drops any, no frame passes until the next flush.
///
/// The window has SLOTS (a power of two, 2 to 64) packets, in a memory of SLOTS * PACKET bytes; a packet's place in the memory is rounded up
/// to a power of two beats. `tick` is high for one cycle in each microsecond; the parameters from LEAST_REPEAT on are in microseconds.
///
/// The receiver's datagrams come from mr_udp_in, without waiting: r_first marks a datagram's header. The sender's datagrams leave through
/// mr_udp_out, which makes their CRCs. `flush` drops all frames and packets, but completes a datagram that has begun; then `quiet` rises.
/// `spoilt` says that memory has failed: no new packet is sent until the flush.
///
/// Outputs for monitoring: `peer` says that the receiver answers, `lost` that it does not answer any more. `fault` is high for one cycle if
/// the receiver violates the protocol (link/channel.hpp, Violation): 4 acknowledged what was not sent, 5 gave too much credit. `packet`
/// reports a new packet of `bytes` bytes, `again` a repeated one, `stall` that a packet began to wait for credit. The module handles a state
/// of the receiver in about two cycles for each packet on its way. m_valid is a register; m_data is a selection of two registers.
`default_nettype none
module mr_udp_send #(
  parameter integer LANES          = 1,
  parameter integer ABITS          = 8,
  parameter integer BEATS          = 64,
  parameter integer PACKET         = 1024,
  parameter integer SLOTS          = 16,
  parameter integer LEAST_REPEAT   = 4000,
  parameter integer MOST_REPEAT    = 20000,
  parameter integer STATE_DELAY    = 1000,
  parameter integer KEEPALIVE      = 250000,
  parameter integer SILENCE        = 80000,
  parameter integer FIRST_GREETING = 2000,
  parameter integer LAST_GREETING  = 50000
) (
  input  logic clk,
  input  logic rst,
  input  logic tick,
  input  logic flush,
  input  logic spoilt,
  output logic quiet,

  input  logic [31:0] card_epoch,
  input  logic        enable,
  input  logic [31:0] generation,
  input  logic [15:0] source,
  input  logic [15:0] destination,
  input  logic [3:0]  tag,
  input  logic [15:0] socket,
  input  logic [15:0] packet_bytes,
  input  logic [15:0] credits,
  output logic        peer,
  output logic        lost,
  output logic        fault,
  output logic [2:0]  violation,
  output logic        packet,
  output logic [15:0] bytes,
  output logic        again,
  output logic        stall,

  input  logic                   s_valid,
  output logic                   s_ready,
  input  logic [LANES*ABITS-1:0] s_data,
  input  logic                   t_valid,
  output logic                   t_ready,
  input  logic [159:0]           t_data,

  input  logic         r_valid,
  input  logic         r_first,
  input  logic [511:0] r_data,
  input  logic         r_last,
  input  logic         r_good,
  input  logic [15:0]  r_dest,

  output logic         m_valid,
  input  logic         m_ready,
  output logic [511:0] m_data,
  output logic         m_last,
  output logic [15:0]  m_dest
);
  localparam integer FRAME_BYTES = (BEATS * LANES * ABITS + 7) / 8;
  localparam integer SW = $clog2(SLOTS);
  localparam integer PW = (PACKET > 64) ? $clog2((PACKET + 63) / 64) : 1;  // bits of a beat's number in its packet
  localparam logic [7:0] DATA = 8'd1, STATE = 8'd2, GREETING = 8'd3, SENDER_CLOSED = 8'd4, RECEIVER_CLOSED = 8'd5, RECEIVER_OPENED = 8'd6;

  // The window: packets base to fresh - 1 were sent, packets fresh to head - 1 are ready to be sent.
  logic [31:0] base, fresh, head, limit;
  logic        clear;  // drops the window
  logic [SW-1:0] head_slot;
  assign head_slot = head[SW-1:0];

  // Fills the window with packets.
  logic         word_valid, word_ready, word_in, frame_valid, frame_take, piece_last, piece_done, sends, torn;
  logic [511:0] word;
  logic [95:0]  frame;  // {sequence, epoch}
  logic [31:0]  offset, rest;
  logic [15:0]  length;
  logic [10:0]  piece_beats;
  logic [PW:0]  piece_at;
  logic [SW-1:0] job_slot;
  mr_link_pack #(.BYTES(64), .LANES(LANES), .ABITS(ABITS), .BEATS(BEATS)) pack (
    .clk, .rst, .clear(flush), .s_valid, .s_ready, .s_data, .t_valid, .t_ready, .t_data(t_data[95:0]),
    .m_valid(word_valid), .m_ready(word_ready), .m_data(word), .m_tag_valid(frame_valid), .m_tag_ready(frame_take), .m_tag(frame));
  assign rest        = 32'(FRAME_BYTES) - offset;
  assign piece_last  = (rest <= 32'(packet_bytes));
  assign length      = piece_last ? rest[15:0] : packet_bytes;
  assign piece_beats = 11'((17'(length) + 17'd63) >> 6);
  // While a packet is being sent, its slot must not be overwritten.
  assign word_ready  = frame_valid && peer && !torn && !clear && (head - base != 32'(SLOTS)) && !(sends && head_slot == job_slot);
  assign word_in     = word_valid && word_ready;
  assign piece_done  = word_in && (11'(piece_at) + 11'd1 == piece_beats);
  assign frame_take  = piece_done && piece_last;
  always_ff @(posedge clk)
    if (rst || flush) begin
      offset   <= '0;
      piece_at <= '0;
    end else begin
      if (word_in) piece_at <= piece_done ? '0 : piece_at + 1'b1;
      if (piece_done) offset <= piece_last ? '0 : offset + 32'(length);
    end
  always_ff @(posedge clk)
    if (rst || clear) head <= '0;
    else if (piece_done) head <= head + 32'd1;
  // Packets that the port dropped when it went out of service are missing in their frames.
  always_ff @(posedge clk)
    if (rst || flush) torn <= 1'b0;
    else if (clear && (head != base || offset != '0 || piece_at != '0)) torn <= 1'b1;

  (* ram_style = "block" *) logic [511:0] mem[0:(SLOTS<<PW)-1];
  (* ram_style = "distributed" *) logic [112:0] info[0:SLOTS-1];  // {last, length, offset, sequence}
  (* ram_style = "distributed" *) logic [31:0]  sent_at[0:SLOTS-1];  // the time of the last transmission, its place among all
  (* ram_style = "distributed" *) logic [31:0]  order_of[0:SLOTS-1];
  always_ff @(posedge clk) begin
    if (word_in) mem[{head_slot, piece_at[PW-1:0]}] <= word;
    if (piece_done) info[head_slot] <= {piece_last, length, offset, frame[95:32]};
  end

  logic [112:0] info_now;  // of the packet that is to be sent
  assign info_now = info[job_slot];
  assign bytes    = info_now[111:96];

  // The latest datagram of the receiver
  logic         mine, heard_valid, heard_take;
  logic [231:0] heard, work;  // {arrived, limit, next, incarnation, epoch, generation, type}
  logic [15:0]  id_source, id_destination;
  logic [3:0]   id_tag;
  assign mine = r_valid && r_first && r_last && r_good && (r_dest == m_dest) && (r_data[63:56] == {4'd0, id_tag}) &&
                (r_data[79:64] == id_source) && (r_data[95:80] == id_destination);
  always_ff @(posedge clk) begin
    if (rst) heard_valid <= 1'b0;
    else if (mine) heard_valid <= 1'b1;
    else if (heard_take) heard_valid <= 1'b0;
    if (mine) heard <= {r_data[447:384], r_data[383:352], r_data[351:320], r_data[223:192], r_data[159:128], r_data[127:96], r_data[47:40]};
  end
  logic [31:0] w_generation, w_epoch, w_incarnation, w_next, w_limit;
  logic [63:0] w_arrived;
  logic [7:0]  w_type;
  assign {w_arrived, w_limit, w_next, w_incarnation, w_epoch, w_generation} = work[231:8];
  assign w_type = work[7:0];

  // Time
  logic [31:0] now, waiting_since, greeted_at, progressed_at, repeat_at, heard_at;
  logic        waiting, repeats, outstanding, silent, greeting_due, late, stopped;
  logic [20:0] round_trip, variation, repeat_time, longest, usual, usual_raw, doubled, greeting_wait, wait_next, greeting_interval;
  localparam logic [20:0] MOST = 21'(MOST_REPEAT);
  assign outstanding = (base != fresh);
  always_ff @(posedge clk) begin
    now       <= rst ? '0 : now + 32'(tick);
    longest   <= (2 * round_trip > MOST) ? 2 * round_trip : MOST;
    usual_raw <= round_trip + 4 * variation + 21'(STATE_DELAY);
    usual     <= (round_trip == '0) ? MOST : (usual_raw < 21'(LEAST_REPEAT)) ? 21'(LEAST_REPEAT) : (usual_raw > longest) ? longest : usual_raw;
    silent    <= (waiting && now - waiting_since >= 32'(SILENCE)) || (outstanding && now - progressed_at >= 32'(4 * SILENCE));
    stopped   <= (now - heard_at >= 32'(3 * KEEPALIVE + SILENCE));
    late      <= repeats && !(($signed(now - repeat_at)) < 0);
    greeting_interval <= !peer ? greeting_wait : (fresh == limit || waiting) ? MOST : 21'(KEEPALIVE);
    greeting_due      <= (!peer || !outstanding) && (now - greeted_at >= 32'(greeting_interval));
  end
  assign doubled = (2 * repeat_time > longest) ? longest : 2 * repeat_time;
  always_comb begin
    wait_next = 2 * greeting_wait;
    if (wait_next < 21'(FIRST_GREETING)) wait_next = 21'(FIRST_GREETING);
    if (wait_next > 21'(LAST_GREETING)) wait_next = 21'(LAST_GREETING);
  end

  // Decides what to do next. A scan visits the packets that were sent, one in each cycle. After each step, SETTLE lets the comparisons of
  // times catch up.
  typedef enum logic [3:0] {DECIDE, SETTLE, WEIGH, JUDGE, FORGET, ACCEPT, OVERTAKEN, CONCLUDE, LATE, PICK} step_t;
  step_t step;
  typedef enum logic [1:0] {DOWN, TRAINING, UP, LOST} phase_t;
  phase_t phase;
  logic [31:0] number, incarnation, gen, order, arrived_order, ahead, beyond, gap;
  logic        closing, unsent, overtaken, wanted, job, job_taken, scan_done, resume_state, moved, starved, acked, known_lost;
  logic [SLOTS-1:0] arrived, missing, once;  // of the slots: acknowledged, must be sent again, sent only once
  logic [SW:0] missing_count;
  logic [7:0]  job_type;
  logic [31:0] job_number;
  logic [SW-1:0] slot;
  logic [5:0]  gap_bit;
  logic [31:0] sample, slot_order, slot_sent;
  logic [20:0] measured, difference;
  assign wanted        = enable && (packet_bytes[5:0] == '0 || 32'(packet_bytes) >= FRAME_BYTES) && (packet_bytes != '0) &&
                         (32'(packet_bytes) <= PACKET) && (credits != '0) && (32'(credits) <= SLOTS);
  assign peer          = (phase == UP);
  assign lost          = (phase == LOST);
  assign slot          = number[SW-1:0];
  assign slot_order    = order_of[slot];
  assign slot_sent     = sent_at[slot];
  assign scan_done     = (number == fresh);
  assign gap           = number - w_next;
  assign gap_bit       = gap[5:0] - 6'd1;
  assign acked         = gap[31] || (gap != '0 && gap <= 32'd64 && w_arrived[gap_bit]);
  assign known_lost    = !arrived[slot] && !missing[slot];
  assign sample        = now - slot_sent;
  assign measured      = (sample[31:20] == '0) ? sample[20:0] : 21'h0fffff;
  assign difference    = (measured > round_trip) ? measured - round_trip : round_trip - measured;
  assign heard_take    = (step == DECIDE) && heard_valid && !job && !clear;
  assign sends         = job || m_valid;
  assign quiet         = !sends;
  assign job_slot      = job_number[SW-1:0];
  assign clear         = flush || (step == DECIDE && wanted != (phase != DOWN) && !closing && !job);
  assign job_taken     = job && !m_valid && !(clear && job_type == DATA);

  always_ff @(posedge clk) begin
    fault  <= 1'b0;
    packet <= 1'b0;
    again  <= 1'b0;
    stall  <= peer && !starved && (fresh != head) && (fresh == limit) && !flush;
    starved <= peer && (fresh != head) && (fresh == limit);
    if (job_taken) job <= 1'b0;
    if (rst) begin
      step      <= DECIDE;
      phase     <= DOWN;
      closing   <= 1'b0;
      job       <= 1'b0;
      base      <= '0;
      fresh     <= '0;
      limit     <= '0;
      waiting   <= 1'b0;
      repeats   <= 1'b0;
      arrived   <= '0;
      missing   <= '0;
      missing_count <= '0;
      order     <= '0;
      arrived_order <= '0;
      violation <= '0;
    end else if (clear) begin
      base      <= '0;
      fresh     <= '0;
      limit     <= 32'(credits);
      repeats   <= 1'b0;
      arrived   <= '0;
      missing   <= '0;
      missing_count <= '0;
      order     <= '0;
      arrived_order <= '0;
      if (waiting) waiting_since <= now;
      if (job && job_type == DATA) job <= 1'b0;
      step <= SETTLE;
      if (!flush) begin
        if (wanted) begin
          phase          <= TRAINING;
          gen            <= generation;
          id_source      <= source;
          id_destination <= destination;
          id_tag         <= tag;
          m_dest         <= socket;
          violation      <= '0;
          incarnation    <= '0;
          waiting        <= 1'b0;
          round_trip     <= '0;
          variation      <= '0;
          repeat_time    <= MOST;
          greeting_wait  <= '0;
          greeted_at     <= now;
          heard_at       <= now;
        end else begin
          closing <= (phase != DOWN);
          phase   <= DOWN;
        end
      end
    end else begin
      number <= number + 32'd1;
      case (step)
        DECIDE: begin
          number <= base;
          resume_state <= 1'b0;
          if (job) step <= DECIDE;
          else if (heard_valid) begin
            work <= heard;
            step <= (phase == DOWN) ? DECIDE : WEIGH;
          end else if (closing) begin
            closing  <= 1'b0;
            job      <= 1'b1;
            job_type <= SENDER_CLOSED;
          end else if (phase == DOWN) step <= DECIDE;
          else if (peer && silent) begin
            phase         <= LOST;
            greeting_wait <= '0;
            greeted_at    <= now;
            step          <= SETTLE;
          end else if (greeting_due && !m_valid) begin
            greeted_at <= now;
            if (!peer) greeting_wait <= wait_next;
            if (!waiting) waiting_since <= now;
            waiting    <= 1'b1;
            job        <= 1'b1;
            job_type   <= GREETING;
            step       <= SETTLE;
          end else if (!peer) step <= DECIDE;
          else if (late) step <= LATE;
          else if (!m_valid && missing_count != '0) step <= PICK;
          else if (!m_valid && fresh != head && fresh != limit && !spoilt) begin
            if (!outstanding) progressed_at <= now;
            fresh      <= fresh + 32'd1;
            number     <= fresh;
            job        <= 1'b1;
            job_type   <= DATA;
            job_number <= fresh;
            arrived[fresh[SW-1:0]] <= 1'b0;
            once[fresh[SW-1:0]]    <= 1'b1;
            packet     <= 1'b1;
            step       <= SETTLE;
          end
        end
        // When a packet is sent or repeated, SETTLE is entered together with the packet's job.
        SETTLE: begin
          step <= DECIDE;
          if (job && job_type == DATA) begin
            order <= order + 32'd1;
            if (!waiting) waiting_since <= now;
            waiting <= 1'b1;
            if (!repeats) repeat_at <= now + 32'(repeat_time);
            repeats <= 1'b1;
          end
        end
        WEIGH: begin
          step      <= JUDGE;
          overtaken <= ($signed(w_next - base) < 0);
          beyond    <= fresh - w_next;
          ahead     <= w_limit - w_next;
        end
        JUDGE: begin
          number <= base;
          unsent <= beyond[31] || (beyond[31:7] == '0 && ((beyond == '0) ? w_arrived != '0 : (w_arrived >> (beyond[6:0] - 7'd1)) != '0));
          step   <= SETTLE;
          if (w_generation != gen) step <= SETTLE;
          else if (w_type == RECEIVER_OPENED) begin
            // An answer that was delayed in the network must not replace a receiver that is in service.
            if (w_incarnation != incarnation && (incarnation == '0 || stopped || !($signed(w_incarnation - incarnation) < 0))) begin
              incarnation   <= w_incarnation;
              heard_at      <= now;
              greeted_at    <= now;
              phase         <= TRAINING;
              waiting       <= 1'b0;
              greeting_wait <= '0;
              step          <= FORGET;
            end
          end else if (w_incarnation == incarnation && w_type == RECEIVER_CLOSED) begin
            phase         <= TRAINING;
            waiting       <= 1'b0;
            greeting_wait <= '0;
            greeted_at    <= now;
          end else if (w_incarnation == incarnation && w_type == STATE) begin
            heard_at      <= now;
            waiting       <= outstanding;
            waiting_since <= now;
            resume_state  <= (w_epoch == card_epoch) && !overtaken;
            if (!peer) begin
              phase         <= UP;
              progressed_at <= now;
              greeting_wait <= '0;
              step          <= FORGET;
            end else if (w_epoch == card_epoch && !overtaken) step <= ACCEPT;
          end
        end
        // The receiver did not answer before: all packets that were sent are sent again.
        FORGET: begin
          repeat_time <= usual;
          repeats     <= 1'b0;
          if (scan_done) begin
            number <= base;
            step   <= resume_state ? ACCEPT : SETTLE;
          end else begin
            arrived[slot] <= 1'b0;
            once[slot]    <= 1'b0;
            missing[slot] <= 1'b1;
            if (!missing[slot]) missing_count <= missing_count + 1'b1;
          end
        end
        ACCEPT:
          if (number == base && (unsent || ahead > 32'(credits))) begin
            fault <= 1'b1;
            if (violation == '0) violation <= unsent ? 3'd4 : 3'd5;
            step <= SETTLE;
          end else if (scan_done) begin
            moved  <= (base != w_next);
            base   <= w_next;
            if ($signed(limit - w_limit) < 0) limit <= w_limit;
            number <= w_next;
            step   <= OVERTAKEN;
          end else if (acked && !arrived[slot]) begin
            arrived[slot] <= 1'b1;
            missing[slot] <= 1'b0;
            if (missing[slot]) missing_count <= missing_count - 1'b1;
            if (slot_order > arrived_order) arrived_order <= slot_order;
            // The answer to a repeated packet may belong to any of the transmissions (Karn's algorithm).
            if (once[slot] && round_trip == '0) begin
              round_trip <= measured;
              variation  <= measured >> 1;
            end else if (once[slot]) begin
              variation  <= variation - (variation >> 2) + (difference >> 2);
              round_trip <= (measured > round_trip) ? round_trip + (difference >> 3) : round_trip - (difference >> 3);
            end
          end
        OVERTAKEN:
          if (scan_done) step <= CONCLUDE;
          else if (known_lost && slot_order + 32'd3 <= arrived_order) begin
            missing[slot] <= 1'b1;
            missing_count <= missing_count + 1'b1;
          end
        CONCLUDE: begin
          if (moved) begin
            progressed_at <= now;
            repeat_time   <= usual;
          end
          if (!outstanding) waiting <= 1'b0;
          repeats <= outstanding;
          if (moved || !repeats) repeat_at <= now + (moved ? 32'(usual) : 32'(repeat_time));
          step <= SETTLE;
        end
        LATE:
          if (scan_done) begin
            repeat_time <= doubled;
            repeat_at   <= now + 32'(doubled);
            step        <= SETTLE;
          end else if (known_lost && !($signed(now - slot_sent - 32'(repeat_time)) < 0)) begin
            missing[slot] <= 1'b1;
            missing_count <= missing_count + 1'b1;
          end
        default:  // PICK: the first packet that must be sent again
          if (scan_done) step <= SETTLE;
          else if (missing[slot]) begin
            missing[slot] <= 1'b0;
            missing_count <= missing_count - 1'b1;
            once[slot]    <= 1'b0;
            job           <= 1'b1;
            job_type      <= DATA;
            job_number    <= number;
            again         <= 1'b1;
            step          <= SETTLE;
          end
      endcase
    end
  end
  always_ff @(posedge clk)
    if (step == SETTLE && job && job_type == DATA) begin
      sent_at[job_slot]  <= now;
      order_of[job_slot] <= order + 32'd1;
    end

  // Sends the datagram that was decided on.
  logic [511:0] header, body;
  logic [PW:0]  body_at;
  logic [10:0]  body_left;
  logic [7:0]   sent_type;
  logic         in_body;
  logic [SW-1:0] body_slot;
  assign m_data   = in_body ? body : header;
  assign m_last   = in_body ? (body_left == 11'd1) : (sent_type != DATA);
  always_ff @(posedge clk)
    if (rst) begin
      m_valid <= 1'b0;
      in_body <= 1'b0;
    end else if (job_taken) begin
      m_valid <= 1'b1;
      in_body <= 1'b0;
    end else if (m_valid && m_ready) begin
      m_valid <= !m_last;
      in_body <= !m_last;
    end
  always_ff @(posedge clk) begin
    if (job_taken) begin
      sent_type <= job_type;
      body_slot <= job_slot;
      body_left <= 11'((17'(info_now[111:96]) + 17'd63) >> 6);
      header    <= '0;
      header[47:40]   <= job_type;
      header[63:56]   <= {4'd0, id_tag};
      header[79:64]   <= id_source;
      header[95:80]   <= id_destination;
      header[127:96]  <= gen;
      header[159:128] <= card_epoch;
      if (job_type == DATA) begin
        header[48]      <= info_now[112];
        header[191:160] <= job_number;
        header[255:192] <= info_now[63:0];
        header[287:256] <= info_now[95:64];
        header[319:288] <= 32'(info_now[111:96]);
      end else if (job_type == GREETING) begin
        header[191:160] <= base;
        header[223:192] <= incarnation;
        header[287:256] <= 32'(packet_bytes);
        header[383:352] <= 32'(credits);
      end
    end
    // The first payload beat is read while the header is offered.
    if (!in_body || m_ready) body <= mem[{body_slot, body_at[PW-1:0]}];
    if (job_taken) body_at <= '0;
    else if (m_valid && m_ready) body_at <= body_at + 1'b1;
    if (in_body && m_ready) body_left <= body_left - 11'd1;
  end

  logic unused;
  assign unused = &{1'b0, r_data, t_data, frame};

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(529)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data({m_dest, m_last, m_data}));
  initial assert (SLOTS == 1 << $clog2(SLOTS) && SLOTS >= 2 && SLOTS <= 64 && PACKET % 64 == 0)
    else $fatal(1, "%m: a window of another size than the module supports");
`endif
endmodule
`default_nettype wire
