// Checks the files for Vitis as far as possible without the vendor's tools: tclsh runs the Tcl script with stubs of the
// vendor's commands, the XML is checked against a schema, the link configuration is parsed, and Verilator lints the
// kernel. The kernel is also compared with vitis/kernel.v; after an intended change, MILLRACE_UPDATE_GOLDEN=1
// test_vitis rewrites that file.
//
// This source has more than 500 lines because the emitted files refer to each other and are checked against each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <vector>

#include "compiler/emit/vitis/vitis.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/process.hpp"
#include "tests/paths/paths.hpp"
#include "tests/support/tools.hpp"

namespace millrace::compiler::emit::test_vitis {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = tests::source_dir();

/// Returns the SystemVerilog of a top module with the ports that emit/rtl declares for control, supervisor, an input
/// and an output. With weight readers, the top also has the ports of the parameter unit and of each reader.
std::string top_text(std::size_t connectors, std::size_t readers = 0, bool udp = false) {
  std::string ports = "  input  logic clk,\n  input  logic rst,\n  output logic error";
  const auto add = [&](bool input, const std::string& range, const std::string& name) {
    ports += std::string(",\n  ") + (input ? "input  logic " : "output logic ") + range + name;
  };
  const auto read_bus = [&](const std::string& unit) {
    for (const auto& [name, input, range] : {std::tuple("arvalid", false, ""),
                                             {"arready", true, ""},
                                             {"araddr", false, "[63:0] "},
                                             {"arlen", false, "[7:0] "},
                                             {"rvalid", true, ""},
                                             {"rready", false, ""},
                                             {"rdata", true, "[511:0] "},
                                             {"rresp", true, "[1:0] "},
                                             {"rlast", true, ""}})
      add(input, range, unit + "_axi_" + name);
  };
  std::vector<std::string> units = {"control", "supervisor", "in0", "out0"};
  if (readers > 0) units.insert(units.begin() + 2, "parameters");
  for (const std::string& unit : units) {
    for (const auto& [name, input, range] : {std::tuple("awvalid", true, ""),
                                             {"awready", false, ""},
                                             {"awaddr", true, "[11:0] "},
                                             {"wvalid", true, ""},
                                             {"wready", false, ""},
                                             {"wdata", true, "[31:0] "},
                                             {"wstrb", true, "[3:0] "},
                                             {"bvalid", false, ""},
                                             {"bready", true, ""},
                                             {"bresp", false, "[1:0] "},
                                             {"arvalid", true, ""},
                                             {"arready", false, ""},
                                             {"araddr", true, "[11:0] "},
                                             {"rvalid", false, ""},
                                             {"rready", true, ""},
                                             {"rdata", false, "[31:0] "},
                                             {"rresp", false, "[1:0] "}}) {
      add(input, range, unit + "_axil_" + name);
    }
    if (unit == "control") continue;
    add(false, "", unit + "_irq");
    if (unit == "in0" || unit == "parameters") {
      read_bus(unit);
    } else {
      for (const auto& [name, input, range] : {std::tuple("awvalid", false, ""),
                                               {"awready", true, ""},
                                               {"awaddr", false, "[63:0] "},
                                               {"awlen", false, "[7:0] "},
                                               {"wvalid", false, ""},
                                               {"wready", true, ""},
                                               {"wdata", false, "[511:0] "},
                                               {"wlast", false, ""},
                                               {"bvalid", true, ""},
                                               {"bready", false, ""},
                                               {"bresp", true, "[1:0] "}}) {
        add(input, range, unit + "_axi_" + name);
      }
    }
  }
  for (std::size_t i = 0; i < readers; ++i) read_bus("weights" + std::to_string(i));
  for (std::size_t k = 0; k < connectors; ++k) {
    const std::string name = "link" + std::to_string(k);
    if (udp) {
      for (const bool received : {false, true}) {
        const std::string stream = name + (received ? "_rx_" : "_tx_");
        add(received, "", stream + "tvalid");
        add(!received, "", stream + "tready");
        add(received, "[511:0] ", stream + "tdata");
        add(received, "[63:0] ", stream + "tkeep");
        add(received, "", stream + "tlast");
        add(received, "[15:0] ", stream + "tdest");
      }
      continue;
    }
    add(true, "", name + "_up");
    add(false, "", name + "_tx_tvalid");
    add(true, "", name + "_tx_tready");
    add(false, "[63:0] ", name + "_tx_tdata");
    add(false, "", name + "_tx_tlast");
    add(true, "", name + "_rx_tvalid");
    add(true, "[63:0] ", name + "_rx_tdata");
    add(true, "", name + "_rx_tlast");
  }
  return "`default_nettype none\nmodule part0_top (\n" + ports + "\n);\nendmodule\n`default_nettype wire\n";
}

runtime::plan::Device u280() {
  return *runtime::plan::load_device(kSource / "configs/devices/u280.yaml");
}

class Vitis : public testing::Test {
 protected:
  Vitis() : device_(u280()) {
    image_ = {"image0", "part0", "SLR1", &device_, {}};
    use_top(0);
  }

  /// Makes the module of top_text() the top module of the FPGA image.
  void use_top(std::uint32_t connectors, std::size_t readers = 0, bool udp = false) {
    rtl_["part0_top.sv"] = top_text(connectors, readers, udp);
    TopInterface top{{{"control", true, false, Master::kNone}, {"supervisor", true, true, Master::kWrite}},
                     connectors,
                     udp};
    if (readers > 0) top.units.push_back({"parameters", true, true, Master::kRead});
    top.units.push_back({"in0", true, true, Master::kRead});
    top.units.push_back({"out0", true, true, Master::kWrite});
    for (std::size_t i = 0; i < readers; ++i)
      top.units.push_back({"weights" + std::to_string(i), false, false, Master::kRead});
    image_.top = top;
  }

