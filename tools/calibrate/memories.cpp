// Memory files for a sample.
#include <algorithm>
#include <string_view>
#include <utility>

#include "tools/calibrate/contents.hpp"
#include "tools/calibrate/sample.hpp"

namespace millrace::tools::calibrate {
namespace {

/// The memories of one instance, in the order in which its contents are drawn.
class Memory {
 public:
  explicit Memory(const compiler::generators::Parameters& parameters) : parameters_(parameters) {}

  std::int64_t value(std::string_view name) const {
    for (const auto& [key, v] : parameters_)
      if (key == name) return v;
    return 0;
  }
  /// Lines of `count` fields.
  void fields(const char* parameter, const char* file, std::int64_t lines, std::int64_t count,
              std::int64_t bits, std::int64_t kind) {
    result.names.emplace_back(parameter, file);
    result.files[file] = content_.table(lines, [&](Line& line) { put(line, count, bits, kind); });
  }
  void biases(std::int64_t rows);
  void requantisation();
  void thresholds();

  Memories result;

 private:
  void put(Line& line, std::int64_t count, std::int64_t bits, std::int64_t kind) {
    for (std::int64_t i = 0; i < count; ++i)
      line.field(kind == 1 ? content_.normal(bits) : content_.uniform(0, (std::int64_t{1} << bits) - 1),
                 bits);
  }
  /// Of channels in lanes.
  std::int64_t lines() const { return value("UNIFORM") != 0 ? 1 : value("CHANNELS") / value("PE"); }

  const compiler::generators::Parameters& parameters_;
  Content content_;
};

void Memory::biases(std::int64_t rows) {
  result.names.emplace_back("BFILE", "bias.hex");
  result.files["bias.hex"] = content_.table(rows / value("PE"), [&](Line& line) {
    for (std::int64_t i = 0; i < value("PE"); ++i)
      line.field(content_.normal(std::max<std::int64_t>(value("ACCBITS") - 4, 2)), value("ACCBITS"));
  });
}

void Memory::requantisation() {
  result.names.emplace_back("QFILE", "requant.hex");
  const std::int64_t mbits = value("MBITS"), offbits = value("OFFBITS"), sbits = value("SBITS");
  result.files["requant.hex"] = content_.table(lines(), [&](Line& line) {
    for (std::int64_t i = 0; i < value("PE"); ++i) {
      if (mbits > 0)
        line.field(content_.uniform(std::int64_t{1} << (mbits - 2), (std::int64_t{1} << (mbits - 1)) - 1),
                   mbits);
      if (offbits > 0) line.field(content_.normal(std::max<std::int64_t>(offbits - 2, 2)), offbits);
      line.field(
          value("SHIFT") >= 0 ? value("SHIFT") : (std::int64_t{1} << (sbits - 2)) + content_.uniform(0, 2),
          sbits);
    }
  });
}

/// A file a level of the search and a lane.
void Memory::thresholds() {
  result.names.emplace_back("TFILE", "thresholds");
  for (std::int64_t level = 0; level < value("OBITS"); ++level)
    for (std::int64_t lane = 0; lane < value("PE"); ++lane) {
      std::string number = std::to_string(lane);
      number.insert(0, 3 - number.size(), '0');
      result.files["thresholds." + std::to_string(level) + "." + number] =
          content_.table(lines() << level, [&](Line& line) { put(line, 1, value("ACCBITS") + 1, 1); });
    }
}

}  // namespace

Memories memories_of(const std::string& module, const compiler::generators::Parameters& parameters) {
  Memory memory(parameters);
  const auto value = [&](std::string_view name) { return memory.value(name); };
  if (value("LOADED") == 0) {
    if (module == "mr_table")  // words of eight bits, as weights are; narrow ones without any pattern
      memory.fields("FILE", "table.hex", value("DEPTH"), std::max<std::int64_t>(value("WIDTH") / 8, 1),
                    std::min<std::int64_t>(value("WIDTH"), 8), value("WIDTH") < 8 ? 0 : 1);
    else if (module == "mr_mvu")
      memory.fields("WFILE", "weights.hex", value("MH") / value("PE") * (value("MW") / value("SIMD")),
                    value("PE") * value("SIMD"), value("WBITS"), value("WKIND"));
    else if (module == "mr_vvu")
      memory.fields("WFILE", "weights.hex", value("TAPS") * (value("CHANNELS") / value("PE")), value("PE"),
                    value("WBITS"), value("WKIND"));
    else if (module == "mr_requant")
      memory.requantisation();
    else if (module == "mr_threshold")
      memory.thresholds();
    else if (module == "mr_lut")
      memory.fields("FILE", "lut.hex", std::int64_t{1} << value("IBITS"), 1, value("OBITS"), 0);
  }
  if ((module == "mr_mvu" || module == "mr_vvu") && value("BIAS") != 0)
    memory.biases(value(module == "mr_mvu" ? "MH" : "CHANNELS"));
  return std::move(memory.result);
}

}  // namespace millrace::tools::calibrate
