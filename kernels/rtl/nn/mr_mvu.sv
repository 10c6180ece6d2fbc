/// Folded matrix-vector unit: the arithmetic of convolutions (behind a sliding window) and of fully connected layers.
///
/// Computes y[o] = bias[o] + Σ x[i] * weight[o][i] over i < MW, for all o < MH. ACCBITS must be wide enough for every sum. The input vector
/// has SF = MW / SIMD beats: lane s of beat sf is x[sf*SIMD + s]. The output vector has NF = MH / PE beats with lanes of ACCBITS: lane p of
/// beat nf is y[nf*PE + p]. The weights have SF * NF lines: lane p*SIMD + s of line nf*SF + sf is weight[nf*PE + p][sf*SIMD + s]. If BIAS =
/// 1, the bias has NF lines of PE lanes.
///
/// The kind of an operand is 0 for unsigned, 1 for signed, and 2 for bipolar (1 bit). MUL = 0 multiplies in LUTs, MUL = 1 in one DSP slice
/// per product, MUL = 2 in one DSP slice for two products (of rows 2k and 2k+1 of the PE). With MUL = 2, weights must be signed and never
/// the most negative value, the lane of an odd row holds its weight minus 1 if the weight of the even row is negative, and a last row
/// without a partner has DSP slices of its own.
///
/// WSTYLE is the STYLE of mr_table. With LOADED = 1, the port l_ receives the lines of the weights, one per beat, and then the lines of the
/// bias in its low bits.
///
/// If NF > 1, a buffer of IBUF >= SF words keeps the inputs for the later passes and receives the next vector meanwhile. With IBUF = 2*SF
/// (a double buffer), a slow source costs no time. One vector takes NF * SF cycles. Latency SF + 2 + ceil(log2 SIMD) cycles, and one more
/// if NF > 1. Weights, activations, products, every adder level, accumulators (m_data) and m_valid are registers. s_ready depends on
/// m_ready if NF = 1, and otherwise only on registers.
`default_nettype none
module mr_mvu #(
  parameter integer MH      = 4,
  parameter integer MW      = 8,
  parameter integer PE      = 2,
  parameter integer SIMD    = 2,
  parameter integer ABITS   = 8,
  parameter integer AKIND   = 1,
  parameter integer WBITS   = 8,
  parameter integer WKIND   = 1,
  parameter integer ACCBITS = 24,
  parameter integer MUL     = 1,
  parameter integer BIAS    = 0,
  parameter integer IBUF    = 8,
  parameter integer LOADED  = 0,
  parameter integer WSTYLE  = 0,
  parameter         WFILE   = "weights.hex",
  parameter         BFILE   = "bias.hex",
  localparam integer BIASBITS = (LOADED != 0) ? BIAS * PE * ACCBITS : 0,
  localparam integer LBITS = (BIASBITS > PE*SIMD*WBITS) ? BIASBITS : PE*SIMD*WBITS
) (
  input  logic clk,
  input  logic rst,

  input  logic                  s_valid,
  output logic                  s_ready,
  input  logic [SIMD*ABITS-1:0] s_data,

  output logic                  m_valid,
  input  logic                  m_ready,
  output logic [PE*ACCBITS-1:0] m_data,

  input  logic             l_valid,
  output logic             l_ready,
  input  logic [LBITS-1:0] l_data
);
  localparam integer NF = MH / PE;
  localparam integer SF = MW / SIMD;
  localparam integer DEPTH = NF * SF;
  localparam integer SFW = (SF > 1) ? $clog2(SF) : 1;
  localparam integer NFW = (NF > 1) ? $clog2(NF) : 1;
  localparam integer AW = (DEPTH > 1) ? $clog2(DEPTH) : 1;
  localparam integer LEVELS = $clog2(SIMD);
  localparam integer LAT = LEVELS + 2;  // the stage whose result the accumulator takes
  localparam integer PLAINBITS = ABITS + ((AKIND == 1) ? 0 : 1) + WBITS + ((WKIND == 1) ? 0 : 1) + LEVELS;
  localparam integer PAIRBITS = 18 + LEVELS;
  localparam integer PAIRS = (MUL == 2) ? PE / 2 : 0;

  localparam logic [SFW-1:0] SF_LAST = SFW'(SF - 1);
  localparam logic [NFW-1:0] NF_LAST = NFW'(NF - 1);
  localparam logic [AW-1:0]  A_LAST = AW'(DEPTH - 1);

  // Pipeline stage 0 computes the addresses of weights and activations.
  logic [SFW-1:0] sf;
  logic [NFW-1:0] nf;
  logic [AW-1:0]  waddr;
  logic           en, have, step, loaded, sf_end, nf_end;
  assign en     = !m_valid || m_ready;
  assign step   = en && have && loaded;
  assign sf_end = (sf == SF_LAST);
  assign nf_end = (nf == NF_LAST);

  always_ff @(posedge clk)
    if (rst) begin
      sf    <= '0;
      nf    <= '0;
      waddr <= '0;
    end else if (step) begin
      sf <= sf_end ? '0 : sf + 1'b1;
      if (sf_end) nf <= nf_end ? '0 : nf + 1'b1;
      waddr <= (waddr == A_LAST) ? '0 : waddr + 1'b1;
    end

  // Stage 1: weights and activations
  logic [PE*SIMD*WBITS-1:0] w1;
  logic [SIMD*ABITS-1:0]    a1;
  logic load_weights, weights_loaded, load_bias, bias_loaded;
  mr_table #(.WIDTH(PE * SIMD * WBITS), .DEPTH(DEPTH), .STYLE(WSTYLE), .LOADED(LOADED), .FILE(WFILE)) weights (
    .clk, .en, .addr(waddr), .q(w1), .l_valid(load_weights), .l_ready, .l_data(l_data[PE*SIMD*WBITS-1:0]),
    .loaded(weights_loaded));
  assign loaded = weights_loaded && bias_loaded;
  generate
    if (LOADED != 0 && BIAS != 0) begin : g_load_both
      mr_load_order #(.FIRST(DEPTH), .SECOND(NF)) order (.clk, .l_valid, .to_first(load_weights), .to_second(load_bias));
    end else begin : g_load
      assign load_weights = l_valid;
      assign load_bias    = 1'b0;
    end
  endgenerate

  generate
    if (NF == 1) begin : g_direct
      assign have    = s_valid;
      assign s_ready = en && loaded;
      always_ff @(posedge clk) if (en) a1 <= s_data;
    end else begin : g_buffer
      localparam integer BW = (IBUF > 1) ? $clog2(IBUF) : 1;
      localparam integer CW = $clog2(IBUF + 1) + 1;
      localparam logic [BW-1:0] B_LAST = BW'(IBUF - 1);
      localparam logic [CW-1:0] ROOM = CW'(IBUF);
      logic [BW-1:0] wp, rp, base;  // base: the first word of the vector being computed
      logic [CW-1:0] held;          // words in use: the last pass that reads a word frees it
      logic [CW-1:0] ahead;         // words written that this pass has not read
      logic          write, give, again;
      assign s_ready = (held != ROOM);
      assign write   = s_valid && s_ready;
      assign have    = (ahead != '0);
      assign give    = step && nf_end;
      assign again   = step && sf_end && !nf_end;
      always_ff @(posedge clk)
        if (rst) begin
          wp    <= '0;
          rp    <= '0;
          base  <= '0;
          held  <= '0;
          ahead <= '0;
        end else begin
          if (write) wp <= (wp == B_LAST) ? '0 : wp + 1'b1;
          if (step) rp <= again ? base : (rp == B_LAST) ? '0 : rp + 1'b1;
          if (step && sf_end && nf_end) base <= (rp == B_LAST) ? '0 : rp + 1'b1;
          held  <= held + CW'(write) - CW'(give);
          ahead <= ahead + CW'(write) - CW'(step) + (again ? CW'(SF) : '0);
        end
      if (IBUF > 64 && IBUF * SIMD * ABITS > 4096) begin : g_block
        (* ram_style = "block" *) logic [SIMD*ABITS-1:0] mem[0:IBUF-1];
        always_ff @(posedge clk) begin
          if (write) mem[wp] <= s_data;
          if (en) a1 <= mem[rp];
        end
      end else begin : g_distributed
        (* ram_style = "distributed" *) logic [SIMD*ABITS-1:0] mem[0:IBUF-1];
        always_ff @(posedge clk) begin
          if (write) mem[wp] <= s_data;
          if (en) a1 <= mem[rp];
        end
      end
`ifndef SYNTHESIS
      initial assert (IBUF >= SF) else $fatal(1, "%m: IBUF cannot hold one vector");
