#include "compiler/generators/generator.hpp"

#include <algorithm>
#include <cassert>

#include "compiler/generators/blocks.hpp"
#include "compiler/generators/module.hpp"
#include "compiler/generators/netlist_builder.hpp"
#include "compiler/generators/plugins.hpp"
#include "compiler/generators/unrolled.hpp"
#include "kernels/program/parameters.hpp"

namespace millrace::compiler::generators {
namespace {

using kernels::Program;

Status check_tensors(const Program& program, const kernels::Block& block) {
  const auto check = [&](kernels::TensorIndex index) -> Status {
    const auto& tensor = program.tensors[index];
    if (tensor.shape.size() > 3)
      return Error(ErrorCode::kUnsupported,
                   block_label(block) + "tensor '" + tensor.name + "' has " +
                       std::to_string(tensor.shape.size()) +
                       " axes; hardware takes tensors of the shape [height, width, channels]");
    return {};
  };
  for (const auto index : block.inputs) MILLRACE_TRY(check(index));
  for (const auto index : block.outputs) MILLRACE_TRY(check(index));
  return {};
}

/// How a matrix unit processes a vector: in `nf` passes of `sf` cycles.
struct Folds {
  explicit Folds(const Instance& i)
      : nf(static_cast<std::uint64_t>(parameter(i, "MH", 1) / parameter(i, "PE", 1))),
        sf(static_cast<std::uint64_t>(parameter(i, "MW", 1) / parameter(i, "SIMD", 1)) * line_cycles(i)) {}
  std::uint64_t nf, sf;
};

}  // namespace

std::uint64_t fed_interval(const Netlist& netlist, std::int32_t block) {
  const Unit* window = nullptr;
  std::uint64_t longest = 0;
  for (const auto& unit : netlist.units) {
    if (unit.block != block) continue;
    if (unit.instance.module == "mr_swu_par") window = &unit;
    if (window == nullptr || !is_matrix_unit(unit.instance)) continue;
    std::int64_t cycles_a_beat = 1;
    for (const auto& before : netlist.units)
      if (before.instance.module == "mr_width_adapter" && before.outputs.front() == window->inputs.front()) {
        const std::uint64_t from = netlist.streams[before.inputs.front()].beats,
                            to = netlist.streams[before.outputs.front()].beats;
        cycles_a_beat = static_cast<std::int64_t>(std::max<std::uint64_t>(1, from / to));
      }
    const Folds folds(unit.instance);
    longest = std::max(longest, unit_cycles(netlist, unit).interval +
                                    window_gaps(netlist, *window, cycles_a_beat).cost(folds.nf, folds.sf));
  }
  return longest;
}

std::uint64_t WindowGaps::cost(std::uint64_t nf, std::uint64_t sf) const {
  // The matrix unit has one vector buffered in its adapter, and two in its input buffer if it makes several passes over
  // each vector.
  const std::int64_t kept = (sf > 1 ? 1 : 0) + (nf > 1 ? 2 : 0);
  const std::int64_t covered =
      std::max<std::int64_t>(1, kept * static_cast<std::int64_t>(nf * sf) - (nf > 1 ? kept - 1 : 0));
  const auto lost = [&](std::int64_t gap) { return std::max<std::int64_t>(0, gap - covered); };
  return static_cast<std::uint64_t>(lost(frame) + rows * lost(row));
}

UnitCycles unit_cycles(const Netlist& netlist, const Unit& unit) {
  if (unit.wiring != Wiring::kNone) return {};
  std::uint64_t in = 0, out = 0;
  for (const auto s : unit.inputs) in = std::max(in, netlist.streams[s].beats);
  for (const auto s : unit.outputs) out = std::max(out, netlist.streams[s].beats);
  const Module& module = *find_module(unit.instance.module);
  const Values values = Values::of(module, unit.instance.parameters).value();
  return {module.interval != nullptr ? module.interval(values, in, out) : std::max(in, out),
          module.latency != nullptr ? module.latency(values) : 1};
}

std::string block_label(const kernels::Block& block) {
  return "block '" + block.name + "' (" + kernels::operation_name(block.operation) + "): ";
}

Image image(const kernels::Tensor& tensor) {
  const auto& s = tensor.shape;
  if (s.size() >= 3) return {s[0], s[1], s[2]};
  if (s.size() == 2) return {1, s[0], s[1]};
  return {1, 1, s.empty() ? 1 : s[0]};
}

int kind(kernels::ElementType type) {
  return type.kind == kernels::ElementType::Kind::kUnsigned  ? 0
         : type.kind == kernels::ElementType::Kind::kBipolar ? 2
                                                             : 1;
}

std::vector<std::uint32_t> divisors(std::uint32_t n) {
  std::vector<std::uint32_t> low, high;
  for (std::uint32_t d = 1; std::uint64_t{d} * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d != n / d) high.push_back(n / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

std::vector<Folding> lane_foldings(const Image& image) {
  std::vector<Folding> all;
  for (const std::uint32_t channels : divisors(image.c)) {
    all.emplace_back();
    all.back().simd = channels;
  }
  const Folding pixel = all.back();  // all channels of one pixel
  for (const std::uint32_t pixels : divisors(image.w)) {
    if (pixels == 1 || std::uint64_t{pixels} * image.c > 4096) continue;
    all.push_back(pixel);
    all.back().pixels = pixels;
  }
  return all;
}

std::string to_string(const Folding& folding) {
  if (folding.implementation == Implementation::kPlugin) return "plugin's " + folding.variant;
  std::string text;
  if (folding.pixels > 1) text += std::to_string(folding.pixels) + " pixels, ";
  const bool unrolled = folding.implementation == Implementation::kUnrolled;
  if (unrolled) text += "unrolled, ";
  text += "PE " + std::to_string(folding.pe) + " SIMD " + std::to_string(folding.simd);
  if (folding.window == WindowStyle::kFolded)
    text += ", a tap a cycle (" + std::to_string(folding.window_lanes) + " lanes)";
  if (folding.window == WindowStyle::kParallel) text += ", a window a cycle";
  if (unrolled) return text;
  if (folding.multiplier == Multiplier::kDspPair) text += ", 2 MACs a DSP";
  if (folding.multiplier == Multiplier::kSoft) text += ", LUT multipliers";
  return text;
}

Generator::Generator(const Program& program, std::uint32_t block)
    : program_(program), block_(program.blocks[block]), index_(block) {}

Error Generator::refuse(const std::string& why) const {
  return Error(ErrorCode::kInvalidInput, block_label(block_) + why);
}

Status Generator::check_table(const Folding& folding, std::uint64_t lines, const std::string& remedy) const {
  if (folding.memory != TableStyle::kLogic || lines <= kMostLogicLines) return {};
  return refuse("memory 'logic': a table in LUTs has at most " + std::to_string(kMostLogicLines) +
                " lines, but this table needs " + std::to_string(lines) +
                "; choose memory 'block' or 'auto'" + remedy);
}

Result<Candidate> Generator::offered(const Folding& folding) const {
  if (plugins_ == nullptr)
    return refuse("its folding is a plugin's candidate, '" + folding.variant +
                  "'; name that plugin with --plugins");
  for (const auto& offer : offers_)
    if (offer.folding.variant == folding.variant) return offer;
  return refuse("no plugin (" + plugins_->names() + ") offers the candidate '" + folding.variant + "'");
}

Result<Netlist> Generator::build(const Folding& folding, bool memories, const std::string& name) const {
  NetlistBuilder netlist(name.empty() ? identifier(block_.name) : name, static_cast<std::int32_t>(index_),
                         memories);
  if (folding.implementation == Implementation::kPlugin) {
    MILLRACE_ASSIGN(const Candidate offer, offered(folding));
    return plugins_->construct(program_, block_, offer, netlist);
  }
  if (folding.weights != block_.placement)
    return refuse(std::string("its weights are ") + kernels::to_string(block_.placement) + ", not " +
                  kernels::to_string(folding.weights) + "; change --weights or the plan");
  if (folding.implementation == Implementation::kUnrolled &&
      !std::holds_alternative<kernels::Convolution>(block_.operation))
    return refuse("only convolutions and fully connected layers are unrolled; choose the folded generator");
  if (folding.pe == 0 || folding.simd == 0 || folding.pixels == 0 || folding.window_lanes == 0)
    return refuse("a folding of 0: PE, SIMD, pixels and window lanes must be at least 1");
  MILLRACE_TRY(check(folding));
  return construct(folding, netlist);
}

Result<Candidate> Generator::candidate(const Catalog& catalog, const Folding& folding) const {
  if (folding.implementation == Implementation::kPlugin) return offered(folding);
  MILLRACE_ASSIGN(const Netlist netlist, build(folding, false));
  Candidate made;
  made.folding = folding;
  MILLRACE_ASSIGN(made.cost, netlist_cost(catalog, netlist));
  for (const auto& unit : netlist.units) {
    const UnitCycles cycles = unit_cycles(netlist, unit);
    std::uint64_t starved = 0;
    if (is_matrix_unit(unit.instance)) {
      const Folds folds(unit.instance);
      starved = window_gaps(netlist, netlist.units.front()).cost(folds.nf, folds.sf);
    }
    made.interval_cycles = std::max(made.interval_cycles, cycles.interval + starved);
    made.depth_cycles += cycles.latency;
  }
  for (const auto s : netlist.inputs) {
    made.input_lanes.push_back(netlist.streams[s].lanes);
    made.interval_cycles = std::max(made.interval_cycles, netlist.streams[s].beats);
  }
  const Stream& out = netlist.streams[netlist.outputs.front()];
  made.output_lanes = {out.lanes};
  made.lead = lead();
  for (const auto& reader : netlist.readers) made.memory_bytes += reader.bytes_per_frame;
  // The matrix unit works on a window while the window's input arrives. After the last input beat, the unit only has to
  // make the later passes over the last window.
  const std::uint64_t beats = netlist.streams[netlist.inputs.front()].beats;
  const auto first = static_cast<std::uint64_t>(made.lead * static_cast<double>(beats));
  std::uint64_t passes = 0, vector = 0, work = 0;
  for (const auto& unit : netlist.units)
    if (is_matrix_unit(unit.instance)) {
      const Folds folds(unit.instance);
      passes = (folds.nf - 1) * folds.sf;
      vector = folds.nf * folds.sf;
      work = unit_cycles(netlist, unit).interval;
    } else if (unit.instance.module == kUnrolledModule) {
      vector = 1;
      work = unit_cycles(netlist, unit).interval;
    }
  if (work == 0 && made.interval_cycles > beats) work = made.interval_cycles;
  const std::uint64_t rest = work > vector ? work - vector : 0;
  made.tail_cycles = passes + made.depth_cycles;
  made.latency_cycles = std::max(beats, first + rest) + made.tail_cycles;
  return made;
}

std::vector<Folding> Generator::foldings(std::uint64_t interval_cycles) const {
  std::vector<Folding> found = proposals(interval_cycles);
  for (auto& folding : found) folding.weights = block_.placement;
  for (const auto& offer : offers_)
    if (offer.interval_cycles <= interval_cycles) found.push_back(offer.folding);
  return found;
}

std::vector<std::uint64_t> Generator::intervals() const {
  constexpr std::size_t kMost = 200;
  const auto ascending = [](std::vector<std::uint64_t> all) {
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  };
  std::vector<std::uint64_t> all = ascending(all_intervals()), some;
  for (std::size_t i = 0; all.size() > kMost && i < kMost; ++i)
    some.push_back(all[i * (all.size() - 1) / (kMost - 1)]);
  if (!some.empty()) all = std::move(some);
  for (const auto& offer : offers_) all.push_back(offer.interval_cycles);
  return ascending(std::move(all));
}

namespace {

/// A block that only a plugin can implement.
class ForeignBlock : public Generator {
 public:
  ForeignBlock(const Program& program, std::uint32_t block) : Generator(program, block) {}

 private:
  std::vector<Folding> proposals(std::uint64_t) const override { return {}; }
  Status check(const Folding&) const override {
    return refuse("only a plugin (" + plugins_->names() +
                  ") implements this block; "
                  "choose one of the implementations that the plugin offers for this block");
  }
  Netlist construct(const Folding&, NetlistBuilder&) const override { return {}; }
  double lead() const override { return 0; }
  std::vector<std::uint64_t> all_intervals() const override { return {}; }
};

Result<std::unique_ptr<Generator>> make_own(const Program& program, std::uint32_t block) {
  assert(block < program.blocks.size());
  const auto& b = program.blocks[block];
  if (kernels::is_host_only(program, b))
    return Error(ErrorCode::kUnsupported,
                 block_label(b) + "the block computes in float32, so the host runs it");
  MILLRACE_TRY(check_tensors(program, b));
  const auto& operation = b.operation;
  if (const auto* own = std::get_if<kernels::PluginOperator>(&operation))
    return Error(ErrorCode::kUnsupported,
                 block_label(b) + "its plugin '" + own->plugin + "' offers no hardware for it");
  if (std::holds_alternative<kernels::Convolution>(operation)) return make_convolution(program, block);
  if (std::holds_alternative<kernels::MaxPool>(operation) ||
      std::holds_alternative<kernels::SumPool>(operation))
    return make_pooling(program, block);
  return make_elementwise(program, block);
}

}  // namespace

Result<std::unique_ptr<Generator>> Generator::make(const Program& program, std::uint32_t block,
                                                   const Plugins* plugins) {
  auto own = make_own(program, block);
  std::vector<Candidate> offers;
  if (plugins != nullptr) offers = plugins->offered(program, program.blocks[block]);
  if (offers.empty()) return own;
  if (!own.ok() && own.error().code() == ErrorCode::kUnsupported)
    own = std::unique_ptr<Generator>(std::make_unique<ForeignBlock>(program, block));
  if (!own.ok()) return own;
  (*own)->plugins_ = plugins;
  (*own)->offers_ = std::move(offers);
  return own;
}

Result<Cost> netlist_cost(const Catalog& catalog, const Netlist& netlist) {
  Cost sum;
  for (const auto& reader : netlist.readers) {
    MILLRACE_ASSIGN(const Cost one, cost(catalog, reader.instance.module, reader.instance.parameters));
    sum += one;
  }
  for (const auto& unit : netlist.units) {
    if (unit.wiring != Wiring::kNone) continue;
    auto one = cost(catalog, unit.instance.module, unit.instance.parameters);
    if (!one.ok()) return one.error().within("instance '" + unit.instance.name + "'");
    sum += *one;
  }
  std::uint64_t rest = load_words(netlist);
  for (const auto& table : netlist.loads) {
    rest -= table.words();
    MILLRACE_ASSIGN(const Cost one, cost(catalog, "mr_load", load_parameters(table, rest)));
    sum += one;
  }
  return sum;
}

Result<Cost> loader_cost(const Catalog& catalog, const Netlist& netlist) {
  if (netlist.loads.empty()) return Cost{};
  return cost(catalog, "mr_parameters", loader_parameters(netlist));
}

Result<Cost> largest_loader_cost(const Catalog& catalog) {
  constexpr std::int64_t kWords = 1 << 24, kTables = 1 << 12;  // these sizes need counters of 25 and 13 bits
  Parameters parameters = loader_parameters({});
  for (auto& [name, value] : parameters)
    if (name == "WORDS")
      value = kWords;
    else if (name == "HOPS")
      value = kTables;
  return cost(catalog, "mr_parameters", parameters);
}

Result<Cost> edge_cost(const Catalog& catalog, std::uint32_t from_lanes, std::uint32_t to_lanes,
                       std::uint32_t bits, std::uint64_t depth) {
  MILLRACE_ASSIGN(Cost sum, cost(catalog, "mr_fifo",
                                 {{"WIDTH", std::int64_t{from_lanes} * bits},
                                  {"DEPTH", static_cast<std::int64_t>(depth)}}));
  if (from_lanes != to_lanes) {
    MILLRACE_ASSIGN(const Cost adapter,
                    cost(catalog, "mr_width_adapter", adapter_parameters(from_lanes, to_lanes, bits)));
    sum += adapter;
  }
  return sum;
}

}  // namespace millrace::compiler::generators
