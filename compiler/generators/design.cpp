#include "compiler/generators/design.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "compiler/generators/blocks.hpp"
#include "compiler/generators/netlist_builder.hpp"
#include "compiler/generators/timing.hpp"
#include "compiler/generators/unrolled.hpp"

namespace millrace::compiler::generators {
namespace {

using kernels::Program;
using kernels::TensorIndex;

constexpr std::uint64_t kLeastDepth = 2;  // minimum depth of an mr_fifo

/// A reader of a tensor: input `port` of a block or, if `block` is negative, output `port` of the partition.
struct Reader {
  std::int32_t block = -1;
  std::size_t port = 0;
};

template <class T>
void append(std::vector<T>& from, std::vector<T>& to) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

class Assembler {
 public:
  Assembler(const Program& program, const std::vector<Folding>& foldings, const AssembleOptions& options)
      : program_(program), foldings_(foldings), options_(options) {}

  /// Returns one generator for each block, in the order of the blocks. Generators refer to the program.
  const std::vector<std::unique_ptr<Generator>>& generators() const { return generators_; }

  Result<Design> run() {
    design_.partition = identifier(program_.name);
    design_.outputs.resize(program_.outputs.size());
    design_.netlist.outputs.resize(program_.outputs.size());
    if (foldings_.size() != program_.blocks.size())
      return Error(ErrorCode::kInternal, "assemble: " + std::to_string(foldings_.size()) + " foldings for " +
                                             std::to_string(program_.blocks.size()) + " blocks");
    if (!options_.regions.empty() && options_.regions.size() != program_.blocks.size())
      return Error(ErrorCode::kInternal, "assemble: " + std::to_string(options_.regions.size()) +
                                             " regions for " + std::to_string(program_.blocks.size()) +
                                             " blocks");
    find_readers();
    reserve_ports();
    MILLRACE_TRY(build_blocks());
    add_inputs();
    for (std::uint32_t b = 0; b < program_.blocks.size(); ++b) {
      for (auto& unit : pieces_[b].units) {
        design_.netlist.units.push_back(std::move(unit));
        design_.regions.push_back(region(static_cast<std::int32_t>(b)));
      }
      const auto& outputs = program_.blocks[b].outputs;
      for (std::size_t i = 0; i < outputs.size(); ++i)
        connect(outputs[i], bases_[b] + (outputs.size() > 1 ? "_m" + std::to_string(i) : ""), outputs_[b][i],
                region(static_cast<std::int32_t>(b)));
    }
    const auto first = [](std::uint32_t one) { return one == 0; };
    if (std::all_of(design_.regions.begin(), design_.regions.end(), first)) design_.regions.clear();
    return std::move(design_);
  }

 private:
  void find_readers() {
    for (std::size_t b = 0; b < program_.blocks.size(); ++b)
      for (std::size_t i = 0; i < program_.blocks[b].inputs.size(); ++i)
        readers_[program_.blocks[b].inputs[i]].push_back({static_cast<std::int32_t>(b), i});
    for (std::size_t i = 0; i < program_.outputs.size(); ++i)
      readers_[program_.outputs[i]].push_back({-1, i});
  }

  std::string unique(const std::string& wanted) {
    std::string name = wanted;
    for (int i = 2; !names_.insert(name).second; ++i) name = wanted + "_" + std::to_string(i);
    return name;
  }

  void reserve_ports() {
    names_ = {"clk", "rst", "load", "weights"};
    for (std::size_t b = 0; b < program_.blocks.size(); ++b) names_.insert("weights" + std::to_string(b));
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) names_.insert("in" + std::to_string(i));
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) names_.insert("out" + std::to_string(i));
  }

  /// Returns the region of a block. Ports (block < 0) are in the first region, as the shell is.
  std::uint32_t region(std::int32_t block) const {
    return block < 0 || options_.regions.empty() ? 0 : options_.regions[static_cast<std::size_t>(block)];
  }

  StreamIndex add_stream(Stream stream) {
    design_.netlist.streams.push_back(std::move(stream));
    return static_cast<StreamIndex>(design_.netlist.streams.size() - 1);
  }

