/// The unit that reports faults to the host. Its run ends only when there is something to report (image_abi.hpp, SupervisorArgument,
/// FaultReport).
///
/// `fault` may rise in any cycle, together with a code and a link; the first fault is kept until a run has reported it. `stop` ends the
/// current run with kStopped; without a run, it does nothing. To report, the unit writes 64 bytes to the buffer (argument 0x10, a multiple
/// of DATA_BYTES, which divides 64); then the run is done. After a memory response other than OKAY, `error` stays high. Everything is
/// registered except the AXI data, which pass through a FIFO.
`default_nettype none
module mr_supervisor #(
  parameter integer DATA_BYTES = 64
) (
  input  logic clk,
  input  logic rst,
  output logic error,

  input  logic        stop,
  input  logic        fault,
  input  logic [31:0] fault_code,
  input  logic [31:0] fault_link,

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
  input  logic [1:0]              axi_bresp
);
  localparam integer WORDS = 64 / DATA_BYTES;
  localparam integer WW = $clog2(WORDS + 1);
  localparam logic [31:0] MAGIC = 32'h4654524d;
  localparam logic [31:0] STOPPED = 32'd1, LINK_DOWN = 32'd2, PROTOCOL = 32'd3;

  // Returns a literal of `length` characters with its first character in the lowest byte, and zeros after the last one.
  function automatic logic [383:0] text(input logic [383:0] literal, input integer length);
    text = '0;
    for (integer i = 0; i < 48; i = i + 1) if (i < length) text[i*8+:8] = literal[(length-1-i)*8+:8];
  endfunction

  typedef enum logic [2:0] {IDLE, WAIT, BEGIN, SEND, FINISH, DONE} state_t;
  state_t state;

  logic        start, taken, done, go_on;
  logic [63:0] buffer, arguments;
  assign taken = (state == IDLE) && start;
  assign done  = (state == DONE);
  mr_run_control #(.WORDS(2)) control (.clk, .rst,
    .axil_awvalid(axil_awvalid), .axil_awready(axil_awready), .axil_awaddr(axil_awaddr), .axil_wvalid(axil_wvalid),
    .axil_wready(axil_wready), .axil_wdata(axil_wdata), .axil_wstrb(axil_wstrb), .axil_bvalid(axil_bvalid),
    .axil_bready(axil_bready), .axil_bresp(axil_bresp), .axil_arvalid(axil_arvalid), .axil_arready(axil_arready),
    .axil_araddr(axil_araddr), .axil_rvalid(axil_rvalid), .axil_rready(axil_rready), .axil_rdata(axil_rdata),
    .axil_rresp(axil_rresp),
    .irq, .start, .taken, .done, .go_on, .idle(state == IDLE && !start), .arguments);

  logic          word_valid, word_ready, writer_ready, finished, writer_quiet;
  logic [31:0]   code, link;  // of the fault that is to be reported; code 0: none
  logic [WW-1:0] left;
  logic [511:0]  report;
  always_ff @(posedge clk)
    if (rst) begin
      state <= IDLE;
      code  <= '0;
    end else begin
      if (code == '0) begin
        if (fault) code <= fault_code;
        else if (stop && state == WAIT) code <= STOPPED;
      end else if (state == DONE && go_on) begin
        code <= '0;
      end
      case (state)
        IDLE:    if (taken) state <= WAIT;
        WAIT:    if (code != '0) state <= BEGIN;
        BEGIN:   if (writer_ready) state <= SEND;
        SEND:    if (word_ready && left == WW'(1)) state <= FINISH;
        FINISH:  if (finished) state <= DONE;
        default: if (go_on) state <= IDLE;
      endcase
    end

  always_ff @(posedge clk) begin
    if (code == '0) link <= fault ? fault_link : '0;
    if (taken) buffer <= arguments;
    if (state == BEGIN) begin
      left   <= WW'(WORDS);
      report <= {(code == STOPPED) ? text("stopped by the host", 19)
                 : (code == LINK_DOWN) ? text("a cable is down or its peer has gone", 36)
                 : (code == PROTOCOL) ? text("the peer does not keep to the protocol", 38)
                 : text("an access to memory failed", 26),
                 32'd0, link, code, MAGIC};
    end else if (word_valid && word_ready) begin
      left   <= left - 1'b1;
      report <= report >> (DATA_BYTES * 8);
    end
  end
  assign word_valid = (state == SEND);

  mr_s2mm #(.DATA_BYTES(DATA_BYTES), .BURST(WORDS)) writer (
    .clk, .rst, .flush(1'b0), .quiet(writer_quiet), .error, .go(state == BEGIN), .ready(writer_ready), .addr(buffer),
    .words(32'(WORDS)), .finished, .s_valid(word_valid), .s_ready(word_ready), .s_data(report[DATA_BYTES*8-1:0]),
    .axi_awvalid, .axi_awready, .axi_awaddr, .axi_awlen, .axi_wvalid, .axi_wready, .axi_wdata, .axi_wlast,
    .axi_bvalid, .axi_bready, .axi_bresp);
  logic unused;
  assign unused = writer_quiet;
endmodule
`default_nettype wire