`endif
    end
  endgenerate

  // Flags for the data in stages 1 to LAT; they move through the pipeline together with the data.
  logic [LAT:1] valid, first, last;
  always_ff @(posedge clk)
    if (rst) valid <= '0;
    else if (en) valid <= {valid[LAT-1:1], step};
  always_ff @(posedge clk)
    if (en) begin
      first <= {first[LAT-1:1], sf == '0};
      last  <= {last[LAT-1:1], sf_end};
    end

  // The bias is the start value of each sum, so it must be read before the first product of the sum is added.
  logic [PE*ACCBITS-1:0] start;
  generate
    if (BIAS != 0) begin : g_bias
      logic [NFW-1:0] baddr;
      logic           bias_ready;
      always_ff @(posedge clk)
        if (rst) baddr <= '0;
        else if (en && valid[LAT] && last[LAT]) baddr <= (baddr == NF_LAST) ? '0 : baddr + 1'b1;
      // Read a line in every clock, so that the bias of the next sum is available one clock after the last sum ended.
      logic [PE*ACCBITS-1:0] line;
      logic [NFW-1:0]        next;
      assign next = (valid[LAT] && last[LAT]) ? ((baddr == NF_LAST) ? '0 : baddr + 1'b1) : baddr;
      mr_table #(.WIDTH(PE * ACCBITS), .DEPTH(NF), .STYLE(0), .LOADED(LOADED), .FILE(BFILE)) biases (
        .clk, .en, .addr(next), .q(line), .l_valid(load_bias), .l_ready(bias_ready), .l_data((PE*ACCBITS)'(l_data)),
        .loaded(bias_loaded));
      assign start = line;
      logic unused;
      assign unused = bias_ready;
    end else begin : g_zero
      assign start       = '0;
      assign bias_loaded = 1'b1;
      logic unused;
      assign unused = load_bias;
    end
  endgenerate

  // Pipeline stages 2 to LAT compute products and the adder tree. The accumulators follow.
  generate
    for (genvar p = 0; p < PAIRS; p = p + 1) begin : g_pair
      logic [PAIRBITS-1:0] sum0, sum1;
      logic                carry1;
      mr_dot_pair #(.SIMD(SIMD), .ABITS(ABITS), .AKIND(AKIND), .WBITS(WBITS)) dot (
        .clk, .en, .a(a1), .w0(w1[2*p*SIMD*WBITS+:SIMD*WBITS]), .w1(w1[(2*p+1)*SIMD*WBITS+:SIMD*WBITS]),
        .sum0, .sum1, .carry1);
      logic [ACCBITS-1:0] acc0, acc1;
      logic [ACCBITS:0]   with_carry;
      assign with_carry = {first[LAT] ? start[(2*p+1)*ACCBITS+:ACCBITS] : acc1, 1'b1} +
                          {ACCBITS'($signed(sum1)), carry1};
      always_ff @(posedge clk)
        if (en && valid[LAT]) begin
          acc0 <= (first[LAT] ? start[2*p*ACCBITS+:ACCBITS] : acc0) + ACCBITS'($signed(sum0));
          acc1 <= with_carry[ACCBITS:1];
        end
      assign m_data[2*p*ACCBITS+:2*ACCBITS] = {acc1, acc0};
      logic unused;
      assign unused = &{1'b0, with_carry[0], sum0, sum1};  // sums may be wider than ACCBITS
    end
    for (genvar p = 2 * PAIRS; p < PE; p = p + 1) begin : g_plain
      logic [PLAINBITS-1:0] sum;
      mr_dot #(.SIMD(SIMD), .ABITS(ABITS), .AKIND(AKIND), .WBITS(WBITS), .WKIND(WKIND), .MUL(MUL == 0 ? 0 : 1)) dot (
        .clk, .en, .a(a1), .w(w1[p*SIMD*WBITS+:SIMD*WBITS]), .sum);
      logic unused;
      assign unused = &{1'b0, sum};  // may be wider than ACCBITS
      logic [ACCBITS-1:0] acc;
      always_ff @(posedge clk)
        if (en && valid[LAT]) acc <= (first[LAT] ? start[p*ACCBITS+:ACCBITS] : acc) + ACCBITS'($signed(sum));
      assign m_data[p*ACCBITS+:ACCBITS] = acc;
    end
  endgenerate

  always_ff @(posedge clk)
    if (rst) m_valid <= 1'b0;
    else if (en) m_valid <= valid[LAT] && last[LAT];

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(PE * ACCBITS)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
  initial begin
    assert (MH % PE == 0 && MW % SIMD == 0) else $fatal(1, "%m: the folding does not divide the matrix");
    assert (MUL != 2 || (WKIND == 1 && AKIND != 2 && ABITS <= 8 && WBITS <= 8))
      else $fatal(1, "%m: paired products need signed weights and operands of at most 8 bits");
  end
`endif
endmodule
`default_nettype wire
