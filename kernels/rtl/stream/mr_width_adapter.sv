/// Regroups the lanes of a stream from S_LANES lanes per input beat to M_LANES lanes per output beat, in any ratio. Lanes keep their order,
/// and the first lane is in the low bits.
///
/// Output lane k equals input lane k, counted from reset. A frame must be a whole number of output beats. Make LANE as wide as both sides
/// permit: if neither S_LANES nor M_LANES divides the other, the adapter's size grows with their product.
///
/// Latency 1 cycle after the input beat that completes an output beat. The side with the narrower beats moves one beat per cycle. m_data is
/// a register. m_valid is a register for ratios 1:n and n:1, and depends only on registers for other ratios. s_ready depends on m_ready. If
/// both sides have equal widths, the adapter consists of wires.
`default_nettype none
module mr_width_adapter #(
  parameter integer LANE    = 8,
  parameter integer S_LANES = 1,
  parameter integer M_LANES = 3
) (
  input  logic clk,
  input  logic rst,

  input  logic                    s_valid,
  output logic                    s_ready,
  input  logic [S_LANES*LANE-1:0] s_data,

  output logic                    m_valid,
  input  logic                    m_ready,
  output logic [M_LANES*LANE-1:0] m_data
);
  localparam integer SW = S_LANES * LANE;
  localparam integer MW = M_LANES * LANE;

  generate
    if (S_LANES == M_LANES) begin : g_wires
      assign s_ready = m_ready;
      assign m_valid = s_valid;
      assign m_data  = s_data;
    end else if (M_LANES % S_LANES == 0) begin : g_up
      localparam integer N = M_LANES / S_LANES;
      localparam integer NW = $clog2(N);
      localparam logic [NW-1:0] LAST = NW'(N - 1);
      logic [NW-1:0] n;  // input beats collected
      logic          en;
      assign en      = !m_valid || m_ready;
      assign s_ready = en;
      always_ff @(posedge clk) begin
        if (en && s_valid) m_data <= {s_data, m_data[MW-1:SW]};
        if (rst) begin
          n       <= '0;
          m_valid <= 1'b0;
        end else if (en) begin
          m_valid <= s_valid && (n == LAST);
          if (s_valid) n <= (n == LAST) ? '0 : n + 1'b1;
        end
      end
    end else if (S_LANES % M_LANES == 0) begin : g_down
      localparam integer N = S_LANES / M_LANES;
      localparam integer NW = $clog2(N);
      localparam logic [NW-1:0] LAST = NW'(N - 1);
      logic [SW-1:0] word;
      logic [NW-1:0] left;  // output beats that wait after the one at the output
      logic          take;
      assign take    = s_valid && s_ready;
      assign s_ready = !m_valid || (m_ready && left == '0);
      assign m_data  = word[MW-1:0];
      always_ff @(posedge clk) begin
        if (take) word <= s_data;
        else if (m_ready) word <= {{MW{1'b0}}, word[SW-1:MW]};
        if (rst) begin
          m_valid <= 1'b0;
          left    <= '0;
        end else if (take) begin
          m_valid <= 1'b1;
          left    <= LAST;
        end else if (m_ready) begin
          m_valid <= m_valid && (left != '0);
          if (left != '0) left <= left - 1'b1;
        end
      end
    end else begin : g_any
      // `held` stores `count` lanes, the oldest in the lowest bits. All higher bits are zero, so that the lanes of a new beat can be ORed
      // in.
      localparam integer B = S_LANES + M_LANES - 1;
      localparam integer CW = $clog2(B + 1);
      localparam logic [CW-1:0] S = CW'(S_LANES);
      localparam logic [CW-1:0] M = CW'(M_LANES);
      logic [B*LANE-1:0] held, rest, placed;
      logic [CW-1:0]     count, stay;
      logic              give, take;
      assign m_valid = (count >= M);
      assign m_data  = held[MW-1:0];
      assign give    = m_valid && m_ready;
      assign stay    = give ? count - M : count;
      assign rest    = give ? held >> MW : held;
      assign s_ready = (stay < M);
      assign take    = s_valid && s_ready;
      always_comb begin
        placed = '0;
        for (integer p = 0; p < M_LANES; p = p + 1)
          placed[p*LANE+:SW] = placed[p*LANE+:SW] | (s_data & {SW{stay == CW'(p)}});
      end
      always_ff @(posedge clk) begin
        held <= rest | (placed & {(B * LANE) {take}});
        if (rst) begin
          held  <= '0;
          count <= '0;
        end else begin
          count <= take ? stay + S : stay;
        end
      end
    end
  endgenerate

`ifndef SYNTHESIS
  mr_handshake_check #(.WIDTH(MW)) check (.clk, .rst, .valid(m_valid), .ready(m_ready), .data(m_data));
`endif
endmodule
`default_nettype wire
