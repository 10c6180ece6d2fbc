/// Tests mr_udp_hub and mr_udp_table: a sending port on connector 0 and a receiving port on connector 1, whose streams are joined crosswise.
///
/// The test writes the rows as a host does, and expects the states and counters of the link table (runtime/plan/image_abi.hpp). Every beat and
/// every tag must arrive. An outage must raise one fault with code 2, and the link must recover. A row with the other end's settings wrong must
/// not come up, and must raise a fault with code 3.
`default_nettype none
module udp_hub_bench;
  logic clk = 1'b0, rst = 1'b1, up = 1'b1;
  always #1 clk = ~clk;

  logic link_write = 1'b0, tick, fault;
  logic [11:0] link_waddr = '0, link_raddr = '0;
  logic [31:0] link_wdata = '0, link_rdata, fault_code, fault_link;
  logic [1:0] enable, peer, lost, port_fault, packet, stall, again, gap, s_valid, s_ready, s_last, r_valid, r_first, r_last, r_good;
  logic [1:0] tx_valid, tx_ready, tx_last, rx_ready;
  logic [5:0] violation;
  logic [7:0] tag;
  logic [31:0] packet_bytes, credits, source, destination, socket, bytes, s_dest, r_dest, tx_dest;
  logic [63:0] generation;
  logic [127:0] tx_keep;
  logic [1023:0] s_data, r_data, tx_data;
  assign tx_ready = {rx_ready[0] || !up, rx_ready[1] || !up};
  mr_udp_hub #(.PORTS(2), .CONNECTORS(2), .PACKET(128), .CLOCK_MHZ(4)) hub (
    .clk, .rst, .tick, .fault, .fault_code, .fault_link, .link_write, .link_waddr, .link_wdata, .link_raddr, .link_rdata, .enable, .tag,
    .packet_bytes, .credits, .source, .destination, .socket, .generation, .peer, .lost, .port_fault, .violation, .packet, .bytes, .stall,
    .again, .gap, .s_valid, .s_ready, .s_data, .s_last, .s_dest, .r_valid, .r_first, .r_data, .r_last, .r_good, .r_dest,
    .tx_valid, .tx_ready, .tx_data, .tx_keep, .tx_last, .tx_dest,
    .rx_valid({tx_valid[0] && up, tx_valid[1] && up}), .rx_ready, .rx_data({tx_data[511:0], tx_data[1023:512]}),
    .rx_keep({tx_keep[63:0], tx_keep[127:64]}), .rx_last({tx_last[0], tx_last[1]}), .rx_dest({tx_dest[15:0], tx_dest[31:16]}));

  logic in_ready, t_ready, quiet, out_valid, tag_valid;
  logic [63:0] in_data, out_data, sequence_in = '0;
  logic [159:0] out_tag;
  mr_udp_send #(.LANES(8), .ABITS(8), .BEATS(15), .PACKET(128), .SLOTS(4)) send (
    .clk, .rst, .tick, .flush(1'b0), .spoilt(1'b0), .quiet, .card_epoch(32'd1), .enable(enable[0]), .generation(generation[31:0]),
    .source(source[15:0]), .destination(destination[15:0]), .tag(tag[3:0]), .socket(socket[15:0]), .packet_bytes(packet_bytes[15:0]),
    .credits(credits[15:0]), .peer(peer[0]), .lost(lost[0]), .fault(port_fault[0]), .violation(violation[2:0]), .packet(packet[0]),
    .bytes(bytes[15:0]), .again(again[0]), .stall(stall[0]), .s_valid(1'b1), .s_ready(in_ready), .s_data(in_data), .t_valid(1'b1),
    .t_ready, .t_data({64'd0, sequence_in, 32'd1}), .r_valid(r_valid[0]), .r_first(r_first[0]), .r_data(r_data[511:0]),
    .r_last(r_last[0]), .r_good(r_good[0]), .r_dest(r_dest[15:0]), .m_valid(s_valid[0]), .m_ready(s_ready[0]), .m_data(s_data[511:0]),
    .m_last(s_last[0]), .m_dest(s_dest[15:0]));
  mr_udp_receive #(.LANES(8), .ABITS(8), .BEATS(15), .PACKET(128), .SLOTS(4)) receive (
    .clk, .rst, .tick, .flush(1'b0), .card_epoch(32'd1), .now(64'd0), .enable(enable[1]), .incarnation(generation[63:32]),
    .source(source[31:16]), .destination(destination[31:16]), .tag(tag[7:4]), .socket(socket[31:16]), .packet_bytes(packet_bytes[31:16]),
    .credits(credits[31:16]), .peer(peer[1]), .fault(port_fault[1]), .violation(violation[5:3]), .packet(packet[1]), .bytes(bytes[31:16]),
    .gap(gap[1]), .r_valid(r_valid[1]), .r_first(r_first[1]), .r_data(r_data[1023:512]), .r_last(r_last[1]), .r_good(r_good[1]),
    .r_dest(r_dest[31:16]), .m_valid(out_valid), .m_ready(1'b1), .m_data(out_data), .t_valid(tag_valid), .t_ready(1'b1), .t_data(out_tag),
    .c_valid(s_valid[1]), .c_ready(s_ready[1]), .c_data(s_data[1023:512]), .c_last(s_last[1]), .c_dest(s_dest[31:16]));
  assign gap[0] = 1'b0;
  assign {lost[1], stall[1], again[1]} = 3'b000;

  int unsigned given = 0, got = 0, frames = 0, wrong = 0, downs = 0, protocol_faults = 0, failures = 0;
  function automatic logic [63:0] beat(input int unsigned number);
    return 64'(number) * 64'h0101010101010101 ^ 64'h55aa;
  endfunction
  assign in_data = beat(given);
  always @(posedge clk) begin
    if (!rst && in_ready) given <= given + 1;
    if (t_ready) sequence_in <= sequence_in + 64'd1;
    if (out_valid) begin
      got <= got + 1;
      if (out_data != beat(got)) wrong <= wrong + 1;
    end
    if (tag_valid) begin
      frames <= frames + 1;
      if (out_tag[95:32] != 64'(frames)) wrong <= wrong + 1;
    end
    if (fault && fault_code == 32'd2 && fault_link == 32'd0) downs <= downs + 1;
    if (fault && fault_code == 32'd3 && fault_link == 32'd1) protocol_faults <= protocol_faults + 1;
  end

  task automatic put(input logic [11:0] at, input logic [31:0] value);
    @(posedge clk);
    link_write <= 1'b1;
    link_waddr <= at;
    link_wdata <= value;
    @(posedge clk);
    link_write <= 1'b0;
  endtask
  task automatic expect_value(input string what, input logic [31:0] got_value, input logic [31:0] least, input logic [31:0] most);
    if (got_value < least || got_value > most) begin
      failures = failures + 1;
      $display("FAILED: %s is %0d, not %0d to %0d", what, got_value, least, most);
    end
  endtask
  task automatic expect_register(input string what, input logic [11:0] at, input logic [31:0] least, input logic [31:0] most);
    link_raddr <= at;
    repeat (2) @(posedge clk);
    expect_value(what, link_rdata, least, most);
  endtask
  task automatic write_row(input logic [11:0] row, input logic [31:0] connector, input logic [31:0] credit);
    put(12'h104 + 12'h40 * row, connector);
    put(12'h108 + 12'h40 * row, 32'd5);
    put(12'h10c + 12'h40 * row, 32'd120);
    put(12'h110 + 12'h40 * row, credit);
    put(12'h500 + 12'h10 * row, {16'd7, 16'd3});
    put(12'h504 + 12'h10 * row, 32'd9);
  endtask

  initial begin
    repeat (8) @(posedge clk);
    rst <= 1'b0;
    // The receiver's plan has other credits than the sender's.
    write_row(12'd0, 32'd0, 32'd4);
    write_row(12'd1, 32'd1, 32'd3);
    put(12'h140, 32'd1);
    put(12'h100, 32'd1);
    repeat (20000) @(posedge clk);
    expect_register("state of a sender with other settings", 12'h13c, 32'd1, 32'd1);
    expect_register("violation", 12'h51c, 32'd1, 32'd1);
    expect_value("faults of the protocol", protocol_faults, 32'd1, 32'd1000);
    put(12'h110, 32'd2);
    expect_register("credits of a row in service", 12'h110, 32'd4, 32'd4);
    put(12'h140, 32'd0);
    put(12'h150, 32'd4);
    put(12'h140, 32'd1);
    repeat (400000) @(posedge clk);
    expect_register("status of the sender", 12'h114, 32'd3, 32'd3);
    expect_register("state of the sender", 12'h13c, 32'd2, 32'd2);
    expect_register("state of the receiver", 12'h17c, 32'd2, 32'd2);
    expect_register("generation of the sender", 12'h508, 32'd1, 32'd1);
    expect_register("incarnation of the receiver", 12'h518, 32'd2, 32'd2);
    expect_register("endpoints", 12'h500, {16'd7, 16'd3}, {16'd7, 16'd3});
    expect_register("packets received", 12'h158, frames - 2, frames + 2);
    expect_register("bytes received", 12'h160, 120 * (frames - 2), 120 * (frames + 2));
    expect_value("frames", frames, 32'd1000, 32'hffff_ffff);
    expect_value("faults of the link", downs, 32'd0, 32'd0);
    up <= 1'b0;
    repeat (400000) @(posedge clk);  // 100 ms
    expect_register("state of the sender in an outage", 12'h13c, 32'd4, 32'd4);
    expect_value("faults of the link after the outage", downs, 32'd1, 32'd1);
    up <= 1'b1;
    repeat (400000) @(posedge clk);
    expect_register("state of the sender after the outage", 12'h13c, 32'd2, 32'd3);
    expect_register("packets repeated", 12'h130, 32'd1, 32'd64);
    expect_value("wrong beats or tags", wrong, 32'd0, 32'd0);
    expect_value("beats on their way", given - got, 32'd0, 32'd200);
    if (failures == 0) $display("passed: %0d frames", frames);
    $finish;
  end
endmodule
`default_nettype wire
