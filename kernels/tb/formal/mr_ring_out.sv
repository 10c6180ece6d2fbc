// Proves mr_ring_out, for a bounded number of steps from reset, with slots of two words of payload and one of trailer, and bursts of at most
// two words. Host, card and memory are any that keep to their rules: flushes, disabling, doorbells, status records, stalls and errors come in
// any cycle. The proof states:
//   - an AXI burst never crosses 4 KiB, has the announced number of words, and waits unchanged
//   - the bursts of a slot have increasing addresses, the trailer last, and begin only in slots that the host has offered
//   - in card memory, the trailer comes twice, each time after memory has answered all bursts
//   - once the unit is off and quiet, it does not begin a burst
//
// uses ring_out rtl/stream/mr_fifo rtl/stream/mr_width_adapter rtl/shell/mr_ring_writer tb/formal/models/mr_ring_control
// bounded ring_out 16
// probe ring_out on dut.on
// probe ring_out base dut.base
// probe ring_out status_base dut.status_base
// probe ring_out slots dut.slots
// probe ring_out offered dut.offered
// probe ring_out card_memory dut.card_memory
module ring_out (
  input logic         clk,
  input logic [63:0]  now,
  input logic [31:0]  card_epoch,
  input logic [31:0]  wdata,
  input logic [11:0]  awaddr,
  input logic [3:0]   wstrb,
  input logic         awvalid, wvalid, bready, arvalid, rready,  // choices of the model of mr_ring_control
  input logic         any_flush,
  input logic         spoilt,
  input logic         m_awready,
  input logic         m_wready,
  input logic         any_b,
  input logic [1:0]   bresp,
  input logic         s_valid,
  input logic [511:0] s_data,
  input logic         t_valid,
  input logic [159:0] t_data
);
  logic started = 1'b0;
  always_ff @(posedge clk) started <= 1'b1;
  wire rst = !started;

  wire        on, card_memory, quiet, error, frame_done, m_awvalid, m_wvalid, m_wlast, m_bready, s_ready, t_ready;
  wire [63:0] base, status_base, m_awaddr;
  wire [8:0]  slots;
  wire [15:0] offered;
  wire [7:0]  m_awlen;
  wire [511:0] m_wdata;
  logic       flush = 1'b0;
  always_ff @(posedge clk) flush <= !rst && (flush ? !(quiet && any_flush) : any_flush);

  logic bvalid = 1'b0;
  mr_ring_out #(.DATA_BYTES(64), .BURST(2), .BYTES(128), .LANES(64), .EBYTES(1), .ABITS(8), .AKIND(0)) dut (
    .clk, .rst, .flush, .quiet, .error, .spoilt, .frame_done, .card_epoch, .now,
    .axil_awvalid(awvalid), .axil_awready(), .axil_awaddr(awaddr), .axil_wvalid(wvalid), .axil_wready(), .axil_wdata(wdata),
    .axil_wstrb(wstrb), .axil_bvalid(), .axil_bready(bready), .axil_bresp(), .axil_arvalid(arvalid), .axil_arready(), .axil_araddr(awaddr),
    .axil_rvalid(), .axil_rready(rready), .axil_rdata(), .axil_rresp(), .irq(),
    .axi_awvalid(m_awvalid), .axi_awready(m_awready), .axi_awaddr(m_awaddr), .axi_awlen(m_awlen), .axi_wvalid(m_wvalid),
    .axi_wready(m_wready), .axi_wdata(m_wdata), .axi_wlast(m_wlast), .axi_bvalid(bvalid), .axi_bready(m_bready), .axi_bresp(bresp),
    .s_valid, .s_ready, .s_data, .t_valid, .t_ready, .t_data);

  // Memory answers bursts whose address and words have come.
  logic [4:0] addresses = '0, bursts = '0, answers = '0;
  logic [8:0] words = '0;  // of the present burst that have come
  wire        aw = !rst && m_awvalid && m_awready, w = !rst && m_wvalid && m_wready, b = bvalid && m_bready;
  wire  [4:0] answers_next = answers + {4'd0, b};
  always_ff @(posedge clk) begin
    addresses <= addresses + {4'd0, aw};
    bursts    <= bursts + {4'd0, w && m_wlast};
    answers   <= answers_next;
    if (w) words <= m_wlast ? 9'd0 : words + 9'd1;
    bvalid <= (bvalid && !m_bready) || (any_b && addresses != answers_next && bursts != answers_next);
  end

  // The place of the next burst of the ring
  logic [63:0] slot;
  logic [15:0] index;
  logic [1:0]  offset;    // words of the slot that were written
  logic        prepared;  // the trailer was written with the wrong phase bit
  wire         status = (m_awaddr == status_base);
  wire  [15:0] index_next = index + 16'd1;
  wire         again = (offset == 2'd2) && card_memory && !prepared;
  always_ff @(posedge clk)
    if (rst || (!on && quiet)) begin
      slot     <= base;
      index    <= '0;
      offset   <= '0;
      prepared <= 1'b0;
    end else if (aw && !status) begin
      prepared <= again;
      if (offset != 2'd2) offset <= offset + m_awlen[1:0] + 2'd1;
      else if (!again) begin
        offset <= '0;
        index  <= index_next;
        slot   <= ((index_next[8:0] & (slots - 9'd1)) == '0) ? base : slot + 64'd192;
      end
    end

  logic       was_quiet = 1'b0, aw_waits = 1'b0, w_waits = 1'b0, was_last;
  logic [7:0]  was_data;  // one byte stands for all
  logic [71:0] was_aw;
  always_ff @(posedge clk) begin
    was_quiet <= !rst && !on && quiet;
    aw_waits  <= !rst && m_awvalid && !m_awready;
    w_waits   <= !rst && m_wvalid && !m_wready;
    was_aw    <= {m_awlen, m_awaddr};
    was_last  <= m_wlast;
    was_data  <= m_wdata[7:0];
  end

  always @(posedge clk)
    if (!rst) begin
      assert (!aw_waits || (m_awvalid && {m_awlen, m_awaddr} == was_aw));
      assert (!w_waits || (m_wvalid && m_wlast == was_last && m_wdata[7:0] == was_data));
      assert (!m_awvalid || {1'b0, m_awaddr[11:6]} + m_awlen[6:0] < 7'd64);
      assert (!m_awvalid || m_awlen < 8'd2);
      assert (!m_wvalid || m_wlast == (words == {1'b0, m_awlen}));
      assert (!m_wvalid || m_awvalid || addresses != bursts);
      assert (!m_awvalid || !status || m_awlen == 8'd0);
      if (m_awvalid && !status) begin
        assert (m_awaddr == slot + {56'd0, offset, 6'd0});
        assert (offset == 2'd2 ? m_awlen == 8'd0 : {1'b0, offset} + m_awlen[2:0] < 3'd2);
        // While a trailer waits for ready, the host may already have offered one slot more.
        assert (!on || (offered - index != 16'd0 && offered - index <= {7'd0, slots} + 16'd1));
        assert (offset != 2'd2 || !card_memory || addresses == answers);
      end
      assert (!was_quiet || on || (!m_awvalid && !m_wvalid));
      assert (!quiet || addresses == answers);
    end
endmodule
