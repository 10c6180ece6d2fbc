#include "compiler/emit/vitis/aurora.hpp"

#include "compiler/emit/vitis/text.hpp"

namespace millrace::compiler::emit {
namespace {

constexpr const char* kKernel =
    R"(// millrace_aurora: one end of a cable. The vendor's Aurora 64B/66B core (aurora_64b66b_0: one lane, framing, shared logic inside)
// between two AXI-Streams of ap_clk and the transceiver; mr_aurora at the core's user interface, FIFOs between the clocks.
//
// rx_axis_tready is not heeded: a cable's core cannot wait, and what takes its words always does. `up`: the channel is up, in
// ap_clk.
// init_clk: 100 MHz that always runs. Written from AMD PG074 and XD099; never been through Vivado or on a card.
// Verilog-2001, as the packager's top must be.
`default_nettype none
module millrace_aurora (
  input  wire        ap_clk,
  input  wire        ap_rst_n,
  input  wire        tx_axis_tvalid,
  output wire        tx_axis_tready,
  input  wire [63:0] tx_axis_tdata,
  input  wire        tx_axis_tlast,
  output wire        rx_axis_tvalid,
  input  wire        rx_axis_tready,
  output wire [63:0] rx_axis_tdata,
  output wire        rx_axis_tlast,
  output wire        up,
  input  wire        init_clk,
  input  wire        gt_refclk_p,
  input  wire        gt_refclk_n,
  input  wire        gt_rxp_in,
  input  wire        gt_rxn_in,
  output wire        gt_txp_out,
  output wire        gt_txn_out
);
  wire user_clk, user_rst_n, init_rst_n, unused;
  assign unused = rx_axis_tready;
  xpm_cdc_async_rst #(.RST_ACTIVE_HIGH(0)) user_reset (.src_arst(ap_rst_n), .dest_clk(user_clk), .dest_arst(user_rst_n));
  xpm_cdc_async_rst #(.RST_ACTIVE_HIGH(0)) init_reset (.src_arst(ap_rst_n), .dest_clk(init_clk), .dest_arst(init_rst_n));

  // The transceiver starts first, the channel a little later; both after a second, so that the other end sees this one go.
  reg [26:0] waited;
  reg        pma_init, reset_pb;
  always @(posedge init_clk or negedge init_rst_n)
    if (!init_rst_n) begin
      waited   <= 27'd0;
      pma_init <= 1'b1;
      reset_pb <= 1'b1;
    end else begin
      if (waited != 27'h7ffffff) waited <= waited + 1'b1;
      if (waited == 27'h7ffff00) pma_init <= 1'b0;
      if (waited == 27'h7ffffff) reset_pb <= 1'b0;
    end

  wire        send_valid, send_ready, send_last, receive_valid, receive_last, side_up, channel_up, hard_err;
  wire [63:0] send, receive;
  axis_data_fifo_0 to_cable (
    .s_axis_aresetn(ap_rst_n), .s_axis_aclk(ap_clk), .s_axis_tvalid(tx_axis_tvalid), .s_axis_tready(tx_axis_tready),
    .s_axis_tdata(tx_axis_tdata), .s_axis_tlast(tx_axis_tlast), .m_axis_aclk(user_clk), .m_axis_tvalid(send_valid),
    .m_axis_tready(send_ready), .m_axis_tdata(send), .m_axis_tlast(send_last));
  axis_data_fifo_0 from_cable (
    .s_axis_aresetn(user_rst_n), .s_axis_aclk(user_clk), .s_axis_tvalid(receive_valid), .s_axis_tready(),
    .s_axis_tdata(receive), .s_axis_tlast(receive_last), .m_axis_aclk(ap_clk), .m_axis_tvalid(rx_axis_tvalid),
    .m_axis_tready(1'b1), .m_axis_tdata(rx_axis_tdata), .m_axis_tlast(rx_axis_tlast));

  wire        core_tx_valid, core_tx_ready, core_tx_last, core_rx_valid, core_rx_last;
  wire [63:0] core_tx, core_rx;
  wire [7:0]  core_tx_keep;
  mr_aurora #(.BYTES(8)) side (
    .clk(user_clk), .rst(!user_rst_n), .up(side_up),
    .tx_valid(send_valid), .tx_ready(send_ready), .tx_data(send), .tx_last(send_last),
    .rx_valid(receive_valid), .rx_data(receive), .rx_last(receive_last), .channel_up(channel_up), .hard_err(hard_err),
    .s_axi_tx_tvalid(core_tx_valid), .s_axi_tx_tready(core_tx_ready), .s_axi_tx_tdata(core_tx), .s_axi_tx_tkeep(core_tx_keep),
    .s_axi_tx_tlast(core_tx_last), .m_axi_rx_tvalid(core_rx_valid), .m_axi_rx_tdata(core_rx), .m_axi_rx_tlast(core_rx_last));
  xpm_cdc_single up_here (.src_clk(user_clk), .src_in(side_up), .dest_clk(ap_clk), .dest_out(up));

  aurora_64b66b_0 core (
    .rxp(gt_rxp_in), .rxn(gt_rxn_in), .txp(gt_txp_out), .txn(gt_txn_out), .gt_refclk1_p(gt_refclk_p), .gt_refclk1_n(gt_refclk_n),
    .init_clk(init_clk), .reset_pb(reset_pb), .pma_init(pma_init), .power_down(1'b0), .loopback(3'b000), .gt_rxcdrovrden_in(1'b0),
    .user_clk_out(user_clk), .channel_up(channel_up), .hard_err(hard_err), .s_axi_tx_tvalid(core_tx_valid),
    .s_axi_tx_tready(core_tx_ready), .s_axi_tx_tdata(core_tx), .s_axi_tx_tkeep(core_tx_keep), .s_axi_tx_tlast(core_tx_last), .m_axi_rx_tvalid(core_rx_valid), .m_axi_rx_tdata(core_rx),
    .m_axi_rx_tlast(core_rx_last), .gt0_drpaddr(10'd0), .gt0_drpdi(16'd0), .gt0_drpwe(1'b0), .gt0_drpen(1'b0));
endmodule
`default_nettype wire
)";

constexpr const char* kXml = R"(<?xml version="1.0" encoding="UTF-8"?>
<!-- Written by millrace. Checked against a schema of ours only: this has never met Vitis. -->
<root versionMajor="1" versionMinor="6">
  <kernel name="millrace_aurora" language="ip" vlnv="millrace:kernel:millrace_aurora:1.0" attributes="" preferredWorkGroupSizeMultiple="0" workGroupSize="1" interrupt="false" hwControlProtocol="ap_ctrl_none">
    <ports>
      <port name="tx_axis" mode="read_only" range="0x0" dataWidth="64" portType="stream" base="0x0"/>
      <port name="rx_axis" mode="write_only" range="0x0" dataWidth="64" portType="stream" base="0x0"/>
    </ports>
    <args>
      <arg name="tx_axis" addressQualifier="4" id="0" port="tx_axis" size="0x8" offset="0x0" hostOffset="0x0" hostSize="0x8" type="stream&lt;ap_axiu&lt;64,0,0,0&gt; &gt;&amp;"/>
      <arg name="rx_axis" addressQualifier="4" id="1" port="rx_axis" size="0x8" offset="0x0" hostOffset="0x0" hostSize="0x8" type="stream&lt;ap_axiu&lt;64,0,0,0&gt; &gt;&amp;"/>
    </args>
  </kernel>
</root>
)";

