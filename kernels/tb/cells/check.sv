/// Checks the models of vendor cells against AMD's user guides only, without any other code of this project. Prints "cells: passed" at the
/// end.
///
/// The checks follow these parts of AMD's user guides. UG573 (UltraScale Architecture Memory Resources): table "Block RAM Initialization
/// Attributes" (positions of the bits of INIT and INITP), "Write Modes", "Byte-Wide Write Enable", "Simple Dual-Port", "Address Bus",
/// "Set/Reset". UG579 (DSP Slice): the 27 x 18 two's complement multiplier with carry-in. UG574 (CLB): "Carry Logic".
module check;
  integer errors = 0;
  task automatic expect_value(input string what, input logic [71:0] got, input logic [71:0] want);
    if (got !== want) begin
      errors = errors + 1;
      $display("cells: %s: got %h, expected %h", what, got, want);
    end
  endtask

  logic clk = 1'b0;
  task automatic tick;
    #1 clk = 1'b1;
    #1 clk = 1'b0;
  endtask

  // An RAMB18E2 in true dual-port mode, with 9 and 18 bits, in each of the three write modes.
  logic        a_en = 0, b_en = 0, a_rst = 0;
  logic [13:0] a_addr = 0, b_addr = 0;
  logic [1:0]  a_we = 0;
  logic [15:0] a_di = 0;
  logic [1:0]  a_dip = 0;
  logic [15:0] first_a, first_b, read_a, read_b, keep_a, keep_b;
  logic [1:0]  first_ap, first_bp, read_ap, read_bp, keep_ap, keep_bp;
  `define RAM18(NAME, MODE, DO_A, DOP_A, DO_B, DOP_B) \
    RAMB18E2 #(.INIT_00(256'h0f0e0d0c_0b0a0908_07060504_03020100), .INITP_00(256'h0a5), .INIT_3F({8'hee, 248'd0}), \
      .DOA_REG(0), .DOB_REG(0), .READ_WIDTH_A(18), .WRITE_WIDTH_A(18), .READ_WIDTH_B(9), .WRITE_WIDTH_B(0), \
      .SRVAL_A(72'h21234), .WRITE_MODE_A(MODE), .WRITE_MODE_B("READ_FIRST")) NAME ( \
      .CLKARDCLK(clk), .CLKBWRCLK(clk), .ENARDEN(a_en), .ENBWREN(b_en), .ADDRENA(1'b1), .ADDRENB(1'b1), .REGCEAREGCE(1'b0), \
      .REGCEB(1'b0), .RSTRAMARSTRAM(a_rst), .RSTRAMB(1'b0), .RSTREGARSTREG(1'b0), .RSTREGB(1'b0), .SLEEP(1'b0), \
      .ADDRARDADDR(a_addr), .ADDRBWRADDR(b_addr), .WEA(a_we), .WEBWE(4'h0), .DINADIN(a_di), .DINBDIN(16'h0), \
      .DINPADINP(a_dip), .DINPBDINP(2'h0), .DOUTADOUT(DO_A), .DOUTPADOUTP(DOP_A), .DOUTBDOUT(DO_B), .DOUTPBDOUTP(DOP_B))
  `RAM18(write_first, "WRITE_FIRST", first_a, first_ap, first_b, first_bp);
  `RAM18(read_first, "READ_FIRST", read_a, read_ap, read_b, read_bp);
  `RAM18(no_change, "NO_CHANGE", keep_a, keep_ap, keep_b, keep_bp);

  // An RAMB18E2 in simple dual-port mode, which writes and reads 36 bits.
  logic        r_en = 0, w_en = 0;
  logic [13:0] r_addr = 0, w_addr = 0;
  logic [3:0]  w_we = 0;
  logic [31:0] w_di = 0, r_do;
  logic [3:0]  w_dip = 0, r_dop;
  RAMB18E2 #(.DOA_REG(0), .DOB_REG(0), .READ_WIDTH_A(36), .WRITE_WIDTH_B(36), .INIT_01(256'hdeadbeef), .INITP_00(256'hb << 32),
    .WRITE_MODE_A("READ_FIRST"), .WRITE_MODE_B("READ_FIRST"), .CLOCK_DOMAINS("COMMON")) simple (
    .CLKARDCLK(clk), .CLKBWRCLK(clk), .ENARDEN(r_en), .ENBWREN(w_en), .ADDRENA(1'b1), .ADDRENB(1'b1), .REGCEAREGCE(1'b0),
    .REGCEB(1'b0), .RSTRAMARSTRAM(1'b0), .RSTRAMB(1'b0), .RSTREGARSTREG(1'b0), .RSTREGB(1'b0), .SLEEP(1'b0),
    .ADDRARDADDR(r_addr), .ADDRBWRADDR(w_addr), .WEA(2'b0), .WEBWE(w_we), .DINADIN(w_di[15:0]), .DINBDIN(w_di[31:16]),
    .DINPADINP(w_dip[1:0]), .DINPBDINP(w_dip[3:2]), .DOUTADOUT(r_do[15:0]), .DOUTBDOUT(r_do[31:16]),
    .DOUTPADOUTP(r_dop[1:0]), .DOUTPBDOUTP(r_dop[3:2]));

  // RAMB36E2 instances that write 72 bits, and read 1 bit and 36 bits.
  logic [14:0] n_addr = 0, m_addr = 0, v_addr = 0;
  logic [63:0] v_di = 0;
  logic [7:0]  v_dip = 0, v_we = 0;
  logic [31:0] n_do, m_do, n_unused, m_unused;
  logic [3:0]  n_dop, m_dop, n_unused_p, m_unused_p;
  logic        v_en = 0, n_en = 0;
  RAMB36E2 #(.DOA_REG(0), .DOB_REG(0), .READ_WIDTH_A(1), .WRITE_WIDTH_B(72), .WRITE_MODE_B("READ_FIRST")) by_bit (
    .CLKARDCLK(clk), .CLKBWRCLK(clk), .ENARDEN(n_en), .ENBWREN(v_en), .ADDRENA(1'b1), .ADDRENB(1'b1), .REGCEAREGCE(1'b0),
    .REGCEB(1'b0), .RSTRAMARSTRAM(1'b0), .RSTRAMB(1'b0), .RSTREGARSTREG(1'b0), .RSTREGB(1'b0), .SLEEP(1'b0),
    .ADDRARDADDR(n_addr), .ADDRBWRADDR(v_addr), .WEA(4'b0), .WEBWE(v_we), .DINADIN(v_di[31:0]), .DINBDIN(v_di[63:32]),
    .DINPADINP(v_dip[3:0]), .DINPBDINP(v_dip[7:4]), .DOUTADOUT(n_do), .DOUTBDOUT(n_unused),
    .DOUTPADOUTP(n_dop), .DOUTPBDOUTP(n_unused_p));
  RAMB36E2 #(.DOA_REG(0), .DOB_REG(0), .READ_WIDTH_A(36), .WRITE_WIDTH_B(72), .WRITE_MODE_B("READ_FIRST"),
    .INIT_7F({32'hcafef00d, 224'd0}), .INITP_0F({4'h9, 252'd0})) by_word (
    .CLKARDCLK(clk), .CLKBWRCLK(clk), .ENARDEN(n_en), .ENBWREN(v_en), .ADDRENA(1'b1), .ADDRENB(1'b1), .REGCEAREGCE(1'b0),
    .REGCEB(1'b0), .RSTRAMARSTRAM(1'b0), .RSTRAMB(1'b0), .RSTREGARSTREG(1'b0), .RSTREGB(1'b0), .SLEEP(1'b0),
    .ADDRARDADDR(m_addr), .ADDRBWRADDR(v_addr), .WEA(4'b0), .WEBWE(v_we), .DINADIN(v_di[31:0]), .DINBDIN(v_di[63:32]),
    .DINPADINP(v_dip[3:0]), .DINPBDINP(v_dip[7:4]), .DOUTADOUT(m_do), .DOUTBDOUT(m_unused),
    .DOUTPADOUTP(m_dop), .DOUTPBDOUTP(m_unused_p));

  // DSP48E2
  logic [29:0] d_a = 0;
  logic [17:0] d_b = 0;
  logic        d_carry = 0;
  logic [47:0] d_p;
  DSP48E2 #(.ACASCREG(0), .ADREG(0), .ALUMODEREG(0), .AREG(0), .BCASCREG(0), .BREG(0), .CARRYINREG(0), .CARRYINSELREG(0), .CREG(0),
    .DREG(0), .INMODEREG(0), .MREG(0), .OPMODEREG(0), .PREG(0)) dsp (
    .A(d_a), .B(d_b), .C('0), .D('0), .INMODE('0), .ALUMODE('0), .OPMODE(9'b000000101), .CARRYINSEL('0), .ACIN('0), .BCIN('0),
    .PCIN('0), .CARRYIN(d_carry), .P(d_p));

  // An adder made of CARRY4: S is the exclusive or of the two operands, and DI is one operand. O must then be the sum, and CO the carries.
  logic       c_in = 0, c_init = 0;
  logic [3:0] c_x = 0, c_y = 0, c_co, c_o;
  CARRY4 carry (.CO(c_co), .O(c_o), .CI(c_in), .CYINIT(c_init), .DI(c_x), .S(c_x ^ c_y));

  initial begin
    for (integer i = 0; i < 512; i = i + 1) begin
      {c_x, c_y} = i[7:0];
      {c_in, c_init} = {i[8] & i[0], i[8] & !i[0]};
      #1;
      expect_value("a sum by the carry chain", {67'd0, c_co[3], c_o}, 72'(5'(c_x) + 5'(c_y) + 5'(i[8])));
    end

    // Initial content. 18-bit word k consists of the bits from 16k on of INIT and the bits from 2k on of INITP. 9-bit word k consists of
    // the bits from 8k on of INIT and bit k of INITP.
    a_en = 1; b_en = 1;
    a_addr = {10'd3, 4'h0}; b_addr = {11'd5, 3'h0}; tick;
    expect_value("18 bits of INIT", {54'd0, read_ap, read_a}, {54'd0, 2'b10, 16'h0706});
    expect_value("9 bits of INIT", {63'd0, read_bp[0], read_b[7:0]}, {63'd0, 1'b1, 8'h05});
    a_addr = {10'd3, 4'hf}; b_addr = {11'd2047, 3'h7}; tick;
    expect_value("lower address bits are ignored", {56'd0, read_a}, 72'h0706);
    expect_value("the last byte is INIT_3F's", {64'd0, read_b[7:0]}, 72'hee);

    // Writes both bytes in each write mode.
    a_addr = {10'd4, 4'h0}; b_addr = {11'd100, 3'h0}; tick;
    a_we = 2'b11; a_di = 16'hbeef; a_dip = 2'b01; tick;
    expect_value("WRITE_FIRST shows what is written", {54'd0, first_ap, first_a}, {54'd0, 2'b01, 16'hbeef});
    expect_value("READ_FIRST shows what was there", {54'd0, read_ap, read_a}, {54'd0, 2'b00, 16'h0908});
    a_addr = {10'd5, 4'h0}; a_di = 16'h1111; tick;
    expect_value("NO_CHANGE keeps its output", {54'd0, keep_ap, keep_a}, {54'd0, 2'b00, 16'h0908});
    a_we = 2'b00; a_addr = {10'd4, 4'h0}; tick;
    expect_value("written", {54'd0, keep_ap, keep_a}, {54'd0, 2'b01, 16'hbeef});
    // Writes only one byte, with its parity bit.
    a_we = 2'b10; a_di = 16'h7777; a_dip = 2'b10; tick;
    a_we = 2'b00; tick;
    expect_value("a byte written", {54'd0, read_ap, read_a}, {54'd0, 2'b11, 16'h77ef});
    b_addr = {11'd9, 3'h0}; tick;
    expect_value("the other port sees it", {63'd0, read_bp[0], read_b[7:0]}, {63'd0, 1'b1, 8'h77});
    // Without enable, a clock changes nothing. A reset sets the output to SRVAL and does not change the memory.
    a_en = 0; a_we = 2'b11; a_di = 16'h0; a_addr = 0; tick;
    expect_value("no enable, no change", {56'd0, read_a}, 72'h77ef);
    a_en = 1; a_we = 0; tick;
    expect_value("no enable, no write", {56'd0, read_a}, 72'h0100);
    a_rst = 1; tick;
    expect_value("reset", {54'd0, read_ap, read_a}, {54'd0, 2'b10, 16'h1234});
    a_rst = 0; tick;
    expect_value("after reset", {56'd0, read_a}, 72'h0100);

    // Simple dual-port mode: the pins of port A have the lower half of a word, and each byte has a write enable. If reading and writing
    // collide in READ_FIRST mode with a common clock, the old content is read.
    r_en = 1; r_addr = {9'd8, 5'h0}; tick;
    expect_value("36 bits of INIT_01", {36'd0, r_dop, r_do}, {36'd0, 4'hb, 32'hdeadbeef});
    w_en = 1; w_addr = {9'd8, 5'h1f}; w_we = 4'b0101; w_di = 32'h44332211; w_dip = 4'b0100; tick;
    expect_value("a collision reads what was there", {40'd0, r_do}, 72'hdeadbeef);
    w_en = 0; tick;
    expect_value("bytes written", {36'd0, r_dop, r_do}, {36'd0, 4'b1110, 32'hde33be11});
    r_en = 0; r_addr = 0; tick;
    expect_value("no enable, no read", {40'd0, r_do}, 72'hde33be11);

    // Write 72 bits and read fewer bits: the lower part of the written word is at the lower address.
    v_en = 1; v_we = 8'hff; v_addr = {9'd7, 6'h0}; v_di = 64'h8877665544332211; v_dip = 8'hd2; tick;
    v_we = 8'h00; n_en = 1; m_addr = {10'd15, 5'h0}; n_addr = 15'(7 * 64 + 17); tick;
    expect_value("the upper 36 of 72", {36'd0, m_dop, m_do}, {36'd0, 4'hd, 32'h88776655});
    expect_value("bit 17", {71'd0, n_do[0]}, 72'd1);
    m_addr = {10'd14, 5'h0}; n_addr = 15'(7 * 64 + 18); tick;
    expect_value("the lower 36 of 72", {36'd0, m_dop, m_do}, {36'd0, 4'h2, 32'h44332211});
    expect_value("bit 18", {71'd0, n_do[0]}, 72'd0);
    m_addr = {10'd1023, 5'h0}; tick;
    expect_value("the last word is INIT_7F's", {36'd0, m_dop, m_do}, {36'd0, 4'h9, 32'hcafef00d});

    // The multiplier multiplies B by the low 27 bits of A, both signed, and extends the sign of the product to 48 bits.
    d_a = 30'd3; d_b = 18'd5; #1;
    expect_value("3 * 5", {24'd0, d_p}, 72'd15);
    d_a = -30'd3; #1;
    expect_value("-3 * 5", {24'd0, d_p}, 72'hfffffffffff1);
    d_a = 30'h3000000; d_b = 18'h1ffff; #1;
    expect_value("A[29:27] take no part", {24'd0, d_p}, {24'd0, 48'd50331648 * 48'd131071});
    d_a = 30'h4000000; d_b = 18'h20000; #1;
    expect_value("the lowest of both", {24'd0, d_p}, 72'd8796093022208);
    d_a = 30'h3ffffff; #1;
    expect_value("highest * lowest", {24'd0, d_p}, {24'd0, -48'd67108863 * 48'd131072});
    d_a = 30'd0; d_b = 18'd9; d_carry = 1; #1;
    expect_value("carry-in", {24'd0, d_p}, 72'd1);

    if (errors == 0) $display("cells: passed");
    $finish;
  end
endmodule
