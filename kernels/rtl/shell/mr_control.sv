/// The card's own registers (image_abi.hpp, kReg…): epoch, soft reset, and values for monitoring.
///
/// When the host writes another epoch, the module raises `flush` until all ports are quiet, then also resets the dataflow for RESET_CYCLES,
/// then ends flush and reset together. Nothing of the old epoch remains. `flow_rst` resets the dataflow and the frame tags. `now` counts
/// clocks since reset. Accesses to the link table (0x100 to 0x8ff) go through link_: a write takes one cycle, and a read is answered in the
/// same cycle. The frame counter counts cycles with frame_done. The busy counter counts the microseconds (CLOCK_MHZ clocks each) in which
/// `busy` was high.
`default_nettype none
module mr_control #(
  parameter integer ABI_VERSION  = 1,
  parameter integer LINK_PORTS   = 0,
  parameter integer CLOCK_MHZ    = 150,
  parameter integer RESET_CYCLES = 4
) (
  input  logic clk,
  input  logic rst,

  input  logic            axil_awvalid,
  output logic            axil_awready,
  input  logic [11:0]     axil_awaddr,
  input  logic            axil_wvalid,
  output logic            axil_wready,
  input  logic [31:0]     axil_wdata,
  input  logic [3:0]      axil_wstrb,
  output logic            axil_bvalid,
  input  logic            axil_bready,
  output logic [1:0]      axil_bresp,
  input  logic            axil_arvalid,
  output logic            axil_arready,
  input  logic [11:0]     axil_araddr,
  output logic            axil_rvalid,
  input  logic            axil_rready,
  output logic [31:0]     axil_rdata,
  output logic [1:0]      axil_rresp,

  output logic [31:0] epoch,
  output logic [63:0] now,
  output logic        flush,
  input  logic        quiet,  // all ports
  output logic        flow_rst,
  output logic        supervisor_stop,  // one cycle
  input  logic        frame_done,
  input  logic        busy,

  output logic        link_write,
  output logic [11:0] link_waddr,
  output logic [31:0] link_wdata,
  output logic [11:0] link_raddr,
  input  logic [31:0] link_rdata
);
  logic        write, read, unused;
  logic [11:0] waddr, raddr;
  logic [31:0] wdata, rdata;
  logic [3:0]  wstrb;
  mr_axil_slave #(.ADDR(12)) slave (.clk, .rst,
    .axil_awvalid(axil_awvalid), .axil_awready(axil_awready), .axil_awaddr(axil_awaddr), .axil_wvalid(axil_wvalid),
    .axil_wready(axil_wready), .axil_wdata(axil_wdata), .axil_wstrb(axil_wstrb), .axil_bvalid(axil_bvalid),
    .axil_bready(axil_bready), .axil_bresp(axil_bresp), .axil_arvalid(axil_arvalid), .axil_arready(axil_arready),
    .axil_araddr(axil_araddr), .axil_rvalid(axil_rvalid), .axil_rready(axil_rready), .axil_rdata(axil_rdata),
    .axil_rresp(axil_rresp),
    .write, .waddr, .wdata, .wstrb, .read, .raddr, .rdata);
  assign unused = read;
  assign link_write = write && (waddr >= 12'h100) && (waddr < 12'h900) && (wstrb == 4'hf);
  assign link_waddr = waddr;
  assign link_wdata = wdata;
  assign link_raddr = raddr;

  localparam integer MW = (CLOCK_MHZ > 1) ? $clog2(CLOCK_MHZ) : 1;
  localparam integer RW = $clog2(RESET_CYCLES + 1);
  logic [63:0]   frames, microseconds;
  logic [MW-1:0] part;
  logic [RW-1:0] resetting;
  logic          new_epoch;
  assign new_epoch = write && (waddr == 12'h014) && (wstrb == 4'hf) && (wdata != epoch);
  assign flow_rst  = rst || (resetting != '0);

  always_comb
    case (raddr)
      12'h010: rdata = 32'(ABI_VERSION);
      12'h014: rdata = epoch;
      12'h018: rdata = 32'(LINK_PORTS);
      12'h020: rdata = frames[31:0];
      12'h024: rdata = frames[63:32];
      12'h028: rdata = microseconds[31:0];
      12'h02c: rdata = microseconds[63:32];
      default: rdata = (raddr >= 12'h100 && raddr < 12'h900) ? link_rdata : '0;
    endcase

  always_ff @(posedge clk)
    if (rst) begin
      epoch           <= '0;
      now             <= '0;
      flush           <= 1'b0;
      resetting       <= '0;
      supervisor_stop <= 1'b0;
      frames          <= '0;
      microseconds    <= '0;
      part            <= '0;
    end else begin
      now             <= now + 64'd1;
      supervisor_stop <= write && (waddr == 12'h01c);
      if (new_epoch) epoch <= wdata;
      // First flush, so that no port accepts or sends anything. Then reset the dataflow. Finally end the flush and the reset together.
      if (new_epoch) begin
        flush     <= 1'b1;
        resetting <= '0;
      end else if (flush && resetting == '0 && quiet) resetting <= RW'(RESET_CYCLES);
      else if (resetting != '0) begin
        resetting <= resetting - 1'b1;
        if (resetting == RW'(1)) flush <= 1'b0;
      end
      if (frame_done) frames <= frames + 64'd1;
      if (busy) begin
        part <= (part == MW'(CLOCK_MHZ - 1)) ? '0 : part + 1'b1;
        if (part == MW'(CLOCK_MHZ - 1)) microseconds <= microseconds + 64'd1;
      end
    end
endmodule
`default_nettype wire
