/// The incoming side of a connector: separates packets into header and payload, and checks them. It must accept every word, because a
/// cable's core cannot wait.
///
/// For each packet, `start` is high for one cycle, and `header` is valid from this cycle on. `word` is high for each payload word. `finish`
/// is high for one cycle at the end, together with `good` if length and CRC are right. Receivers must discard the words of a packet without
/// `good`. `bad` is high for one cycle if a packet was damaged, cut short or too long. kernels/rtl/README.md defines the packet format.
/// BYTES is 8, 16 or 32. All outputs are registers.
`default_nettype none
module mr_link_in #(
  parameter integer BYTES = 8
) (
  input  logic clk,
  input  logic rst,

  input  logic               rx_valid,
  input  logic [BYTES*8-1:0] rx_data,
  input  logic               rx_last,

  output logic               start,
  output logic [255:0]       header,
  output logic               word,
  output logic [BYTES*8-1:0] data,
  output logic               finish,
  output logic               good,
  output logic               bad
);
  localparam integer W = BYTES * 8;
  localparam integer HEADER = 32 / BYTES;
  localparam integer HW = (HEADER > 1) ? $clog2(HEADER) : 1;
  localparam integer SHIFT = $clog2(BYTES);
  localparam logic [7:0] KIND_DATA = 8'd1;

  typedef enum logic [1:0] {HEAD, PAYLOAD, TRAILER, SKIP} state_t;
  state_t state;

  logic [HW-1:0] head;
  logic [255:0]  header_next;
  logic [31:0]   crc, crc_next, length;
  logic [16:0]   words, left;
  logic          started;
  mr_crc32 #(.BYTES(BYTES)) check (.crc, .data(rx_data), .next(crc_next));
  generate
    if (HEADER == 1) begin : g_one_word
      assign header_next = rx_data;
    end else begin : g_words
      assign header_next = {rx_data, header[255:W]};
    end
  endgenerate
  assign length = header_next[63:32];
  assign words  = (17'(length[15:0]) + 17'(BYTES - 1)) >> SHIFT;

  always_ff @(posedge clk) begin
    start  <= 1'b0;
    word   <= 1'b0;
    finish <= 1'b0;
    bad    <= 1'b0;
    if (rst) begin
      state   <= HEAD;
      head    <= '0;
      started <= 1'b0;
    end else if (rx_valid) begin
      case (state)
        HEAD: begin
          if (head == HW'(HEADER - 1)) begin
            head    <= '0;
            start   <= 1'b1;
            started <= 1'b1;
            left    <= words;
            if (length[31:16] != '0) state <= SKIP;
            else state <= (header_next[7:0] == KIND_DATA && words != '0) ? PAYLOAD : TRAILER;
          end else head <= head + 1'b1;
        end
        PAYLOAD: begin
          word <= 1'b1;
          left <= left - 1'b1;
          if (left == 17'd1) state <= TRAILER;
        end
        TRAILER: begin
          finish  <= rx_last;
          good    <= (rx_data[31:0] == ~crc);
          bad     <= rx_last && (rx_data[31:0] != ~crc);
          started <= 1'b0;
          state   <= rx_last ? HEAD : SKIP;
        end
        default: ;
      endcase
      if (rx_last && state != TRAILER) begin  // the packet ends too early
        state   <= HEAD;
        head    <= '0;
        start   <= 1'b0;
        word    <= 1'b0;
        started <= 1'b0;
        finish  <= started;
        good    <= 1'b0;
        bad     <= 1'b1;
      end
    end
  end
  always_ff @(posedge clk)
    if (rx_valid) begin
      data <= rx_data;
      if (state == HEAD) header <= header_next;
      crc <= (rx_last) ? '1 : crc_next;
    end else if (rst) crc <= '1;
endmodule
`default_nettype wire
