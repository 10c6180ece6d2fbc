#include "compiler/planning/plan_file.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <string_view>

#include "compiler/explore/partition.hpp"
#include "compiler/planning/split_channels.hpp"
#include "runtime/plan/yaml.hpp"

namespace millrace::compiler {
namespace {

namespace gen = generators;
namespace yaml = runtime::plan::yaml;

constexpr std::uint64_t kSchema = 1;
constexpr std::uint64_t kMostParts = 64;  // most parts of a split layer
constexpr std::uint32_t kUnset = std::numeric_limits<std::uint32_t>::max();

// The words in a plan file for the values of an enumeration, in the order of the enumeration.
using Words = std::array<std::string_view, 3>;
constexpr Words kWindows{"none", "folded", "parallel"};
constexpr Words kGenerators{"folded", "unrolled", "plugin"};
constexpr Words kMultipliers{"lut", "dsp", "dsp_pair"};
constexpr Words kPlacements{"baked", "loaded", "streamed"};
constexpr Words kMemories{"auto", "block", "logic"};

template <class Value>
std::string word(const Words& words, Value value) {
  return std::string(words.at(static_cast<std::size_t>(value)));
}

template <class Value>
Status read_word(const yaml::Mapping& map, const char* key, const Words& words, Value& out) {
  MILLRACE_ASSIGN(const std::string text, map.text(key, word(words, out)));
  const auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end())
    return map.error(key, "'" + text + "' is none of " + joined({words.begin(), words.end()}));
  out = static_cast<Value>(found - words.begin());
  return {};
}

Status read_count(const yaml::Mapping& map, const char* key, std::uint32_t& out) {
  MILLRACE_ASSIGN(const std::uint64_t count, map.integer(key, std::uint64_t{out}));
  if (count == 0 || count > 65535) return map.error(key, "1 to 65535 are allowed");
  out = static_cast<std::uint32_t>(count);
  return {};
}

Result<yaml::Mapping> root_of(const yaml::Node& root, const std::string& file) {
  MILLRACE_ASSIGN(auto map, yaml::Mapping::of(root, file, "plan",
                                              {"schema", "model", "assumed", "cluster", "splits", "host",
                                               "through_host", "cards", "replicas"}));
  MILLRACE_ASSIGN(const std::uint64_t schema, map.integer("schema"));
  if (schema != kSchema) return map.error("schema", "this Millrace reads " + std::to_string(kSchema));
  return map;
}

/// Reads one entry of the key 'splits', appends it to `splits` and splits the block in `program`. `done` contains the
/// names of the blocks that earlier entries split.
Status add_split(const yaml::Node& node, const std::string& file, std::set<std::string>& done,
                 kernels::Program& program, std::vector<Split>& splits) {
  MILLRACE_ASSIGN(const auto map, yaml::Mapping::of(node, file, "split", {"block", "parts"}));
  Split wanted;
  MILLRACE_ASSIGN(wanted.block, map.text("block"));
  MILLRACE_ASSIGN(const std::uint64_t parts, map.integer("parts"));
  if (parts < 2 || parts > kMostParts)
    return map.error("parts", "2 to " + std::to_string(kMostParts) + " are allowed");
  wanted.parts = static_cast<std::uint32_t>(parts);
  if (!done.insert(wanted.block).second) return map.error("block", "'" + wanted.block + "' is split twice");
  const std::uint32_t block = find_block(program, wanted.block);
  if (block == program.blocks.size())
    return map.error("block", "the model has no block '" + wanted.block + "'");
  if (!can_split(program, block, wanted.parts))
    return map.error("block",
                     "'" + wanted.block + "' cannot be split into " + std::to_string(wanted.parts) +
                         " parts: only ungrouped convolutions and fully connected blocks can be split, "
                         "and the number of parts must divide the number of output channels");
  program = split_channels(program, block, wanted.parts);
  splits.push_back(std::move(wanted));
  return {};
}

/// Reads the block names under the key 'host'. The blocks of `program` must already be split.
Result<std::vector<std::string>> read_host_blocks(const yaml::Mapping& map, const std::string& file,
                                                  const kernels::Program& program,
                                                  const std::vector<Split>& splits) {
  std::vector<std::string> out;
  MILLRACE_ASSIGN(const auto* nodes, map.sequence("host"));
  for (const auto& node : *nodes) {
    if (node.kind != yaml::Node::Kind::kScalar)
      return yaml::error_at(file, node, "host: names of blocks are expected");
    const std::string& name = node.scalar;
    const auto wrong = [&](const std::string& what) { return yaml::error_at(file, node, "host: " + what); };
    const auto is_split = [&](const Split& split) { return split.block == name; };
    if (find_block(program, name) == program.blocks.size())
      return wrong("the model has no block '" + name + "'" +
                   (std::any_of(splits.begin(), splits.end(), is_split) ? ": it is split" : ""));
    if (std::find(out.begin(), out.end(), name) != out.end()) return wrong("'" + name + "' is listed twice");
    out.push_back(name);
  }
  return out;
}

class Reader {
 public:
  Reader(const Task& task, Lowered lowered)
      : file_(task.options.plan.string()), task_(task), lowered_(std::move(lowered)) {
    const std::size_t count = lowered_.program.blocks.size();
    choice_.place.assign(count, kUnset);
    choice_.region.assign(count, 0);
    choice_.implementation.assign(count, 0);
  }

