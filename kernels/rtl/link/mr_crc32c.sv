/// Extends a CRC-32C by the first `count` bytes of a word: reflected, polynomial 0x82f63b78, the first byte in the low bits.
///
/// Begin with a CRC of all ones, and invert the final CRC. The module is combinational.
`default_nettype none
module mr_crc32c #(
  parameter integer BYTES = 64
) (
  input  logic [31:0]                crc,
  input  logic [BYTES*8-1:0]         data,
  input  logic [$clog2(BYTES+1)-1:0] count,
  output logic [31:0]                next
);
  localparam integer CW = $clog2(BYTES + 1);
  always_comb begin
    next = crc;
    for (integer i = 0; i < BYTES; i = i + 1)
      if (CW'(i) < count)
        for (integer b = 0; b < 8; b = b + 1) next = {1'b0, next[31:1]} ^ ({32{next[0] ^ data[8*i+b]}} & 32'h82f63b78);
  end
endmodule
`default_nettype wire
