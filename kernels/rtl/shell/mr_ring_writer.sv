/// Writes one AXI4 burst for each command: words of a stream (the payload of a slot), or a record of 64 bytes.
///
/// A command is accepted when `go` and `ready` are high. Its burst begins in the next cycle, so everything about it must be known: the
/// burst must not cross 4 KiB, and with KIND 0 the stream must offer the burst's words without a gap from the next cycle on. With any other
/// kind, the burst consists of `record`, which is copied; `words` must then be 64 / DATA_BYTES. Bursts of several commands are under way at
/// the same time, at most OUTSTANDING. They have one AXI ID, so memory answers them in order: in the cycle of an answer, `done` is high,
/// done_kind is the command's kind, and done_failed says that the answer was not OKAY.
///
/// `idle` says that all bursts were answered. addr is a multiple of DATA_BYTES, which divides 64. The address channel and records are
/// registers; the words of the stream pass through.
`default_nettype none
module mr_ring_writer #(
  parameter integer DATA_BYTES  = 64,
  parameter integer OUTSTANDING = 16
) (
  input  logic clk,
  input  logic rst,
  output logic idle,

  input  logic         go,
  output logic         ready,
  input  logic [63:0]  addr,
  input  logic [8:0]   words,
  input  logic [1:0]   kind,
  input  logic [511:0] record,

  input  logic                    s_valid,
  output logic                    s_ready,
  input  logic [DATA_BYTES*8-1:0] s_data,

  output logic       done,
  output logic [1:0] done_kind,
  output logic       done_failed,

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
  localparam integer PW = $clog2(OUTSTANDING + 2);

  logic [8:0]    left;     // words of the present burst not sent
  logic [PW-1:0] pending;  // bursts not answered
  logic [511:0]  rest;     // of the record
  logic          from_record, start, kinds_ready, fire;
  assign ready      = !axi_awvalid && (left == '0) && kinds_ready && (pending < PW'(OUTSTANDING));
  assign start      = go && ready;
  assign idle       = !axi_awvalid && (left == '0) && (pending == '0);
  assign axi_wvalid = (left != '0) && (from_record || s_valid);
  assign axi_wlast  = (left == 9'd1);
  assign axi_wdata  = from_record ? rest[DATA_BYTES*8-1:0] : s_data;
  assign fire       = axi_wvalid && axi_wready;
  assign s_ready    = (left != '0) && !from_record && axi_wready;

  always_ff @(posedge clk)
    if (rst) begin
      axi_awvalid <= 1'b0;
      left        <= '0;
      pending     <= '0;
    end else begin
      axi_awvalid <= start || (axi_awvalid && !axi_awready);
      left        <= start ? words : left - 9'(fire);
      pending     <= pending + PW'(start) - PW'(done);
    end
  always_ff @(posedge clk) begin
    if (start) begin
      axi_awaddr  <= addr;
      axi_awlen   <= 8'(words - 9'd1);
      from_record <= (kind != 2'd0);
      rest        <= record;
    end else if (fire) begin
      rest <= rest >> (DATA_BYTES * 8);
    end
  end

  mr_fifo #(.WIDTH(2), .DEPTH(OUTSTANDING)) kinds (
    .clk, .rst, .s_valid(start), .s_ready(kinds_ready), .s_data(kind), .m_valid(axi_bready), .m_ready(axi_bvalid), .m_data(done_kind));
  assign done        = axi_bvalid && axi_bready;
  assign done_failed = (axi_bresp != 2'b00);

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(72)) check_aw (
    .clk, .rst, .valid(axi_awvalid), .ready(axi_awready), .data({axi_awlen, axi_awaddr}));
  mr_handshake_check #(.WIDTH(DATA_BYTES * 8 + 1)) check_w (
    .clk, .rst, .valid(axi_wvalid), .ready(axi_wready), .data({axi_wlast, axi_wdata}));
  always_ff @(posedge clk)
    if (!rst) assert (left == '0 || axi_wvalid) else $error("%m: the stream has no word for a burst that has begun");
`endif
endmodule
`default_nettype wire