  std::map<std::string, std::string> emit() const {
    auto files = emit_vitis({image_});
    EXPECT_TRUE(files.ok()) << files.error().message();
    return *files;
  }

  /// Writes the Vitis files and the SystemVerilog to `folder`, at the same paths as in a deployment.
  void lay_out(const fs::path& folder) const {
    const auto put = [&](const std::string& path, const std::string& text) {
      fs::create_directories((folder / path).parent_path());
      std::ofstream(folder / path) << text;
    };
    for (const auto& [path, text] : emit()) put(path, text);
    for (const auto& [path, text] : rtl_) put("rtl/part0/" + path, text);
  }

  ChildOutcome run(const std::vector<std::string>& command, const fs::path& folder) const {
    const auto program = find_program(command[0]);
    if (!program) throw std::runtime_error("no " + command[0]);
    std::vector<std::string> words = command;
    words[0] = program->string();
    return *run_child(words, folder);
  }

  /// Expects that Verilator accepts the module `top` and that every name is declared before it is used. Files that end
  /// in .v must be Verilog-2001.
  void lint(const fs::path& folder, const std::string& top, const std::vector<std::string>& files) const {
    std::vector<std::string> command = {"verilator",
                                        "--lint-only",
                                        "-Wall",
                                        "-Wno-UNUSED",
                                        "-Wno-UNDRIVEN",
                                        "-Wno-DECLFILENAME",
                                        "-Wno-SYMRSVDWORD",
                                        "-Wno-PINCONNECTEMPTY",
                                        "+1364-2001ext+v",
                                        "--top-module",
                                        top};
    command.insert(command.end(), files.begin(), files.end());
    const ChildOutcome outcome = run(command, folder);
    EXPECT_TRUE(outcome.ok()) << outcome.output;
    const ChildOutcome order =
        run({"python3", (kSource / "tests/rtl/declared_first").string(), "vitis"}, folder);
    EXPECT_TRUE(order.ok()) << order.output;
  }
  void lint_kernel(const fs::path& folder) const {
    lint(folder, "millrace_image0",
         {"vitis/image0/kernel.v", "vitis/image0/mr_axil_split.sv", "rtl/part0/part0_top.sv"});
  }

  runtime::plan::Device device_;
  VitisImage image_;
  std::map<std::string, std::string> rtl_ = {{"files.f", "library/mr_fifo.sv\npart0_top.sv\n"},
                                             {"library/mr_fifo.sv", "module mr_fifo;\nendmodule\n"},
                                             {"w.hex", "00\n"},
                                             {"w_thresholds.0.1", "00\n"}};  // in folder rtl/part0/
};

/// Returns the first construct in `text` that Vivado rejects in Verilog-2001 although Verilator accepts it, or an empty
/// string if there is none. The function knows only the constructs that are easily written by mistake.
std::string beyond_verilog_2001(const std::string& text) {
  static const std::regex comment(R"(//[^\n]*)");
  static const std::regex beyond(
      R"(\b(logic|bit|int|always_ff|always_comb|always_latch|typedef|enum|import)\b|'[01xz]\b|\.\w+\s*[,)]|\.\*)");
  const std::string code = std::regex_replace(text, comment, "");
  std::smatch found;
  return std::regex_search(code, found, beyond) ? found.str() : std::string();
}

TEST_F(Vitis, WritesTheBuildFilesAndSaysThatTheyWereNeverRun) {
  const auto files = emit();
  std::set<std::string> names;
  for (const auto& [name, text] : files) {
    names.insert(name);
    if (!name.ends_with("mr_axil_split.sv")) {
      EXPECT_TRUE(text.find("never") != std::string::npos || text.find("Never") != std::string::npos) << name;
    }
  }
  EXPECT_EQ(names, (std::set<std::string>{"vitis/Makefile", "vitis/README.md", "vitis/image0/Makefile",
                                          "vitis/image0/kernel.v", "vitis/image0/kernel.xml",
                                          "vitis/image0/link.cfg", "vitis/image0/messages.tcl",
                                          "vitis/image0/mr_axil_split.sv", "vitis/image0/package.tcl"}));
}

TEST_F(Vitis, KernelMatchesTheGoldenFileAndLinesHaveAtMost140Columns) {
  use_top(1, 1);
  const std::string text = emit().at("vitis/image0/kernel.v");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 140U) << line;
  const fs::path golden = kSource / "tests/golden/vitis/kernel.v";
  if (std::getenv("MILLRACE_UPDATE_GOLDEN") != nullptr) std::ofstream(golden) << text;
  EXPECT_EQ(text, *read_text_file(golden));
}

/// The packaged top modules must be Verilog-2001, because Vivado reads .v files in that language.
TEST_F(Vitis, PackagedTopModulesArePlainVerilog2001) {
  use_top(2, 2);
  const auto files = emit();
  for (const char* top : {"vitis/image0/kernel.v", "vitis/aurora_u280/millrace_aurora.v"})
    EXPECT_EQ(beyond_verilog_2001(files.at(top)), "") << top;
  for (const char* wrong : {"output logic a", "assign a = '1;", "top t (.clk, .rst(rst))", "always_ff @(a)"})
    EXPECT_NE(beyond_verilog_2001(wrong), "") << wrong;
}