  Result<PlanFile> run(const yaml::Node& root) {
    MILLRACE_ASSIGN(const auto map, root_of(root, file_));
    MILLRACE_TRY(check_name(map, "model", task_.model.info.name));
    MILLRACE_TRY(check_name(map, "cluster", task_.cluster.name));
    MILLRACE_TRY(check_assumed(map));
    MILLRACE_ASSIGN(const auto* cards, map.sequence("cards"));
    for (const auto& card : *cards) MILLRACE_TRY(read_card(card));
    for (std::size_t i = 0; i < choice_.place.size(); ++i)
      if (choice_.place[i] == kUnset && !lowered_.problem.operations[i].host)
        return map.error("block '" + lowered_.program.blocks[i].name + "' is not assigned to any card");
    for (auto& place : choice_.place)
      if (place == kUnset) place = 0;
    PlanFile out;
    MILLRACE_TRY(read_replicas(map, out.copies));
    out.choice = std::move(choice_);
    out.lowered = std::move(lowered_);
    return out;
  }

 private:
  Status check_name(const yaml::Mapping& map, const char* key, const std::string& expected) const {
    MILLRACE_ASSIGN(const std::string name, map.text(key, expected));
    if (name != expected)
      return map.error(key, "'" + name + "' is not the " + key + " given, '" + expected + "'");
    return {};
  }

  Status check_assumed(const yaml::Mapping& map) const {
    MILLRACE_ASSIGN(const std::string assumed, map.text("assumed", ""));
    if (assumed == task_.model.assumed) return {};
    const std::string given = task_.model.assumed.empty() ? "no --assume" : "--assume " + task_.model.assumed;
    return map.error("assumed",
                     assumed.empty()
                         ? "is missing: the plan was made without --assume, but the command line has " + given
                         : "'" + assumed + "' differs from the command line: " + given);
  }

  Result<std::uint32_t> card_named(const yaml::Mapping& map, const char* key, const std::string& name) const {
    const auto* card = lowered_.cluster.find_card(name);
    if (card == nullptr) return map.error(key, "the cluster has no card '" + name + "'");
    return static_cast<std::uint32_t>(card - lowered_.cluster.cards.data());
  }

  Status read_replicas(const yaml::Mapping& map, std::vector<std::vector<std::uint32_t>>& copies) const {
    MILLRACE_ASSIGN(const auto* replicas, map.sequence("replicas"));
    if (replicas->size() >= explore::kMostReplicas)
      return map.error("replicas", "at most " + std::to_string(explore::kMostReplicas - 1) +
                                       " replicas are allowed in addition to the first one");
    for (const auto& node : *replicas) {
      MILLRACE_ASSIGN(const auto replica, yaml::Mapping::of(node, file_, "replica", {"cards"}));
      MILLRACE_ASSIGN(const auto names, replica.texts("cards"));
      copies.emplace_back();
      for (const std::string& name : names) {
        MILLRACE_ASSIGN(const std::uint32_t card, card_named(replica, "cards", name));
        copies.back().push_back(card);
      }
    }
    return {};
  }

