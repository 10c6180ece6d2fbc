#include "compiler/coverage/coverage.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "compiler/coverage/parts.hpp"
#include "compiler/explore/problem.hpp"
#include "compiler/front/import.hpp"
#include "compiler/generators/generator.hpp"
#include "compiler/generators/plugins.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/planning/candidates.hpp"
#include "compiler/planning/claims.hpp"
#include "runtime/base/file.hpp"
#include "runtime/plan/cluster.hpp"

namespace millrace::compiler::coverage {
namespace {

namespace gen = generators;
using graph::Graph;

constexpr std::uint64_t kMostModelBytes = std::uint64_t{2} << 30U;
constexpr int kMostCuts = 20;  // each cut takes out all nodes that one run of the passes refuses
constexpr std::size_t kMostFused =
    100;  // names per node, so that a long chain does not need memory by its square
constexpr char kAssumed[] = "int8";

/// What is known of a block.
struct BlockCoverage {
  Place place = Place::kHardware;
  Generators generators;
  std::string reason;  // why there is no hardware
  std::uint64_t work = 0;
};

/// Removes the label of a block or of an operator from a reason: "block 'b' (convolution): ", "Gemm runs on the host: ".
std::string without_label(const std::string& reason) {
  for (const std::string mark : {"runs on the host: ", "): "})
    if (const auto at = reason.find(mark);
        at != std::string::npos && (mark[0] == 'r' || reason.starts_with("block '")))
      return reason.substr(at + mark.size());
  return reason;
}

/// Returns whether the model computes in float32 from its input on: it has no quantisers, or no value that depends on the
/// input is an integer of at most 16 bits. A model without quantisers may read and move integers (pictures of bytes).
bool computes_floats(const Graph& graph, bool has_quantisers) {
  if (!has_quantisers) return true;
  const std::vector<bool> dynamic = graph::dynamic_values(graph);
  for (std::size_t v = 0; v < graph.values.size(); ++v)
    if (dynamic[v] && graph.values[v].type.is_integer() && graph.values[v].type.bits <= 16) return false;
  return true;
}

class Survey {
 public:
  explicit Survey(const Options& options) : options_(options) {}

  Result<Coverage> run() {
    const auto start = std::chrono::steady_clock::now();
    MILLRACE_ASSIGN(auto bytes, read_file(options_.model, kMostModelBytes));
    if (!options_.cluster.empty()) {
      MILLRACE_ASSIGN(cluster_, runtime::plan::load_cluster(options_.cluster));
    }
    if (!options_.plugins.empty()) {
      MILLRACE_ASSIGN(plugins_, gen::Plugins::open(options_.plugins));
    }
    auto partly = import_partly(std::move(bytes), options_.model.stem().string(),
                                options_.model.parent_path(), claimer_of(plugins_));
    if (!partly.ok()) return partly.error().within(options_.model.string());
    begin(*partly);
    Graph graph = std::move(partly->graph);
    const std::map<std::string, Work> work = work_of(graph);
    for (auto& node : result_.nodes)
      if (const auto it = work.find(node.name); it != work.end()) {
        node.multiply_accumulates = it->second.multiply_accumulates;
        node.weights = it->second.weights;
      }
    for (const auto& signature : graph.output_signatures) outputs_.insert("output '" + signature.name + "'");
    if (!graph.nodes.empty() && computes_floats(graph, partly->quantised)) {
      result_.assumed = kAssumed;
      graph = passes::assume_quantised(std::move(graph), *passes::assumed_types(kAssumed));
    }
    MILLRACE_TRY(lower(std::move(graph)));
    for (auto& node : result_.nodes) node.rewrite = advice(node, !result_.assumed.empty());
    result_.milliseconds =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    return std::move(result_);
  }

 private:
  /// Lists the nodes of the file, each with the error or note that the importer gave for it.
  void begin(const PartlyImported& partly) {
    result_.model = options_.model.stem().string();
    result_.constants = partly.constants;
    for (const FileNode& node : partly.nodes) {
      index_[node.name] = result_.nodes.size();
      NodeCoverage& made = result_.nodes.emplace_back();
      made.name = node.name;
      made.domain = node.domain;
      made.type = node.type;
      made.place = Place::kCompileTime;  // until it is refused, or some block computes it
    }
    for (const graph::Refusal& refusal : partly.refused) {
      note_refusal(refusal);
      for (const std::string& source : refusal.sources)
        if (const auto it = index_.find(source); it != index_.end())
          result_.nodes[it->second].weights = partly.nodes[it->second].weights;
    }
    for (const std::string& name : partly.unknown) mark_unknown(name);
  }

