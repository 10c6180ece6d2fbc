/// Stream to memory: writes `words` words of DATA_BYTES to `addr` with AXI4 bursts.
///
/// A command is accepted when `go` and `ready` are high. addr is a multiple of DATA_BYTES. A burst has at most BURST words and never
/// crosses a 4 KiB border. It begins only when all its words have arrived, so wvalid never waits for data inside a burst. `finished` is
/// high for one cycle after the last response.
///
/// `flush` (held until `quiet`) drops all bursts that have not begun; a burst that has begun is completed, as AXI requires. After a
/// response other than OKAY, `error` stays high until a flush. All write strobes are set. The address channel is registered; data pass
/// through a FIFO of 2*BURST words.
`default_nettype none
module mr_s2mm #(
  parameter integer DATA_BYTES = 64,
  parameter integer BURST      = 16
) (
  input  logic clk,
  input  logic rst,
  input  logic flush,
  output logic quiet,
  output logic error,

  input  logic        go,
  output logic        ready,
  input  logic [63:0] addr,
  input  logic [31:0] words,
  output logic        finished,

  input  logic                    s_valid,
  output logic                    s_ready,
  input  logic [DATA_BYTES*8-1:0] s_data,

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
  localparam integer SHIFT = $clog2(DATA_BYTES);
  localparam integer HW = $clog2(2 * BURST + 2);

  logic [63:0]   next;
  logic [31:0]   left;           // words of the command that no burst has taken
  logic [HW-1:0] held;           // words buffered that no burst has taken
  logic [8:0]    in_burst;       // words of the present burst not sent
  logic [7:0]    bursts;         // responses not back
  logic [12-SHIFT:0] to_boundary;
  logic [8:0]    length, length_limit;
  logic          active, begin_burst, push, buffer_ready, buffer_valid;
  assign to_boundary  = (13-SHIFT)'(1 << (12 - SHIFT)) - {1'b0, next[11:SHIFT]};
  assign length_limit = (32'(to_boundary) < BURST) ? 9'(to_boundary) : 9'(BURST);
  assign length       = (left < 32'(length_limit)) ? 9'(left) : length_limit;
  assign ready        = !active && !flush;
  assign s_ready      = buffer_ready && !flush;
  assign push         = s_valid && s_ready;
  assign begin_burst  = (left != '0) && !flush && (32'(held) >= 32'(length)) && !axi_awvalid && (in_burst == '0) && (bursts != '1);
  assign quiet        = !axi_awvalid && (in_burst == '0) && (bursts == '0);
  assign finished     = active && (left == '0) && quiet;
  assign axi_bready   = 1'b1;
  assign axi_wvalid   = buffer_valid && (in_burst != '0);
  assign axi_wlast    = (in_burst == 9'd1);

  always_ff @(posedge clk)
    if (rst) begin
      active      <= 1'b0;
      left        <= '0;
      held        <= '0;
      in_burst    <= '0;
      bursts      <= '0;
      axi_awvalid <= 1'b0;
      error       <= 1'b0;
    end else begin
      active      <= (go && ready) || (active && !finished && !flush);
      left        <= (go && ready) ? words : flush ? '0 : begin_burst ? left - 32'(length) : left;
      held        <= flush ? '0 : held + HW'(push) - (begin_burst ? HW'(length) : '0);
      in_burst    <= begin_burst ? length : in_burst - 9'(axi_wvalid && axi_wready);
      bursts      <= bursts + 8'(begin_burst) - 8'(axi_bvalid);
      axi_awvalid <= begin_burst || (axi_awvalid && !axi_awready);
      error       <= !flush && (error || (axi_bvalid && axi_bresp != 2'b00));
    end
  always_ff @(posedge clk) begin
    if (go && ready) next <= addr;
    else if (begin_burst) next <= next + (64'(length) << SHIFT);
    if (begin_burst) begin
      axi_awaddr <= next;
      axi_awlen  <= 8'(length - 9'd1);
    end
  end

  mr_fifo #(.WIDTH(DATA_BYTES * 8), .DEPTH(2 * BURST)) buffer (
    .clk, .rst(rst || (flush && quiet)), .s_valid(push), .s_ready(buffer_ready), .s_data,
    .m_valid(buffer_valid), .m_ready(axi_wready && in_burst != '0), .m_data(axi_wdata));

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(72)) check_aw (
    .clk, .rst, .valid(axi_awvalid), .ready(axi_awready), .data({axi_awlen, axi_awaddr}));
  mr_handshake_check #(.WIDTH(DATA_BYTES * 8 + 1)) check_w (
    .clk, .rst, .valid(axi_wvalid), .ready(axi_wready), .data({axi_wlast, axi_wdata}));
`endif
endmodule
`default_nettype wire
