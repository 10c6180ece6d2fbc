/// An input port that the host feeds through a ring in its memory: the unit reads frames from the slots, unpacks their elements, and gives
/// each frame a tag (runtime/plan/ring_abi.hpp, "the way in").
///
/// As soon as the host has offered slots, the unit reads them in order, ahead of their use: per slot first the trailer, then the payload.
/// Reads are under way for up to 2*BURST words, whatever the number of slots and bursts. A trailer that does not fit its slot is refused:
/// the unit then begins no frame any more.
///
/// In memory, a frame has BYTES bytes, and an element takes EBYTES bytes. A beat of the stream has LANES elements of ABITS (with AKIND 2,
/// -1 becomes the bit 0). A frame is a whole number of beats. From the cycle after a frame's first beat, the frame's tag {time of this
/// beat, sequence, epoch} is offered on t_; the next frame begins when the tag has been accepted. `flush` (held until `quiet`) drops
/// everything that has not left. After a response of memory other than OKAY, `error` stays high until a flush or a disable. `busy` is high
/// while a frame leaves.
///
/// Latency: the first address of a read is offered 4 cycles after the doorbell's last channel was taken. A frame's first beat follows the
/// last word of its trailer after 4 cycles, + 1 if DATA_BYTES is less than 64, + the words of a beat if LANES * EBYTES is not DATA_BYTES.
/// Interval: the beats or the words of a payload, whichever is more, + 3 cycles (2 if LANES * EBYTES is DATA_BYTES), + the words of a
/// trailer if DATA_BYTES is less than 64. This holds if memory and the receiver keep up. DATA_BYTES divides 64. Addresses, tags and beats
/// are registers (beats as in mr_width_adapter); read data pass through a FIFO.
`default_nettype none
module mr_ring_in #(
  parameter integer DATA_BYTES   = 64,
  parameter integer BURST        = 64,
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
  output logic busy,
  output logic error,

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

  output logic                    axi_arvalid,
  input  logic                    axi_arready,
  output logic [63:0]             axi_araddr,
  output logic [7:0]              axi_arlen,
  input  logic                    axi_rvalid,
  output logic                    axi_rready,
  input  logic [DATA_BYTES*8-1:0] axi_rdata,
  input  logic [1:0]              axi_rresp,
  input  logic                    axi_rlast,
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

  output logic                   m_valid,
  input  logic                   m_ready,
  output logic [LANES*ABITS-1:0] m_data,

  output logic         t_valid,
  input  logic         t_ready,
  output logic [159:0] t_data
);
  localparam integer BEAT = LANES * EBYTES;  // bytes a beat
  localparam integer WORDS = (BYTES + DATA_BYTES - 1) / DATA_BYTES;  // of a payload
  localparam integer TRAILER_WORDS = 64 / DATA_BYTES;
  localparam integer TRAILER_AT = (BYTES + 63) / 64 * 64;
  localparam integer SLOT = TRAILER_AT + 64;
  localparam logic [31:0] MAGIC = 32'h5452524d;
  localparam logic [1:0] STATUS = 2'd2;

  logic         on, idle, failed, advance, trailer_refused, status_due, status_taken, status_written, unused_mode;
  logic [63:0]  base, status_base;
  logic [8:0]   slots;
  logic [31:0]  index;
  logic [15:0]  offered;
  logic [511:0] record;
  logic         reader_quiet, reader_error, reader_ready, writer_idle, writer_ready, done, done_failed, write_failed;
  mr_ring_control #(.OUT(0), .BYTES(BYTES), .CLOCK_MHZ(CLOCK_MHZ), .HEARTBEAT_US(HEARTBEAT_US)) ring (.clk, .rst, .flush,
    .card_epoch, .now,
    .axil_awvalid(axil_awvalid), .axil_awready(axil_awready), .axil_awaddr(axil_awaddr), .axil_wvalid(axil_wvalid),
    .axil_wready(axil_wready), .axil_wdata(axil_wdata), .axil_wstrb(axil_wstrb), .axil_bvalid(axil_bvalid),
    .axil_bready(axil_bready), .axil_bresp(axil_bresp), .axil_arvalid(axil_arvalid), .axil_arready(axil_arready),
    .axil_araddr(axil_araddr), .axil_rvalid(axil_rvalid), .axil_rready(axil_rready), .axil_rdata(axil_rdata),
    .axil_rresp(axil_rresp),
    .irq, .on, .idle, .base, .status_base, .slots, .card_memory(unused_mode), .advance, .index, .offered,
    .trailer_refused, .read_failed(reader_error), .write_failed(done && done_failed), .failed,
    .status_due, .record, .status_taken, .status_written, .trailer_written(1'b0));
  assign idle  = reader_quiet && writer_idle;
  assign quiet = idle;
  assign error = reader_error || write_failed;

  // Asks for the slots that were offered: the trailer, then the payload.
  logic [63:0] slot;          // address of the next slot
  logic [15:0] asked, next_asked;
  logic        payload_next, ask, unused;
  assign ask        = on && reader_ready && (payload_next || (asked != offered && !failed));
  assign next_asked = asked + 16'd1;
  always_ff @(posedge clk)
    if (rst || !on) begin
      asked        <= '0;
      payload_next <= 1'b0;
    end else if (ask) begin
      payload_next <= !payload_next;
      if (payload_next) asked <= next_asked;
    end
  always_ff @(posedge clk)
    if (!on) slot <= base;
    else if (ask && payload_next) slot <= ((next_asked[8:0] & (slots - 9'd1)) == '0) ? base : slot + 64'(SLOT);

  logic                    word_valid, word_ready;
  logic [DATA_BYTES*8-1:0] word;
  mr_mm2s #(.DATA_BYTES(DATA_BYTES), .BURST(BURST)) reader (
    .clk, .rst, .flush(!on), .quiet(reader_quiet), .error(reader_error), .go(ask), .ready(reader_ready),
    .addr(payload_next ? slot : slot + 64'(TRAILER_AT)), .bytes(payload_next ? 32'(BYTES) : 32'd64),
    .axi_arvalid, .axi_arready, .axi_araddr, .axi_arlen, .axi_rvalid, .axi_rready, .axi_rdata, .axi_rresp, .axi_rlast,
    .m_valid(word_valid), .m_ready(word_ready), .m_data(word));

  // TAKE collects a trailer, CHECK decides whether it fits, PAYLOAD sends the frame. REFUSED lasts until the unit is off.
  typedef enum logic [1:0] {TAKE, CHECK, PAYLOAD, REFUSED} state_t;
  state_t       state;
  logic         trailer_valid, trailer_taken, collecting, collector_ready, fits, right_phase, right_epoch, right_frame, right_order;
  logic [511:0] trailer;
  mr_width_adapter #(.LANE(DATA_BYTES * 8), .S_LANES(1), .M_LANES(TRAILER_WORDS)) collector (
    .clk, .rst(rst || !on), .s_valid(word_valid && collecting), .s_ready(collector_ready), .s_data(word),
    .m_valid(trailer_valid), .m_ready(trailer_taken), .m_data(trailer));
  assign trailer_taken = (state == CHECK) && !failed && fits;
  // A trailer of one word stays in the reader until it is taken. One of several words is in the collector, and payload follows it.
  assign collecting    = (TRAILER_WORDS == 1) ? state != PAYLOAD : state == TAKE;
  assign fits          = right_phase && right_epoch && right_frame && right_order;

  logic [31:0] left;        // bytes of the frame not sent
  logic [31:0] words_left;  // words of the payload not taken
  logic [63:0] sequence_;
  logic        first, any;  // any: a frame of this epoch has come, so the next sequence must be greater
  logic        beat_valid, beat_ready, fire, last, take;
  assign trailer_refused = (state == CHECK) && !failed && !fits;
  assign fire            = m_valid && m_ready;
  assign last            = fire && (left <= 32'(BEAT));
  assign take            = (state == PAYLOAD) && word_valid && (words_left != '0) && beat_ready;
  assign word_ready      = (state == PAYLOAD) ? take : collecting && collector_ready;
  assign advance         = take && (words_left == 32'd1);
  assign busy            = (state == PAYLOAD);

  always_ff @(posedge clk)
    if (rst || !on) state <= TAKE;
    else
      case (state)
        TAKE:    if (trailer_valid && !failed && !reader_error) state <= CHECK;
        CHECK:   state <= trailer_taken ? PAYLOAD : failed ? TAKE : REFUSED;
        PAYLOAD: if (last) state <= TAKE;
        default: state <= REFUSED;
      endcase
  always_ff @(posedge clk) begin
    right_frame <= (trailer[63:0] == {32'(BYTES), MAGIC}) && (trailer[159:128] == '0);
    right_phase <= (trailer[479:448] == {(index[8:0] & slots) == '0, index[30:0]});
    right_epoch <= (trailer[511:480] == card_epoch);
    right_order <= !any || (trailer[127:64] > sequence_);
    if (trailer_taken) begin
      sequence_  <= trailer[127:64];
      left       <= 32'(BYTES);
      words_left <= 32'(WORDS);
      first      <= 1'b1;
    end else begin
      if (fire) begin
        left  <= left - 32'(BEAT);
        first <= 1'b0;
      end
      if (take) words_left <= words_left - 32'd1;
    end
    any <= on && (any || trailer_taken);
  end

  logic [BEAT*8-1:0] beat;
  // Reset the adapter between frames, because the last memory word of a frame can contain bytes behind the frame's end.
  mr_width_adapter #(.LANE(8), .S_LANES(DATA_BYTES), .M_LANES(BEAT)) adapter (
    .clk, .rst(rst || state != PAYLOAD), .s_valid(state == PAYLOAD && word_valid && words_left != '0), .s_ready(beat_ready),
    .s_data(word), .m_valid(beat_valid), .m_ready(fire), .m_data(beat));

  assign m_valid = on && (state == PAYLOAD) && beat_valid && !(first && t_valid);
  always_ff @(posedge clk) begin
    t_valid <= !rst && on && ((fire && first) || (t_valid && !t_ready));
    if (fire && first) t_data <= {now, sequence_, card_epoch};
  end
  generate
    for (genvar i = 0; i < LANES; i = i + 1) begin : g_lane
      if (AKIND == 2) begin : g_bipolar
        assign m_data[i] = !beat[i*EBYTES*8+1];  // +1 is ...01, -1 is ...11
      end else begin : g_integer
        assign m_data[i*ABITS+:ABITS] = beat[i*EBYTES*8+:ABITS];
      end
    end
  endgenerate

  // Status records
  logic [1:0] unused_kind;
  logic       unused_ready;
  assign status_taken   = status_due && writer_ready;
  assign status_written = done;
  always_ff @(posedge clk) write_failed <= !rst && on && (write_failed || (done && done_failed));
  mr_ring_writer #(.DATA_BYTES(DATA_BYTES), .OUTSTANDING(2)) writer (
    .clk, .rst, .idle(writer_idle), .go(status_taken), .ready(writer_ready), .addr(status_base), .words(9'(TRAILER_WORDS)),
    .kind(STATUS), .record, .s_valid(1'b0), .s_ready(unused_ready), .s_data('0),
    .done, .done_kind(unused_kind), .done_failed,
    .axi_awvalid, .axi_awready, .axi_awaddr, .axi_awlen, .axi_wvalid, .axi_wready, .axi_wdata, .axi_wlast,
    .axi_bvalid, .axi_bready, .axi_bresp);
  assign unused = &{1'b0, index, unused_mode, unused_kind, unused_ready, beat, trailer};

`ifndef SYNTHESIS
  initial assert (BYTES > 0 && BYTES % BEAT == 0) else $fatal(1, "%m: not a whole number of beats");
  mr_handshake_check #(.WIDTH(LANES * ABITS)) check (.clk, .rst(rst || !on), .valid(m_valid), .ready(m_ready), .data(m_data));
  mr_handshake_check #(.WIDTH(160)) check_t (.clk, .rst(rst || !on), .valid(t_valid), .ready(t_ready), .data(t_data));
`endif
endmodule
`default_nettype wire
