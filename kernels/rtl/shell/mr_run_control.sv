/// Starts the runs of a unit: contains the ap_ctrl_chain registers of Vitis kernels, and the arguments of a run.
///
/// Register 0x00 is the control register. Bit 0, start: the host writes 1, and the bit falls when the unit accepts the run. Bit 1, done:
/// high until the host writes bit 4. Bit 2, idle. Bit 3, ready: a run was accepted, so the host may write the arguments of the next run;
/// reading clears the bit. Bit 4, continue: the host writes 1 when it has seen done.
///
/// Register 0x04, bit 0, enables interrupts. Register 0x08 selects the interrupts: bit 0 done, bit 1 ready. Register 0x0c contains the
/// pending interrupts; writing a 1 toggles the bit. Register 0x10 + 4*i contains argument word i < WORDS. The unit accepts a run by raising
/// `taken` for one cycle while `start` is high, and copies the arguments in this cycle. It keeps `done` high until `go_on` rises. All
/// outputs are registers.
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