  /// Builds the netlist of every block and adds its streams to the design. The units get unique names.
  Status build_blocks() {
    for (std::uint32_t b = 0; b < program_.blocks.size(); ++b) {
      const auto& block = program_.blocks[b];
      MILLRACE_ASSIGN(auto generator, Generator::make(program_, b, options_.plugins));
      const std::string name = unique(identifier(block.name));
      MILLRACE_ASSIGN(Netlist piece, generator->build(foldings_[b], options_.memories, name));
      generators_.push_back(std::move(generator));
      const auto offset = static_cast<StreamIndex>(design_.netlist.streams.size());
      for (auto& unit : piece.units) {
        for (auto& s : unit.inputs) s += offset;
        for (auto& s : unit.outputs) s += offset;
      }
      for (auto& s : piece.inputs) s += offset;
      for (auto& s : piece.outputs) s += offset;
      outputs_.push_back(piece.outputs);
      append(piece.streams, design_.netlist.streams);
      append(piece.files, design_.netlist.files);
      append(piece.readers, design_.netlist.readers);
      append(piece.loads, design_.netlist.loads);
      append(piece.sources, design_.netlist.sources);
      bases_.push_back(name);
      design_.blocks.push_back(
          {block.name, foldings_[b], {}, 0, kernels::multiply_accumulates(program_, block)});
      design_.multiply_accumulates += design_.blocks.back().multiply_accumulates;
      pieces_.push_back(std::move(piece));
    }
    return {};
  }

  void add_inputs() {
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      const TensorIndex t = program_.inputs[i];
      const auto& tensor = program_.tensors[t];
      std::uint32_t lanes = 1;
      for (const auto& reader : readers_[t])
        if (reader.block >= 0) lanes = std::max(lanes, design_.netlist.streams[target(reader)].lanes);
      const std::string name = "in" + std::to_string(i);
      const StreamIndex from = add_stream({name, lanes, tensor.type.bits, tensor.elements() / lanes});
      design_.netlist.inputs.push_back(from);
      design_.inputs.push_back({name, tensor.name, tensor.type, from});
      connect(t, name, from, region(-1));
    }
  }

  StreamIndex target(const Reader& reader) const {
    return pieces_[static_cast<std::size_t>(reader.block)].inputs[reader.port];
  }

  void add_unit(const char* module, const std::string& name, std::uint32_t here, Parameters parameters,
                std::vector<StreamIndex> inputs, std::vector<StreamIndex> outputs) {
    design_.regions.push_back(here);
    design_.netlist.units.push_back({.instance = {module, name, std::move(parameters)},
                                     .inputs = std::move(inputs),
                                     .outputs = std::move(outputs)});
  }

  /// Connects the stream of a tensor to all its readers. If there are several readers, adds a fork. Each reader gets a
  /// FIFO, and also an adapter if it reads another number of lanes per beat than the stream has.
  void connect(TensorIndex tensor, const std::string& base, StreamIndex from, std::uint32_t here) {
    const auto& readers = readers_[tensor];
    std::vector<StreamIndex> branches = {from};
    const Stream whole = design_.netlist.streams[from];
    if (readers.size() > 1) {
      branches.clear();
      const std::string fork = unique(base + "_fork");
      for (std::size_t i = 0; i < readers.size(); ++i)
        branches.push_back(add_stream({fork + std::to_string(i), whole.lanes, whole.bits, whole.beats}));
      add_unit("mr_fork", fork, here,
               {{"WIDTH", static_cast<std::int64_t>(whole.width())},
                {"N", static_cast<std::int64_t>(readers.size())}},
               {from}, branches);
    }
    for (std::size_t i = 0; i < readers.size(); ++i) {
      const std::string to = readers[i].block >= 0 ? bases_[static_cast<std::size_t>(readers[i].block)]
                                                   : "out" + std::to_string(readers[i].port);
      add_edge(readers.size() > 1 ? base + "_to_" + to : base, branches[i], here, readers[i]);
    }
  }

  /// Adds a register slice in each region on the path from `from` to `to`, both included. The last slice outputs the
  /// stream `behind`.
  void cross(const std::string& name, std::uint32_t from, std::uint32_t to, StreamIndex before,
             StreamIndex behind) {
    for (std::uint32_t at = from;; at += from < to ? 1U : -1U) {
      const std::string slice = unique(name + "_cross" + std::to_string(at));
      Stream stream = design_.netlist.streams[before];
      stream.name = slice;
      const StreamIndex next = at == to ? behind : add_stream(stream);
      add_unit("mr_skid", slice, at, {{"WIDTH", static_cast<std::int64_t>(stream.width())}}, {before},
               {next});
      if (at == to) return;
      before = next;
    }
  }

  void add_edge(const std::string& name, StreamIndex from, std::uint32_t here, const Reader& reader) {
    const Stream before = design_.netlist.streams[from];
    const std::string fifo = unique(name + "_fifo");
    StreamIndex behind = 0;
    const bool output = reader.block < 0;
    const bool adapted = !output && design_.netlist.streams[target(reader)].lanes != before.lanes;
    if (output || adapted)
      behind = add_stream(
          {output ? "out" + std::to_string(reader.port) : fifo, before.lanes, before.bits, before.beats});
    else
      behind = target(reader);
    design_.fifos.push_back({static_cast<std::uint32_t>(design_.netlist.units.size()), kLeastDepth, 0});
    const std::uint32_t there = region(reader.block);
    const bool crosses = here != there;
    const StreamIndex kept =
        crosses ? add_stream({unique(fifo + "_out"), before.lanes, before.bits, before.beats}) : behind;
    add_unit("mr_fifo", fifo, here,
             {{"WIDTH", static_cast<std::int64_t>(before.width())},
              {"DEPTH", static_cast<std::int64_t>(kLeastDepth)}},
             {from}, {kept});
    if (crosses) cross(name, here, there, kept, behind);
    if (adapted) {
      const StreamIndex to = target(reader);
      add_unit("mr_width_adapter", unique(name + "_lanes"), there,
               adapter_parameters(before.lanes, design_.netlist.streams[to].lanes, before.bits), {behind},
               {to});
    }
    if (!output) return;
    const auto& tensor = program_.tensors[program_.outputs[reader.port]];
    design_.outputs[reader.port] = {"out" + std::to_string(reader.port), tensor.name, tensor.type, behind};
    design_.netlist.outputs[reader.port] = behind;
  }

  const Program& program_;
  const std::vector<Folding>& foldings_;
  const AssembleOptions& options_;
  Design design_;
  std::vector<std::unique_ptr<Generator>> generators_;
  std::map<TensorIndex, std::vector<Reader>> readers_;
  std::set<std::string> names_;
  std::vector<Netlist> pieces_;
  std::vector<std::string> bases_;
  std::vector<std::vector<StreamIndex>> outputs_;  // [block][output]
};

