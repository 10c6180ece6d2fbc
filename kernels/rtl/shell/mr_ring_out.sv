/// An output port that the host reads through a ring in its memory: the unit writes each frame and its trailer to the next slot
/// (runtime/plan/ring_abi.hpp, "the way out").
///
/// A beat of the stream has LANES elements of ABITS. In memory, an element takes EBYTES bytes (sign- or zero-extended; with AKIND 2, the
/// bit 0 becomes -1), and a frame takes BYTES bytes, a whole number of beats. The port t_ brings the tag {time, sequence, epoch} of each
/// frame; beats are taken only while a tag waits, and the tag is taken with the frame's last beat. Frames are written in this order, and
/// none is dropped: without a slot that the host has offered, the stream waits.
///
/// A slot is written in bursts of at most BURST words, each when its words have arrived: the payload, zeros up to a multiple of 64 bytes,
/// and the trailer as one burst of its own. In card memory, the trailer waits until memory has acknowledged all bursts. It is then written
/// twice: first with the wrong phase bit and, when this was acknowledged too, with the right one. If memory answers a write with an error,
/// `error` stays high until a flush or a disable, and no trailer is written. trailer.cycles counts from the time in the tag to the last
/// beat; stall_cycles counts the cycles in which a beat of the frame waited. `spoilt` combines all errors of the image until the flush. A
/// frame is marked as failed if `spoilt` is high when its trailer is written. `flush` (held until `quiet`) drops everything except bursts
/// that have begun. `frame_done` is high for one cycle when memory has acknowledged a trailer.
///
/// Latency from a frame's last beat to its trailer's address: 3 cycles + the words of that beat (none if LANES * EBYTES is DATA_BYTES) +
/// the beats and then the words of zeros that fill the slot + the words of the last burst + the cycles for which the burst before still
/// lasts. Interval: a frame's beats and those of zeros, or the words of its payload, whichever is more, + the words of zeros + 1 (again
/// none); or the words of the slot + 1 cycle for each burst, the trailer's included; whichever is more. Both hold if memory takes a word in
/// every cycle, the host keeps up, and no status record comes between. DATA_BYTES divides 64. Addresses and records are registers; data
/// pass through a FIFO of 2*BURST words.
`default_nettype none
module mr_ring_out #(
  parameter integer DATA_BYTES   = 64,
  parameter integer BURST        = 16,
  parameter integer BYTES        = 64,
  parameter integer LANES        = 1,
  parameter integer EBYTES       = 1,
  parameter integer ABITS        = 8,
  parameter integer AKIND        = 1,
  parameter integer CLOCK_MHZ    = 150,
  parameter integer HEARTBEAT_US = 1000
) (
  input  logic clk,
  input  logic rst,
  input  logic flush,
  output logic quiet,
  output logic error,
  input  logic spoilt,      // memory has failed: what leaves may be wrong
  output logic frame_done,  // one cycle: a frame was delivered

  input  logic [31:0] card_epoch,
  input  logic [63:0] now,

  input  logic            axil_awvalid,
  output logic            axil_awready,
  input  logic [11:0]     axil_awaddr,
  input  logic            axil_wvalid,
  output logic            axil_wready,
  input  logic [31:0]     axil_wdata,
  input  logic [3:0]      axil_wstrb,
  output logic            axil_bvalid,
  input  logic            axil_bready,
  output logic [1:0]      axil_bresp,
  input  logic            axil_arvalid,
  output logic            axil_arready,
  input  logic [11:0]     axil_araddr,
  output logic            axil_rvalid,
  input  logic            axil_rready,
  output logic [31:0]     axil_rdata,
  output logic [1:0]      axil_rresp,
  output logic            irq,

  output logic                    axi_awvalid,
  input  logic                    axi_awready,
  output logic [63:0]             axi_awaddr,
  output logic [7:0]              axi_awlen,
  output logic                    axi_wvalid,
  input  logic                    axi_wready,
  output logic [DATA_BYTES*8-1:0] axi_wdata,
  output logic                    axi_wlast,
  input  logic                    axi_bvalid,
  output logic                    axi_bready,
  input  logic [1:0]              axi_bresp,

  input  logic                   s_valid,
  output logic                   s_ready,
  input  logic [LANES*ABITS-1:0] s_data,

  input  logic         t_valid,
  output logic         t_ready,
  input  logic [159:0] t_data
);
  localparam integer BEAT = LANES * EBYTES;
  localparam integer SHIFT = $clog2(DATA_BYTES);
  localparam integer PAYLOAD_WORDS = (BYTES + DATA_BYTES - 1) / DATA_BYTES;
  localparam integer WORDS = (BYTES + 63) / 64 * 64 / DATA_BYTES;  // the zeros up to the trailer included
  localparam integer TRAILER_WORDS = 64 / DATA_BYTES;
  localparam integer WW = $clog2(WORDS + 1);
  localparam integer HW = $clog2(2 * BURST + 3);
  localparam logic [31:0] MAGIC = 32'h5452524d;
  localparam logic [1:0] DATA = 2'd0, TRAILER = 2'd1, STATUS = 2'd2, PREPARED = 2'd3;

  logic         on, failed, advance, status_due, status_taken, trailer_written, write_failed, write_error, card_memory;
  logic [63:0]  base, status_base;
  logic [8:0]   slots;
  logic [31:0]  index;
  logic [15:0]  offered;
  logic [511:0] record;
  logic         writer_idle, writer_ready, done, done_failed;
  logic [1:0]   done_kind;
  mr_ring_control #(.OUT(1), .BYTES(BYTES), .CLOCK_MHZ(CLOCK_MHZ), .HEARTBEAT_US(HEARTBEAT_US)) ring (.clk, .rst, .flush,
    .card_epoch, .now,
    .axil_awvalid(axil_awvalid), .axil_awready(axil_awready), .axil_awaddr(axil_awaddr), .axil_wvalid(axil_wvalid),
    .axil_wready(axil_wready), .axil_wdata(axil_wdata), .axil_wstrb(axil_wstrb), .axil_bvalid(axil_bvalid),
    .axil_bready(axil_bready), .axil_bresp(axil_bresp), .axil_arvalid(axil_arvalid), .axil_arready(axil_arready),
    .axil_araddr(axil_araddr), .axil_rvalid(axil_rvalid), .axil_rready(axil_rready), .axil_rdata(axil_rdata),
    .axil_rresp(axil_rresp),
    .irq, .on, .idle(writer_idle), .base, .status_base, .slots, .card_memory, .advance, .index, .offered,
    .trailer_refused(1'b0), .read_failed(1'b0), .write_failed(write_error), .failed,
    .status_due, .record, .status_taken, .status_written(done && done_kind == STATUS), .trailer_written);
  assign write_error     = done && done_failed;
  assign trailer_written = done && (done_kind == TRAILER) && !done_failed;
  assign frame_done      = trailer_written && on;
  assign quiet           = writer_idle;
  assign error           = write_failed;
  always_ff @(posedge clk) write_failed <= !rst && on && (write_failed || write_error);

  // Converts elements to bytes, and bytes to words. After a frame's last beat, zeros complete its last word; then whole words of zeros
  // follow up to the trailer.
  logic [31:0]             left;      // bytes of the frame not taken
  logic [WW-1:0]           words_in;  // words of the frame that have gone to the buffer
  logic [63:0]             stalls;
  logic [BEAT*8-1:0]       beat;
  logic                    filling, beat_in, last, last_in, adapter_ready, adapted_valid, push, buffer_ready, frame_end, tag_ready;
  logic [DATA_BYTES*8-1:0] adapted;
  generate
    for (genvar i = 0; i < LANES; i = i + 1) begin : g_lane
      if (AKIND == 2) begin : g_bipolar
        assign beat[i*EBYTES*8+:EBYTES*8] = s_data[i] ? (EBYTES * 8)'(1) : '1;
      end else if (AKIND == 1) begin : g_signed
        assign beat[i*EBYTES*8+:EBYTES*8] = (EBYTES * 8)'($signed(s_data[i*ABITS+:ABITS]));
      end else begin : g_unsigned
        assign beat[i*EBYTES*8+:EBYTES*8] = (EBYTES * 8)'(s_data[i*ABITS+:ABITS]);
      end
    end
  endgenerate
  assign filling   = (words_in >= WW'(PAYLOAD_WORDS));
  assign last      = (left <= 32'(BEAT));
  assign s_ready   = on && !filling && (left != '0) && t_valid && (!last || tag_ready) && adapter_ready;
  assign beat_in   = s_valid && s_ready;
  assign last_in   = beat_in && last;
  assign t_ready   = last_in;
  assign push      = on && (filling || adapted_valid) && buffer_ready;
  assign frame_end = push && (words_in == WW'(WORDS - 1));
  mr_width_adapter #(.LANE(8), .S_LANES(BEAT), .M_LANES(DATA_BYTES)) adapter (
    .clk, .rst(rst || !on || filling || frame_end),
    .s_valid(on && !filling && ((left == '0) || (s_valid && t_valid && (!last || tag_ready)))), .s_ready(adapter_ready),
    .s_data((left == '0) ? '0 : beat), .m_valid(adapted_valid), .m_ready(push && !filling), .m_data(adapted));
  always_ff @(posedge clk)
    if (rst || !on || frame_end) begin
      left     <= 32'(BYTES);
      words_in <= '0;
    end else begin
      if (beat_in) left <= last ? '0 : left - 32'(BEAT);
      if (push) words_in <= words_in + 1'b1;
    end
  always_ff @(posedge clk)
    if (rst || !on || last_in) stalls <= '0;
    else if (s_valid && t_valid && !s_ready) stalls <= stalls + 64'd1;

  // Of the frames that were taken, the tag and the times, until their trailers are written
  logic         tag_valid, tag_taken;
  logic [223:0] tag;  // {stalls, cycles, sequence, epoch}
  mr_fifo #(.WIDTH(224), .DEPTH(2)) tags (
    .clk, .rst(rst || !on), .s_valid(last_in), .s_ready(tag_ready), .s_data({stalls, now - t_data[159:96], t_data[95:0]}),
    .m_valid(tag_valid), .m_ready(tag_taken), .m_data(tag));

  // In halves, so that no enable has more than 512 loads. Both do the same in each cycle.
  logic                    word_ready;
  logic [1:0]              word_valid, room;
  logic [DATA_BYTES*8-1:0] word, stored;
  assign stored       = filling ? '0 : adapted;
  assign buffer_ready = room[0];
  generate
    for (genvar i = 0; i < 2; i = i + 1) begin : g_half
      mr_fifo #(.WIDTH(DATA_BYTES * 4), .DEPTH(2 * BURST)) buffer (
        .clk, .rst(rst || (!on && writer_idle)), .s_valid(push), .s_ready(room[i]), .s_data(stored[i*DATA_BYTES*4+:DATA_BYTES*4]),
        .m_valid(word_valid[i]), .m_ready(word_ready), .m_data(word[i*DATA_BYTES*4+:DATA_BYTES*4]));
    end
  endgenerate

  // The bursts of a slot. SIZE computes the length of the next burst, SEND waits for its words and, before the first one, for a slot.
  // FINISH writes the trailer. In each state except SIZE, a status record can come between.
  typedef enum logic [1:0] {SIZE, SEND, FINISH} state_t;
  state_t            state;
  logic [63:0]       next;                   // address of the next burst
  logic [WW-1:0]     words_left;             // words of the slot that no burst has taken, without the trailer
  logic [HW-1:0]     held;                   // words buffered that no burst has taken
  logic [8:0]        chunk, chunk_limit;     // words of the next burst
  logic [12-SHIFT:0] to_boundary;            // words up to the next 4 KiB
  logic [511:0]      trailer;
  logic [8:0]        next_index;  // low bits
  logic              begun, prepared;        // begun: a burst of the slot was sent; prepared: only the right phase bit is missing
  logic              free, send, finish, go, unused;
  assign to_boundary  = (13-SHIFT)'(1 << (12 - SHIFT)) - {1'b0, next[11:SHIFT]};
  assign chunk_limit  = (32'(to_boundary) < BURST) ? 9'(to_boundary) : 9'(BURST);
  assign free         = on && !status_due && writer_ready;
  assign status_taken = status_due && writer_ready && (state != SIZE);
  assign send         = free && (state == SEND) && (32'(held) >= 32'(chunk)) && (begun || (!failed && offered != index[15:0]));
  assign finish       = free && (state == FINISH) && tag_valid && !write_failed && (writer_idle || !card_memory);
  assign advance      = finish && (prepared || !card_memory);
  assign go           = status_taken || send || finish;
  assign tag_taken    = advance;
  assign unused       = &{1'b0, index, room, word_valid};
  assign next_index   = index[8:0] + 9'd1;
  assign trailer      = {tag[31:0], ((index[8:0] & slots) == '0) == advance, index[30:0], 128'd0, tag[223:160], tag[159:96], 32'd0,
                         30'd0, spoilt, 1'b0, tag[95:32], 32'(BYTES), MAGIC};
  always_ff @(posedge clk)
    if (rst || !on) begin
      state    <= SIZE;
      held     <= '0;
      begun    <= 1'b0;
      prepared <= 1'b0;
    end else begin
      held     <= held + HW'(push) - (send ? HW'(chunk) : '0);
      begun    <= (begun || send) && !advance;
      prepared <= (prepared || finish) && !advance;
      case (state)
        SIZE:    state <= SEND;
        SEND:    if (send) state <= (32'(words_left) == 32'(chunk)) ? FINISH : SIZE;
        default: if (advance) state <= SIZE;
      endcase
    end
  always_ff @(posedge clk) begin
    if (!on) next <= base;
    else if (send) next <= next + (64'(chunk) << SHIFT);
    else if (advance) next <= ((next_index & (slots - 9'd1)) == '0) ? base : next + 64'd64;
    if (!on || advance) words_left <= WW'(WORDS);
    else if (send) words_left <= words_left - WW'(chunk);
    if (state == SIZE) chunk <= (32'(words_left) < 32'(chunk_limit)) ? 9'(words_left) : chunk_limit;
  end

  mr_ring_writer #(.DATA_BYTES(DATA_BYTES), .OUTSTANDING(16)) writer (
    .clk, .rst, .idle(writer_idle), .go, .ready(writer_ready),
    .addr(status_taken ? status_base : next), .words(send ? chunk : 9'(TRAILER_WORDS)),
    .kind(status_taken ? STATUS : advance ? TRAILER : finish ? PREPARED : DATA), .record(status_taken ? record : trailer),
    .s_valid(word_valid[0]), .s_ready(word_ready), .s_data(word), .done, .done_kind, .done_failed,
    .axi_awvalid, .axi_awready, .axi_awaddr, .axi_awlen, .axi_wvalid, .axi_wready, .axi_wdata, .axi_wlast,
    .axi_bvalid, .axi_bready, .axi_bresp);

`ifndef SYNTHESIS
  initial assert (BYTES > 0 && BYTES % BEAT == 0) else $fatal(1, "%m: not a whole number of beats");
`endif
endmodule
`default_nettype wire
