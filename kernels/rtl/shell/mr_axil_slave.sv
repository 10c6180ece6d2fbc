/// AXI4-Lite slave: converts the five AXI channels to one register access at a time.
///
/// `write` is high for one cycle, with waddr, wdata and wstrb, after address and data have both arrived (in any order); the response is
/// OKAY. `read` is high for one cycle with raddr; rdata must be valid in the same cycle. Reads and writes are independent. The accepted
/// address and data, and both responses, are registers.
`default_nettype none
module mr_axil_slave #(
  parameter integer ADDR = 12
) (
  input  logic clk,
  input  logic rst,

  input  logic            axil_awvalid,
  output logic            axil_awready,
  input  logic [ADDR-1:0] axil_awaddr,
  input  logic            axil_wvalid,
  output logic            axil_wready,
  input  logic [31:0]     axil_wdata,
  input  logic [3:0]      axil_wstrb,
  output logic            axil_bvalid,
  input  logic            axil_bready,
  output logic [1:0]      axil_bresp,
  input  logic            axil_arvalid,
  output logic            axil_arready,
  input  logic [ADDR-1:0] axil_araddr,
  output logic            axil_rvalid,
  input  logic            axil_rready,
  output logic [31:0]     axil_rdata,
  output logic [1:0]      axil_rresp,

  output logic            write,
  output logic [ADDR-1:0] waddr,
  output logic [31:0]     wdata,
  output logic [3:0]      wstrb,
  output logic            read,
  output logic [ADDR-1:0] raddr,
  input  logic [31:0]     rdata
);
  logic have_address, have_data;
  assign axil_awready = !have_address;
  assign axil_wready  = !have_data;
  assign write        = have_address && have_data && (!axil_bvalid || axil_bready);
  assign axil_bresp   = 2'b00;
  assign axil_rresp   = 2'b00;
  assign axil_arready = !axil_rvalid || axil_rready;
  assign read         = axil_arvalid && axil_arready;
  assign raddr        = axil_araddr;

  always_ff @(posedge clk) begin
    if (axil_awvalid && axil_awready) waddr <= axil_awaddr;
    if (axil_wvalid && axil_wready) begin
      wdata <= axil_wdata;
      wstrb <= axil_wstrb;
    end
    if (read) axil_rdata <= rdata;
    if (rst) begin
      have_address <= 1'b0;
      have_data    <= 1'b0;
      axil_bvalid  <= 1'b0;
      axil_rvalid  <= 1'b0;
    end else begin
      have_address <= (axil_awvalid && axil_awready) || (have_address && !write);
      have_data    <= (axil_wvalid && axil_wready) || (have_data && !write);
      axil_bvalid  <= write || (axil_bvalid && !axil_bready);
      axil_rvalid  <= read || (axil_rvalid && !axil_rready);
    end
  end

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(2)) check_b (.clk, .rst, .valid(axil_bvalid), .ready(axil_bready), .data(axil_bresp));
  mr_handshake_check #(.WIDTH(34)) check_r (
    .clk, .rst, .valid(axil_rvalid), .ready(axil_rready), .data({axil_rresp, axil_rdata}));
`endif
endmodule
`default_nettype wire
