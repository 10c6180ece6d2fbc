/// A table of constants, which is either part of the FPGA image (from a hex file) or loaded once after configuration.
///
/// In a clock with `en`, q becomes line `addr`. With LOADED = 0, FILE contains DEPTH lines of WIDTH bits ($readmemh). With LOADED = 1, the
/// first DEPTH beats on l_ fill lines 0, 1, …, and `loaded` rises with the last of them. Further beats begin again at line 0, for new
/// weights while the block is idle. A reset does not empty the table. STYLE = 0 leaves the memory to the tool's choice, 1 is block RAM, 2
/// is LUTs. Latency 1 cycle. q and `loaded` are registers.
`default_nettype none
module mr_table #(
  parameter integer WIDTH  = 8,
  parameter integer DEPTH  = 16,
  parameter integer STYLE  = 0,
  parameter integer LOADED = 0,
  parameter         FILE   = "table.hex",
  localparam integer AW    = (DEPTH > 1) ? $clog2(DEPTH) : 1
) (
  input  logic clk,

  input  logic             en,
  input  logic [AW-1:0]    addr,
  output logic [WIDTH-1:0] q,

  input  logic             l_valid,
  output logic             l_ready,
  input  logic [WIDTH-1:0] l_data,
  output logic             loaded
);
  assign l_ready = 1'b1;

  generate
    if (LOADED != 0) begin : g_loaded
      localparam logic [AW-1:0] LAST = AW'(DEPTH - 1);
      logic [AW-1:0] waddr = '0;
      logic          full = 1'b0;
      assign loaded = full;
      always_ff @(posedge clk)
        if (l_valid) begin
          waddr <= (waddr == LAST) ? '0 : waddr + 1'b1;
          if (waddr == LAST) full <= 1'b1;
        end
      if (STYLE == 1) begin : g_block
        (* ram_style = "block" *) logic [WIDTH-1:0] mem[0:DEPTH-1];
        always_ff @(posedge clk) begin
          if (l_valid) mem[waddr] <= l_data;
          if (en) q <= mem[addr];
        end
      end else if (STYLE == 2) begin : g_distributed
        (* ram_style = "distributed" *) logic [WIDTH-1:0] mem[0:DEPTH-1];
        always_ff @(posedge clk) begin
          if (l_valid) mem[waddr] <= l_data;
          if (en) q <= mem[addr];
        end
      end else begin : g_auto
        logic [WIDTH-1:0] mem[0:DEPTH-1];
        always_ff @(posedge clk) begin
          if (l_valid) mem[waddr] <= l_data;
          if (en) q <= mem[addr];
        end
      end
    end else begin : g_baked
      logic unused;
      assign unused = &{1'b0, l_valid, l_data};
      assign loaded = 1'b1;
      if (DEPTH == 1) begin : g_constant
        logic [WIDTH-1:0] mem[0:1];
        initial $readmemh(FILE, mem, 0, 0);
        always_ff @(posedge clk) if (en) q <= mem[0];
        logic unused_addr;
        assign unused_addr = &{1'b0, addr};
      end else if (STYLE == 1) begin : g_block
        (* rom_style = "block" *) logic [WIDTH-1:0] mem[0:DEPTH-1];
        initial $readmemh(FILE, mem);
        always_ff @(posedge clk) if (en) q <= mem[addr];
      end else if (STYLE == 2) begin : g_logic
        (* rom_style = "distributed" *) logic [WIDTH-1:0] mem[0:DEPTH-1];
        initial $readmemh(FILE, mem);
        always_ff @(posedge clk) if (en) q <= mem[addr];
      end else begin : g_auto
        logic [WIDTH-1:0] mem[0:DEPTH-1];
        initial $readmemh(FILE, mem);
        always_ff @(posedge clk) if (en) q <= mem[addr];
      end
    end
  endgenerate
endmodule
`default_nettype wire