  Status read_card(const yaml::Node& node) {
    MILLRACE_ASSIGN(const auto map, yaml::Mapping::of(node, file_, "card", {"card", "blocks"}));
    MILLRACE_ASSIGN(const std::string name, map.text("card"));
    MILLRACE_ASSIGN(const std::uint32_t card, card_named(map, "card", name));
    choice_.card.push_back(card);
    MILLRACE_ASSIGN(const auto* blocks, map.sequence("blocks"));
    if (blocks->empty())
      return map.error("card: '" + name + "' has no blocks; remove the card from the plan");
    for (const auto& block : *blocks) MILLRACE_TRY(read_block(block, lowered_.problem.cards[card]));
    return {};
  }

  Status read_block(const yaml::Node& node, const explore::Card& card) {
    MILLRACE_ASSIGN(const auto map,
                    yaml::Mapping::of(node, file_, "block",
                                      {"block", "region", "generator", "variant", "pe", "simd", "pixels",
                                       "window", "window_lanes", "multiplier", "weights", "memory"}));
    MILLRACE_ASSIGN(const std::string name, map.text("block"));
    const std::uint32_t block = find_block(lowered_.program, name);
    if (block == lowered_.program.blocks.size())
      return map.error("block", "the model has no block '" + name + "'");
    if (lowered_.problem.operations[block].host) return map.error("block", "'" + name + "' runs on the host");
    if (choice_.place[block] != kUnset) return map.error("block", "'" + name + "' is listed twice");
    choice_.place[block] = static_cast<std::uint32_t>(choice_.card.size() - 1);
    MILLRACE_ASSIGN(const std::string region, map.text("region", card.regions.front().name));
    std::uint32_t r = 0;
    while (r < card.regions.size() && card.regions[r].name != region) ++r;
    if (r == card.regions.size())
      return map.error("region", "'" + card.device + "' has no region '" + region + "'");
    choice_.region[block] = r;
    gen::Folding folding;
    folding.weights = lowered_.program.blocks[block].placement;
    MILLRACE_TRY(read_word(map, "generator", kGenerators, folding.implementation));
    MILLRACE_ASSIGN(folding.variant, map.text("variant", ""));
    MILLRACE_TRY(read_count(map, "pe", folding.pe));
    MILLRACE_TRY(read_count(map, "simd", folding.simd));
    MILLRACE_TRY(read_count(map, "pixels", folding.pixels));
    MILLRACE_TRY(read_count(map, "window_lanes", folding.window_lanes));
    MILLRACE_TRY(read_word(map, "window", kWindows, folding.window));
    MILLRACE_TRY(read_word(map, "multiplier", kMultipliers, folding.multiplier));
    MILLRACE_TRY(read_word(map, "weights", kPlacements, folding.weights));
    MILLRACE_TRY(read_word(map, "memory", kMemories, folding.memory));
    return choose(map, block, folding);
  }

  /// Chooses the block's implementation with this folding (degree of parallelism). If no candidate has the folding,
  /// asks the generator for it.
  Status choose(const yaml::Mapping& map, std::uint32_t block, const gen::Folding& folding) {
    auto& ways = lowered_.problem.operations[block].implementations;
    auto& candidates = lowered_.candidates.of_block[block];
    for (std::uint32_t w = 0; w < ways.size(); ++w)
      if (candidates[ways[w].candidate].folding == folding) {
        choice_.implementation[block] = w;
        return {};
      }
    auto candidate = ask(block, folding);
    if (!candidate.ok()) return map.error("block", candidate.error().message());
    MILLRACE_ASSIGN(explore::Implementation way,
                    implementation(task_.catalog, lowered_.program, lowered_.program.blocks[block],
                                   *candidate, lowered_.candidates.ports));
    way.candidate = static_cast<std::uint32_t>(candidates.size());
    candidates.push_back(std::move(*candidate));
    choice_.implementation[block] = static_cast<std::uint32_t>(ways.size());
    ways.push_back(std::move(way));
    return {};
  }

