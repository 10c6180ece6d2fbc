// Proves mr_ring_in for a bounded number of steps from reset, with slots of two words of payload and one of trailer, and bursts of at most
// two words. Host, card and memory are any that keep to their rules. The proof states:
//   - a read never crosses 4 KiB, has at most two words, and waits unchanged
//   - the unit reads slot after slot, only those that the host has offered: first the trailer, then the payload
//   - every write is one status record
//   - once the unit is off and quiet, it begins no access
//   - the index never exceeds the slots whose words have all come
//
// The second proof, by induction, shows what the first one assumes of mr_ring_control: while the unit is enabled, its bases and slots
// stay the same and keep their rules, and never more slots are offered than the ring has. So it covers counts that wrap around.
// It also shows that mr_ring_control answers each access to a register once.
//
// uses ring_in rtl/stream/mr_fifo rtl/stream/mr_width_adapter rtl/shell/mr_mm2s rtl/shell/mr_ring_writer tb/formal/models/mr_ring_control
// uses ring_control rtl/shell/mr_axil_slave rtl/shell/mr_ring_control
// bounded ring_in 14
// probe ring_in on dut.on
// probe ring_in base dut.base
// probe ring_in status_base dut.status_base
// probe ring_in slots dut.slots
// probe ring_in offered dut.offered
// probe ring_in index dut.index
// probe ring_control enabled dut.enabled
// probe ring_control have_address dut.slave.have_address
// probe ring_control have_data dut.slave.have_data
module ring_in (
  input logic         clk,
  input logic [63:0]  now,
  input logic [31:0]  card_epoch,
  input logic [31:0]  wdata,
  input logic [11:0]  awaddr,
  input logic [3:0]   wstrb,
  input logic         awvalid, wvalid, bready, arvalid, rready,  // choices of the model of mr_ring_control
  input logic         any_flush,
  input logic         m_arready,
  input logic         any_r,
  input logic [511:0] r_data,
  input logic [1:0]   r_resp,
  input logic         m_awready,
  input logic         m_wready,
  input logic         any_b,
  input logic [1:0]   bresp,
  input logic         m_ready,
  input logic         t_ready
);
  logic started = 1'b0;
  always_ff @(posedge clk) started <= 1'b1;
  wire rst = !started;

  wire        on, quiet, busy, error, m_arvalid, m_rready, m_awvalid, m_wvalid, m_wlast, m_bready, m_valid, t_valid;
  wire [63:0] base, status_base, m_araddr, m_awaddr;
  wire [8:0]  slots;
  wire [15:0] offered;
  wire [31:0] index;
  wire [7:0]  m_arlen, m_awlen;
  logic       flush = 1'b0, bvalid = 1'b0;
  logic [5:0] due = '0;  // words that were asked for and have not come
  wire        rvalid = any_r && due != '0;
  always_ff @(posedge clk) flush <= !rst && (flush ? !(quiet && any_flush) : any_flush);
  mr_ring_in #(.DATA_BYTES(64), .BURST(2), .BYTES(128), .LANES(64), .EBYTES(1), .ABITS(8), .AKIND(0)) dut (
    .clk, .rst, .flush, .quiet, .busy, .error, .card_epoch, .now,
    .axil_awvalid(awvalid), .axil_awready(), .axil_awaddr(awaddr), .axil_wvalid(wvalid), .axil_wready(), .axil_wdata(wdata),
    .axil_wstrb(wstrb), .axil_bvalid(), .axil_bready(bready), .axil_bresp(), .axil_arvalid(arvalid), .axil_arready(), .axil_araddr(awaddr),
    .axil_rvalid(), .axil_rready(rready), .axil_rdata(), .axil_rresp(), .irq(),
    .axi_arvalid(m_arvalid), .axi_arready(m_arready), .axi_araddr(m_araddr), .axi_arlen(m_arlen), .axi_rvalid(rvalid),
    .axi_rready(m_rready), .axi_rdata(r_data), .axi_rresp(r_resp), .axi_rlast(1'b0),
    .axi_awvalid(m_awvalid), .axi_awready(m_awready), .axi_awaddr(m_awaddr), .axi_awlen(m_awlen), .axi_wvalid(m_wvalid),
    .axi_wready(m_wready), .axi_wdata(), .axi_wlast(m_wlast), .axi_bvalid(bvalid), .axi_bready(m_bready), .axi_bresp(bresp),
    .m_valid, .m_ready, .m_data(), .t_valid, .t_ready, .t_data());

  logic [4:0] addresses = '0, bursts = '0, answers = '0;
  wire        ar = !rst && m_arvalid && m_arready, aw = !rst && m_awvalid && m_awready, w = !rst && m_wvalid && m_wready;
  wire        b = bvalid && m_bready;
  wire  [4:0] answers_next = answers + {4'd0, b};
  always_ff @(posedge clk) begin
    due       <= due + (ar ? m_arlen[5:0] + 6'd1 : 6'd0) - {5'd0, rvalid};
    addresses <= addresses + {4'd0, aw};
    bursts    <= bursts + {4'd0, w && m_wlast};
    answers   <= answers_next;
    bvalid    <= (bvalid && !m_bready) || (any_b && addresses != answers_next && bursts != answers_next);
  end

  // The place of the next read: in each slot first the trailer, then the payload. came: words of this session
  logic [63:0] slot;
  logic [15:0] asked;
  logic [1:0]  offset;
  logic [7:0]  came;
  wire  [15:0] asked_next = asked + 16'd1;
  wire  [1:0]  offset_next = offset + m_arlen[1:0] + 2'd1;
  always_ff @(posedge clk) begin
    if (rst || (!on && quiet)) begin
      slot   <= base;
      asked  <= '0;
      offset <= '0;
    end else if (ar) begin
      offset <= (offset_next == 2'd3) ? 2'd0 : offset_next;
      if (offset_next == 2'd3) begin
        asked <= asked_next;
        slot  <= ((asked_next[8:0] & (slots - 9'd1)) == '0) ? base : slot + 64'd192;
      end
    end
    came <= (rst || !on) ? 8'd0 : came + {7'd0, rvalid};
  end

  logic        was_quiet = 1'b0, ar_waits = 1'b0, aw_waits = 1'b0, w_waits = 1'b0, m_waits = 1'b0, t_waits = 1'b0;
  logic [71:0] was_ar, was_aw;
  always_ff @(posedge clk) begin
    was_quiet <= !rst && !on && quiet;
    ar_waits  <= !rst && m_arvalid && !m_arready;
    aw_waits  <= !rst && m_awvalid && !m_awready;
    w_waits   <= !rst && m_wvalid && !m_wready;
    m_waits   <= !rst && on && m_valid && !m_ready;
    t_waits   <= !rst && on && t_valid && !t_ready;
    was_ar    <= {m_arlen, m_araddr};
    was_aw    <= {m_awlen, m_awaddr};
  end

  always @(posedge clk)
    if (!rst) begin
      assert (!ar_waits || (m_arvalid && {m_arlen, m_araddr} == was_ar));
      assert (!aw_waits || (m_awvalid && {m_awlen, m_awaddr} == was_aw));
      assert (!w_waits || m_wvalid);
      assert (!on || !m_waits || m_valid);
      assert (!on || !t_waits || t_valid);
      assert (!m_arvalid || {1'b0, m_araddr[11:6]} + m_arlen[6:0] < 7'd64);
      assert (!m_arvalid || m_arlen < 8'd2);
      assert (m_rready);
      if (m_arvalid) begin
        assert (m_araddr == ((offset == 2'd0) ? slot + 64'd128 : slot + {56'd0, offset - 2'd1, 6'd0}));
        assert (offset == 2'd0 ? m_arlen == 8'd0 : {1'b0, offset} + m_arlen[2:0] < 3'd3);
        assert (!on || (offered - asked != 16'd0 && offered - asked <= {7'd0, slots}));
      end
      assert (!m_awvalid || (m_awaddr == status_base && m_awlen == 8'd0));
      assert (!m_wvalid || m_wlast);
      assert (!m_wvalid || m_awvalid || addresses != bursts);
      assert (!was_quiet || on || (!m_arvalid && !m_awvalid && !m_wvalid));
      assert (!quiet || (due == '0 && addresses == answers));
      assert (index[7:0] * 8'd3 <= came);
    end
endmodule

module ring_control (
  input logic        clk,
  input logic        any_reset,
  input logic        flush,
  input logic [31:0] card_epoch,
  input logic [63:0] now,
  input logic        awvalid,
  input logic [11:0] awaddr,
  input logic        wvalid,
  input logic [31:0] wdata,
  input logic [3:0]  wstrb,
  input logic        bready,
  input logic        arvalid,
  input logic [11:0] araddr,
  input logic        rready,
  input logic        idle,
  input logic        any_advance,
  input logic        trailer_refused,
  input logic        read_failed,
  input logic        write_failed,
  input logic        status_taken,
  input logic        status_written,
  input logic        trailer_written
);
  logic started = 1'b0;
  always_ff @(posedge clk) started <= 1'b1;
  wire rst = !started || any_reset;

  wire         enabled, have_address, have_data, awready, wready, bvalid, arready, rvalid, irq, on, card_memory, failed, status_due;
  wire [63:0]  base, status_base;
  wire [8:0]   slots;
  wire [31:0]  index;
  wire [15:0]  offered;
  wire [15:0]  credit = offered - index[15:0];
  wire         advance = any_advance && on && credit != '0;
  mr_ring_control #(.OUT(1), .BYTES(64), .CLOCK_MHZ(2), .HEARTBEAT_US(2)) dut (
    .clk, .rst, .flush, .card_epoch, .now,
    .axil_awvalid(awvalid), .axil_awready(awready), .axil_awaddr(awaddr), .axil_wvalid(wvalid), .axil_wready(wready), .axil_wdata(wdata),
    .axil_wstrb(wstrb), .axil_bvalid(bvalid), .axil_bready(bready), .axil_bresp(), .axil_arvalid(arvalid), .axil_arready(arready),
    .axil_araddr(araddr), .axil_rvalid(rvalid), .axil_rready(rready), .axil_rdata(), .axil_rresp(), .irq,
    .on, .idle, .base, .status_base, .slots, .card_memory, .advance, .index, .offered, .trailer_refused, .read_failed, .write_failed, .failed,
    .status_due, .record(), .status_taken, .status_written, .trailer_written);

  // Accesses that were begun and not answered
  logic [1:0] addresses, data, reads;
  logic       was_enabled = 1'b0, was_idle, was_memory;
  logic [63:0] was_base, was_status_base;
  logic [8:0]  was_slots;
  wire        b = bvalid && bready;
  always_ff @(posedge clk) begin
    addresses       <= rst ? 2'd0 : addresses + {1'b0, awvalid && awready} - {1'b0, b};
    data            <= rst ? 2'd0 : data + {1'b0, wvalid && wready} - {1'b0, b};
    reads           <= rst ? 2'd0 : reads + {1'b0, arvalid && arready} - {1'b0, rvalid && rready};
    was_enabled     <= !rst && enabled;
    was_idle        <= idle;
    was_base        <= base;
    was_status_base <= status_base;
    was_slots       <= slots;
    was_memory      <= card_memory;
  end

  always @(posedge clk)
    if (!rst) begin
      assert (addresses == {1'b0, have_address} + {1'b0, bvalid});
      assert (data == {1'b0, have_data} + {1'b0, bvalid});
      assert (reads == {1'b0, rvalid});
      assert ((slots & (slots - 9'd1)) == '0 && slots != 9'd1);
      assert (on == (enabled && !flush));
      assert (!status_due || on);
      if (enabled) begin
        assert (slots != '0);
        assert (base[63:48] == '0 && base[11:0] == '0 && status_base[63:48] == '0 && status_base[5:0] == '0);
        assert (credit <= {7'd0, slots});
        assert (was_enabled || was_idle);
        assert (!was_enabled || (was_base == base && was_status_base == status_base && was_slots == slots && was_memory == card_memory));
      end
    end
endmodule
