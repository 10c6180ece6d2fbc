/// A FIFO for tentative words. Words can be read only after `commit` has confirmed them; `abort` removes all words since the last commit.
///
/// `room` says that a word may be written. `clear` empties the buffer. The read side is a stream, on which a word appears 2 cycles after
/// its commit. Everything that outputs depend on is registered. The words are in block RAM.
`default_nettype none
module mr_packet_buffer #(
  parameter integer WIDTH = 64,
  parameter integer DEPTH = 256
) (
  input  logic clk,
  input  logic rst,
  input  logic clear,

  output logic             room,
  input  logic             write,
  input  logic [WIDTH-1:0] data,
  input  logic             commit,  // what was written up to this cycle, its own word included
  input  logic             abort,

  output logic             m_valid,
  input  logic             m_ready,
  output logic [WIDTH-1:0] m_data
);
  localparam integer AW = $clog2(DEPTH);
  localparam integer CW = $clog2(DEPTH + 1);
  localparam logic [AW-1:0] LAST = AW'(DEPTH - 1);
  localparam logic [CW-1:0] FULL = CW'(DEPTH);

  logic [AW-1:0] wp, good_wp, rp, wp_next;
  logic [CW-1:0] good, trial, trial_next;  // words that can be read; words on trial
  logic          en, read, put;
  assign room       = (good + trial != FULL);
  assign put        = write && room;
  assign wp_next    = !put ? wp : (wp == LAST) ? '0 : wp + 1'b1;
  assign trial_next = trial + CW'(put);
  assign en         = !m_valid || m_ready;
  assign read       = en && (good != '0);

  always_ff @(posedge clk)
    if (rst || clear) begin
      wp      <= '0;
      good_wp <= '0;
      rp      <= '0;
      good    <= '0;
      trial   <= '0;
      m_valid <= 1'b0;
    end else begin
      wp    <= abort ? good_wp : wp_next;
      trial <= (abort || commit) ? '0 : trial_next;
      good  <= good + ((commit && !abort) ? trial_next : '0) - CW'(read);
      if (commit && !abort) good_wp <= wp_next;
      if (read) rp <= (rp == LAST) ? '0 : rp + 1'b1;
      if (en) m_valid <= (good != '0);
    end

  (* ram_style = "block" *) logic [WIDTH-1:0] mem[0:DEPTH-1];
  always_ff @(posedge clk) begin
    if (put) mem[wp] <= data;
    if (en) m_data <= mem[rp];
  end

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(WIDTH)) check (
    .clk, .rst(rst || clear), .valid(m_valid), .ready(m_ready), .data(m_data));
`endif
endmodule
`default_nettype wire
