/// One AXI4-Lite slave in front of N other slaves. Each of them has a window of 4 KiB, which the address bits above 11 select.
///
/// Handles one write and one read at a time, independently. A write's address and data are accepted in any order. The next write is
/// accepted only after the response to the present one. Bit (or field) i of the m_ vectors belongs to window i. Addresses and write data go
/// to all windows; only the selected window gets valid. An access outside all windows is answered with DECERR. No output depends
/// combinationally on an input, as AXI demands (AMBA AXI, A3.2.1).
`default_nettype none
module mr_axil_split #(
  parameter integer N = 2,  // 1 to 16
  localparam integer SW = (N > 1) ? $clog2(N) : 1
) (
  input  logic clk,
  input  logic rst,

  input  logic        s_awvalid,
  output logic        s_awready,
  input  logic [15:0] s_awaddr,
  input  logic        s_wvalid,
  output logic        s_wready,
  input  logic [31:0] s_wdata,
  input  logic [3:0]  s_wstrb,
  output logic        s_bvalid,
  input  logic        s_bready,
  output logic [1:0]  s_bresp,
  input  logic        s_arvalid,
  output logic        s_arready,
  input  logic [15:0] s_araddr,
  output logic        s_rvalid,
  input  logic        s_rready,
  output logic [31:0] s_rdata,
  output logic [1:0]  s_rresp,

  output logic [N-1:0]    m_awvalid,
  input  logic [N-1:0]    m_awready,
  output logic [11:0]     m_awaddr,
  output logic [N-1:0]    m_wvalid,
  input  logic [N-1:0]    m_wready,
  output logic [31:0]     m_wdata,
  output logic [3:0]      m_wstrb,
  input  logic [N-1:0]    m_bvalid,
  output logic [N-1:0]    m_bready,
  input  logic [N*2-1:0]  m_bresp,
  output logic [N-1:0]    m_arvalid,
  input  logic [N-1:0]    m_arready,
  output logic [11:0]     m_araddr,
  input  logic [N-1:0]    m_rvalid,
  output logic [N-1:0]    m_rready,
  input  logic [N*32-1:0] m_rdata,
  input  logic [N*2-1:0]  m_rresp
);
  localparam logic [1:0] DECERR = 2'b11;

  // Writes
  logic          aw_held, w_held;  // the present write's address and data have arrived
  logic          w_outside;        // its address belongs to no window
  logic          w_waiting;        // for the window's response
  logic          aw_now, w_now, w_issue, w_done;
  logic [SW-1:0] w_window;
  assign aw_now  = aw_held || (s_awvalid && s_awready);
  assign w_now   = w_held || (s_wvalid && s_wready);
  assign w_issue = aw_held && w_held && !w_waiting && !s_bvalid;
  assign w_done  = s_bvalid && s_bready;
  always_ff @(posedge clk) begin
    if (s_awvalid && s_awready) begin
      m_awaddr  <= s_awaddr[11:0];
      w_window  <= SW'(s_awaddr[15:12]);
      w_outside <= 32'(s_awaddr[15:12]) >= N;
    end
    if (s_wvalid && s_wready) begin
      m_wdata <= s_wdata;
      m_wstrb <= s_wstrb;
    end
    if (rst) begin
      s_awready <= 1'b0;
      s_wready  <= 1'b0;
      aw_held   <= 1'b0;
      w_held    <= 1'b0;
      w_waiting <= 1'b0;
      s_bvalid  <= 1'b0;
      s_bresp   <= 2'b00;
      m_awvalid <= '0;
      m_wvalid  <= '0;
    end else begin
      aw_held   <= aw_now && !w_done;
      w_held    <= w_now && !w_done;
      s_awready <= !aw_now || w_done;
      s_wready  <= !w_now || w_done;
      m_awvalid <= m_awvalid & ~m_awready;
      m_wvalid  <= m_wvalid & ~m_wready;
      if (w_done) s_bvalid <= 1'b0;
      if (w_issue && w_outside) begin
        s_bvalid <= 1'b1;
        s_bresp  <= DECERR;
      end else if (w_issue) begin
        w_waiting <= 1'b1;
        m_awvalid <= N'(1) << w_window;
        m_wvalid  <= N'(1) << w_window;
      end
      if (w_waiting && m_bvalid[w_window]) begin
        w_waiting <= 1'b0;
        s_bvalid  <= 1'b1;
        s_bresp   <= m_bresp[w_window*2+:2];
      end
    end
  end
  assign m_bready = w_waiting ? N'(1) << w_window : '0;

  // Reads
  logic          r_waiting;
  logic [SW-1:0] r_window;
  assign s_arready = !r_waiting && !s_rvalid;
  always_ff @(posedge clk) begin
    if (s_arvalid && s_arready) begin
      m_araddr <= s_araddr[11:0];
      r_window <= SW'(s_araddr[15:12]);
    end
    if (rst) begin
      r_waiting <= 1'b0;
      s_rvalid  <= 1'b0;
      s_rresp   <= 2'b00;
      s_rdata   <= '0;
      m_arvalid <= '0;
    end else begin
      m_arvalid <= m_arvalid & ~m_arready;
      if (s_rvalid && s_rready) s_rvalid <= 1'b0;
      if (s_arvalid && s_arready) begin
        if (32'(s_araddr[15:12]) < N) begin
          r_waiting <= 1'b1;
          m_arvalid <= N'(1) << s_araddr[15:12];
        end else begin
          s_rvalid <= 1'b1;
          s_rdata  <= '0;
          s_rresp  <= DECERR;
        end
      end
      if (r_waiting && m_rvalid[r_window]) begin
        r_waiting <= 1'b0;
        s_rvalid  <= 1'b1;
        s_rdata   <= m_rdata[r_window*32+:32];
        s_rresp   <= m_rresp[r_window*2+:2];
      end
    end
  end
  assign m_rready = r_waiting ? N'(1) << r_window : '0;
endmodule
`default_nettype wire
