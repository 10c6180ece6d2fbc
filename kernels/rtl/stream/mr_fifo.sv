/// First-in first-out buffer for at least DEPTH beats (the output register holds one more).
///
/// Output beat i equals input beat i. Latency 2 cycles (write and read); one beat per cycle. m_valid, m_data and everything that s_ready
/// depends on are registers. The parameter MEMORY selects the memory: 1 LUTRAM, 2 block RAM, 0 by size (LUTRAM up to a depth of 64 or 4,096
/// bits, otherwise block RAM).
`default_nettype none
module mr_fifo #(
  parameter integer WIDTH  = 8,
  parameter integer DEPTH  = 16,  // >= 2, need not be a power of two
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
  localparam integer AW = $clog2(DEPTH);
  localparam integer CW = $clog2(DEPTH + 1);
  localparam bit     BLOCK = (MEMORY == 2) || (MEMORY == 0 && DEPTH > 64 && DEPTH * WIDTH > 4096);

  localparam logic [AW-1:0] LAST = AW'(DEPTH - 1);
  localparam logic [CW-1:0] FULL = CW'(DEPTH);

  logic [AW-1:0] wp, rp;
  logic [CW-1:0] count;  // beats in the memory, without the output register
  logic          en, write, read;

  assign en      = !m_valid || m_ready;
  assign s_ready = (count != FULL);
  assign write   = s_valid && s_ready;
  assign read    = en && (count != '0);

  always_ff @(posedge clk)
    if (rst) begin
      wp      <= '0;
      rp      <= '0;
      count   <= '0;
      m_valid <= 1'b0;
    end else begin
      if (write) wp <= (wp == LAST) ? '0 : wp + 1'b1;
      if (read) rp <= (rp == LAST) ? '0 : rp + 1'b1;
      if (write && !read) count <= count + 1'b1;
      if (read && !write) count <= count - 1'b1;
      if (en) m_valid <= (count != '0);
    end

  generate
    if (BLOCK) begin : g_block
      (* ram_style = "block" *) logic [WIDTH-1:0] mem[0:DEPTH-1];
      always_ff @(posedge clk) begin
        if (write) mem[wp] <= s_data;
        if (en) m_data <= mem[rp];
      end
    end else begin : g_distributed
      (* ram_style = "distributed" *) logic [WIDTH-1:0] mem[0:DEPTH-1];
      always_ff @(posedge clk) begin
        if (write) mem[wp] <= s_data;
        if (en) m_data <= mem[rp];
      end
    end
  endgenerate

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(WIDTH)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));

  // The maximum number of beats stored at once since the last reset, the output register included. Tests compare FIFO depths with it.
  logic [31:0] high_water  /* verilator public_flat_rd */;
  logic [31:0] held;
  assign held = 32'(count) + 32'(m_valid);
  always_ff @(posedge clk)
    if (rst) high_water <= '0;
    else if (held > high_water) high_water <= held;
`endif
endmodule
`default_nettype wire
