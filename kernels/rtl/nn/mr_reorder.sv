/// Outputs the beats of each frame in another order. Can leave beats out or repeat them.
///
/// An input frame has WORDS beats. Six nested loops, with E0 turns of the outermost to E5 turns of the innermost, produce the output: with
/// loop indices i, they output beat OFFSET + Σ i[k] * S[k] of the frame. The memory has room for two frames: one is written while the other
/// is read. A beat can be read in the cycle after it was written.
///
/// Latency OFFSET + 2 cycles (write and read), or WORDS + 1 cycles if the output frame has only one beat. One frame takes WORDS or E0 * ...
/// * E5 cycles, whichever is more. m_valid, m_data and everything that s_ready depends on are registers. The parameter MEMORY selects the
/// memory: 1 LUTRAM, 2 block RAM, 0 by size (LUTRAM up to a depth of 64 or 4,096 bits, otherwise block RAM). WIDTH is at most 448, so that
/// no enable signal has more than 512 loads.
`default_nettype none
module mr_reorder #(
  parameter integer WIDTH  = 8,
  parameter integer WORDS  = 4,  // beats of an input frame
  parameter integer OFFSET = 0,
  parameter integer E0     = 1,
  parameter integer S0     = 0,  // strides may be negative; all beats that are read are within the frame
  parameter integer E1     = 1,
  parameter integer S1     = 0,
  parameter integer E2     = 1,
  parameter integer S2     = 0,
  parameter integer E3     = 1,
  parameter integer S3     = 0,
  parameter integer E4     = 1,
  parameter integer S4     = 0,
  parameter integer E5     = 4,
  parameter integer S5     = 1,
  parameter integer MEMORY = 0
) (
  input  logic clk,
  input  logic rst,

  input  logic             s_valid,
  output logic             s_ready,
  input  logic [WIDTH-1:0] s_data,

  output logic             m_valid,
  input  logic             m_ready,
  output logic [WIDTH-1:0] m_data
);
  localparam integer DEPTH = 2 * WORDS;
  localparam integer AW    = $clog2(DEPTH);
  localparam bit     BLOCK = (MEMORY == 2) || (MEMORY == 0 && DEPTH > 64 && DEPTH * WIDTH > 4096);

  // When loop k ends, the address has moved by B<k> since the loop began (inner loops included). The address then goes back by B<k> and
  // forward by the stride of the next outer loop.
  localparam integer B5 = (E5 - 1) * S5;
  localparam integer B4 = B5 + (E4 - 1) * S4;
  localparam integer B3 = B4 + (E3 - 1) * S3;
  localparam integer B2 = B3 + (E2 - 1) * S2;
  localparam integer B1 = B2 + (E1 - 1) * S1;
  localparam integer B0 = B1 + (E0 - 1) * S0;

  localparam logic [AW-1:0] W_MIDDLE = AW'(WORDS - 1);
  localparam logic [AW-1:0] W_LAST   = AW'(DEPTH - 1);
  localparam logic [AW-1:0] R_FIRST  = AW'(OFFSET);

  logic          wbank, rbank;
  logic [1:0]    full;  // banks that hold a whole frame
  logic [AW-1:0] wa, ra, step;
  logic          write, w_end, r_end, have, en, read;
  logic [5:0]    last;  // whether each loop is in its last turn

  assign s_ready = !full[wbank];
  assign write   = s_valid && s_ready;
  assign w_end   = (wa == W_MIDDLE) || (wa == W_LAST);
  assign r_end   = &last;
  // The last beat of a frame waits until the whole frame is written, even if the beat could be read earlier. Otherwise the two banks would
  // not be used alternately.
  assign have    = full[rbank] || ((wbank == rbank) && (ra < wa) && !r_end);
  assign en      = !m_valid || m_ready;
  assign read    = en && have;

  generate
    for (genvar k = 0; k < 6; k = k + 1) begin : g_loop
      localparam integer N = (k == 0) ? E0 : (k == 1) ? E1 : (k == 2) ? E2 : (k == 3) ? E3 : (k == 4) ? E4 : E5;
      if (N == 1) begin : g_once
        assign last[k] = 1'b1;
      end else begin : g_count
        localparam integer NW = $clog2(N);
        localparam logic [NW-1:0] LAST = NW'(N - 1);
        logic [NW-1:0] turn;
        logic          turns;  // whether all loops inside this one are in their last turn
        if (k == 5) begin : g_inner
          assign turns = 1'b1;
        end else begin : g_outer
          assign turns = &last[5:k+1];
        end
        assign last[k] = (turn == LAST);
        always_ff @(posedge clk)
          if (rst) turn <= '0;
          else if (read && turns) turn <= last[k] ? '0 : turn + 1'b1;
      end
    end
  endgenerate

  always_comb begin
    if (!last[5]) step = AW'(S5);
    else if (!last[4]) step = AW'(S4 - B5);
    else if (!last[3]) step = AW'(S3 - B4);
    else if (!last[2]) step = AW'(S2 - B3);
    else if (!last[1]) step = AW'(S1 - B2);
    else if (!last[0]) step = AW'(S0 - B1);
    else if (rbank) step = AW'(-WORDS - B0);
    else step = AW'(WORDS - B0);
  end

  always_ff @(posedge clk)
    if (rst) begin
      wbank   <= 1'b0;
      rbank   <= 1'b0;
      full    <= 2'b00;
      wa      <= '0;
      ra      <= R_FIRST;
      m_valid <= 1'b0;
    end else begin
      if (write) wa <= (wa == W_LAST) ? '0 : wa + 1'b1;
      if (write && w_end) begin
        wbank       <= !wbank;
        full[wbank] <= 1'b1;
      end
      if (read) ra <= ra + step;
      if (read && r_end) begin
        rbank       <= !rbank;
        full[rbank] <= 1'b0;
      end
      if (en) m_valid <= have;
    end

  generate
    if (BLOCK) begin : g_block
      (* ram_style = "block" *) logic [WIDTH-1:0] mem[0:DEPTH-1];
      always_ff @(posedge clk) begin
        if (write) mem[wa] <= s_data;
        if (en) m_data <= mem[ra];
      end
    end else begin : g_distributed
      (* ram_style = "distributed" *) logic [WIDTH-1:0] mem[0:DEPTH-1];
      always_ff @(posedge clk) begin
        if (write) mem[wa] <= s_data;
        if (en) m_data <= mem[ra];
      end
    end
  endgenerate

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(WIDTH)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
`endif
endmodule
`default_nettype wire
