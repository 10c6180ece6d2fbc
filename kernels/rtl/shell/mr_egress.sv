/// An output port that the host reads: each run writes one frame and its status trailer to memory (image_abi.hpp, EgressArgument,
/// StatusTrailer).
///
/// A beat of the stream has LANES elements of ABITS. In memory, an element takes EBYTES bytes (sign- or zero-extended; with AKIND 2, the
/// bit 0 becomes -1). The port t_ brings the tag {time, sequence, epoch} of each frame that the partition computes. A run waits for its
/// frame and discards earlier frames. If a later frame, another epoch or a flush comes instead, the run ends as dropped, with a trailer and
/// without payload.
///
/// The payload is filled with zeros up to the trailer, which begins at the next multiple of 64 bytes. trailer.cycles counts from the time
/// in the tag to the last beat; stall_cycles counts the cycles in which a beat of the frame waited for memory. `spoilt` combines all errors
/// of the image until the flush. A frame is marked as failed if `spoilt` is high while its trailer is made. A memory word that was read
/// with an error raises `spoilt` before any result computed from this word leaves.
///
/// Arguments of a run: buffer 0x10, bytes 0x1c, epoch 0x24, sequence 0x2c. DATA_BYTES must divide 64.
`default_nettype none
module mr_egress #(
  parameter integer DATA_BYTES = 64,
  parameter integer BURST      = 16,
  parameter integer LANES      = 1,
  parameter integer EBYTES     = 1,
  parameter integer ABITS      = 8,
  parameter integer AKIND      = 1
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
  localparam integer TRAILER = 64 / DATA_BYTES;  // words of the trailer
  localparam logic [31:0] MAGIC = 32'h5354524d;

  // The states of a run. WAIT waits for the frame's tag. DISCARD removes an earlier frame. BEGIN gives the writer its command. PAYLOAD
  // writes the frame, FILL the zeros up to the trailer, STATUS the trailer. FLUSHED waits for the end of a flush. FINISH waits until memory
  // has answered.
  typedef enum logic [3:0] {IDLE, WAIT, DISCARD, BEGIN, PAYLOAD, FILL, STATUS, FINISH, FLUSHED, DONE} state_t;
  state_t state;

  logic         start, taken, done, go_on;
  logic [287:0] arguments;
  mr_run_control #(.WORDS(9)) control (.clk, .rst,
    .axil_awvalid(axil_awvalid), .axil_awready(axil_awready), .axil_awaddr(axil_awaddr), .axil_wvalid(axil_wvalid),
    .axil_wready(axil_wready), .axil_wdata(axil_wdata), .axil_wstrb(axil_wstrb), .axil_bvalid(axil_bvalid),
    .axil_bready(axil_bready), .axil_bresp(axil_bresp), .axil_arvalid(axil_arvalid), .axil_arready(axil_arready),
    .axil_araddr(axil_araddr), .axil_rvalid(axil_rvalid), .axil_rready(axil_rready), .axil_rdata(axil_rdata),
    .axil_rresp(axil_rresp),
    .irq, .start, .taken, .done, .go_on, .idle(state == IDLE && !start), .arguments);

  logic [63:0] buffer, sequence_, tag_time, cycles, stalls;
  logic [31:0] bytes, epoch, left, words_left, fill_left;
  logic        dropped;
  logic [3:0]  status_left;

  logic [31:0] payload_words, trailer_words;  // up to the payload's end, up to the trailer
  assign payload_words = (bytes + 32'(DATA_BYTES - 1)) >> SHIFT;
  assign trailer_words = ((bytes + 32'd63) >> 6) << (6 - SHIFT);

  logic tag_here, tag_older, tag_newer, beat_in, last_in, word_valid, word_ready, writer_ready, finished;
  assign taken     = (state == IDLE) && start && !flush;
  assign done      = (state == DONE);
  assign tag_here  = t_valid && (t_data[31:0] == epoch) && (t_data[95:32] == sequence_);
  assign tag_older = t_valid && ((t_data[31:0] != epoch) || (t_data[95:32] < sequence_));
  assign tag_newer = t_valid && !tag_here && !tag_older;
  assign beat_in   = s_valid && s_ready;
  assign last_in   = beat_in && (left <= 32'(BEAT));
  assign t_ready   = last_in && (state == PAYLOAD || state == DISCARD);  // a tag lives as long as its frame

  always_ff @(posedge clk)
    if (rst) state <= IDLE;
    else if (flush && state != IDLE && state != DONE) state <= FLUSHED;
    else
      case (state)
        IDLE:    if (taken) state <= WAIT;
        WAIT:    if (epoch != card_epoch || tag_newer || tag_here) state <= BEGIN;
                 else if (tag_older) state <= DISCARD;
        DISCARD: if (last_in) state <= WAIT;
        BEGIN:   if (writer_ready) state <= dropped ? STATUS : PAYLOAD;
        PAYLOAD: if (word_valid && word_ready && words_left == 32'd1) state <= (fill_left == '0) ? STATUS : FILL;
        FILL:    if (word_ready && fill_left == 32'd1) state <= STATUS;
        STATUS:  if (word_ready && status_left == 4'd1) state <= FINISH;
        FINISH:  if (finished) state <= DONE;
        FLUSHED: state <= BEGIN;
        default: if (go_on) state <= IDLE;
      endcase

  always_ff @(posedge clk) begin
    if (taken) begin
      buffer    <= arguments[63:0];
      bytes     <= arguments[127:96];
      epoch     <= arguments[191:160];
      sequence_ <= arguments[287:224];
    end
    if (state == WAIT) begin
      dropped  <= !(tag_here && epoch == card_epoch) || bytes == '0;
      left     <= bytes;
      tag_time <= t_data[159:96];
      stalls   <= '0;
      cycles   <= '0;
    end else if (state == FLUSHED) begin
      dropped <= 1'b1;
    end else if (beat_in) begin
      left <= (left <= 32'(BEAT)) ? '0 : left - 32'(BEAT);
    end
    if (state == BEGIN) begin
      words_left  <= payload_words;
      fill_left   <= trailer_words - payload_words;
      status_left <= 4'(TRAILER);
    end else if (word_valid && word_ready) begin
      if (state == PAYLOAD) words_left <= words_left - 32'd1;
      if (state == FILL) fill_left <= fill_left - 32'd1;
      if (state == STATUS) status_left <= status_left - 4'd1;
    end
    if (state == PAYLOAD && s_valid && !s_ready && left != '0) stalls <= stalls + 64'd1;
    if (state == PAYLOAD && last_in) cycles <= now - tag_time;
  end
  assign frame_done = (state == FINISH) && finished && !dropped && !flush;

  // Converts elements to bytes, and bytes to words. Zeros complete a frame's last word.
  logic [BEAT*8-1:0]       beat;
  logic                    adapter_ready, adapted_valid;
  logic [DATA_BYTES*8-1:0] adapted, word;
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
  assign s_ready = (state == DISCARD) || (state == PAYLOAD && left != '0 && adapter_ready);
  mr_width_adapter #(.LANE(8), .S_LANES(BEAT), .M_LANES(DATA_BYTES)) adapter (
    .clk, .rst(rst || state != PAYLOAD), .s_valid(state == PAYLOAD && (s_valid || left == '0)), .s_ready(adapter_ready),
    .s_data((left == '0) ? '0 : beat), .m_valid(adapted_valid), .m_ready(word_ready && state == PAYLOAD), .m_data(adapted));

  // The trailer
  logic [511:0] trailer;
  assign trailer = {192'd0, stalls, cycles, dropped ? 32'd0 : bytes, 30'd0, spoilt && !dropped, dropped, sequence_, epoch, MAGIC};
  assign word_valid = (state == PAYLOAD) ? adapted_valid : (state == FILL || state == STATUS);
  assign word       = (state == PAYLOAD) ? adapted
                    : (state == STATUS) ? (DATA_BYTES * 8)'(trailer >> ((TRAILER - 32'(status_left)) * DATA_BYTES * 8)) : '0;

  mr_s2mm #(.DATA_BYTES(DATA_BYTES), .BURST(BURST)) writer (
    .clk, .rst, .flush, .quiet, .error, .go(state == BEGIN && !flush), .ready(writer_ready),
    .addr(dropped ? buffer + (64'(trailer_words) << SHIFT) : buffer),
    .words(dropped ? 32'(TRAILER) : trailer_words + 32'(TRAILER)), .finished,
    .s_valid(word_valid), .s_ready(word_ready), .s_data(word),
    .axi_awvalid, .axi_awready, .axi_awaddr, .axi_awlen, .axi_wvalid, .axi_wready, .axi_wdata, .axi_wlast,
    .axi_bvalid, .axi_bready, .axi_bresp);

  logic unused;
  assign unused = &{1'b0, arguments};
endmodule
`default_nettype wire
