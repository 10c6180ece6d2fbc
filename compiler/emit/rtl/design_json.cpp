#include "compiler/emit/rtl/design_json.hpp"

#include <cstdio>

#include "compiler/emit/rtl/dataflow.hpp"
#include "compiler/emit/rtl/text.hpp"

namespace millrace::compiler::emit {
namespace {

using generators::Cost;
using generators::PortDesign;

/// Writes JSON in the order of the calls, two spaces a level.
class Json {
 public:
  Json& key(const char* name) {
    item();
    text_ += quoted(name) + ": ";
    held_ = true;
    return *this;
  }
  void open(char bracket) {
    item();
    text_ += bracket;
    ++depth_;
    first_ = true;
  }
  void close(char bracket) {
    --depth_;
    if (!first_) line();
    text_ += bracket;
    first_ = false;
  }
  void value(const std::string& text) { raw(quoted(text)); }
  void value(std::uint64_t n) { raw(std::to_string(n)); }
  void value(std::int64_t n) { raw(std::to_string(n)); }
  void raw(const std::string& text) {
    item();
    text_ += text;
  }
  std::string take() { return std::move(text_) + "\n"; }

 private:
  void line() { text_ += "\n" + std::string(2 * depth_, ' '); }
  void item() {
    if (held_) {
      held_ = false;
      return;
    }
    if (!first_) text_ += ",";
    if (depth_ > 0) line();
    first_ = false;
  }
  static std::string quoted(const std::string& text) {
    std::string made = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') {
        made += '\\';
        made += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        char code[8];
        std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
        made += code;
      } else {
        made += c;
      }
    }
    return made + "\"";
  }

  std::string text_;
  std::size_t depth_ = 0;
  bool first_ = true, held_ = false;
};

void write_cost(Json& json, const Cost& cost) {
  json.key("resources").open('{');
  json.key("lut").value(cost.lut);
  json.key("lutram").value(cost.lutram);
  json.key("ff").value(cost.ff);
  json.key("dsp").value(cost.dsp);
  json.key("ramb18").value(cost.ramb18);
  json.key("ramb36").value(cost.ramb36);
  json.key("uram").value(cost.uram);
  json.close('}');
}

const char* kind_name(kernels::ElementType type) {
  return type.kind == kernels::ElementType::Kind::kUnsigned  ? "unsigned"
         : type.kind == kernels::ElementType::Kind::kBipolar ? "bipolar"
                                                             : "signed";
}

void write_stream(Json& json, const generators::Stream& stream) {
  json.key("lanes").value(std::uint64_t{stream.lanes});
  json.key("bits").value(std::uint64_t{stream.bits});
  json.key("beats").value(stream.beats);
}

void write_ports(Json& json, const generators::Design& design, const char* key,
                 const std::vector<PortDesign>& ports) {
  json.key(key).open('[');
  for (const auto& port : ports) {
    json.open('{');
    json.key("port").value(port.name);
    json.key("tensor").value(port.tensor);
    json.key("kind").value(std::string(kind_name(port.type)));
    write_stream(json, design.netlist.streams[port.stream]);
    json.close('}');
  }
  json.close(']');
}

void write_streams(Json& json, const generators::Design& design) {
  constexpr std::size_t kSuffix = 5;  // "_fifo"
  json.key("streams").open('[');
  for (const auto& fifo : design.fifos) {
    const auto& unit = design.netlist.units[fifo.unit];
    const std::string& name = unit.instance.name;
    json.open('{');
    json.key("name").value(name.substr(0, name.size() - kSuffix));
    write_stream(json, design.netlist.streams[unit.inputs.front()]);
    json.key("fifo").value(name);
    json.key("depth").value(fifo.depth);
    json.key("high_water").value(fifo.high_water);
    json.close('}');
  }
  json.close(']');
}

void write_readers(Json& json, const generators::Netlist& netlist) {
  if (netlist.readers.empty()) return;
  json.key("streamed").open('{');
  json.key("bytes").value(streamed_bytes(netlist));
  json.key("ports").open('[');
  for (std::size_t i = 0; i < netlist.readers.size(); ++i) json.value(weights_port(i));
  json.close(']');
  json.close('}');
}

const char* implementation_name(generators::Implementation implementation) {
  using generators::Implementation;
  return implementation == Implementation::kUnrolled ? "unrolled"
         : implementation == Implementation::kPlugin ? "plugin"
                                                     : "folded";
}

