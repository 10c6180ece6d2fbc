/// part0_dataflow: the network of partition part0 of a model for ku060 at 156.25 MHz. Its inputs and outputs are streams.
///
/// Written by millrace. Simulated with Verilator and synthesised with Yosys; never been through Vivado or on a card.
///
/// Frames are row-major, channels innermost; lane 0 is in the low bits. If inputs are offered and outputs taken in every clock,
/// a frame takes 144 cycles, and the first frame's last beat leaves 249 cycles after its first beat arrived. Ports:
///   in0  int8, 2 a beat, 64 beats a frame: quantise_out
///   out0  int8, 4 a beat, 16 beats a frame: add_out
/// Blocks: conv0, pool0, conv1, add
`default_nettype none
module part0_dataflow (
  input  logic clk,
  input  logic rst,

  input  logic in0_valid,
  output logic in0_ready,
  input  logic [15:0] in0_data,

  output logic out0_valid,
  input  logic out0_ready,
  output logic [31:0] out0_data
);

  // Between blocks.
  logic conv0_in0_valid, conv0_in0_ready;
  logic [15:0] conv0_in0_data;
  mr_fifo #(
    .WIDTH(16), .DEPTH(2)
  ) in0_fifo (.clk, .rst,
    .s_valid(in0_valid), .s_ready(in0_ready), .s_data(in0_data),
    .m_valid(conv0_in0_valid), .m_ready(conv0_in0_ready), .m_data(conv0_in0_data));

  // conv0: convolution, 8x8x2 -> 8x8x4; PE 2 SIMD 18, a window a cycle, 2 MACs a DSP; busy for 136 of 144 cycles.
  logic conv0_window_valid, conv0_window_ready;
  logic [143:0] conv0_window_data;
  mr_swu_par #(
    .H(8), .W(8), .C(2), .ABITS(8), .PX(1), .KH(3), .KW(3), .SH(1), .SW(1), .DH(1), .DW(1), .PT(1), .PL(1), .PB(1), .PR(1),
    .PAD_VALUE(0)
  ) conv0_window (.clk, .rst,
    .s_valid(conv0_in0_valid), .s_ready(conv0_in0_ready), .s_data(conv0_in0_data),
    .m_valid(conv0_window_valid), .m_ready(conv0_window_ready), .m_data(conv0_window_data));
  logic conv0_mvu_valid, conv0_mvu_ready;
  logic [27:0] conv0_mvu_data;
  logic conv0_mvu_load_ready;
  mr_mvu #(
    .MH(4), .MW(18), .PE(2), .SIMD(18), .ABITS(8), .AKIND(1), .WBITS(8), .WKIND(1), .ACCBITS(14), .MUL(2), .BIAS(0),
    .IBUF(2), .WSTYLE(2), .WFILE("conv0_weights.hex"), .BFILE("conv0_bias.hex")
  ) conv0_mvu (.clk, .rst,
    .s_valid(conv0_window_valid), .s_ready(conv0_window_ready), .s_data(conv0_window_data),
    .m_valid(conv0_mvu_valid), .m_ready(conv0_mvu_ready), .m_data(conv0_mvu_data),
    .l_valid(1'b0), .l_ready(conv0_mvu_load_ready), .l_data('0));
  logic conv0_requant_valid, conv0_requant_ready;
  logic [15:0] conv0_requant_data;
  logic conv0_requant_load_ready;
  mr_requant #(
    .CHANNELS(4), .PE(2), .ACCBITS(14), .MBITS(0), .OFFBITS(8), .SBITS(3), .SHIFT(6), .OBITS(8), .LOWEST(-128),
    .HIGHEST(127), .ROUND_HALF_EVEN(0), .ZERO_POINT(0), .UNIFORM(0), .QFILE("conv0_requant.hex")
  ) conv0_requant (.clk, .rst,
    .s_valid(conv0_mvu_valid), .s_ready(conv0_mvu_ready), .s_data(conv0_mvu_data),
    .m_valid(conv0_requant_valid), .m_ready(conv0_requant_ready), .m_data(conv0_requant_data),
    .l_valid(1'b0), .l_ready(conv0_requant_load_ready), .l_data('0));

  // Between blocks.
  logic pool0_in0_valid, pool0_in0_ready;
  logic [15:0] pool0_in0_data;
  mr_fifo #(
    .WIDTH(16), .DEPTH(2)
  ) conv0_fifo (.clk, .rst,
    .s_valid(conv0_requant_valid), .s_ready(conv0_requant_ready), .s_data(conv0_requant_data),
    .m_valid(pool0_in0_valid), .m_ready(pool0_in0_ready), .m_data(pool0_in0_data));

  // pool0: max_pool, 8x8x4 -> 4x4x4; PE 1 SIMD 2; busy for 128 of 144 cycles.
  logic pool0_pool_valid, pool0_pool_ready;
  logic [15:0] pool0_pool_data;
  mr_pool #(
    .OP(0), .H(8), .W(8), .CF(2), .SIMD(2), .KH(2), .KW(2), .ABITS(8), .AKIND(1), .OBITS(8), .PX(1)
  ) pool0_pool (.clk, .rst,
    .s_valid(pool0_in0_valid), .s_ready(pool0_in0_ready), .s_data(pool0_in0_data),
    .m_valid(pool0_pool_valid), .m_ready(pool0_pool_ready), .m_data(pool0_pool_data));

  // Between blocks.
  logic pool0_fork0_valid, pool0_fork0_ready;
  logic [15:0] pool0_fork0_data;
  logic pool0_fork1_valid, pool0_fork1_ready;
  logic [15:0] pool0_fork1_data;
  mr_fork #(
    .WIDTH(16), .N(2)
  ) pool0_fork (.clk, .rst,
    .s_valid(pool0_pool_valid), .s_ready(pool0_pool_ready), .s_data(pool0_pool_data),
    .m_valid({pool0_fork1_valid, pool0_fork0_valid}), .m_ready({pool0_fork1_ready, pool0_fork0_ready}),
        .m_data({pool0_fork1_data, pool0_fork0_data}));
  logic pool0_to_conv1_fifo_valid, pool0_to_conv1_fifo_ready;
  logic [15:0] pool0_to_conv1_fifo_data;
  mr_fifo #(
    .WIDTH(16), .DEPTH(2)
  ) pool0_to_conv1_fifo (.clk, .rst,
    .s_valid(pool0_fork0_valid), .s_ready(pool0_fork0_ready), .s_data(pool0_fork0_data),
    .m_valid(pool0_to_conv1_fifo_valid), .m_ready(pool0_to_conv1_fifo_ready), .m_data(pool0_to_conv1_fifo_data));
  logic conv1_in0_valid, conv1_in0_ready;
  logic [31:0] conv1_in0_data;
  mr_width_adapter #(
    .LANE(16), .S_LANES(1), .M_LANES(2)
  ) pool0_to_conv1_lanes (.clk, .rst,
    .s_valid(pool0_to_conv1_fifo_valid), .s_ready(pool0_to_conv1_fifo_ready), .s_data(pool0_to_conv1_fifo_data),
    .m_valid(conv1_in0_valid), .m_ready(conv1_in0_ready), .m_data(conv1_in0_data));
  logic pool0_to_add_fifo_valid, pool0_to_add_fifo_ready;
  logic [15:0] pool0_to_add_fifo_data;
  mr_fifo #(
    .WIDTH(16), .DEPTH(13)
  ) pool0_to_add_fifo (.clk, .rst,
    .s_valid(pool0_fork1_valid), .s_ready(pool0_fork1_ready), .s_data(pool0_fork1_data),
    .m_valid(pool0_to_add_fifo_valid), .m_ready(pool0_to_add_fifo_ready), .m_data(pool0_to_add_fifo_data));
  logic add_in1_valid, add_in1_ready;
  logic [31:0] add_in1_data;
  mr_width_adapter #(
    .LANE(16), .S_LANES(1), .M_LANES(2)
  ) pool0_to_add_lanes (.clk, .rst,
    .s_valid(pool0_to_add_fifo_valid), .s_ready(pool0_to_add_fifo_ready), .s_data(pool0_to_add_fifo_data),
    .m_valid(add_in1_valid), .m_ready(add_in1_ready), .m_data(add_in1_data));

  // conv1: convolution, 4x4x4 -> 4x4x4; PE 4 SIMD 4, a tap a cycle (4 lanes); busy for 144 of 144 cycles.
  logic conv1_window_valid, conv1_window_ready;
  logic [31:0] conv1_window_data;
  mr_swu #(
    .H(4), .W(4), .CF(1), .SIMD(4), .ABITS(8), .KH(3), .KW(3), .SH(1), .SW(1), .DH(1), .DW(1), .PT(1), .PL(1), .PB(1),
    .PR(1), .PAD_VALUE(0), .ROWS(4)
  ) conv1_window (.clk, .rst,
    .s_valid(conv1_in0_valid), .s_ready(conv1_in0_ready), .s_data(conv1_in0_data),
    .m_valid(conv1_window_valid), .m_ready(conv1_window_ready), .m_data(conv1_window_data));
  logic conv1_mvu_valid, conv1_mvu_ready;
  logic [63:0] conv1_mvu_data;
  logic conv1_mvu_load_ready;
  mr_mvu #(
    .MH(4), .MW(36), .PE(4), .SIMD(4), .ABITS(8), .AKIND(1), .WBITS(8), .WKIND(1), .ACCBITS(16), .MUL(1), .BIAS(0),
    .IBUF(1), .WSTYLE(2), .WFILE("conv1_weights.hex"), .BFILE("conv1_bias.hex")
  ) conv1_mvu (.clk, .rst,
    .s_valid(conv1_window_valid), .s_ready(conv1_window_ready), .s_data(conv1_window_data),
    .m_valid(conv1_mvu_valid), .m_ready(conv1_mvu_ready), .m_data(conv1_mvu_data),
    .l_valid(1'b0), .l_ready(conv1_mvu_load_ready), .l_data('0));
  logic conv1_requant_valid, conv1_requant_ready;
  logic [31:0] conv1_requant_data;
  logic conv1_requant_load_ready;
  mr_requant #(
    .CHANNELS(4), .PE(4), .ACCBITS(16), .MBITS(0), .OFFBITS(8), .SBITS(3), .SHIFT(6), .OBITS(8), .LOWEST(-128),
    .HIGHEST(127), .ROUND_HALF_EVEN(0), .ZERO_POINT(0), .UNIFORM(0), .QFILE("conv1_requant.hex")
  ) conv1_requant (.clk, .rst,
    .s_valid(conv1_mvu_valid), .s_ready(conv1_mvu_ready), .s_data(conv1_mvu_data),
    .m_valid(conv1_requant_valid), .m_ready(conv1_requant_ready), .m_data(conv1_requant_data),
    .l_valid(1'b0), .l_ready(conv1_requant_load_ready), .l_data('0));

  // Between blocks.
  logic add_in0_valid, add_in0_ready;
  logic [31:0] add_in0_data;
  mr_fifo #(
    .WIDTH(32), .DEPTH(2)
  ) conv1_fifo (.clk, .rst,
    .s_valid(conv1_requant_valid), .s_ready(conv1_requant_ready), .s_data(conv1_requant_data),
    .m_valid(add_in0_valid), .m_ready(add_in0_ready), .m_data(add_in0_data));

  // add: add, 4x4x4 4x4x4 -> 4x4x4; PE 1 SIMD 4; busy for 16 of 144 cycles.
  logic add_add_valid, add_add_ready;
  logic [31:0] add_add_data;
  mr_add #(
    .SIMD(4), .ABITS(8), .AKIND(1), .BBITS(8), .BKIND(1), .A_FACTOR(1), .B_FACTOR(1), .OFFSET(64'sd0), .SHIFT(0),
    .ZBITS(9), .OBITS(8), .LOWEST(-128), .HIGHEST(127)
  ) add_add (.clk, .rst,
    .s0_valid(add_in0_valid), .s0_ready(add_in0_ready), .s0_data(add_in0_data),
    .s1_valid(add_in1_valid), .s1_ready(add_in1_ready), .s1_data(add_in1_data),
    .m_valid(add_add_valid), .m_ready(add_add_ready), .m_data(add_add_data));

  // Between blocks.
  mr_fifo #(
    .WIDTH(32), .DEPTH(2)
  ) add_fifo (.clk, .rst,
    .s_valid(add_add_valid), .s_ready(add_add_ready), .s_data(add_add_data),
    .m_valid(out0_valid), .m_ready(out0_ready), .m_data(out0_data));

  logic unused;
  assign unused = &{1'b0,
    conv0_mvu_load_ready,
    conv0_requant_load_ready,
    conv1_mvu_load_ready,
    conv1_requant_load_ready};
endmodule
`default_nettype wire
