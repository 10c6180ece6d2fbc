/// Extends a CRC-32 of IEEE 802.3 by one word: reflected, polynomial 0xedb88320, the first byte in the low bits.
///
/// As in Ethernet, begin with a CRC of all ones, and invert the final CRC. The module is combinational.
`default_nettype none
module mr_crc32 #(
  parameter integer BYTES = 8
) (
  input  logic [31:0]        crc,
  input  logic [BYTES*8-1:0] data,
  output logic [31:0]        next
);
  always_comb begin
    next = crc;
    for (integer i = 0; i < BYTES * 8; i = i + 1) next = {1'b0, next[31:1]} ^ ({32{next[0] ^ data[i]}} & 32'hedb88320);
  end
endmodule
`default_nettype wire