void write_blocks(Json& json, const generators::Design& design, const kernels::Program& program) {
  json.key("blocks").open('[');
  for (std::size_t b = 0; b < design.blocks.size(); ++b) {
    const auto& block = design.blocks[b];
    json.open('{');
    json.key("name").value(block.block);
    json.key("operation").value(std::string(operation_name(program.blocks[b].operation)));
    json.key("implementation").value(std::string(implementation_name(block.folding.implementation)));
    json.key("folding").value(to_string(block.folding));
    json.key("interval_cycles").value(block.interval_cycles);
    json.key("multiply_accumulates").value(block.multiply_accumulates);
    json.key("busy_cycles").value(block.busy_cycles);
    write_cost(json, block.cost);
    json.close('}');
  }
  json.close(']');
}

void write_resources(Json& json, const runtime::plan::Resources& resources) {
  json.key("lut").value(resources.lut);
  json.key("lutram").value(resources.lutram);
  json.key("ff").value(resources.ff);
  json.key("dsp").value(resources.dsp);
  json.key("bram36").value(resources.bram36);
  json.key("uram").value(resources.uram);
}

void write_instances(Json& json, const generators::Design& design, const std::vector<std::string>& regions) {
  json.key("instances").open('[');
  const auto write = [&](const std::string& name, const std::string& module, const std::string& source,
                         const std::string& block, std::size_t region,
                         const generators::Parameters& parameters) {
    json.open('{');
    json.key("name").value(name);
    json.key("module").value(module);
    if (!source.empty()) json.key("source").value(source);
    json.key("block").value(block);
    if (!design.regions.empty() && region < regions.size()) json.key("region").value(regions[region]);
    json.key("parameters").open('{');
    for (const auto& [key, value] : parameters) json.key(key.c_str()).value(value);
    json.close('}');
    json.close('}');
  };
  for (std::size_t u = 0; u < design.netlist.units.size(); ++u) {
    const auto& unit = design.netlist.units[u];
    if (unit.wiring != generators::Wiring::kNone) continue;
    write(unit.instance.name, unit.instance.module, unit.source,
          unit.block < 0 ? std::string() : design.blocks[static_cast<std::size_t>(unit.block)].block,
          design.regions.empty() ? 0 : design.regions[u], unit.instance.parameters);
  }
  for (const auto& reader : design.netlist.readers) {
    std::string block;
    for (const auto& unit : design.netlist.units)
      if (unit.instance.name == reader.unit && unit.block >= 0)
        block = design.blocks[static_cast<std::size_t>(unit.block)].block;
    write(reader.instance.name, reader.instance.module, "", block, 0, reader.instance.parameters);
  }
  std::uint64_t rest = generators::load_words(design.netlist);
  for (const auto& table : design.netlist.loads) {
    rest -= table.words();
    write(table.name, "mr_load", "", "", 0, generators::load_parameters(table, rest));
  }
  json.close(']');
}

}  // namespace

std::string design_json(const generators::Design& design, const kernels::Program& program,
                        const RtlOptions& options, const std::vector<std::string>& files,
                        const std::string& digest) {
  Json json;
  json.open('{');
  json.key("schema").value(std::uint64_t{1});
  json.key("partition").value(design.partition);
  json.key("dataflow").value(design.partition + "_dataflow");
  json.key("top").value(design.partition + "_top");
  json.key("device").value(options.device);
  char clock[32];
  std::snprintf(clock, sizeof clock, "%.10g", options.clock_mhz);
  json.key("clock_mhz").raw(clock);
  json.key("family").value(options.family);
  json.key("available").open('{');
  write_resources(json, options.available);
  json.close('}');
  if (!options.whole_regions.empty()) {
    json.key("regions").open('[');
    for (const auto& region : options.whole_regions) {
      json.open('{');
      json.key("name").value(region.name);
      write_resources(json, region.resources);
      json.close('}');
    }
    json.close(']');
  }
  json.key("digest").value(digest);
  json.key("files").open('[');
  for (const auto& file : files) json.value(file);
  json.close(']');
  write_ports(json, design, "inputs", design.inputs);
  write_ports(json, design, "outputs", design.outputs);
  if (!design.netlist.loads.empty()) {
    json.key("load").open('{');
    json.key("words").value(generators::load_words(design.netlist));
    json.key("hops").value(std::uint64_t{design.netlist.loads.size()});
    json.close('}');
  }
  write_readers(json, design.netlist);
  write_streams(json, design);
  write_blocks(json, design, program);
  write_instances(json, design, options.regions);
  json.key("predicted").open('{');
  json.key("interval_cycles").value(design.interval_cycles);
  json.key("latency_cycles").value(design.latency_cycles);
  json.key("first_output_cycles").value(design.first_output_cycles);
  if (options.passage_cycles != 0) json.key("passage_cycles").value(options.passage_cycles);
  write_cost(json, design.cost);
  json.close('}');
  json.close('}');
  return json.take();
}

}  // namespace millrace::compiler::emit