  void mark_unknown(const std::string& name) {
    const auto it = index_.find(name);
    if (it == index_.end() || result_.nodes[it->second].place == Place::kNowhere) return;
    result_.nodes[it->second].place = Place::kUnknown;
    result_.nodes[it->second].missing =
        "the shape of the node's input is not known, because an earlier node is not supported";
  }

  void note_refusal(const graph::Refusal& refusal) {
    for (const std::string& source : refusal.sources) {
      const auto it = index_.find(source);
      if (it == index_.end()) continue;
      NodeCoverage& node = result_.nodes[it->second];
      node.place = Place::kNowhere;
      if (node.missing.empty()) node.missing = refusal.reason;
    }
  }

  /// Lowers the graph. If nodes are refused, takes them out and lowers the rest, until no node is refused.
  Status lower(Graph graph) {
    for (int cuts = 0; !graph.nodes.empty(); ++cuts) {
      std::vector<graph::Refusal> refusals;
      std::vector<graph::Diagnostic> notes;
      const auto program = lower_once(graph, refusals, notes);
      std::set<std::string> sources;
      for (const graph::Refusal& refusal : refusals) {
        note_refusal(refusal);
        sources.insert(refusal.sources.begin(), refusal.sources.end());
        if (refusal.sources.empty() && (!program.ok() || outputs_.contains(refusal.node)))
          result_.problems.push_back(refusal.node + ": " + refusal.reason);
      }
      if (program.ok()) return read_blocks(*program, notes);
      if (program.error().code() == ErrorCode::kInternal) return program.error();
      if (sources.empty() || cuts == kMostCuts || graph::cut(graph, sources) == 0) {
        if (result_.problems.empty()) result_.problems.push_back(program.error().message());
        for (const graph::Node& n : graph.nodes)
          for (const std::string& source : n.sources) mark_unknown(source);
        return {};
      }
    }
    return {};
  }

  static Result<kernels::Program> lower_once(const Graph& graph, std::vector<graph::Refusal>& refusals,
                                             std::vector<graph::Diagnostic>& notes) {
    MILLRACE_ASSIGN(Graph lowered, passes::run_standard_passes(graph, {}, [&refusals](const Graph& refused) {
                      refusals = refused.refusals;
                    }));
    notes = lowered.diagnostics;
    return passes::build_program(std::move(lowered), &notes, &refusals);
  }

  /// Records for each ONNX node which blocks of the program compute it, and where they run.
  Status read_blocks(const kernels::Program& program, const std::vector<graph::Diagnostic>& notes) {
    if (plugins_ != nullptr) MILLRACE_TRY(plugins_->prepare(program));
    const explore::Problem problem = explore::make_problem(program, cluster_, {});
    std::vector<BlockCoverage> blocks;
    for (std::uint32_t i = 0; i < program.blocks.size(); ++i) {
      MILLRACE_ASSIGN(auto block, cover_block(program, i, problem.operations[i].host));
      blocks.push_back(std::move(block));
    }
    std::map<std::string, std::string> reasons;
    for (const graph::Diagnostic& note : notes)
      for (const std::string& source : note.sources) reasons.emplace(source, without_label(note.message));
    std::map<std::string, std::vector<std::size_t>> blocks_of;
    for (std::size_t i = 0; i < blocks.size(); ++i)
      for (const std::string& name : program.blocks[i].nodes) blocks_of[name].push_back(i);
    for (NodeCoverage& node : result_.nodes) {
      if (node.place != Place::kCompileTime) continue;
      place(node, blocks_of[node.name], blocks, program);
      const auto reason = reasons.find(node.name);
      if (reason != reasons.end() && (node.place == Place::kHost || node.partly_host))
        node.missing = reason->second;
    }
    return {};
  }

  /// Sets a node's place (where the node runs), which follows from the places of the blocks that compute the node.
  static void place(NodeCoverage& node, std::vector<std::size_t> of_node,
                    const std::vector<BlockCoverage>& blocks, const kernels::Program& program) {
    if (of_node.empty()) return;
    std::stable_sort(of_node.begin(), of_node.end(), [&blocks](std::size_t a, std::size_t b) {
      return std::pair(blocks[a].place, ~blocks[a].work) < std::pair(blocks[b].place, ~blocks[b].work);
    });
    const BlockCoverage& first = blocks[of_node.front()];
    node.place = first.place;
    node.generators = first.generators;
    node.missing = first.reason;
    for (const std::size_t i : of_node) {
      node.blocks.push_back(program.blocks[i].name);
      node.partly_host = node.partly_host || (first.place != Place::kHost && blocks[i].place == Place::kHost);
    }
    for (const std::string& other : program.blocks[of_node.front()].nodes)
      if (other != node.name && node.fused_with.size() < kMostFused) node.fused_with.push_back(other);
  }

