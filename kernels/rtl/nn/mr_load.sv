/// One station on the path of loaded constants: takes its own words from the loading stream and passes all other words on.
///
/// The stream consists of 64-bit words, which come whenever s_valid is high and cannot be held back. Of every OWN + REST words, the module
/// converts the first OWN = LINES * ceil(WIDTH / 64) words to LINES lines on the port l_ (low word first), and sends the remaining REST
/// words out through m_. A reset does not affect this module or the tables behind l_, because the sender always sends all words. Latency 1
/// cycle to m_, and 1 cycle from a line's last word to l_. All outputs are registers.
`default_nettype none
module mr_load #(
  parameter integer WIDTH = 8,
  parameter integer LINES = 4,
  parameter integer REST  = 0
) (
  input  logic clk,

  input  logic        s_valid,
  input  logic [63:0] s_data,
  output logic        m_valid,
  output logic [63:0] m_data,

  output logic             l_valid,
  output logic [WIDTH-1:0] l_data
);
  localparam integer WORDS = (WIDTH + 63) / 64;  // of a line
  localparam integer OWN = LINES * WORDS;
  localparam integer CW = $clog2(OWN + REST + 1);
  localparam integer WW = (WORDS > 1) ? $clog2(WORDS) : 1;
  localparam logic [CW-1:0] REST_FROM = CW'(OWN);
  localparam logic [CW-1:0] LAST = CW'(OWN + REST - 1);
  localparam logic [WW-1:0] W_LAST = WW'(WORDS - 1);

  logic [CW-1:0]       count = '0;
  logic [WW-1:0]       word = '0;
  logic [WORDS*64-1:0] line;
  logic                valid = 1'b0, passes = 1'b0, own;
  assign own     = (count < REST_FROM);
  assign m_valid = passes;
  assign l_valid = valid;
  assign l_data  = line[WIDTH-1:0];

  always_ff @(posedge clk) begin
    valid  <= s_valid && own && (word == W_LAST);
    passes <= s_valid && !own;
    if (s_valid) begin
      count <= (count == LAST) ? '0 : count + 1'b1;
      if (own) word <= (word == W_LAST) ? '0 : word + 1'b1;
    end
    m_data <= s_data;
  end
  generate
    if (WORDS == 1) begin : g_short
      always_ff @(posedge clk) if (s_valid && own) line <= s_data;
    end else begin : g_long
      always_ff @(posedge clk) if (s_valid && own) line <= {s_data, line[WORDS*64-1:64]};
    end
    if (WIDTH % 64 != 0) begin : g_unused
      logic unused;
      assign unused = &{1'b0, line[WORDS*64-1:WIDTH]};
    end
  endgenerate
endmodule
`default_nettype wire