TEST_F(Vitis, WritesNoFilesForADeviceWithoutAPlatform) {
  device_.platform.clear();
  EXPECT_TRUE(emit().empty());
}

TEST_F(Vitis, ReadmeNamesImagesThatVitisCannotBuild) {
  const auto note = [&] {
    const auto files = emit();
    EXPECT_FALSE(files.contains("vitis/image0/link.cfg"));
    return files.at("vitis/README.md");
  };
  use_top(3);
  EXPECT_NE(note().find("`image0`: the image has link ports on 3 connectors"), std::string::npos);
  use_top(2);
  device_.clock_mhz = 100;
  EXPECT_NE(note().find("slower than the 156.25 MHz"), std::string::npos);
  device_.clock_mhz = 250;
  device_.transceivers.lanes = 4;
  EXPECT_NE(note().find("cables of 4 lanes, but the kernel of a cable has 1"), std::string::npos);
  device_.transceivers = {};
  EXPECT_NE(note().find("the key 'transceivers' is missing from the file of device u280"), std::string::npos);
  image_.top.reset();
  EXPECT_NE(note().find("no generated SystemVerilog of one partition"), std::string::npos);
}

TEST_F(Vitis, PackageScriptUsesOnlyCommandsOfVivado) {
  ASSERT_TRUE(tests::installed({"tclsh"}));
  const TemporaryDirectory folder("millrace-vitis");
  lay_out(folder.path());
  const std::vector<std::string> command = {"tclsh",
                                            (kSource / "tests/golden/vitis/vivado_stubs.tcl").string(),
                                            (folder.path() / "vitis/image0/package.tcl").string()};
  auto with = command;
  with.push_back("out.xo");
  const ChildOutcome outcome = run(with, folder.path());
  ASSERT_TRUE(outcome.ok()) << outcome.output;
  std::vector<std::string> called;
  std::istringstream lines(outcome.output);
  for (std::string line; std::getline(lines, line);) called.push_back(line.substr(0, line.find(' ')));
  const auto at = [&](const std::string& name) {
    return std::find(called.begin(), called.end(), name) - called.begin();
  };
  EXPECT_EQ(called.front(), "create_project");
  EXPECT_EQ(called.back(), "close_project");
  EXPECT_LT(at("add_files"), at("synth_design"));
  EXPECT_LT(at("synth_design"), at("ipx::package_project"));
  EXPECT_LT(at("ipx::save_core"), at("package_xo"));
  EXPECT_EQ(std::count(called.begin(), called.end(), "ipx::associate_bus_interfaces"),
            5);  // one call each for the registers, three AXI masters, and the reset
  EXPECT_NE(outcome.output.find("ipx::associate_bus_interfaces -clock ap_clk -reset ap_rst_n"),
            std::string::npos)
      << outcome.output;
  EXPECT_NE(outcome.output.find("xcu280-fsvh2892-2L-e"), std::string::npos);
  for (const char* memory : {"w.hex", "w_thresholds.0.1", "library/mr_fifo.sv"})
    EXPECT_NE(outcome.output.find(memory), std::string::npos) << memory;
  EXPECT_NE(outcome.output.find("-kernel_name millrace_image0"), std::string::npos);

  EXPECT_FALSE(run(command, folder.path()).ok()) << "without an output";
  // Like AMD's packager, the stub refuses a top in SystemVerilog.
  const fs::path script = command.back();
  const std::string text = *read_text_file(script);
  fs::copy_file(folder.path() / "vitis/image0/kernel.v", folder.path() / "vitis/image0/kernel.sv");
  std::ofstream(script) << std::regex_replace(text, std::regex(R"(kernel\.v\b)"), "kernel.sv");
  const ChildOutcome refused = run(with, folder.path());
  EXPECT_FALSE(refused.ok());
  EXPECT_NE(refused.output.find("top millrace_image0 is not Verilog: kernel.sv"), std::string::npos)
      << refused.output;
  std::ofstream(script) << text;
  fs::remove(folder.path() / "rtl/part0/part0_top.sv");
  EXPECT_FALSE(run(with, folder.path()).ok()) << "with a source missing";
}

TEST_F(Vitis, KernelXmlFollowsTheSchema) {
  ASSERT_TRUE(tests::installed({"xmllint"}));
  const TemporaryDirectory folder("millrace-vitis");
  lay_out(folder.path());
  const fs::path xml = folder.path() / "vitis/image0/kernel.xml";
  const std::vector<std::string> command = {
      "xmllint", "--noout", "--schema", (kSource / "tests/golden/vitis/kernel.xsd").string(), xml.string()};
  ChildOutcome outcome = run(command, folder.path());
  EXPECT_TRUE(outcome.ok()) << outcome.output;
  const std::string text = *read_text_file(xml);
  // The register windows have the order of the top's ports: control, supervisor, in0, out0. In each window, the
  // register with the buffer's address is at 0x10.
  EXPECT_NE(text.find("name=\"supervisor\" addressQualifier=\"1\" id=\"0\" port=\"m_axi_supervisor\" "
                      "size=\"0x8\" offset=\"0x1010\""),
            std::string::npos)
      << text;
  EXPECT_NE(
      text.find(
          "name=\"in0\" addressQualifier=\"1\" id=\"1\" port=\"m_axi_in0\" size=\"0x8\" offset=\"0x2010\""),
      std::string::npos);
  std::ofstream(xml) << std::string(text).replace(text.find("port=\"m_axi_in0\""), 16, "port=\"m_axi_in7\"");
  EXPECT_FALSE(run(command, folder.path()).ok()) << "an argument on a port that is not there";
}

