/// Memory to stream: reads `bytes` bytes from `addr` with AXI4 bursts and outputs them in words of DATA_BYTES.
///
/// A command is accepted when `go` and `ready` are high. addr is a multiple of DATA_BYTES; the last word may contain bytes beyond the end.
/// A burst has at most BURST words and never crosses a 4 KiB border. It is requested only if the buffer has room for the whole burst, so
/// rready is always high. `flush` (held until `quiet`) drops the command and all data that are still on the way. After a response other
/// than OKAY, `error` stays high until a flush.
///
/// AXI bursts increment and consist of full words; the top module drives the constant signals (size, burst, cache, prot). The address
/// channel is registered; data pass through a FIFO of 2*BURST words.
`default_nettype none
module mr_mm2s #(
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
  input  logic [31:0] bytes,

  output logic                    axi_arvalid,
  input  logic                    axi_arready,
  output logic [63:0]             axi_araddr,
  output logic [7:0]              axi_arlen,
  input  logic                    axi_rvalid,
  output logic                    axi_rready,
  input  logic [DATA_BYTES*8-1:0] axi_rdata,
  input  logic [1:0]              axi_rresp,
  input  logic                    axi_rlast,

  output logic                    m_valid,
  input  logic                    m_ready,
  output logic [DATA_BYTES*8-1:0] m_data
);
  localparam integer SHIFT = $clog2(DATA_BYTES);
  localparam integer ROOM = 2 * BURST;
  localparam integer RW = $clog2(ROOM + 1);

  logic [63:0]   next;                 // address of the next burst
  logic [32-SHIFT:0] left;             // words not asked for yet
  logic [RW-1:0] room, outstanding;    // words free in the buffer and not promised; words asked for and not come
  logic [12-SHIFT:0] to_boundary;      // words up to the next 4 KiB
  logic [8:0]    length, length_limit;
  logic          ask, pop, unused;
  assign to_boundary  = (13-SHIFT)'(1 << (12 - SHIFT)) - {1'b0, next[11:SHIFT]};
  assign length_limit = (32'(to_boundary) < BURST) ? 9'(to_boundary) : 9'(BURST);
  assign length       = (32'(left) < 32'(length_limit)) ? 9'(left) : length_limit;
  assign ready        = (left == '0) && !flush;
  assign ask          = (left != '0) && !flush && !axi_arvalid && (32'(room) >= 32'(length));
  assign pop          = m_valid && m_ready;
  assign quiet        = !axi_arvalid && (outstanding == '0);
  assign axi_rready   = 1'b1;
  assign unused       = axi_rlast;  // lengths are counted

  always_ff @(posedge clk)
    if (rst) begin
      left        <= '0;
      room        <= RW'(ROOM);
      outstanding <= '0;
      axi_arvalid <= 1'b0;
      error       <= 1'b0;
    end else begin
      if (go && ready) left <= (33-SHIFT)'((33'(bytes) + 33'(DATA_BYTES - 1)) >> SHIFT);
      else if (flush) left <= '0;
      else if (ask) left <= left - (33-SHIFT)'(length);
      axi_arvalid <= ask || (axi_arvalid && !axi_arready);
      outstanding <= outstanding + (ask ? RW'(length) : '0) - RW'(axi_rvalid);
      room        <= (flush && quiet) ? RW'(ROOM) : room - (ask ? RW'(length) : '0) + RW'(pop);
      error       <= !flush && (error || (axi_rvalid && axi_rresp != 2'b00));
    end
  always_ff @(posedge clk) begin
    if (go && ready) next <= addr;
    else if (ask) next <= next + (64'(length) << SHIFT);
    if (ask) begin
      axi_araddr <= next;
      axi_arlen  <= 8'(length - 9'd1);
    end
  end

  logic buffer_ready;
  mr_fifo #(.WIDTH(DATA_BYTES * 8), .DEPTH(ROOM)) buffer (
    .clk, .rst(rst || flush), .s_valid(axi_rvalid), .s_ready(buffer_ready), .s_data(axi_rdata), .m_valid, .m_ready, .m_data);

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(72)) check_ar (
    .clk, .rst, .valid(axi_arvalid), .ready(axi_arready), .data({axi_arlen, axi_araddr}));
  always_ff @(posedge clk) if (!rst) assert (!axi_rvalid || flush || buffer_ready) else $error("%m: no room for a word asked for");
`else
  logic unused_ready;
  assign unused_ready = buffer_ready;
`endif
endmodule
`default_nettype wire
