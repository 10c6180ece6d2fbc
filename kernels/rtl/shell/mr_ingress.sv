/// An input port that the host feeds: each run reads one frame from memory and sends it to the partition (image_abi.hpp, IngressArgument).
///
/// In memory, an element takes EBYTES bytes. A beat of the stream has LANES elements of ABITS (with AKIND 2, -1 becomes the bit 0). A frame
/// is a whole number of beats. From the cycle after a frame's first beat, the frame's tag {time of this beat, sequence, epoch} is offered
/// on t_; the next frame begins when the tag has been accepted. A run of another epoch ends at once, and its frame is dropped. `flush` ends
/// the current run, and no new run begins while `flush` is high. Arguments: buffer 0x10, bytes 0x1c, epoch 0x24, sequence 0x2c.
`default_nettype none
module mr_ingress #(
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

  output logic                   m_valid,
  input  logic                   m_ready,
  output logic [LANES*ABITS-1:0] m_data,

  output logic         t_valid,
  input  logic         t_ready,
  output logic [159:0] t_data
);
  localparam integer BEAT = LANES * EBYTES;  // bytes a beat

  typedef enum logic [1:0] {IDLE, FETCH, DONE} state_t;
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

  logic [31:0] left;      // bytes of the frame not given out
  logic [95:0] tag;       // {sequence, epoch} of the run
  logic        first, right_epoch, fetch, last, fire;
  assign right_epoch = (arguments[191:160] == card_epoch) && (arguments[127:96] != '0);
  assign taken       = (state == IDLE) && start && !flush;
  assign fetch       = taken && right_epoch;
  assign done        = (state == DONE);
  assign busy        = (state == FETCH);
  assign last        = (left <= 32'(BEAT));
  assign fire        = m_valid && m_ready;

  always_ff @(posedge clk)
    if (rst) state <= IDLE;
    else
      case (state)
        IDLE:    if (taken) state <= right_epoch ? FETCH : DONE;
        FETCH:   if (flush || (fire && last)) state <= DONE;
        default: if (go_on) state <= IDLE;
      endcase
  always_ff @(posedge clk)
    if (taken) begin
      left  <= arguments[127:96];
      tag   <= {arguments[287:224], arguments[191:160]};
      first <= 1'b1;
    end else if (fire) begin
      left  <= left - 32'(BEAT);
      first <= 1'b0;
    end

  logic                    word_valid, word_ready, beat_valid, reader_ready, unused;
  logic [DATA_BYTES*8-1:0] word;
  logic [BEAT*8-1:0]       beat;
  mr_mm2s #(.DATA_BYTES(DATA_BYTES), .BURST(BURST)) reader (
    .clk, .rst, .flush, .quiet, .error, .go(fetch), .ready(reader_ready), .addr(arguments[63:0]), .bytes(arguments[127:96]),
    .axi_arvalid, .axi_arready, .axi_araddr, .axi_arlen, .axi_rvalid, .axi_rready, .axi_rdata, .axi_rresp, .axi_rlast,
    .m_valid(word_valid), .m_ready(word_ready), .m_data(word));
  // Reset the adapter between frames, because the last memory word of a frame can contain bytes behind the frame's end.
  mr_width_adapter #(.LANE(8), .S_LANES(DATA_BYTES), .M_LANES(BEAT)) adapter (
    .clk, .rst(rst || state != FETCH), .s_valid(word_valid), .s_ready(word_ready), .s_data(word),
    .m_valid(beat_valid), .m_ready(fire), .m_data(beat));
  assign unused = &{1'b0, reader_ready, beat, arguments};  // the reader is idle whenever a run is taken

  assign m_valid = (state == FETCH) && beat_valid && !(first && t_valid);
  always_ff @(posedge clk) begin
    t_valid <= !rst && !flush && ((fire && first) || (t_valid && !t_ready));
    if (fire && first) t_data <= {now, tag};
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

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(LANES * ABITS)) check (.clk, .rst(rst || flush), .valid(m_valid), .ready(m_ready), .data(m_data));
  mr_handshake_check #(.WIDTH(160)) check_tag (.clk, .rst(rst || flush), .valid(t_valid), .ready(t_ready), .data(t_data));
  always_ff @(posedge clk) if (!rst) assert (!fetch || reader_ready) else $error("%m: a run taken while the reader was busy");
`endif
endmodule
`default_nettype wire