/// Parses a link configuration: maps each section to its "key=value" lines, and "" to the lines before the first
/// section.
std::map<std::string, std::vector<std::pair<std::string, std::string>>> parse_cfg(const std::string& text) {
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> sections;
  std::istringstream lines(text);
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line.front() == '[' && line.back() == ']') {
      section = line.substr(1, line.size() - 2);
      continue;
    }
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) throw std::runtime_error("not key=value: " + line);
    sections[section].emplace_back(line.substr(0, equals), line.substr(equals + 1));
  }
  return sections;
}

TEST_F(Vitis, LinkConfigurationNamesRegionMemoryAndClock) {
  auto cfg = parse_cfg(emit().at("vitis/image0/link.cfg"));
  using Lines = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(cfg.at(""), (Lines{{"platform", device_.platform}, {"save-temps", "1"}}));
  EXPECT_EQ(cfg.at("connectivity"), (Lines{{"nk", "millrace_image0:1:image0"},
                                           {"sp", "image0.m_axi_supervisor:DDR[1]"},
                                           {"sp", "image0.m_axi_in0:DDR[1]"},
                                           {"sp", "image0.m_axi_out0:DDR[1]"},
                                           {"slr", "image0:SLR1"}}));
  EXPECT_EQ(cfg.at("clock"), (Lines{{"freqHz", "250000000:image0.ap_clk"}}));
  image_.region = "SLR0";
  EXPECT_EQ(parse_cfg(emit().at("vitis/image0/link.cfg")).at("connectivity")[1].second,
            "image0.m_axi_supervisor:HBM[0:3]");
}

TEST_F(Vitis, AssignsEachInstanceToItsRegion) {
  ASSERT_TRUE(tests::installed({"tclsh", "make"}));
  image_.region = "SLR0";
  image_.placed = {
      {"SLR0", {"conv_fifo", "conv_cross0"}}, {"SLR1", {"conv_cross1", "conv_mvu"}}, {"SLR2", {}}};
  auto cfg = parse_cfg(emit().at("vitis/image0/link.cfg"));
  for (const auto& [key, value] : cfg.at("connectivity"))
    EXPECT_NE(key, "slr") << "the kernel is in no one SLR";
  const TemporaryDirectory folder("millrace-vitis");
  lay_out(folder.path());
  const std::vector<std::string> command = {"tclsh",
                                            (kSource / "tests/golden/vitis/vivado_stubs.tcl").string(),
                                            (folder.path() / "vitis/image0/regions.tcl").string()};
  const ChildOutcome outcome = run(command, folder.path());
  ASSERT_TRUE(outcome.ok()) << outcome.output;
  for (const auto& [region, instances] : image_.placed)
    for (const auto& instance : instances)
      EXPECT_NE(outcome.output.find("set_property USER_SLR_ASSIGNMENT " + region +
                                    " level0_i/ulp/image0/inst/top/dataflow/" + instance + "\n"),
                std::string::npos)
          << outcome.output;
  EXPECT_EQ(outcome.output.find("SLR2"), std::string::npos) << "no instance is placed there";
  const ChildOutcome make = run({"make", "-n", "-C", "vitis"}, folder.path());
  EXPECT_NE(make.output.find("--vivado.prop run.impl_1.STEPS.PLACE_DESIGN.TCL.PRE=" + folder.path().string() +
                             "/vitis/image0/regions.tcl"),
            std::string::npos)
      << make.output;
  image_.placed[1].instances.push_back("dissolved");
  lay_out(folder.path());
  const ChildOutcome missing = run(command, folder.path());
  EXPECT_FALSE(missing.ok());
  EXPECT_NE(missing.output.find("no cell dissolved in image0"), std::string::npos) << missing.output;
}

TEST_F(Vitis, ConnectsWeightReadersToTheMemoryOfTheParameters) {
  use_top(0, 2);
  image_.region = "SLR0";
  const auto files = emit();
  using Lines = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(parse_cfg(files.at("vitis/image0/link.cfg")).at("connectivity"),
            (Lines{{"nk", "millrace_image0:1:image0"},
                   {"sp", "image0.m_axi_supervisor:HBM[0:3]"},
                   {"sp", "image0.m_axi_parameters:HBM[0:3]"},
                   {"sp", "image0.m_axi_in0:HBM[0:3]"},
                   {"sp", "image0.m_axi_out0:HBM[0:3]"},
                   {"sp", "image0.m_axi_weights0:HBM[0:3]"},
                   {"sp", "image0.m_axi_weights1:HBM[0:3]"},
                   {"slr", "image0:SLR0"}}));
  // Every AXI master has a kernel argument with its own register. The registers for the weight readers are in the
  // parameter window, and the hardware does not read them.
  const std::string& xml = files.at("vitis/image0/kernel.xml");
  for (const char* argument : {"port=\"m_axi_parameters\" size=\"0x8\" offset=\"0x2010\"",
                               "port=\"m_axi_weights0\" size=\"0x8\" offset=\"0x2800\"",
                               "port=\"m_axi_weights1\" size=\"0x8\" offset=\"0x2808\""})
    EXPECT_NE(xml.find(argument), std::string::npos) << argument << "\n" << xml;
  ASSERT_TRUE(tests::installed({"python3", "xmllint", "verilator"}));
  const TemporaryDirectory folder("millrace-vitis");
  lay_out(folder.path());
  const ChildOutcome valid =
      run({"xmllint", "--noout", "--schema", (kSource / "tests/golden/vitis/kernel.xsd").string(),
           "vitis/image0/kernel.xml"},
          folder.path());
  EXPECT_TRUE(valid.ok()) << valid.output;
  lint_kernel(folder.path());
}

