/// Reads weights from memory ahead of their use: LINES lines of WIDTH bits from `addr`, again and again. A line is what the
/// block takes in one cycle; one reading of all lines is called a pass.
///
/// A line takes PITCH bytes in memory: the smallest power of two that holds it or, if it is longer than a memory word, a whole number of
/// words of DATA_BYTES. A pass begins at a word. While `active` is high, the reader requests the next pass as soon as it has requested the
/// last burst of the current one, so that its buffer of 2*BURST words fills while the block computes. It samples addr (a multiple of
/// DATA_BYTES) when it requests the first burst of a pass.
///
/// `flush` (held until `quiet`) drops everything that is on the way; afterwards the stream begins with line 0 again. After a response other
/// than OKAY, `error` stays high until a flush.
///
/// If memory keeps up, the output is one line per cycle or, for lines longer than a word, one line every PITCH / DATA_BYTES cycles. AXI
/// signals and registers are as in mr_mm2s and mr_width_adapter.
`default_nettype none
module mr_weight_reader #(
  parameter integer DATA_BYTES = 64,
  parameter integer BURST      = 16,
  parameter integer WIDTH      = 64,
  parameter integer LINES      = 16,
  localparam integer BYTES = (WIDTH + 7) / 8,
  localparam integer WORDS = (BYTES + DATA_BYTES - 1) / DATA_BYTES,  // of a long line
  localparam integer PITCH = (BYTES >= DATA_BYTES) ? WORDS * DATA_BYTES : 1 << $clog2(BYTES)
) (
  input  logic clk,
  input  logic rst,
  input  logic flush,
  output logic quiet,
  output logic error,

  input  logic        active,
  input  logic [63:0] addr,

  output logic                    axi_arvalid,
  input  logic                    axi_arready,
  output logic [63:0]             axi_araddr,
  output logic [7:0]              axi_arlen,
  input  logic                    axi_rvalid,
  output logic                    axi_rready,
  input  logic [DATA_BYTES*8-1:0] axi_rdata,
  input  logic [1:0]              axi_rresp,
  input  logic                    axi_rlast,

  output logic             m_valid,
  input  logic             m_ready,
  output logic [WIDTH-1:0] m_data
);
  localparam integer SHARED = (PITCH < DATA_BYTES) ? DATA_BYTES / PITCH : 1;  // lines a word
  localparam integer PASS   = (LINES * PITCH + DATA_BYTES - 1) / DATA_BYTES * DATA_BYTES;
  localparam integer SLOTS  = PASS / PITCH;  // lines a pass, those behind the last included
  localparam integer CW     = (SLOTS > 1) ? $clog2(SLOTS) : 1;

  logic                    word_valid, word_ready, command_ready;
  logic [DATA_BYTES*8-1:0] word;
  mr_mm2s #(.DATA_BYTES(DATA_BYTES), .BURST(BURST)) reader (
    .clk, .rst, .flush, .quiet, .error, .go(active), .ready(command_ready), .addr, .bytes(32'(PASS)),
    .axi_arvalid, .axi_arready, .axi_araddr, .axi_arlen, .axi_rvalid, .axi_rready, .axi_rdata, .axi_rresp, .axi_rlast,
    .m_valid(word_valid), .m_ready(word_ready), .m_data(word));

  logic               slot_valid, slot_ready, spare;
  logic [PITCH*8-1:0] slot;
  mr_width_adapter #(.LANE((SHARED > 1) ? PITCH * 8 : DATA_BYTES * 8), .S_LANES(SHARED), .M_LANES((SHARED > 1) ? 1 : WORDS)) lines (
    .clk, .rst(rst || flush), .s_valid(word_valid), .s_ready(word_ready), .s_data(word),
    .m_valid(slot_valid), .m_ready(slot_ready), .m_data(slot));

  // After the last line of a pass (one reading of all lines), ignore the remaining bytes of its memory word.
  generate
    if (SLOTS == LINES) begin : g_full
      assign spare = 1'b0;
    end else begin : g_spare
      logic [CW-1:0] count;
      always_ff @(posedge clk)
        if (rst || flush) count <= '0;
        else if (slot_valid && slot_ready) count <= (count == CW'(SLOTS - 1)) ? '0 : count + 1'b1;
      assign spare = (count >= CW'(LINES));
    end
  endgenerate
  assign m_valid    = slot_valid && !spare;
  assign slot_ready = m_ready || spare;
  assign m_data     = slot[WIDTH-1:0];
  logic unused;
  assign unused = &{1'b0, slot, command_ready};

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(WIDTH)) check (.clk, .rst(rst || flush), .valid(m_valid), .ready(m_ready), .data(m_data));
`endif
endmodule
`default_nettype wire
