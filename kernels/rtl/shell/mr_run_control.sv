/// Starts the runs of a unit: the ap_ctrl_chain registers of Vitis kernels, and the arguments of a run.
///
/// 0x00 control: bit 0 start (w 1; falls when the unit takes the run), 1 done (r; until bit 4 is written), 2 idle (r), 3 ready (r; cleared
/// by reading: a run was taken, arguments may be written for the next), 4 continue (w 1: done was seen). 0x04 bit 0: interrupts on. 0x08:
/// which interrupts: bit 0 done, 1 ready. 0x0c: pending interrupts; writing a 1 toggles. 0x10 + 4*i: argument word i < WORDS. The unit
/// takes the run by raising `taken` for one cycle while `start` is high, and copies the arguments then. It raises `done` until it sees
/// `go_on`. Registered: everything.
`default_nettype none
module mr_run_control #(
  parameter integer WORDS = 9
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
  output logic            irq,

  output logic                start,
  input  logic                taken,
  input  logic                done,
  output logic                go_on,
  input  logic                idle,
  output logic [WORDS*32-1:0] arguments
);
  logic        write, read;
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

  logic       ready_seen, interrupts_on, done_before;
  logic [1:0] interrupt_enable, pending, raised;
  logic       low_byte;
  assign low_byte  = write && wstrb[0];
  assign raised    = {taken, done && !done_before} & interrupt_enable;
  assign irq = interrupts_on && (pending != 2'b00);

  always_comb begin
    rdata = '0;
    case (raddr)
      12'h000: rdata[3:0] = {ready_seen, idle, done, start};
      12'h004: rdata[0] = interrupts_on;
      12'h008: rdata[1:0] = interrupt_enable;
      12'h00c: rdata[1:0] = pending;
      default:
      for (integer i = 0; i < WORDS; i = i + 1) if (raddr == 12'(16 + 4 * i)) rdata = rdata | arguments[i*32+:32];
    endcase
  end

  always_ff @(posedge clk)
    if (rst) begin
      start            <= 1'b0;
      go_on            <= 1'b0;
      ready_seen       <= 1'b0;
      interrupts_on    <= 1'b0;
      interrupt_enable <= '0;
      pending          <= '0;
      done_before      <= 1'b0;
    end else begin
      start       <= (low_byte && waddr == 12'h000 && wdata[0]) || (start && !taken);
      go_on       <= low_byte && waddr == 12'h000 && wdata[4];
      ready_seen  <= taken || (ready_seen && !(read && raddr == 12'h000));
      done_before <= done;
      if (low_byte && waddr == 12'h004) interrupts_on <= wdata[0];
      if (low_byte && waddr == 12'h008) interrupt_enable <= wdata[1:0];
      pending <= (pending ^ ((low_byte && waddr == 12'h00c) ? wdata[1:0] : 2'b00)) | raised;
    end

  always_ff @(posedge clk)
    for (integer i = 0; i < WORDS; i = i + 1)
      for (integer b = 0; b < 4; b = b + 1)
        if (write && wstrb[b] && waddr == 12'(16 + 4 * i)) arguments[i*32+b*8+:8] <= wdata[b*8+:8];
endmodule
`default_nettype wire