TEST_F(Vitis, MakefileBuildsEveryImage) {
  ASSERT_TRUE(tests::installed({"make"}));
  const TemporaryDirectory folder("millrace-vitis");
  lay_out(folder.path());
  const ChildOutcome outcome = run({"make", "-n", "-C", "vitis"}, folder.path());
  EXPECT_TRUE(outcome.ok()) << outcome.output;
  EXPECT_NE(outcome.output.find(
                "vivado -mode batch -nojournal -nolog -source package.tcl -tclargs millrace_image0.xo"),
            std::string::npos);
  EXPECT_NE(outcome.output.find("v++ --link --target hw --config link.cfg --vivado.prop "
                                "run.__KERNEL__.STEPS.SYNTH_DESIGN.TCL.PRE=" +
                                folder.path().string() +
                                "/vitis/image0/messages.tcl --output image0.xclbin millrace_image0.xo"),
            std::string::npos)
      << outcome.output;
}

TEST_F(Vitis, MakefileRebuildsAKernelWhenAnyOfItsFilesChanges) {
  ASSERT_TRUE(tests::installed({"make"}));
  const TemporaryDirectory folder("millrace-vitis");
  lay_out(folder.path());
  const fs::path kernel = folder.path() / "vitis/image0/millrace_image0.xo";
  std::ofstream(kernel) << "made";
  const auto made = fs::last_write_time(kernel);
  const auto remade = [&] {
    const ChildOutcome outcome =
        run({"make", "-n", "-C", "vitis/image0", "millrace_image0.xo"}, folder.path());
    EXPECT_TRUE(outcome.ok()) << outcome.output;
    return outcome.output.find("vivado ") != std::string::npos;
  };
  for (const char* source :
       {"rtl/part0/part0_top.sv", "rtl/part0/library/mr_fifo.sv", "rtl/part0/w.hex",
        "rtl/part0/w_thresholds.0.1", "vitis/image0/kernel.v", "vitis/image0/mr_axil_split.sv",
        "vitis/image0/kernel.xml", "vitis/image0/package.tcl", "vitis/image0/messages.tcl"}) {
    EXPECT_FALSE(remade()) << "before " << source;
    fs::last_write_time(folder.path() / source, made + std::chrono::seconds(10));
    EXPECT_TRUE(remade()) << source;
    fs::last_write_time(folder.path() / source, made - std::chrono::seconds(10));
  }
}

TEST_F(Vitis, KernelPassesVerilatorLint) {
  ASSERT_TRUE(tests::installed({"python3", "verilator"}));
  const TemporaryDirectory folder("millrace-vitis");
  lay_out(folder.path());
  lint_kernel(folder.path());
}

// The following tests check FPGA images with cables.

class VitisLinks : public Vitis {
 protected:
  VitisLinks() { use_top(2); }
};

TEST_F(VitisLinks, LinkConfigurationConnectsEachNetworkPortToItsAuroraKernel) {
  using Lines = std::vector<std::pair<std::string, std::string>>;
  auto cfg = parse_cfg(emit().at("vitis/image0/link.cfg"));
  EXPECT_EQ(cfg.at("connectivity"),
            (Lines{{"nk", "millrace_image0:1:image0"},
                   {"nk", "millrace_aurora:2:image0_cable0,image0_cable1"},
                   {"sp", "image0.m_axi_supervisor:DDR[1]"},
                   {"sp", "image0.m_axi_in0:DDR[1]"},
                   {"sp", "image0.m_axi_out0:DDR[1]"},
                   {"slr", "image0:SLR1"},
                   {"sc", "image0.link0_tx:image0_cable0.tx_axis"},
                   {"sc", "image0_cable0.rx_axis:image0.link0_rx"},
                   {"connect", "image0_cable0/up:image0/link0_up"},
                   {"connect", "io_clk_qsfp0_refclka_00:image0_cable0/gt_refclk"},
                   {"connect", "image0_cable0/gt_port:io_gt_qsfp0_00"},
                   {"connect", "image0_cable0/init_clk:ii_level0_wire/ulp_m_aclk_freerun_ref_00"},
                   {"slr", "image0_cable0:SLR2"},
                   {"sc", "image0.link1_tx:image0_cable1.tx_axis"},
                   {"sc", "image0_cable1.rx_axis:image0.link1_rx"},
                   {"connect", "image0_cable1/up:image0/link1_up"},
                   {"connect", "io_clk_qsfp1_refclka_00:image0_cable1/gt_refclk"},
                   {"connect", "image0_cable1/gt_port:io_gt_qsfp1_00"},
                   {"connect", "image0_cable1/init_clk:ii_level0_wire/ulp_m_aclk_freerun_ref_00"},
                   {"slr", "image0_cable1:SLR2"}}));
  EXPECT_EQ(cfg.at("clock"),
            (Lines{{"freqHz", "250000000:image0.ap_clk,image0_cable0.ap_clk,image0_cable1.ap_clk"}}));
}

