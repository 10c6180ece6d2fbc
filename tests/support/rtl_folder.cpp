#include "tests/support/rtl_folder.hpp"

#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "tests/paths/paths.hpp"

namespace millrace::tests {

namespace fs = std::filesystem;

namespace {

constexpr char kDataflow[] = R"(`default_nettype none
module @PART@_dataflow (
  input  logic clk, rst,
  input  logic in0_valid, output logic in0_ready, input  logic [@HIGH@:0] in0_data,
  output logic out0_valid, input logic out0_ready, output logic [@HIGH@:0] out0_data
);
  logic         hop_valid, hop_ready;
  logic [@HIGH@:0] hop_data;
  mr_fifo #(.WIDTH(@HIGH@ + 1), .DEPTH(@DEPTH@)) hop_fifo (
    .clk, .rst, .s_valid(in0_valid), .s_ready(in0_ready), .s_data(in0_data),
    .m_valid(hop_valid), .m_ready(hop_ready), .m_data(hop_data));

  logic [7:0] plus[0:0];
  initial $readmemh("plus.hex", plus);

  logic [15:0] waited, taken;
  logic        take;
  assign hop_ready = (!out0_valid || out0_ready) && waited >= 16'd@PAUSE@ && !(@STUCK@ && taken >= 16'd@HALF@);
  assign take = hop_valid && hop_ready;
  always_ff @(posedge clk)
    if (rst) begin
      out0_valid <= 1'b0;
      waited <= '0;
      taken <= '0;
    end else begin
      waited <= take ? '0 : waited >= 16'd@PAUSE@ ? waited : waited + 16'd1;
      if (take) taken <= taken + 16'd1;
      if (take) out0_valid <= 1'b1;
      else if (out0_ready) out0_valid <= 1'b0;
    end
  integer i;
  always_ff @(posedge clk)
    if (take) for (i = 0; i < @LANES@; i = i + 1) out0_data[i*8 +: 8] <= hop_data[i*8 +: 8] + plus[0];
  always_ff @(posedge clk) if (!rst) made_to_hold: assert (@ASSERTION@);
endmodule
`default_nettype wire
)";

std::string replaced(std::string text, const std::map<std::string, std::string>& values) {
  for (const auto& [key, value] : values)
    for (std::size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + value.size()))
      text.replace(at, key.size(), value);
  return text;
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  if (!(std::ofstream(path) << text)) throw std::runtime_error("cannot write " + path.string());
}

std::string hexadecimal(std::uint32_t value) {
  std::ostringstream out;
  out << std::hex << value;
  return out.str();
}

}  // namespace

void write_rtl_folder(const fs::path& deployment, const HandMade& made) {
  const fs::path folder = deployment / "rtl" / made.partition;
  const auto text = [](std::uint64_t value) { return std::to_string(value); };
  write(folder / (made.partition + "_dataflow.sv"),
        replaced(kDataflow, {{"@PART@", made.partition},
                             {"@HIGH@", text(made.lanes * 8 - 1)},
                             {"@DEPTH@", text(made.depth)},
                             {"@PAUSE@", text(made.pause)},
                             {"@STUCK@", made.stuck ? "1'b1" : "1'b0"},
                             {"@HALF@", text(made.beats / 2)},
                             {"@LANES@", text(made.lanes)},
                             {"@ASSERTION@", made.assertion}}));
  write(folder / "plus.hex", hexadecimal(made.plus) + "\n");
  for (const char* module : {"mr_fifo.sv", "mr_handshake_check.sv"}) {
    fs::create_directories(folder / "library");
    fs::copy_file(fs::path(tests::source_dir()) / "kernels/rtl/stream" / module, folder / "library" / module,
                  fs::copy_options::overwrite_existing);
  }
  const std::string size = "\"lanes\": " + text(made.lanes) + ", \"bits\": 8, \"beats\": " + text(made.beats);
  write(folder / "design.json", replaced(R"({
  "schema": 1,
  "partition": "@PART@",
  "dataflow": "@PART@_dataflow",
  "top": "@PART@_top",
  "device": "ku060",
  "clock_mhz": 100,
  "digest": "",
  "files": ["library/mr_handshake_check.sv", "library/mr_fifo.sv", "@PART@_dataflow.sv"],
  "inputs": [{"port": "in0", "tensor": "x", "kind": "unsigned", @SIZE@}],
  "outputs": [{"port": "out0", "tensor": "y", "kind": "unsigned", @SIZE@}],
  "streams": [{"name": "hop", @SIZE@, "fifo": "hop_fifo", "depth": @DEPTH@, "high_water": 2}],
  "predicted": {"interval_cycles": @INTERVAL@, "latency_cycles": @LATENCY@, "first_output_cycles": 4}
}
)",
                                         {{"@PART@", made.partition},
                                          {"@SIZE@", size},
                                          {"@DEPTH@", text(made.depth)},
                                          {"@INTERVAL@", text(made.interval())},
                                          {"@LATENCY@", text(made.interval() + 3 - made.pause)}}));
  sign_rtl_folder(folder);
}

void sign_rtl_folder(const fs::path& folder) {
  std::map<std::string, std::string> sums;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().lexically_relative(folder).generic_string();
    if (entry.is_regular_file() && path != "design.json")
      sums[path] = sha256_hex(read_text_file(entry.path()).value());
  }
  std::string lines;
  for (const auto& [path, sum] : sums) lines += sum + "  " + path + "\n";
  std::string design = read_text_file(folder / "design.json").value();
  const std::size_t at = design.find("\"digest\": \"") + 11;
  design.replace(at, design.find('"', at) - at, sha256_hex(lines));
  write(folder / "design.json", design);
}

fs::path shared_simulation_cache() {
  const fs::path cache = fs::path(tests::binary_dir()) / "simulations";
  fs::create_directories(cache);
  fs::permissions(cache, fs::perms::owner_all);
  return cache;
}

}  // namespace millrace::tests