constexpr const char* kPackage = R"(
set xo [file normalize [lindex $argv 0]]
set here [file dirname [file normalize [info script]]]
set work [file join [pwd] package]
file delete -force $work $xo
create_project -force package $work -part $part

# The vendor's cores: a lane in frames, and FIFOs from clock to clock.
create_ip -name aurora_64b66b -vendor xilinx.com -library ip -version 12.0 -module_name aurora_64b66b_0
set_property -dict [list CONFIG.C_AURORA_LANES {1} CONFIG.C_LINE_RATE {10.3125} CONFIG.C_REFCLK_FREQUENCY {161.1328125} \
  CONFIG.C_INIT_CLK {100} CONFIG.interface_mode {Framing} CONFIG.drp_mode {Native} CONFIG.SupportLevel {1}] [get_ips aurora_64b66b_0]
create_ip -name axis_data_fifo -vendor xilinx.com -library ip -version 2.0 -module_name axis_data_fifo_0
set_property -dict [list CONFIG.TDATA_NUM_BYTES {8} CONFIG.HAS_TLAST {1} CONFIG.IS_ACLK_ASYNC {1}] [get_ips axis_data_fifo_0]
generate_target all [get_ips]

add_files -norecurse [list [file join $here millrace_aurora.v] [file join $here mr_aurora.sv]]
set_property top millrace_aurora [current_fileset]
set_property XPM_LIBRARIES {XPM_CDC} [current_project]
update_compile_order -fileset sources_1
ipx::package_project -root_dir [file join $work ip] -vendor millrace -library kernel -taxonomy /KernelIP -import_files -set_current true
set core [ipx::current_core]
set_property name millrace_aurora $core
set_property version 1.0 $core
set_property sdx_kernel true $core
set_property sdx_kernel_type rtl $core
set_property vitis_drc {ctrl_protocol ap_ctrl_none} $core
ipx::infer_bus_interface ap_clk xilinx.com:signal:clock_rtl:1.0 $core
ipx::infer_bus_interface ap_rst_n xilinx.com:signal:reset_rtl:1.0 $core
# A plain pin: link.cfg wires it to the platform's clock that always runs.
ipx::remove_bus_interface init_clk $core
foreach bus {tx_axis rx_axis} {ipx::associate_bus_interfaces -busif $bus -clock ap_clk $core}
ipx::associate_bus_interfaces -clock ap_clk -reset ap_rst_n $core

