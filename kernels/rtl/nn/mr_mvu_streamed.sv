/// Folded matrix-vector unit whose weights arrive as a stream from mr_weight_reader, one line at a time, when they are used.
///
/// Computes y[o] = Σ x[i] * weight[o][i] over i < MW, for all o < MH. ACCBITS must be wide enough for every sum. A vector on input s0_ has
/// SF = MW / SIMD beats: lane s of beat sf is x[sf*SIMD + s]. For each vector, input s1_ has NF * SF lines of weights, with NF = MH / PE:
/// lane p*SIMD + s of line nf*SF + sf is weight[nf*PE + p][sf*SIMD + s]. The output has NF beats with lanes of ACCBITS: lane p of beat nf
/// is y[nf*PE + p]. The kind of an operand is 0 for unsigned, 1 for signed, and 2 for bipolar (1 bit). MUL = 0 multiplies in LUTs, MUL = 1
/// in one DSP slice per product.
///
/// A late line of weights stalls only this unit. If NF > 1, a buffer of IBUF >= SF words keeps the inputs for the later passes; with IBUF =
/// 2*SF (a double buffer), a slow source of inputs costs no time. One vector takes NF * SF cycles if the lines arrive in time. Latency SF +
/// 2 + ceil(log2 SIMD) cycles, and one more if NF > 1. Weights, activations, products, every adder level, accumulators (m_data) and m_valid
/// are registers. s0_ready depends on m_ready and s1_valid if NF = 1, and otherwise only on registers. s1_ready depends on m_ready, and
/// also on s0_valid if NF = 1.
`default_nettype none
module mr_mvu_streamed #(
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
  parameter integer IBUF    = 8
) (
  input  logic clk,
  input  logic rst,

  input  logic                  s0_valid,
  output logic                  s0_ready,
  input  logic [SIMD*ABITS-1:0] s0_data,

  input  logic                     s1_valid,
  output logic                     s1_ready,
  input  logic [PE*SIMD*WBITS-1:0] s1_data,

  output logic                  m_valid,
  input  logic                  m_ready,
  output logic [PE*ACCBITS-1:0] m_data
);
  localparam integer NF = MH / PE;
  localparam integer SF = MW / SIMD;
  localparam integer SFW = (SF > 1) ? $clog2(SF) : 1;
  localparam integer NFW = (NF > 1) ? $clog2(NF) : 1;
  localparam integer LEVELS = $clog2(SIMD);
  localparam integer LAT = LEVELS + 2;  // the stage whose result the accumulator takes
  localparam integer SUMBITS = ABITS + ((AKIND == 1) ? 0 : 1) + WBITS + ((WKIND == 1) ? 0 : 1) + LEVELS;
  localparam logic [SFW-1:0] SF_LAST = SFW'(SF - 1);
  localparam logic [NFW-1:0] NF_LAST = NFW'(NF - 1);

  // Pipeline stage 0 computes the address of the activations for the next line of weights.
  logic [SFW-1:0] sf;
  logic [NFW-1:0] nf;
  logic           en, have, step, sf_end, nf_end;
  assign en       = !m_valid || m_ready;
  assign step     = en && have && s1_valid;
  assign s1_ready = en && have;
  assign sf_end   = (sf == SF_LAST);
  assign nf_end   = (nf == NF_LAST);
  always_ff @(posedge clk)
    if (rst) begin
      sf <= '0;
      nf <= '0;
    end else if (step) begin
      sf <= sf_end ? '0 : sf + 1'b1;
      if (sf_end) nf <= nf_end ? '0 : nf + 1'b1;
    end

  // Stage 1: weights and activations
  logic [PE*SIMD*WBITS-1:0] w1;
  logic [SIMD*ABITS-1:0]    a1;
  always_ff @(posedge clk) if (en) w1 <= s1_data;
  generate
    if (NF == 1) begin : g_direct
      assign have     = s0_valid;
      assign s0_ready = en && s1_valid;
      always_ff @(posedge clk) if (en) a1 <= s0_data;
      logic unused;
      assign unused = nf_end;
    end else begin : g_buffer
      localparam integer BW = (IBUF > 1) ? $clog2(IBUF) : 1;
      localparam integer CW = $clog2(IBUF + 1) + 1;
      localparam logic [BW-1:0] B_LAST = BW'(IBUF - 1);
      localparam logic [CW-1:0] ROOM = CW'(IBUF);
      logic [BW-1:0] wp, rp, base;  // base: the first word of the vector being computed
      logic [CW-1:0] held;          // words in use: the last pass that reads a word frees it
      logic [CW-1:0] ahead;         // words written that this pass has not read
      logic          write, give, again;
      assign s0_ready = (held != ROOM);
      assign write    = s0_valid && s0_ready;
      assign have     = (ahead != '0);
      assign give     = step && nf_end;
      assign again    = step && sf_end && !nf_end;
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
          if (write) mem[wp] <= s0_data;
          if (en) a1 <= mem[rp];
        end
      end else begin : g_distributed
        (* ram_style = "distributed" *) logic [SIMD*ABITS-1:0] mem[0:IBUF-1];
        always_ff @(posedge clk) begin
          if (write) mem[wp] <= s0_data;
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

  // Pipeline stages 2 to LAT compute products and the adder tree. The accumulators follow.
  generate
    for (genvar p = 0; p < PE; p = p + 1) begin : g_plain
      logic [SUMBITS-1:0] sum;
      mr_dot #(.SIMD(SIMD), .ABITS(ABITS), .AKIND(AKIND), .WBITS(WBITS), .WKIND(WKIND), .MUL(MUL)) dot (
        .clk, .en, .a(a1), .w(w1[p*SIMD*WBITS+:SIMD*WBITS]), .sum);
      logic unused;
      assign unused = &{1'b0, sum};  // may be wider than ACCBITS
      logic [ACCBITS-1:0] acc;
      always_ff @(posedge clk)
        if (en && valid[LAT]) acc <= (first[LAT] ? '0 : acc) + ACCBITS'($signed(sum));
      assign m_data[p*ACCBITS+:ACCBITS] = acc;
    end
  endgenerate

  always_ff @(posedge clk)
    if (rst) m_valid <= 1'b0;
    else if (en) m_valid <= valid[LAT] && last[LAT];

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(PE * ACCBITS)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
  initial assert (MH % PE == 0 && MW % SIMD == 0) else $fatal(1, "%m: the folding does not divide the matrix");
`endif
endmodule
`default_nettype wire