/// Every connection in the link configuration must name a port of a kernel.xml. Each stream must be connected once, in
/// its direction.
TEST_F(VitisLinks, LinkConfigurationUsesOnlyPortsThatTheKernelsDeclare) {
  const auto files = emit();
  auto cfg = parse_cfg(files.at("vitis/image0/link.cfg"));
  const auto has = [&](const std::string& end, const char* mode) {
    const std::size_t dot = end.find('.');
    const std::string unit = end.substr(0, dot), port = end.substr(dot + 1);
    const std::string& xml =
        files.at(unit == "image0" ? "vitis/image0/kernel.xml" : "vitis/aurora_u280/kernel.xml");
    return xml.find("name=\"" + port + "\" mode=\"" + mode + "\"") != std::string::npos;
  };
  std::set<std::string> used;
  for (const auto& [key, value] : cfg.at("connectivity")) {
    if (key != "sc") continue;
    const std::size_t colon = value.find(':');
    const std::string from = value.substr(0, colon), to = value.substr(colon + 1);
    EXPECT_TRUE(has(from, "write_only")) << value;
    EXPECT_TRUE(has(to, "read_only")) << value;
    EXPECT_TRUE(used.insert(from).second && used.insert(to).second) << value;
  }
  EXPECT_EQ(used.size(), 8U);
}

TEST_F(VitisLinks, KernelXmlOfComputeAndAuroraKernelsFollowsTheSchema) {
  ASSERT_TRUE(tests::installed({"xmllint"}));
  const TemporaryDirectory folder("millrace-vitis");
  lay_out(folder.path());
  for (const char* xml : {"vitis/image0/kernel.xml", "vitis/aurora_u280/kernel.xml"}) {
    const ChildOutcome outcome =
        run({"xmllint", "--noout", "--schema", (kSource / "tests/golden/vitis/kernel.xsd").string(), xml},
            folder.path());
    EXPECT_TRUE(outcome.ok()) << outcome.output;
  }
}

TEST_F(VitisLinks, PackageScriptBuildsTheAuroraKernelFromTheVendorsCores) {
  ASSERT_TRUE(tests::installed({"tclsh"}));
  const TemporaryDirectory folder("millrace-vitis");
  lay_out(folder.path());
  const std::string stubs = (kSource / "tests/golden/vitis/vivado_stubs.tcl").string();
  const auto package = [&](const std::string& of) {
    return run({"tclsh", stubs, (folder.path() / "vitis" / of / "package.tcl").string(), "out.xo"},
               folder.path());
  };
  const ChildOutcome cable = package("aurora_u280");
  ASSERT_TRUE(cable.ok()) << cable.output;
  for (const char* wanted :
       {"xcu280-fsvh2892-2L-e", "create_ip -name aurora_64b66b", "CONFIG.interface_mode Framing",
        "ipx::add_port_map GRX_P", "ipx::add_port_map CLK_N", "-kernel_name millrace_aurora"})
    EXPECT_NE(cable.output.find(wanted), std::string::npos) << wanted << "\n" << cable.output;
  const ChildOutcome image = package("image0");
  ASSERT_TRUE(image.ok()) << image.output;
  for (const char* bus : {"link0_tx", "link0_rx", "link1_tx", "link1_rx"})
    EXPECT_NE(
        image.output.find(std::string("ipx::associate_bus_interfaces -busif ") + bus + " -clock ap_clk"),
        std::string::npos)
        << bus;
  fs::remove(folder.path() / "vitis/aurora_u280/mr_aurora.sv");
  EXPECT_FALSE(package("aurora_u280").ok()) << "with a source missing";
}

/// Expected frequencies: Aurora-HLS (Paderborn) for the U280's refclka, and AMD's user guide of the U55C.
TEST_F(VitisLinks, AuroraKernelTakesTheReferenceClockOfThePlatform) {
  ASSERT_TRUE(tests::installed({"tclsh"}));
  const auto has = [](const std::string& text, const std::string& wanted) {
    EXPECT_NE(text.find(wanted), std::string::npos) << wanted << "\n" << text;
  };
  auto files = emit();
  has(files.at("vitis/aurora_u280/package.tcl"),
      "CONFIG.C_AURORA_LANES {1} CONFIG.C_LINE_RATE {10.3125} CONFIG.C_REFCLK_FREQUENCY {156.25}");
  has(files.at("vitis/aurora_u280/clocks.xdc"), "-period 6.4 [get_ports gt_refclk_p]");
  const TemporaryDirectory folder("millrace-vitis");
  lay_out(folder.path());
  const ChildOutcome read = run({"tclsh", (kSource / "tests/golden/vitis/vivado_stubs.tcl").string(),
                                 (folder.path() / "vitis/aurora_u280/clocks.xdc").string()},
                                folder.path());
  ASSERT_TRUE(read.ok()) << read.output;
  has(read.output, "create_clock -name millrace_gt_refclk -period 6.4 gt_refclk_p\n");
  has(read.output, "set_clock_groups -asynchronous -group ap_clk -group init_clk -group user_clk\n");

  device_ = *runtime::plan::load_device(kSource / "configs/devices/u55c.yaml");
  files = emit();
  has(files.at("vitis/aurora_u55c/package.tcl"), "CONFIG.C_REFCLK_FREQUENCY {161.1328125}");
  has(files.at("vitis/aurora_u55c/clocks.xdc"), "-period 6.2060606 ");
  const std::string& link = files.at("vitis/image0/link.cfg");
  has(link, "slr=image0_cable0:SLR1\n");
  EXPECT_EQ(link.find("slr=image0_cable1:"), std::string::npos) << "the region of that quad is unknown";
}