  Result<gen::Candidate> ask(std::uint32_t block, const gen::Folding& folding) const {
    if (task_.options.weights || folding.weights == lowered_.program.blocks[block].placement) {
      MILLRACE_ASSIGN(const auto generator,
                      gen::Generator::make(lowered_.program, block, task_.plugins.get()));
      return generator->candidate(task_.catalog, folding);
    }
    MILLRACE_ASSIGN(const auto placed, placed_alone(lowered_.program, block, folding.weights));
    MILLRACE_ASSIGN(const auto generator, gen::Generator::make(placed, 0));
    return generator->candidate(task_.catalog, folding);
  }

  std::string file_;
  const Task& task_;
  Lowered lowered_;
  explore::Choice choice_;
};

std::string block_line(const std::string& block, const std::string& region, const gen::Folding& f) {
  return "      - {block: \"" + block + "\", region: \"" + region + "\"" +
         (f.implementation == gen::Implementation::kFolded
              ? ""
              : ", generator: " + word(kGenerators, f.implementation)) +
         (f.variant.empty() ? "" : ", variant: \"" + f.variant + "\"") + ", pe: " + std::to_string(f.pe) +
         ", simd: " + std::to_string(f.simd) + ", pixels: " + std::to_string(f.pixels) +
         ", window: " + word(kWindows, f.window) + ", window_lanes: " + std::to_string(f.window_lanes) +
         ", multiplier: " + word(kMultipliers, f.multiplier) + ", weights: " + word(kPlacements, f.weights) +
         ", memory: " + word(kMemories, f.memory) + "}\n";
}

}  // namespace

std::string plan_file(const Plan& plan) {
  const Lowered& lowered = *plan.lowered;
  std::string out =
      "# A Millrace plan; edit this file and pass it back with --plan. Keys: compiler/README.md.\n"
      "schema: 1\nmodel: \"" +
      plan.model.info.name + "\"\n" +
      (plan.model.assumed.empty() ? "" : "assumed: \"" + plan.model.assumed + "\"\n") + "cluster: \"" +
      lowered.cluster.name + "\"\n";
  if (!lowered.changes.splits.empty()) out += "splits:\n";
  for (const auto& split : lowered.changes.splits)
    out += "  - {block: \"" + split.block + "\", parts: " + std::to_string(split.parts) + "}\n";
  if (!lowered.changes.host_blocks.empty()) out += "host:\n";
  for (const auto& name : lowered.changes.host_blocks) out += "  - \"" + name + "\"\n";
  if (lowered.changes.through_host) out += "through_host: true\n";
  out += "cards:\n";
  for (std::uint32_t place = 0; place < plan.solution.card.size(); ++place) {
    const auto& card = lowered.problem.cards[plan.solution.card[place]];
    out += "  - card: \"" + card.name + "\"\n    blocks:\n";
    for (const auto& part : plan.solution.parts) {
      if (part.host || part.place != place) continue;
      for (const auto i : part.operations)
        out += block_line(lowered.program.blocks[i].name, card.regions[plan.solution.region[i]].name,
                          *chosen_folding(plan, i));
    }
  }
  if (!plan.solution.copies.empty()) out += "replicas:\n";
  for (const auto& copy : plan.solution.copies) {
    std::vector<std::string> names;
    for (const auto card : copy) names.push_back("\"" + lowered.problem.cards[card].name + "\"");
    out += "  - {cards: [" + joined(names) + "]}\n";
  }
  return out;
}

Result<Changes> read_changes(const std::filesystem::path& file, const kernels::Program& program) {
  MILLRACE_ASSIGN(const yaml::Node root, yaml::load(file));
  MILLRACE_ASSIGN(const auto map, root_of(root, file.string()));
  MILLRACE_ASSIGN(const auto* splits, map.sequence("splits"));
  Changes out;
  kernels::Program split = program;
  std::set<std::string> done;
  for (const auto& node : *splits) MILLRACE_TRY(add_split(node, file.string(), done, split, out.splits));
  MILLRACE_ASSIGN(out.host_blocks, read_host_blocks(map, file.string(), split, out.splits));
  MILLRACE_ASSIGN(out.through_host, map.boolean("through_host", false));
  return out;
}

Result<PlanFile> read_plan_file(const Task& task, Lowered lowered) {
  MILLRACE_ASSIGN(const yaml::Node root, yaml::load(task.options.plan));
  return Reader(task, std::move(lowered)).run(root);
}

}  // namespace millrace::compiler
