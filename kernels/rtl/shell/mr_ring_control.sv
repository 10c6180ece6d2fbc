/// The registers of a ring unit, its counts, errors, status record and interrupt (runtime/plan/ring_abi.hpp).
///
/// `on` is high while the unit is enabled and the card has no flush. While it is low, the unit drops all work, and all counts are zero.
/// `idle` says that the unit's AXI ports are idle. The host can enable the unit only if it is idle, and a flush ends only after all units
/// are idle, so nothing of an older `on` is under way when `on` rises. The unit takes doorbells in one `on` of an epoch only: it cannot be
/// enabled twice in an epoch, and after a flush without a new epoch it ignores doorbells. So no late doorbell is taken for a new one.
///
/// `advance` counts `index`, the slots that were read or written. `offered` is the low half of the count of the last valid doorbell. The
/// first error is kept in `failed` and the registers: trailer_refused, read_failed and write_failed report errors of the unit.
///
/// `status_due` asks the unit to write `record` to status_base. The unit answers status_taken in the cycle in which it copies the record,
/// and status_written when memory has answered it, together with write_failed if the answer was an error. With OUT = 1, trailer_written
/// counts the trailers that memory has acknowledged.
///
/// `offered` follows a doorbell by one cycle after `write` of mr_axil_slave. All outputs are registers, except `on`, which depends on
/// flush, and `status_due` and `record`, which depend on registers.
`default_nettype none
module mr_ring_control #(
  parameter integer OUT          = 0,
  parameter integer BYTES        = 64,
  parameter integer CLOCK_MHZ    = 150,
  parameter integer HEARTBEAT_US = 1000
) (
  input  logic clk,
  input  logic rst,
  input  logic flush,

  input  logic [31:0] card_epoch,
  input  logic [63:0] now,

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

  output logic        on,
  input  logic        idle,
  output logic [63:0] base,
  output logic [63:0] status_base,
  output logic [8:0]  slots,
  output logic        card_memory,

  input  logic        advance,
  output logic [31:0] index,
  output logic [15:0] offered,

  input  logic        trailer_refused,
  input  logic        read_failed,
  input  logic        write_failed,
  output logic        failed,

  output logic         status_due,
  output logic [511:0] record,
  input  logic         status_taken,
  input  logic         status_written,
  input  logic         trailer_written
);
  localparam logic [31:0] ABI_VERSION = 32'd1;
  localparam logic [31:0] MAGIC = 32'h5352524d;
  localparam logic [31:0] CONFIGURATION = 32'd1, DOORBELL = 32'd2, TRAILER = 32'd3, READ_FAILED = 32'd4, WRITE_FAILED = 32'd5;
  localparam integer PERIOD = CLOCK_MHZ * HEARTBEAT_US;
  localparam integer TW = $clog2(PERIOD);

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

  logic        enabled, resetting, quiet, used, spent, stale;  // used: `epoch` has had an `on`; spent: it is the present one
  logic        interrupts_on, interrupt_enable, pending, armed;
  logic [31:0] arm, error, detail, faults, epoch;
  assign quiet = !enabled && !resetting && idle;
  assign on    = enabled && !flush;
  assign spent = used && (epoch == card_epoch);
  assign irq   = interrupts_on && pending;

  // Accesses. A write has an effect only if it writes the whole register and no reset of the unit is under way.
  logic       whole, control, enable, disable_, reset, settable, cleared;
  logic [4:0] wrong;  // bits of `detail` for CONFIGURATION
  assign whole    = write && (wstrb == 4'hf) && !resetting;
  assign control  = whole && (waddr == 12'h000);
  assign reset    = control && wdata[8];
  assign enable   = control && !wdata[8] && wdata[0] && !enabled;
  assign disable_ = control && !wdata[8] && !wdata[0];
  assign settable = whole && quiet;
  assign cleared  = resetting && !enabled && idle;
  assign wrong    = {spent, !idle, slots == '0, (status_base[63:48] != '0) || (status_base[5:0] != '0),
                     (base[63:48] != '0) || (base[11:0] != '0)};

  // A doorbell is valid if it is not below the last one and not more than the ring's slots above the index.
  logic        bell, bell_valid;
  logic [15:0] ahead, ahead_before;
  assign ahead        = wdata[15:0] - index[15:0];
  assign ahead_before = offered - index[15:0];
  assign bell         = whole && (waddr == 12'h038) && on && !stale && !failed && (wdata[31:16] == card_epoch[15:0]);
  assign bell_valid   = (ahead >= ahead_before) && (ahead <= 16'(slots));

  always_comb
    case (raddr)
      12'h000: rdata = {23'd0, resetting, 5'd0, quiet, 1'b0, enabled};
      12'h004: rdata = {31'd0, interrupts_on};
      12'h008: rdata = {31'd0, interrupt_enable};
      12'h00c: rdata = {31'd0, pending};
      12'h010: rdata = ABI_VERSION;
      12'h014: rdata = 32'(OUT);
      12'h018: rdata = 32'(BYTES);
      12'h01c: rdata = 32'(HEARTBEAT_US);
      12'h020: rdata = base[31:0];
      12'h024: rdata = base[63:32];
      12'h028: rdata = status_base[31:0];
      12'h02c: rdata = status_base[63:32];
      12'h030: rdata = 32'(slots);
      12'h034: rdata = {31'd0, card_memory};
      12'h038: rdata = {epoch[15:0], offered};
      12'h03c: rdata = arm;
      12'h040: rdata = index;
      12'h044: rdata = epoch;
      12'h048: rdata = error;
      12'h04c: rdata = detail;
      12'h050: rdata = faults;
      default: rdata = '0;
    endcase

  always_ff @(posedge clk) begin
    if (settable && waddr == 12'h020) base[31:0] <= wdata;
    if (settable && waddr == 12'h024) base[63:32] <= wdata;
    if (settable && waddr == 12'h028) status_base[31:0] <= wdata;
    if (settable && waddr == 12'h02c) status_base[63:32] <= wdata;
    if (whole && waddr == 12'h03c) arm <= wdata;
    if (rst) begin
      enabled     <= 1'b0;
      resetting   <= 1'b0;
      slots       <= '0;
      card_memory <= 1'b0;
      epoch       <= '0;
      used        <= 1'b0;
      stale       <= 1'b0;
    end else begin
      enabled   <= (enabled && !disable_ && !reset) || (enable && wrong == '0);
      resetting <= reset || (resetting && !cleared);
      // The only values with one bit set are the powers of two.
      if (cleared) slots <= '0;
      else if (settable && waddr == 12'h030)
        slots <= ((wdata[31:9] == '0) && !wdata[0] && ((wdata[8:0] & (wdata[8:0] - 9'd1)) == '0)) ? wdata[8:0] : '0;
      if (cleared) card_memory <= 1'b0;
      else if (settable && waddr == 12'h034) card_memory <= wdata[0];
      if (on) epoch <= card_epoch;
      if (on) used <= 1'b1;
      else stale <= spent;
    end
  end

  // Counts
  always_ff @(posedge clk)
    if (rst || !on) begin
      index   <= '0;
      offered <= '0;
    end else begin
      index <= index + 32'(advance);
      if (bell && bell_valid) offered <= wdata[15:0];
    end

  // Errors. An enabling that is refused replaces an older error, because the host asks for its reason.
  logic        refused, found;
  logic [31:0] found_error, found_detail;
  assign refused = enable && (wrong != '0);
  always_comb begin
    found        = on && !failed;
    found_detail = index;
    found_error  = WRITE_FAILED;
    if (refused) begin
      found        = 1'b1;
      found_error  = CONFIGURATION;
      found_detail = 32'(wrong);
    end else if (bell && !bell_valid) begin
      found_error  = DOORBELL;
      found_detail = wdata;
    end else if (read_failed) found_error = READ_FAILED;
    else if (trailer_refused) found_error = TRAILER;
    else if (!write_failed) found = 1'b0;
  end
  assign failed = (error != '0);
  always_ff @(posedge clk)
    if (rst || cleared) begin
      error  <= '0;
      detail <= '0;
      faults <= '0;
    end else if (found) begin
      error  <= found_error;
      detail <= found_detail;
      faults <= faults + 32'd1;
    end else if ((enabled && flush) || (enable && wrong == '0)) begin
      error  <= '0;
      detail <= '0;
    end

  // The status record
  logic [TW-1:0] timer;
  logic [63:0]   heartbeat;
  logic [31:0]   sent_index;
  // running: `epoch` is the present one. told: memory has a record of this `on`.
  logic          arrived, tick, due, busy, running, sent_failed, told, seen_failed;
  assign arrived    = status_written && !write_failed;
  assign tick       = (timer == '0);
  assign status_due = on && running && !busy && (due || (OUT == 0 && index != sent_index));
  assign record     = {128'd0, detail, epoch[15:0], offered, now, heartbeat, faults, error, epoch, index, ABI_VERSION, MAGIC};
  always_ff @(posedge clk) begin
    timer <= (rst || tick) ? TW'(PERIOD - 1) : timer - 1'b1;
    if (status_taken) sent_failed <= failed;
    if (rst) begin
      heartbeat <= 64'd1;
      busy      <= 1'b0;
    end else begin
      heartbeat <= heartbeat + 64'(status_taken);
      busy      <= status_taken || (busy && !status_written);
    end
    if (rst || !on) begin
      running     <= 1'b0;
      due         <= 1'b1;
      sent_index  <= '0;
      told        <= 1'b0;
      seen_failed <= 1'b0;
    end else begin
      running <= 1'b1;
      due     <= (due && !status_taken) || tick || found;
      if (status_taken) sent_index <= index;
      told        <= told || arrived;
      seen_failed <= seen_failed || (arrived && sent_failed);
    end
  end

  // The interrupt: as soon as memory shows what the host waits for
  logic [15:0] seen;
  logic [15:0] beyond;
  logic        raise;
  assign beyond = seen - arm[15:0];
  assign raise  = armed && on && told && ((beyond != '0 && !beyond[15]) || seen_failed || (epoch[15:0] != arm[31:16]));
  always_ff @(posedge clk) begin
    if (rst || !on) seen <= '0;
    else if (OUT != 0) seen <= seen + 16'(trailer_written);
    else if (arrived) seen <= sent_index[15:0];
    if (rst || cleared) begin
      interrupts_on    <= 1'b0;
      interrupt_enable <= 1'b0;
      pending          <= 1'b0;
      armed            <= 1'b0;
    end else begin
      if (whole && waddr == 12'h004) interrupts_on <= wdata[0];
      if (whole && waddr == 12'h008) interrupt_enable <= wdata[0];
      pending <= (pending ^ (whole && waddr == 12'h00c && wdata[0])) || (raise && interrupt_enable);
      armed   <= enabled && ((whole && waddr == 12'h03c) || (armed && !raise));
    end
  end
endmodule
`default_nettype wire
