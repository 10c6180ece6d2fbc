/// part0_dataflow: the network of partition part0 of a model for ku060 at 156.25 MHz. Its inputs and outputs are streams.
///
/// Written by millrace. Simulated with Verilator and synthesised with Yosys; never been through Vivado or on a card.
///
/// Frames are row-major, channels innermost; lane 0 is in the low bits. If inputs are offered and outputs taken in every clock,
/// a frame takes 256 cycles, and the first frame's last beat leaves 329 cycles after its first beat arrived. Ports:
///   in0  int8, 4 a beat, 16 beats a frame: t0
///   out0  int8, 2 a beat, 4 beats a frame: t2
/// Blocks: dense0, dense1
`default_nettype none
module part0_dataflow (
  input  logic clk,
  input  logic rst,

  input  logic load_valid,
  input  logic [63:0] load_data,

  input  logic weights_active,
  input  logic weights_flush,
  input  logic [63:0] weights_addr,
  output logic weights_quiet,
  output logic weights_error,

  output logic weights0_axi_arvalid,
  input  logic weights0_axi_arready,
  output logic [63:0] weights0_axi_araddr,
  output logic [7:0] weights0_axi_arlen,
  input  logic weights0_axi_rvalid,
  output logic weights0_axi_rready,
  input  logic [511:0] weights0_axi_rdata,
  input  logic [1:0] weights0_axi_rresp,
  input  logic weights0_axi_rlast,

  input  logic in0_valid,
  output logic in0_ready,
  input  logic [31:0] in0_data,

  output logic out0_valid,
  input  logic out0_ready,
  output logic [15:0] out0_data
);

  // Loaded constants: 104 words of 64 bits.
  logic dense0_requant_load_valid, dense0_requant_load_pass_valid;
  logic [119:0] dense0_requant_load_data;
  logic [63:0] dense0_requant_load_pass_data;
  mr_load #(.WIDTH(120), .LINES(16), .REST(72)) dense0_requant_load (.clk, .s_valid(load_valid), .s_data(load_data),
    .m_valid(dense0_requant_load_pass_valid), .m_data(dense0_requant_load_pass_data), .l_valid(dense0_requant_load_valid),
        .l_data(dense0_requant_load_data));
  logic dense1_weights_load_valid, dense1_weights_load_pass_valid;
  logic [63:0] dense1_weights_load_data;
  logic [63:0] dense1_weights_load_pass_data;
  mr_load #(.WIDTH(64), .LINES(64), .REST(8)) dense1_weights_load (.clk, .s_valid(dense0_requant_load_pass_valid),
      .s_data(dense0_requant_load_pass_data),
    .m_valid(dense1_weights_load_pass_valid), .m_data(dense1_weights_load_pass_data), .l_valid(dense1_weights_load_valid),
        .l_data(dense1_weights_load_data));
  logic dense1_requant_load_valid, dense1_requant_load_pass_valid;
  logic [59:0] dense1_requant_load_data;
  logic [63:0] dense1_requant_load_pass_data;
  mr_load #(.WIDTH(60), .LINES(4), .REST(4)) dense1_requant_load (.clk, .s_valid(dense1_weights_load_pass_valid),
      .s_data(dense1_weights_load_pass_data),
    .m_valid(dense1_requant_load_pass_valid), .m_data(dense1_requant_load_pass_data), .l_valid(dense1_requant_load_valid),
        .l_data(dense1_requant_load_data));

  // Reads all streamed weights from memory, again and again: 4096 bytes from weights_addr on.
  logic dense0_reader_valid, dense0_reader_ready, dense0_reader_quiet, dense0_reader_error;
  logic [127:0] dense0_reader_data;
  mr_weight_reader #(.DATA_BYTES(64), .BURST(16), .WIDTH(128), .LINES(256)) dense0_reader (
    .clk, .rst, .flush(weights_flush), .quiet(dense0_reader_quiet), .error(dense0_reader_error), .active(weights_active),
        .addr(weights_addr + 64'd0),
    .axi_arvalid(weights0_axi_arvalid), .axi_arready(weights0_axi_arready), .axi_araddr(weights0_axi_araddr),
    .axi_arlen(weights0_axi_arlen), .axi_rvalid(weights0_axi_rvalid), .axi_rready(weights0_axi_rready),
    .axi_rdata(weights0_axi_rdata), .axi_rresp(weights0_axi_rresp), .axi_rlast(weights0_axi_rlast),
    .m_valid(dense0_reader_valid), .m_ready(dense0_reader_ready), .m_data(dense0_reader_data));
  assign weights_quiet = dense0_reader_quiet;
  assign weights_error = dense0_reader_error;

  // Between blocks.
  logic dense0_in0_valid, dense0_in0_ready;
  logic [31:0] dense0_in0_data;
  mr_fifo #(
    .WIDTH(32), .DEPTH(2)
  ) in0_fifo (.clk, .rst,
    .s_valid(in0_valid), .s_ready(in0_ready), .s_data(in0_data),
    .m_valid(dense0_in0_valid), .m_ready(dense0_in0_ready), .m_data(dense0_in0_data));

  // dense0: convolution, 1x1x64 -> 1x1x64; PE 4 SIMD 4; busy for 256 of 256 cycles.
  logic dense0_mvu_valid, dense0_mvu_ready;
  logic [95:0] dense0_mvu_data;
  mr_mvu_streamed #(
    .MH(64), .MW(64), .PE(4), .SIMD(4), .ABITS(8), .AKIND(1), .WBITS(8), .WKIND(1), .ACCBITS(24), .MUL(1), .IBUF(32)
  ) dense0_mvu (.clk, .rst,
    .s0_valid(dense0_in0_valid), .s0_ready(dense0_in0_ready), .s0_data(dense0_in0_data),
    .s1_valid(dense0_reader_valid), .s1_ready(dense0_reader_ready), .s1_data(dense0_reader_data),
    .m_valid(dense0_mvu_valid), .m_ready(dense0_mvu_ready), .m_data(dense0_mvu_data));
  logic dense0_requant_valid, dense0_requant_ready;
  logic [31:0] dense0_requant_data;
  logic dense0_requant_load_ready;
  mr_requant #(
    .CHANNELS(64), .PE(4), .ACCBITS(24), .MBITS(9), .OFFBITS(16), .SBITS(5), .SHIFT(-1), .OBITS(8), .LOWEST(-128),
    .HIGHEST(127), .ROUND_HALF_EVEN(0), .ZERO_POINT(0), .UNIFORM(0), .LOADED(1)
  ) dense0_requant (.clk, .rst,
    .s_valid(dense0_mvu_valid), .s_ready(dense0_mvu_ready), .s_data(dense0_mvu_data),
    .m_valid(dense0_requant_valid), .m_ready(dense0_requant_ready), .m_data(dense0_requant_data),
    .l_valid(dense0_requant_load_valid), .l_ready(dense0_requant_load_ready), .l_data(dense0_requant_load_data));

  // Between blocks.
  logic dense1_in0_valid, dense1_in0_ready;
  logic [31:0] dense1_in0_data;
  mr_fifo #(
    .WIDTH(32), .DEPTH(2)
  ) dense0_fifo (.clk, .rst,
    .s_valid(dense0_requant_valid), .s_ready(dense0_requant_ready), .s_data(dense0_requant_data),
    .m_valid(dense1_in0_valid), .m_ready(dense1_in0_ready), .m_data(dense1_in0_data));

  // dense1: convolution, 1x1x64 -> 1x1x8; PE 2 SIMD 4; busy for 64 of 256 cycles.
  logic dense1_mvu_valid, dense1_mvu_ready;
  logic [47:0] dense1_mvu_data;
  logic dense1_mvu_load_ready;
  mr_mvu #(
    .MH(8), .MW(64), .PE(2), .SIMD(4), .ABITS(8), .AKIND(1), .WBITS(8), .WKIND(1), .ACCBITS(24), .MUL(1), .BIAS(0),
    .IBUF(32), .WSTYLE(2), .LOADED(1)
  ) dense1_mvu (.clk, .rst,
    .s_valid(dense1_in0_valid), .s_ready(dense1_in0_ready), .s_data(dense1_in0_data),
    .m_valid(dense1_mvu_valid), .m_ready(dense1_mvu_ready), .m_data(dense1_mvu_data),
    .l_valid(dense1_weights_load_valid), .l_ready(dense1_mvu_load_ready), .l_data(dense1_weights_load_data));
  logic dense1_requant_valid, dense1_requant_ready;
  logic [15:0] dense1_requant_data;
  logic dense1_requant_load_ready;
  mr_requant #(
    .CHANNELS(8), .PE(2), .ACCBITS(24), .MBITS(9), .OFFBITS(16), .SBITS(5), .SHIFT(-1), .OBITS(8), .LOWEST(-128),
    .HIGHEST(127), .ROUND_HALF_EVEN(0), .ZERO_POINT(0), .UNIFORM(0), .LOADED(1)
  ) dense1_requant (.clk, .rst,
    .s_valid(dense1_mvu_valid), .s_ready(dense1_mvu_ready), .s_data(dense1_mvu_data),
    .m_valid(dense1_requant_valid), .m_ready(dense1_requant_ready), .m_data(dense1_requant_data),
    .l_valid(dense1_requant_load_valid), .l_ready(dense1_requant_load_ready), .l_data(dense1_requant_load_data));

  // Between blocks.
  mr_fifo #(
    .WIDTH(16), .DEPTH(2)
  ) dense1_fifo (.clk, .rst,
    .s_valid(dense1_requant_valid), .s_ready(dense1_requant_ready), .s_data(dense1_requant_data),
    .m_valid(out0_valid), .m_ready(out0_ready), .m_data(out0_data));

  logic unused;
  assign unused = &{1'b0,
    dense1_requant_load_pass_valid,
    dense1_requant_load_pass_data,
    dense0_requant_load_ready,
    dense1_mvu_load_ready,
    dense1_requant_load_ready};
endmodule
`default_nettype wire