void set_depth(Design& design, FifoDesign& fifo, std::uint64_t depth) {
  fifo.depth = std::max(depth, kLeastDepth);
  for (auto& [name, value] : design.netlist.units[fifo.unit].instance.parameters)
    if (name == "DEPTH") value = static_cast<std::int64_t>(fifo.depth);
}

/// Finds FIFO depths that give the same interval as unlimited FIFOs. Then removes depth that is never filled.
///
/// In a simulation with unlimited FIFOs and an input spread over the interval, FIFOs fill as far as the skew between
/// blocks demands. These fillings are the depths. A dataflow that starts every beat as early as possible is then no
/// slower than that simulation, in which no FIFO was ever full.
class FifoSizing {
 public:
  explicit FifoSizing(Design& design) : design_(design) {}

  Result<Timing> run() {
    TimingOptions options;
    options.frames = kFrames;
    options.unlimited_fifos = true;
    MILLRACE_ASSIGN(const Timing free_running, simulate(design_.netlist, options));
    interval_ = free_running.interval_cycles;
    options.frame_interval = interval_;
    MILLRACE_ASSIGN(const Timing paced, simulate(design_.netlist, options));
    for (auto& fifo : design_.fifos) set_depth(design_, fifo, paced.high_water[fifo.unit]);
    MILLRACE_ASSIGN(Timing timing, play());
    for (int i = 0; i < kGrowths && timing.interval_cycles > interval_; ++i) {
      for (auto& fifo : design_.fifos) set_depth(design_, fifo, fifo.depth + fifo.depth / 2);
      MILLRACE_ASSIGN(timing, play());
    }
    interval_ = timing.interval_cycles;
    latency_ = timing.latency_cycles;
    if (shrink()) {
      MILLRACE_ASSIGN(timing, play());
    }
    for (auto& fifo : design_.fifos) {
      set_depth(design_, fifo, std::min(fifo.depth, timing.high_water[fifo.unit]));
      fifo.high_water = timing.high_water[fifo.unit];
    }
    return timing;
  }

 private:
  static constexpr std::uint32_t kFrames = 10;
  static constexpr int kGrowths = 6;
  static constexpr std::uint64_t kWorthShrinking = 2 * kLeastDepth;  // beats
  /// A simulation with more cycles than this is not repeated, because it takes too much time.
  static constexpr std::uint64_t kMostCycles = 60000;

