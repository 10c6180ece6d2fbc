#include "compiler/emit/rtl/rtl.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "compiler/emit/rtl/parts.hpp"
#include "compiler/emit/rtl/text.hpp"
#include "kernels/rtl/library.hpp"
#include "runtime/base/digest.hpp"

namespace millrace::compiler::emit {
namespace {

/// Returns the digest of a partition's files, including files with constants.
std::string digest_of(const std::map<std::string, std::string>& files) {
  std::string lines;
  for (const auto& [path, content] : files) lines += sha256_hex(content) + "  " + path + "\n";
  return sha256_hex(lines);
}

/// Converts one line of hexadecimal digits to 64-bit words, and appends the words to `out`, the lowest word first.
void append_words(std::string_view digits, std::uint32_t bits, std::vector<std::byte>& out) {
  constexpr std::size_t kDigits = 16;  // in one word
  for (std::uint32_t word = 0; word < (bits + 63) / 64; ++word) {
    const std::size_t end = digits.size() - std::min(digits.size(), word * kDigits);
    const std::size_t begin = end - std::min(end, kDigits);
    std::uint64_t value = 0;
    for (const char c : digits.substr(begin, end - begin))
      value = value << 4U | static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    for (unsigned byte = 0; byte < 8; ++byte) out.push_back(static_cast<std::byte>(value >> (8 * byte)));
  }
}

std::vector<std::byte> load_stream(const generators::Netlist& netlist) {
  std::vector<std::byte> out;
  for (const auto& table : netlist.loads) {
    const std::string_view text = table.content;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      append_words(text.substr(at, end - at), table.bits, out);
      at = end + 1;
    }
  }
  out.resize(generators::load_words(netlist) * 8);
  return out;
}

/// Returns the lines of each reader's weights. Lines start weight_pitch() bytes apart, and each is padded to whole
/// words.
std::vector<std::byte> streamed_section(const generators::Netlist& netlist) {
  std::vector<std::byte> out;
  for (const auto& reader : netlist.readers) {
    const auto bits = static_cast<std::uint32_t>(generators::parameter(reader.instance, "WIDTH", 1));
    const auto lines = static_cast<std::uint64_t>(generators::parameter(reader.instance, "LINES", 1));
    const std::string_view text = reader.content;
    const std::size_t begin = out.size();
    std::uint64_t line = 0;
    for (std::size_t at = 0; at < text.size(); ++line) {
      const std::size_t end = text.find('\n', at);
      out.resize(begin + line * generators::weight_pitch(bits));
      append_words(text.substr(at, end - at), bits, out);
      at = end + 1;
    }
    out.resize(begin + generators::weight_pass(bits, lines));
  }
  return out;
}

}  // namespace

Result<Rtl> emit_rtl(const generators::Design& design, const kernels::Program& program,
                     const std::vector<runtime::plan::ImagePort>& ports, const RtlOptions& options) {
  Rtl made;
  std::set<std::string> modules = top_modules(options);
  for (const auto& unit : design.netlist.units)
    modules.insert(unit.source.empty() ? unit.instance.module : "mr_handshake_check");
  if (!design.netlist.loads.empty()) modules.insert({"mr_load", "mr_parameters"});
  if (!design.netlist.readers.empty()) {
    modules.insert("mr_weight_reader");
    if (design.netlist.loads.empty())
      return Error(ErrorCode::kInternal,
                   "rtl: partition '" + design.partition +
                       "' reads weights from memory, but the design has no addresses of these weights");
  }
  std::vector<std::string> sources;
  for (const auto& file : kernels::rtl::closure(modules)) {
    const std::string path = "library/" + std::string(file.path.substr(file.path.rfind('/') + 1));
    sources.push_back(path);
    made.files[path] = file.text;
  }
  for (const auto& source : design.netlist.sources) {
    sources.push_back(source.module + ".sv");
    made.files[sources.back()] = broken_lines(source.text);
  }
  const std::string dataflow = design.partition + "_dataflow.sv", top = design.partition + "_top.sv";
  sources.push_back(dataflow);
  sources.push_back(top);
  made.files[dataflow] = broken_lines(dataflow_text(design, program, options));
  MILLRACE_ASSIGN(TopModule shell, top_module(design, ports, options));
  made.files[top] = broken_lines(shell.text);
  made.top = std::move(shell.interface);
  for (const auto& file : design.netlist.files) made.files[file.name] = file.content;
  for (const auto& source : sources) made.files["files.f"] += source + "\n";
  made.digest = digest_of(made.files);
  made.load = load_stream(design.netlist);
  made.streamed = streamed_section(design.netlist);
  made.files["design.json"] = design_json(design, program, options, sources, made.digest);
  return made;
}

}  // namespace millrace::compiler::emit
