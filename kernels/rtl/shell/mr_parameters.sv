/// The unit that loads parameters: each run reads the words of the loaded constants from memory and sends them to the blocks
/// (image_abi.hpp, ParametersArgument; runtime/plan/README.md, "Parameters").
///
/// A run reads WORDS 64-bit words (a multiple of DATA_BYTES / 8) from buffer + load_offset and sends them out on load_, which cannot be
/// held back. Both addresses are multiples of 4 KiB. The run is done HOPS + 6 cycles after the last word. A run with another load_bytes
/// reads nothing and raises `error` until a run with the right load_bytes starts. A memory response other than OKAY also raises `error`.
///
/// An epoch's flush does not affect this unit. If a reset interrupts a run, the unit sends the missing words with arbitrary content,
/// because the receivers count words. The loaded constants are then invalid until the next run, which waits until these words were sent.
///
/// `streamed` is buffer + streamed_offset of the last valid run. `given` says that `streamed` is valid: from the end of that run until the
/// next run begins. A run does not end while `reading` is high, because reads from the old buffer are still on the way. Arguments of a run:
/// buffer 0x10, bytes 0x1c, load_offset 0x24, load_bytes 0x2c, streamed_offset 0x34. `streamed`, `given` and the state are registers; data
/// pass through a FIFO.
`default_nettype none
module mr_parameters #(
  parameter integer DATA_BYTES = 64,
  parameter integer BURST      = 16,
  parameter integer WORDS      = 8,
  parameter integer HOPS       = 1
) (
  input  logic clk,
  input  logic rst,
  output logic error,

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

  output logic        load_valid,
  output logic [63:0] load_data,
  output logic [63:0] streamed,
  output logic        given,
  input  logic        reading
);
  localparam integer WAIT = HOPS + 4;
  localparam integer CW = $clog2(WORDS + 1);
  localparam integer HW = $clog2(WAIT + 1);

  typedef enum logic [1:0] {IDLE, FETCH, SETTLE, DONE} state_t;
  state_t state;

  logic         start, taken, done, go_on;
  logic [319:0] arguments;
  mr_run_control #(.WORDS(10)) control (.clk, .rst,
    .axil_awvalid(axil_awvalid), .axil_awready(axil_awready), .axil_awaddr(axil_awaddr), .axil_wvalid(axil_wvalid),
    .axil_wready(axil_wready), .axil_wdata(axil_wdata), .axil_wstrb(axil_wstrb), .axil_bvalid(axil_bvalid),
    .axil_bready(axil_bready), .axil_bresp(axil_bresp), .axil_arvalid(axil_arvalid), .axil_arready(axil_arready),
    .axil_araddr(axil_araddr), .axil_rvalid(axil_rvalid), .axil_rready(axil_rready), .axil_rdata(axil_rdata),
    .axil_rresp(axil_rresp),
    .irq, .start, .taken, .done, .go_on, .idle(state == IDLE && !start), .arguments);

  logic          fits, fetch, wrong, reader_error, owed, word_given;
  logic [CW-1:0] left = '0;  // survives a reset
  logic [HW-1:0] settling;
  logic          settled;
  assign fits  = (arguments[255:224] == 32'(WORDS * 8));
  assign owed  = (state == IDLE) && (left != '0) && (left != CW'(WORDS));
  assign taken = (state == IDLE) && start && !owed;
  assign fetch = taken && fits;
  assign done  = (state == DONE);
  assign error = wrong;
  assign load_valid = word_given || owed;
  assign settled = (settling == '0) && !reading;

  always_ff @(posedge clk)
    if (rst) begin
      state   <= IDLE;
      wrong   <= 1'b0;
      given   <= 1'b0;
    end else begin
      if (taken) wrong <= !fits;
      else if (reader_error) wrong <= 1'b1;
      if (fetch) given <= 1'b0;
      else if (state == SETTLE && settled) given <= 1'b1;
      case (state)
        IDLE:    if (taken) state <= fits ? FETCH : DONE;
        FETCH:   if (load_valid && left == CW'(1)) state <= SETTLE;
        SETTLE:  if (settled) state <= DONE;
        default: if (go_on) state <= IDLE;
      endcase
    end
  always_ff @(posedge clk) begin
    if (fetch) streamed <= arguments[63:0] + 64'(arguments[319:288]);
    if (fetch && !rst) left <= CW'(WORDS);
    else if (load_valid) left <= left - 1'b1;
    if (state != SETTLE) settling <= HW'(WAIT);
    else if (settling != '0) settling <= settling - 1'b1;
  end

  logic                    word_valid, word_ready, reader_ready, reader_quiet;
  logic [DATA_BYTES*8-1:0] word;
  mr_mm2s #(.DATA_BYTES(DATA_BYTES), .BURST(BURST)) reader (
    .clk, .rst, .flush(done), .quiet(reader_quiet), .error(reader_error), .go(fetch), .ready(reader_ready),
    .addr(arguments[63:0] + 64'(arguments[191:160])), .bytes(32'(WORDS * 8)),
    .axi_arvalid, .axi_arready, .axi_araddr, .axi_arlen, .axi_rvalid, .axi_rready, .axi_rdata, .axi_rresp, .axi_rlast,
    .m_valid(word_valid), .m_ready(word_ready), .m_data(word));
  mr_width_adapter #(.LANE(64), .S_LANES(DATA_BYTES / 8), .M_LANES(1)) adapter (
    .clk, .rst, .s_valid(word_valid), .s_ready(word_ready), .s_data(word),
    .m_valid(word_given), .m_ready(1'b1), .m_data(load_data));
  logic unused;
  assign unused = &{1'b0, reader_ready, reader_quiet, arguments};

`ifndef SYNTHESIS
  initial assert (WORDS % (DATA_BYTES / 8) == 0) else $fatal(1, "%m: not a whole number of memory words");
`endif
endmodule
`default_nettype wire