/// A partition's top module has all connectors of its device, so every device needs the names of all its quads.
TEST_F(VitisLinks, EveryDeviceWithAVitisPlatformDescribesAllItsConnectors) {
  std::size_t devices = 0;
  for (const auto& file : fs::directory_iterator(kSource / "configs/devices")) {
    device_ = *runtime::plan::load_device(file.path());
    if (device_.platform.empty()) continue;
    ++devices;
    use_top(device_.connectors);
    const auto files = emit();
    EXPECT_TRUE(files.contains("vitis/image0/link.cfg")) << files.at("vitis/README.md");
    EXPECT_EQ(files.at("vitis/README.md").find("Not handed over"), std::string::npos) << file.path();
  }
  EXPECT_EQ(devices, 5U);
}

/// If a clock of the kernel is left out of the constraints, Vivado times the paths between clocks as if they were one.
TEST_F(VitisLinks, PackagedCoreContainsItsClockConstraintsAndLibraries) {
  const auto files = emit();
  const std::string& script = files.at("vitis/aurora_u280/package.tcl");
  const std::string& kernel = files.at("vitis/aurora_u280/millrace_aurora.v");
  const std::string& constraints = files.at("vitis/aurora_u280/clocks.xdc");
  EXPECT_NE(script.find("set_property xpm_libraries {XPM_CDC} $core"), std::string::npos);
  EXPECT_EQ(script.find("[current_project]"), std::string::npos);
  const std::size_t added =
      script.find("add_files -fileset constrs_1 -norecurse [file join $here clocks.xdc]");
  ASSERT_NE(added, std::string::npos);
  EXPECT_LT(added, script.find("ipx::package_project"));
  EXPECT_NE(files.at("vitis/aurora_u280/Makefile").find(" clocks.xdc "), std::string::npos);
  for (const char* port : {"ap_clk", "init_clk", "gt_refclk_p"}) {
    EXPECT_NE(kernel.find(std::string("input  wire        ") + port), std::string::npos) << port;
    EXPECT_NE(constraints.find(std::string("[get_ports ") + port + "]"), std::string::npos) << port;
  }
  EXPECT_NE(kernel.find("wire user_clk,"), std::string::npos);
  EXPECT_NE(constraints.find("[get_nets user_clk]"), std::string::npos);
}

TEST_F(VitisLinks, MakefileBuildsTheSharedAuroraKernelFirst) {
  ASSERT_TRUE(tests::installed({"make"}));
  const TemporaryDirectory folder("millrace-vitis");
  lay_out(folder.path());
  VitisImage second = image_;
  second.image = "image1";
  const auto both = emit_vitis({image_, second});
  ASSERT_TRUE(both.ok());
  for (const auto& [path, text] : *both) {
    fs::create_directories((folder.path() / path).parent_path());
    std::ofstream(folder.path() / path) << text;
  }
  const ChildOutcome outcome = run({"make", "-n", "-C", "vitis"}, folder.path());
  ASSERT_TRUE(outcome.ok()) << outcome.output;
  const std::size_t cable = outcome.output.find("-tclargs millrace_aurora.xo");
  EXPECT_LT(cable, outcome.output.find("-tclargs millrace_image0.xo"));
  EXPECT_LT(cable, outcome.output.find("-tclargs millrace_image1.xo"));
  EXPECT_NE(
      outcome.output.find("--output image1.xclbin millrace_image1.xo ../aurora_u280/millrace_aurora.xo"),
      std::string::npos)
      << outcome.output;
}

TEST_F(VitisLinks, ComputeAndAuroraKernelsPassVerilatorLint) {
  ASSERT_TRUE(tests::installed({"python3", "verilator"}));
  const TemporaryDirectory folder("millrace-vitis");
  lay_out(folder.path());
  lint_kernel(folder.path());
  lint(folder.path(), "millrace_aurora",
       {"vitis/aurora_u280/millrace_aurora.v", "vitis/aurora_u280/mr_aurora.sv",
        (kSource / "tests/golden/vitis/vendor_cores.sv").string()});
}

// The following tests check FPGA images with UDP links.

class VitisUdp : public Vitis {
 protected:
  VitisUdp() {
    use_top(2, 0, true);
    image_.udp_ports = 2;
    image_.udp_credits = 16;
  }
};

/// Expected lines: connectivity_basic_if3.ini of AMD's VNx example, which names the streams of cmac and networklayer.
TEST_F(VitisUdp, LinkConfigurationConnectsEachConnectorToANetworkLayer) {
  using Lines = std::vector<std::pair<std::string, std::string>>;
  auto cfg = parse_cfg(emit().at("vitis/image0/link.cfg"));
  EXPECT_EQ(cfg.at("connectivity"), (Lines{{"nk", "millrace_image0:1:image0"},
                                           {"nk", "networklayer:2:networklayer_0,networklayer_1"},
                                           {"nk", "cmac_0:1:cmac_0"},
                                           {"nk", "cmac_1:1:cmac_1"},
                                           {"sp", "image0.m_axi_supervisor:DDR[1]"},
                                           {"sp", "image0.m_axi_in0:DDR[1]"},
                                           {"sp", "image0.m_axi_out0:DDR[1]"},
                                           {"slr", "image0:SLR1"},
                                           {"sc", "image0.link0_tx:networklayer_0.S_AXIS_sk2nl"},
                                           {"sc", "networklayer_0.M_AXIS_nl2sk:image0.link0_rx"},
                                           {"sc", "networklayer_0.M_AXIS_nl2eth:cmac_0.S_AXIS"},
                                           {"sc", "cmac_0.M_AXIS:networklayer_0.S_AXIS_eth2nl"},
                                           {"slr", "networklayer_0:SLR2"},
                                           {"slr", "cmac_0:SLR2"},
                                           {"sc", "image0.link1_tx:networklayer_1.S_AXIS_sk2nl"},
                                           {"sc", "networklayer_1.M_AXIS_nl2sk:image0.link1_rx"},
                                           {"sc", "networklayer_1.M_AXIS_nl2eth:cmac_1.S_AXIS"},
                                           {"sc", "cmac_1.M_AXIS:networklayer_1.S_AXIS_eth2nl"},
                                           {"slr", "networklayer_1:SLR2"},
                                           {"slr", "cmac_1:SLR2"}}));
  EXPECT_EQ(cfg.at("clock"), (Lines{{"freqHz", "250000000:image0.ap_clk"}}));
}

