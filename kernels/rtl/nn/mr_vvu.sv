/// Depthwise convolution behind a sliding window: each channel has its own weights. A beat contains PE channels.
///
/// Computes y[c] = bias[c] + Σ x[tap][c] * weight[c][tap] over all taps. ACCBITS must be wide enough for every sum. Lane p of channel group
/// f is channel c = f*PE + p; there are CF = CHANNELS / PE groups. The input beats are in the order tap, group; the output has one beat per
/// group. The weights have TAPS * CF lines: lane p of line tap*CF + f belongs to channel f*PE + p. If BIAS = 1, the bias has CF lines.
///
/// The operands' kinds, MUL (0 or 1), WSTYLE and LOADED are as in mr_mvu. Latency (TAPS-1)*CF + 3 cycles; one output frame takes TAPS*CF
/// cycles. Operands, products, accumulators (in LUTRAM), m_valid and m_data are registers.
`default_nettype none
module mr_vvu #(
  parameter integer CHANNELS = 4,
  parameter integer PE       = 2,
  parameter integer TAPS     = 9,
  parameter integer ABITS    = 8,
  parameter integer AKIND    = 1,
  parameter integer WBITS    = 8,
  parameter integer WKIND    = 1,
  parameter integer ACCBITS  = 20,
  parameter integer MUL      = 1,
  parameter integer BIAS     = 0,
  parameter integer LOADED   = 0,
  parameter integer WSTYLE   = 0,
  parameter         WFILE    = "weights.hex",
  parameter         BFILE    = "bias.hex",
  localparam integer BIASBITS = (LOADED != 0) ? BIAS * PE * ACCBITS : 0,
  localparam integer LBITS = (BIASBITS > PE*WBITS) ? BIASBITS : PE*WBITS
) (
  input  logic clk,
  input  logic rst,

  input  logic                s_valid,
  output logic                s_ready,
  input  logic [PE*ABITS-1:0] s_data,

  output logic                  m_valid,
  input  logic                  m_ready,
  output logic [PE*ACCBITS-1:0] m_data,

  input  logic             l_valid,
  output logic             l_ready,
  input  logic [LBITS-1:0] l_data
);
  localparam integer CF = CHANNELS / PE;
  localparam integer DEPTH = TAPS * CF;
  localparam integer D = (CF > 1) ? CF : 2;
  localparam integer CW = $clog2(D);
  localparam integer TW = (TAPS > 1) ? $clog2(TAPS) : 1;
  localparam integer AW = (DEPTH > 1) ? $clog2(DEPTH) : 1;
  localparam integer PBITS = ABITS + ((AKIND == 1) ? 0 : 1) + WBITS + ((WKIND == 1) ? 0 : 1);
  localparam logic [CW-1:0] C_LAST = CW'(CF - 1);
  localparam logic [TW-1:0] T_LAST = TW'(TAPS - 1);
  localparam logic [AW-1:0] A_LAST = AW'(DEPTH - 1);

  // Stage 0: tap and fold of the input beat
  logic [CW-1:0] c, c1, c2;
  logic [TW-1:0] tap;
  logic [AW-1:0] waddr;
  logic          en, step, loaded;
  assign en      = !m_valid || m_ready;
  assign s_ready = en && loaded;
  assign step    = s_valid && s_ready;

  logic [2:1] valid, first, last;
  always_ff @(posedge clk)
    if (rst) begin
      c       <= '0;
      tap     <= '0;
      waddr   <= '0;
      valid   <= '0;
      m_valid <= 1'b0;
    end else if (en) begin
      valid   <= {valid[1], step};
      m_valid <= valid[2] && last[2];
      if (step) begin
        c <= (c == C_LAST) ? '0 : c + 1'b1;
        if (c == C_LAST) tap <= (tap == T_LAST) ? '0 : tap + 1'b1;
        waddr <= (waddr == A_LAST) ? '0 : waddr + 1'b1;
      end
    end
  always_ff @(posedge clk)
    if (en) begin
      first <= {first[1], tap == '0};
      last  <= {last[1], tap == T_LAST};
      c1    <= c;
      c2    <= c1;
    end

  // Stage 1: operands
  logic [PE*WBITS-1:0] w1;
  logic [PE*ABITS-1:0] a1;
  logic load_weights, weights_loaded, load_bias, bias_loaded;
  mr_table #(.WIDTH(PE * WBITS), .DEPTH(DEPTH), .STYLE(WSTYLE), .LOADED(LOADED), .FILE(WFILE)) weights (
    .clk, .en, .addr(waddr), .q(w1), .l_valid(load_weights), .l_ready, .l_data(l_data[PE*WBITS-1:0]), .loaded(weights_loaded));
  assign loaded = weights_loaded && bias_loaded;
  generate
    if (LOADED != 0 && BIAS != 0) begin : g_load_both
      mr_load_order #(.FIRST(DEPTH), .SECOND(CF)) order (.clk, .l_valid, .to_first(load_weights), .to_second(load_bias));
    end else begin : g_load
      assign load_weights = l_valid;
      assign load_bias    = 1'b0;
    end
  endgenerate
  always_ff @(posedge clk) if (en) a1 <= s_data;

  // Stage 2: products; then the accumulators
  logic [PE*ACCBITS-1:0] start;
  generate
    if (BIAS != 0) begin : g_bias
      localparam integer BW = (CF > 1) ? $clog2(CF) : 1;
      logic bias_ready;
      mr_table #(.WIDTH(PE * ACCBITS), .DEPTH(CF), .STYLE(0), .LOADED(LOADED), .FILE(BFILE)) biases (
        .clk, .en, .addr(BW'(c1)), .q(start), .l_valid(load_bias), .l_ready(bias_ready), .l_data((PE*ACCBITS)'(l_data)),
        .loaded(bias_loaded));
      logic unused;
      assign unused = bias_ready;
    end else begin : g_zero
      assign start       = '0;
      assign bias_loaded = 1'b1;
      logic unused;
      assign unused = load_bias;
    end
  endgenerate

  (* ram_style = "distributed" *) logic [PE*ACCBITS-1:0] partial[0:D-1];
  logic [PE*ACCBITS-1:0] so_far, after;
  assign so_far = first[2] ? start : partial[c2];
  generate
    for (genvar p = 0; p < PE; p = p + 1) begin : g_lane
      logic [PBITS-1:0] product, product2;
      mr_multiply #(.ABITS(ABITS), .AKIND(AKIND), .WBITS(WBITS), .WKIND(WKIND), .MUL(MUL)) multiply (
        .a(a1[p*ABITS+:ABITS]), .w(w1[p*WBITS+:WBITS]), .p(product));
      always_ff @(posedge clk) if (en) product2 <= product;
      assign after[p*ACCBITS+:ACCBITS] = so_far[p*ACCBITS+:ACCBITS] + ACCBITS'($signed(product2));
      logic unused;
      assign unused = &{1'b0, product2};  // may be wider than ACCBITS
    end
  endgenerate
  always_ff @(posedge clk) begin
    if (en && valid[2]) partial[c2] <= after;
    if (en) m_data <= after;
  end

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(PE * ACCBITS)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
  initial assert (CHANNELS % PE == 0) else $fatal(1, "%m: PE does not divide the channels");
`endif
endmodule
`default_nettype wire