  /// Asks the generators which hardware they have for a block.
  Result<BlockCoverage> cover_block(const kernels::Program& program, std::uint32_t i, bool host) const {
    const kernels::Block& block = program.blocks[i];
    BlockCoverage made;
    made.work = kernels::multiply_accumulates(program, block);
    made.place = host ? Place::kHost : Place::kHardware;
    if (host) {
      const bool converts = std::holds_alternative<kernels::Quantise>(block.operation) ||
                            std::holds_alternative<kernels::Dequantise>(block.operation) ||
                            std::holds_alternative<kernels::Rearrange>(block.operation);
      if (!converts) made.reason = "no hardware computes it";
      return made;
    }
    const auto generator = gen::Generator::make(program, i, plugins_.get());
    if (!generator.ok()) {
      if (generator.error().code() != ErrorCode::kUnsupported) return generator.error();
      made.place = Place::kEmulated;
      made.reason = without_label(generator.error().message());
      return made;
    }
    Generators& found = made.generators;
    const std::vector<std::uint64_t> intervals = (*generator)->intervals();
    for (std::size_t k = 0; k < intervals.size(); ++k) {
      // Do not ask for hardware at every interval, because two kinds of intervals show what a generator can do.
      // Unrolled hardware exists only at the few shortest intervals. Folded hardware, if a generator has any, exists at
      // the longest interval, too.
      if (k >= kShortest && k + 1 < intervals.size()) continue;
      for (const gen::Folding& folding : (*generator)->foldings(intervals[k])) {
        found.folded = found.folded || folding.implementation == gen::Implementation::kFolded;
        found.unrolled = found.unrolled || folding.implementation == gen::Implementation::kUnrolled;
        found.plugin = found.plugin || folding.implementation == gen::Implementation::kPlugin;
      }
    }
    found.streamed = found.folded && gen::can_stream(block) && has_memory() &&
                     placed_alone(program, i, kernels::Placement::kStreamed).ok();
    if (!found.folded && !found.unrolled && !found.plugin) {
      made.place = Place::kEmulated;
      made.reason = "no folding of its hardware is possible";
    }
    return made;
  }

  /// Whether some card has memory from which weights can be streamed; true without a cluster.
  bool has_memory() const {
    if (cluster_.cards.empty()) return true;
    return std::any_of(cluster_.devices.begin(), cluster_.devices.end(),
                       [](const auto& device) { return !device.second.memory.empty(); });
  }

  static constexpr std::size_t kShortest = 3;

  const Options& options_;
  runtime::plan::Cluster cluster_;
  std::shared_ptr<gen::Plugins> plugins_;
  Coverage result_;
  std::map<std::string, std::size_t> index_;  // of `result_.nodes` by name
  std::set<std::string> outputs_;             // of the model, as refusals name them
};

}  // namespace

const char* to_string(Place place) {
  static constexpr const char* kNames[] = {"hardware",     "emulated", "host",
                                           "compile_time", "nowhere",  "unknown"};
  return kNames[static_cast<std::size_t>(place)];
}

std::size_t Coverage::missing() const {
  return static_cast<std::size_t>(std::count_if(nodes.begin(), nodes.end(), [](const NodeCoverage& node) {
    return node.place == Place::kNowhere || node.place == Place::kUnknown;
  }));
}

Result<Coverage> cover(const Options& options) {
  return Survey(options).run();
}

std::vector<Share> shares(const Coverage& coverage) {
  std::vector<Share> rows;
  const auto add = [&](const std::string& by, auto counts) {
    Share row{by, 0, 0, 0};
    for (const NodeCoverage& node : coverage.nodes) {
      if (!counts(node)) continue;
      ++row.nodes;
      row.multiply_accumulates += node.multiply_accumulates;
      row.weights += node.weights;
    }
    rows.push_back(std::move(row));
  };
  add("folded", [](const NodeCoverage& n) { return n.generators.folded; });
  add("unrolled", [](const NodeCoverage& n) { return n.generators.unrolled; });
  add("streamed", [](const NodeCoverage& n) { return n.generators.streamed; });
  add("plugin", [](const NodeCoverage& n) { return n.generators.plugin; });
  for (const Place place : {Place::kHardware, Place::kEmulated, Place::kHost, Place::kCompileTime})
    add(to_string(place), [place](const NodeCoverage& n) { return n.place == place; });
  add("combined",
      [](const NodeCoverage& n) { return n.place != Place::kNowhere && n.place != Place::kUnknown; });
  return rows;
}

}  // namespace millrace::compiler::coverage