TEST_F(VitisUdp, KernelHasStreamsOf512BitsWithDestinationAndPassesLint) {
  ASSERT_TRUE(tests::installed({"python3", "verilator", "xmllint", "tclsh"}));
  const TemporaryDirectory folder("millrace-vitis");
  lay_out(folder.path());
  lint_kernel(folder.path());
  const auto files = emit();
  EXPECT_EQ(beyond_verilog_2001(files.at("vitis/image0/kernel.v")), "");
  const std::string& xml = files.at("vitis/image0/kernel.xml");
  EXPECT_NE(xml.find("name=\"link1_rx\" mode=\"read_only\" range=\"0x0\" dataWidth=\"512\""),
            std::string::npos);
  EXPECT_NE(xml.find("stream&lt;ap_axiu&lt;512,0,0,16&gt; &gt;"), std::string::npos);
  const ChildOutcome valid =
      run({"xmllint", "--noout", "--schema", (kSource / "tests/golden/vitis/kernel.xsd").string(),
           "vitis/image0/kernel.xml"},
          folder.path());
  EXPECT_TRUE(valid.ok()) << valid.output;
  const ChildOutcome packaged = run({"tclsh", (kSource / "tests/golden/vitis/vivado_stubs.tcl").string(),
                                     (folder.path() / "vitis/image0/package.tcl").string(), "out.xo"},
                                    folder.path());
  EXPECT_TRUE(packaged.ok()) << packaged.output;
}

TEST_F(VitisUdp, MakefileLinksTheKernelsOfTheNetworkOrSaysWhichIsMissing) {
  ASSERT_TRUE(tests::installed({"make"}));
  const TemporaryDirectory folder("millrace-vitis");
  lay_out(folder.path());
  const std::string at = "/_x." + device_.platform + "/";
  const ChildOutcome outcome = run({"make", "-n", "-C", "vitis", "VNX=/vnx"}, folder.path());
  ASSERT_TRUE(outcome.ok()) << outcome.output;
  EXPECT_NE(outcome.output.find("userPostSysLinkOverlayTcl=/vnx/Ethernet/post_sys_link.tcl --output "
                                "image0.xclbin millrace_image0.xo /vnx/NetLayers" +
                                at + "networklayer.xo /vnx/Ethernet" + at + "cmac_0.xo /vnx/Ethernet" + at +
                                "cmac_1.xo\n"),
            std::string::npos)
      << outcome.output;
  const ChildOutcome missing =
      run({"make", "-C", "vitis/image0", "VNX=/vnx", "/vnx/Ethernet" + at + "cmac_1.xo"}, folder.path());
  EXPECT_FALSE(missing.ok());
  EXPECT_NE(missing.output.find("cmac_1.xo is missing: build VNx"), std::string::npos) << missing.output;
}

TEST_F(VitisUdp, ReadmeSaysWhereTheNetworkKernelsComeFromAndWhatCannotBeBuilt) {
  const auto readme = [&] { return emit().at("vitis/README.md"); };
  EXPECT_NE(readme().find("networklayer.xo"), std::string::npos);
  EXPECT_NE(readme().find("https://github.com/Xilinx/xup_vitis_network_example"), std::string::npos);
  EXPECT_NE(readme().find("This has never been run"), std::string::npos);
  image_.udp_credits = 65;
  EXPECT_NE(readme().find("a channel over UDP with 65 credits, but a port in hardware takes at most 64"),
            std::string::npos);
  image_.udp_credits = 64;
  image_.udp_ports = 17;
  EXPECT_NE(readme().find("17 link ports over UDP, but the link table of such an image has 16"),
            std::string::npos);
  image_.udp_ports = 16;
  EXPECT_EQ(readme().find("Not handed over"), std::string::npos);
  use_top(3, 0, true);
  EXPECT_NE(readme().find("on 3 connectors, but AMD's VNx example has kernels for 2"), std::string::npos);
  use_top(2);
  EXPECT_NE(readme().find("link ports over UDP and over Aurora"), std::string::npos);
}

TEST_F(Vitis, RefusesATopModuleWithMoreRegisterInterfacesThanAVitisKernelCanHave) {
  while (image_.top->units.size() < 17)
    image_.top->units.push_back({"in" + std::to_string(image_.top->units.size())});
  const auto files = emit_vitis({image_});
  ASSERT_FALSE(files.ok());
  EXPECT_EQ(files.error().code(), ErrorCode::kInternal);
  image_.top->units.pop_back();
  EXPECT_TRUE(emit_vitis({image_}).ok());
}

}  // namespace
}  // namespace millrace::compiler::emit::test_vitis