# The transceiver's pins and its reference clock, as the platform has them.
proc add_bus {core name type mode pins} {
  ipx::add_bus_interface $name $core
  set bus [ipx::get_bus_interfaces $name -of_objects $core]
  set_property interface_mode $mode $bus
  set_property abstraction_type_vlnv xilinx.com:interface:${type}_rtl:1.0 $bus
  set_property bus_type_vlnv xilinx.com:interface:${type}:1.0 $bus
  foreach {logical physical} $pins {
    ipx::add_port_map $logical $bus
    set_property physical_name $physical [ipx::get_port_maps $logical -of_objects $bus]
  }
}
add_bus $core gt_port gt master {GRX_P gt_rxp_in GRX_N gt_rxn_in GTX_P gt_txp_out GTX_N gt_txn_out}
add_bus $core gt_refclk diff_clock slave {CLK_P gt_refclk_p CLK_N gt_refclk_n}

ipx::update_checksums $core
ipx::check_integrity -kernel $core
ipx::save_core $core
package_xo -xo_path $xo -kernel_name millrace_aurora -ip_directory [file join $work ip] -kernel_xml [file join $here kernel.xml]
close_project
)";

constexpr const char* kMakefile =
    R"(# make: the cable's kernel. Needs vivado in PATH (source Vitis' settings64.sh).
.DELETE_ON_ERROR:
.PHONY: all clean
all: millrace_aurora.xo

millrace_aurora.xo: package.tcl kernel.xml millrace_aurora.v mr_aurora.sv
	vivado -mode batch -nojournal -nolog -source package.tcl -tclargs $@

clean:
	rm -rf millrace_aurora.xo package .Xil
)";

}  // namespace

std::optional<CablePins> cable_pins(const std::string& platform) {
  struct Known {
    const char* begins;
    CablePins pins;
  };
  static const std::vector<Known> known = {
      {"xilinx_u280_", {{"qsfp0", "qsfp1"}, "ii_level0_wire/ulp_m_aclk_freerun_ref_00"}},
      {"xilinx_u55c_", {{"qsfp0", "qsfp1"}, "ii_level0_wire/ulp_m_aclk_freerun_ref_00"}},
      {"xilinx_u50_", {{"qsfp"}, "ii_level0_wire/ulp_m_aclk_freerun_ref_00"}},
      {"xilinx_u200_", {{"qsfp"}, "ii_level0_wire/ulp_m_aclk_freerun_ref_00"}},
      {"xilinx_u250_", {{"qsfp"}, "ii_level1_wire/ulp_m_aclk_freerun_ref_00"}}};
  for (const Known& one : known)
    if (platform.starts_with(one.begins)) return one.pins;
  return std::nullopt;
}

std::string cable_connections(const CablePins& pins, const std::string& image, const std::string& cable,
                              std::size_t number) {
  const std::string link = "link" + std::to_string(number), &cage = pins.cages[number];
  return "sc=" + image + "." + link + "_tx:" + cable + ".tx_axis\nsc=" + cable + ".rx_axis:" + image + "." +
         link + "_rx\nconnect=" + cable + "/up:" + image + "/" + link + "_up\nconnect=io_clk_" + cage +
         "_refclka_00:" + cable + "/gt_refclk\nconnect=" + cable + "/gt_port:io_gt_" + cage +
         "_00\nconnect=" + cable + "/init_clk:" + pins.free_clock + "\n";
}

std::map<std::string, std::string> aurora_files(const runtime::plan::Device& device) {
  return {{"millrace_aurora.v", kKernel},
          {"mr_aurora.sv", library_text("link/mr_aurora.sv")},
          {"kernel.xml", kXml},
          {"package.tcl",
           std::string(kNeverRun) +
               "# Packages a cable's end: vivado -mode batch -source package.tcl -tclargs OUTPUT.xo\n"
               "if {[llength $argv] != 1} {error \"usage: -tclargs OUTPUT.xo\"}\nset part " +
               device.part + kPackage},
          {"Makefile", std::string(kNeverRun) + kMakefile}};
}

}  // namespace millrace::compiler::emit