  Result<Timing> play(std::uint64_t most_latency = std::numeric_limits<std::uint64_t>::max()) const {
    TimingOptions options;
    options.frames = kFrames;
    options.most_latency = most_latency;
    return simulate(design_.netlist, options);
  }

  /// Makes each deep FIFO as shallow as interval and latency allow, largest first. Returns whether any FIFO was deep.
  bool shrink() {
    if (interval_ * kFrames > kMostCycles) return false;
    std::vector<FifoDesign*> deep;
    for (auto& fifo : design_.fifos)
      if (fifo.depth > kWorthShrinking) deep.push_back(&fifo);
    const auto bits = [&](const FifoDesign* f) {
      return static_cast<std::uint64_t>(parameter(design_.netlist.units[f->unit].instance, "WIDTH", 1)) *
             f->depth;
    };
    std::stable_sort(deep.begin(), deep.end(), [&](auto* a, auto* b) { return bits(a) > bits(b); });
    for (FifoDesign* fifo : deep) {
      std::uint64_t too_small = kLeastDepth - 1, enough = fifo->depth;
      while (enough - too_small > std::max<std::uint64_t>(1, enough / 16)) {
        const std::uint64_t middle = too_small + (enough - too_small) / 2;
        set_depth(design_, *fifo, middle);
        const auto timing = play(latency_ + latency_ / 100);  // also fails if the dataflow deadlocks
        const bool holds = timing.ok() && timing->interval_cycles <= interval_;
        (holds ? enough : too_small) = middle;
      }
      set_depth(design_, *fifo, enough);
    }
    return !deep.empty();
  }

  Design& design_;
  std::uint64_t interval_ = 0, latency_ = 0;
};

}  // namespace

Result<std::vector<Cost>> region_costs(const Catalog& catalog, const Design& design, std::size_t count) {
  std::vector<Cost> costs(std::max<std::size_t>(count, 1));
  if (design.regions.empty()) {
    costs.front() = design.cost;
    return costs;
  }
  // The units that load constants and read weights are in the first region, as the shell is.
  Netlist alone;
  alone.loads = design.netlist.loads;
  alone.readers = design.netlist.readers;
  MILLRACE_ASSIGN(costs.front(), netlist_cost(catalog, alone));
  for (std::size_t u = 0; u < design.netlist.units.size(); ++u) {
    const auto& unit = design.netlist.units[u];
    if (unit.wiring != Wiring::kNone) continue;
    MILLRACE_ASSIGN(const Cost one, cost(catalog, unit.instance.module, unit.instance.parameters));
    costs[std::min<std::size_t>(design.regions[u], costs.size() - 1)] += one;
  }
  return costs;
}

Result<Design> assemble(const Catalog& catalog, const Program& program, const std::vector<Folding>& foldings,
                        const AssembleOptions& options) {
  Assembler assembler(program, foldings, options);
  MILLRACE_ASSIGN(Design design, assembler.run());
  if (options.play) {
    MILLRACE_ASSIGN(const Timing timing, FifoSizing(design).run());
    design.interval_cycles = timing.interval_cycles;
    design.latency_cycles = timing.latency_cycles;
    design.first_output_cycles = timing.first_output_cycles;
  }
  for (std::uint32_t b = 0; b < program.blocks.size(); ++b) {
    MILLRACE_ASSIGN(const Candidate candidate, assembler.generators()[b]->candidate(catalog, foldings[b]));
    design.blocks[b].cost = candidate.cost;
    design.blocks[b].interval_cycles = candidate.interval_cycles;
    if (!options.play)
      design.interval_cycles = std::max({design.interval_cycles, candidate.interval_cycles,
                                         fed_interval(design.netlist, static_cast<std::int32_t>(b))});
  }
  for (const auto& unit : design.netlist.units)
    if (unit.block >= 0 && (is_matrix_unit(unit.instance) || unit.instance.module == "mr_vvu" ||
                            unit.instance.module == kUnrolledModule))
      design.blocks[static_cast<std::size_t>(unit.block)].busy_cycles =
          unit_cycles(design.netlist, unit).interval / line_cycles(unit.instance);
  MILLRACE_ASSIGN(design.cost, netlist_cost(catalog, design.netlist));
  MILLRACE_ASSIGN(design.loader, loader_cost(catalog, design.netlist));
  return design;
}

}  // namespace millrace::compiler::generators
