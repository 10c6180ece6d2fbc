// Stands for mr_ring_control in the proofs of mr_ring_in and mr_ring_out. Its outputs are any that the real module can give, as the proof
// ring_control in mr_ring_in.sv shows: free inputs of the register port choose them. The ring's base is any multiple of 64 below 2^16, so
// that the first slots already meet borders of 4 KiB. The ring has two or four slots.
module mr_ring_control #(
  parameter integer OUT          = 0,
  parameter integer BYTES        = 64,
  parameter integer CLOCK_MHZ    = 150,
  parameter integer HEARTBEAT_US = 1000
) (
  input  logic         clk,
  input  logic         rst,
  input  logic         flush,
  input  logic [31:0]  card_epoch,
  input  logic [63:0]  now,
  input  logic         axil_awvalid,
  output logic         axil_awready,
  input  logic [11:0]  axil_awaddr,
  input  logic         axil_wvalid,
  output logic         axil_wready,
  input  logic [31:0]  axil_wdata,
  input  logic [3:0]   axil_wstrb,
  output logic         axil_bvalid,
  input  logic         axil_bready,
  output logic [1:0]   axil_bresp,
  input  logic         axil_arvalid,
  output logic         axil_arready,
  input  logic [11:0]  axil_araddr,
  output logic         axil_rvalid,
  input  logic         axil_rready,
  output logic [31:0]  axil_rdata,
  output logic [1:0]   axil_rresp,
  output logic         irq,
  output logic         on,
  input  logic         idle,
  output logic [63:0]  base,
  output logic [63:0]  status_base,
  output logic [8:0]   slots,
  output logic         card_memory,
  input  logic         advance,
  output logic [31:0]  index,
  output logic [15:0]  offered,
  input  logic         trailer_refused,
  input  logic         read_failed,
  input  logic         write_failed,
  output logic         failed,
  output logic         status_due,
  output logic [511:0] record,
  input  logic         status_taken,
  input  logic         status_written,
  input  logic         trailer_written
);
  assign {axil_awready, axil_wready, axil_bvalid, axil_bresp, axil_arready, axil_rvalid, axil_rdata, axil_rresp, irq} = '0;
  assign record      = {8{now}};
  assign status_base = 64'h1_0000_0000;

  logic        enabled, due, busy;
  logic [15:0] ahead, ahead_before;
  assign on           = enabled && !flush;
  assign status_due   = on && due && !busy;
  assign ahead        = axil_wdata[15:0] - index[15:0];
  assign ahead_before = offered - index[15:0];
  always_ff @(posedge clk) begin
    if (rst) begin
      base        <= {48'd0, now[15:6], 6'd0};
      slots       <= axil_awaddr[0] ? 9'd4 : 9'd2;
      card_memory <= axil_wstrb[0];
    end
    enabled <= !rst && (enabled ? !axil_arvalid : (axil_bready && idle));
    busy    <= !rst && (status_taken || (busy && !status_written));
    due     <= axil_rready;
    if (rst || !on) begin
      index   <= '0;
      offered <= '0;
      failed  <= 1'b0;
    end else begin
      index  <= index + {31'd0, advance};
      failed <= failed || axil_wvalid || trailer_refused || read_failed || write_failed;
      if (axil_awvalid && ahead >= ahead_before && ahead <= {7'd0, slots}) offered <= axil_wdata[15:0];
    end
  end
endmodule
