#include "compiler/planning/plan_file.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "compiler/explore/replicas.hpp"
#include "compiler/planning/split_channels.hpp"
#include "runtime/plan/yaml.hpp"

namespace millrace::compiler {
namespace {

namespace gen = generators;
namespace yaml = runtime::plan::yaml;

constexpr std::uint64_t kSchema = 1;
constexpr std::uint64_t kMostParts = 64;  // of a layer that is split
constexpr std::uint32_t kUnset = std::numeric_limits<std::uint32_t>::max();

template <class Value>
struct Word {
  const char* text;
  Value value;
};
constexpr Word<gen::WindowStyle> kWindows[] = {{"none", gen::WindowStyle::kNone},
                                               {"folded", gen::WindowStyle::kFolded},
                                               {"parallel", gen::WindowStyle::kParallel}};
constexpr Word<gen::Implementation> kGenerators[] = {{"folded", gen::Implementation::kFolded},
                                                     {"unrolled", gen::Implementation::kUnrolled},
                                                     {"plugin", gen::Implementation::kPlugin}};
constexpr Word<gen::Multiplier> kMultipliers[] = {
    {"lut", gen::Multiplier::kSoft}, {"dsp", gen::Multiplier::kDsp}, {"dsp_pair", gen::Multiplier::kDspPair}};
constexpr Word<gen::Placement> kPlacements[] = {{"baked", gen::Placement::kBaked},
                                                {"loaded", gen::Placement::kLoaded},
                                                {"streamed", gen::Placement::kStreamed}};
constexpr Word<gen::TableStyle> kMemories[] = {
    {"auto", gen::TableStyle::kAuto}, {"block", gen::TableStyle::kBlock}, {"logic", gen::TableStyle::kLogic}};

template <class Value, std::size_t N>
std::string word(const Word<Value> (&words)[N], Value value) {
  for (const auto& w : words)
    if (w.value == value) return w.text;
  return "?";
}

template <class Value, std::size_t N>
Status read_word(const yaml::Mapping& map, const char* key, const Word<Value> (&words)[N], Value& out) {
  MILLRACE_ASSIGN(const std::string text, map.text(key, word(words, out)));
  std::string known;
  for (const auto& w : words) {
    if (text == w.text) {
      out = w.value;
      return {};
    }
    known += std::string(known.empty() ? "" : ", ") + w.text;
  }
  return map.error(key, "'" + text + "' is none of " + known);
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
                                               "cards", "replicas"}));
  MILLRACE_ASSIGN(const std::uint64_t schema, map.integer("schema"));
  if (schema != kSchema) return map.error("schema", "this Millrace reads " + std::to_string(kSchema));
  return map;
}

std::uint32_t block_named(const kernels::Program& program, const std::string& name) {
  std::uint32_t block = 0;
  while (block < program.blocks.size() && program.blocks[block].name != name) ++block;
  return block;
}

/// One entry of 'splits'. `done`: blocks that earlier ones split.
Status split(const yaml::Node& node, const std::string& file, std::set<std::string>& done, Plan& plan) {
  MILLRACE_ASSIGN(const auto map, yaml::Mapping::of(node, file, "split", {"block", "parts"}));
  Split wanted;
  MILLRACE_ASSIGN(wanted.block, map.text("block"));
  MILLRACE_ASSIGN(const std::uint64_t parts, map.integer("parts"));
  if (parts < 2 || parts > kMostParts)
    return map.error("parts", "2 to " + std::to_string(kMostParts) + " are allowed");
  wanted.parts = static_cast<std::uint32_t>(parts);
  if (!done.insert(wanted.block).second) return map.error("block", "'" + wanted.block + "' is split twice");
  const std::uint32_t block = block_named(plan.program, wanted.block);
  if (block == plan.program.blocks.size())
    return map.error("block", "the model has no block '" + wanted.block + "'");
  if (!can_split(plan.program, block, wanted.parts))
    return map.error("block", "'" + wanted.block +
                                  "' is no ungrouped convolution or fully connected block whose output "
                                  "channels can be dealt out to " +
                                  std::to_string(wanted.parts));
  plan.program = split_channels(plan.program, block, wanted.parts);
  plan.splits.push_back(std::move(wanted));
  return {};
}

/// 'host'.
Result<std::vector<std::string>> host_blocks(const yaml::Mapping& map, const std::string& file,
                                             const Plan& plan) {
  std::vector<std::string> out;
  MILLRACE_ASSIGN(const auto* nodes, map.sequence("host"));
  for (const auto& node : *nodes) {
    if (node.kind != yaml::Node::Kind::kScalar)
      return yaml::error_at(file, node, "host: names of blocks are expected");
    const std::string& name = node.scalar;
    const auto wrong = [&](const std::string& what) { return yaml::error_at(file, node, "host: " + what); };
    if (block_named(plan.program, name) == plan.program.blocks.size())
      return wrong("the model has no block '" + name + "'" +
                   (std::any_of(plan.splits.begin(), plan.splits.end(),
                                [&](const auto& split) { return split.block == name; })
                        ? ": it is split"
                        : ""));
    if (std::find(out.begin(), out.end(), name) != out.end()) return wrong("'" + name + "' stands twice");
    out.push_back(name);
  }
  return out;
}

class Reader {
 public:
  Reader(std::string file, const gen::Catalog& catalog, Plan& plan, bool may_place)
      : file_(std::move(file)), catalog_(catalog), plan_(plan), may_place_(may_place) {
    const std::size_t count = plan.program.blocks.size();
    choice_.place.assign(count, kUnset);
    choice_.region.assign(count, 0);
    choice_.implementation.assign(count, 0);
  }

  Result<PlanFile> run(const yaml::Node& root) {
    MILLRACE_ASSIGN(const auto map, root_of(root, file_));
    MILLRACE_TRY(check_name(map, "model", plan_.model.name));
    MILLRACE_TRY(check_name(map, "cluster", plan_.cluster.name));
    MILLRACE_TRY(check_assumed(map));
    MILLRACE_ASSIGN(const auto* cards, map.sequence("cards"));
    for (const auto& card : *cards) MILLRACE_TRY(read_card(card));
    for (std::size_t i = 0; i < choice_.place.size(); ++i)
      if (choice_.place[i] == kUnset && !plan_.problem.operations[i].host)
        return map.error("block '" + plan_.program.blocks[i].name + "' stands on no card");
    for (auto& place : choice_.place)
      if (place == kUnset) place = 0;
    PlanFile out;
    MILLRACE_TRY(read_replicas(map, out.copies));
    out.choice = std::move(choice_);
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
    if (assumed == plan_.assumed) return {};
    const std::string given = plan_.assumed.empty() ? "no --assume" : "--assume " + plan_.assumed;
    return map.error("assumed", assumed.empty() ? "is missing: this is no plan of a model with " + given
                                                : "'" + assumed + "' is not what is given: " + given);
  }

  Result<std::uint32_t> card_named(const yaml::Mapping& map, const char* key, const std::string& name) const {
    std::uint32_t card = 0;
    while (card < plan_.problem.cards.size() && plan_.problem.cards[card].name != name) ++card;
    if (card == plan_.problem.cards.size()) return map.error(key, "the cluster has no card '" + name + "'");
    return card;
  }

  Status read_replicas(const yaml::Mapping& map, std::vector<std::vector<std::uint32_t>>& copies) const {
    MILLRACE_ASSIGN(const auto* replicas, map.sequence("replicas"));
    if (replicas->size() >= explore::kMostReplicas)
      return map.error("replicas", "at most " + std::to_string(explore::kMostReplicas - 1) +
                                       " are allowed beside the first one");
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
    if (blocks->empty()) return map.error("card: '" + name + "' holds no blocks; leave it out");
    for (const auto& block : *blocks) MILLRACE_TRY(read_block(block, plan_.problem.cards[card]));
    return {};
  }

  Status read_block(const yaml::Node& node, const explore::Card& card) {
    MILLRACE_ASSIGN(const auto map,
                    yaml::Mapping::of(node, file_, "block",
                                      {"block", "region", "generator", "variant", "pe", "simd", "pixels",
                                       "window", "window_lanes", "multiplier", "weights", "memory"}));
    MILLRACE_ASSIGN(const std::string name, map.text("block"));
    const std::uint32_t block = block_named(plan_.program, name);
    if (block == plan_.program.blocks.size())
      return map.error("block", "the model has no block '" + name + "'");
    if (plan_.problem.operations[block].host) return map.error("block", "'" + name + "' runs on the host");
    if (choice_.place[block] != kUnset) return map.error("block", "'" + name + "' stands twice");
    choice_.place[block] = static_cast<std::uint32_t>(choice_.card.size() - 1);
    MILLRACE_ASSIGN(const std::string region, map.text("region", card.regions.front().name));
    std::uint32_t r = 0;
    while (r < card.regions.size() && card.regions[r].name != region) ++r;
    if (r == card.regions.size())
      return map.error("region", "'" + card.device + "' has no region '" + region + "'");
    choice_.region[block] = r;
    gen::Folding folding;
    folding.weights = plan_.program.blocks[block].placement;
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

  /// The implementation of that folding, asked of the generator where it was not proposed.
  Status choose(const yaml::Mapping& map, std::uint32_t block, const gen::Folding& folding) {
    auto& ways = plan_.problem.operations[block].implementations;
    auto& candidates = plan_.candidates.of_block[block];
    for (std::uint32_t w = 0; w < ways.size(); ++w)
      if (candidates[ways[w].candidate].folding == folding) {
        choice_.implementation[block] = w;
        return {};
      }
    auto candidate = ask(block, folding);
    if (!candidate.ok()) return map.error("block", candidate.error().message());
    MILLRACE_ASSIGN(
        explore::Implementation way,
        implementation(catalog_, plan_.program, plan_.program.blocks[block], *candidate, plan_.ports));
    way.candidate = static_cast<std::uint32_t>(candidates.size());
    candidates.push_back(std::move(*candidate));
    choice_.implementation[block] = static_cast<std::uint32_t>(ways.size());
    ways.push_back(std::move(way));
    return {};
  }

  Result<gen::Candidate> ask(std::uint32_t block, const gen::Folding& folding) const {
    if (!may_place_ || folding.weights == plan_.program.blocks[block].placement) {
      MILLRACE_ASSIGN(const auto generator, gen::Generator::make(plan_.program, block, plan_.plugin.get()));
      return generator->candidate(catalog_, folding);
    }
    MILLRACE_ASSIGN(const auto placed, placed_alone(plan_.program, block, folding.weights));
    MILLRACE_ASSIGN(const auto generator, gen::Generator::make(placed, 0));
    return generator->candidate(catalog_, folding);
  }

  std::string file_;
  const gen::Catalog& catalog_;
  Plan& plan_;
  bool may_place_;  // weights, block by block
  explore::Choice choice_;
};

}  // namespace

std::string plan_file(const Plan& plan) {
  std::string out =
      "# A plan of millrace; edit it and give it back with --plan. Keys: compiler/README.md.\nschema: "
      "1\nmodel: \"" +
      plan.model.name + "\"\n" + (plan.assumed.empty() ? "" : "assumed: \"" + plan.assumed + "\"\n") +
      "cluster: \"" + plan.cluster.name + "\"\n";
  if (!plan.splits.empty()) out += "splits:\n";
  for (const auto& split : plan.splits)
    out += "  - {block: \"" + split.block + "\", parts: " + std::to_string(split.parts) + "}\n";
  if (!plan.host_blocks.empty()) out += "host:\n";
  for (const auto& name : plan.host_blocks) out += "  - \"" + name + "\"\n";
  out += "cards:\n";
  for (std::uint32_t place = 0; place < plan.solution.card.size(); ++place) {
    const auto& card = plan.problem.cards[plan.solution.card[place]];
    out += "  - card: \"" + card.name + "\"\n    blocks:\n";
    for (const auto& part : plan.solution.parts) {
      if (part.host || part.place != place) continue;
      for (const auto i : part.operations) {
        const auto& way = plan.problem.operations[i].implementations[plan.solution.implementation[i]];
        const gen::Folding& f = plan.candidates.of_block[i][way.candidate].folding;
        out +=
            "      - {block: \"" + plan.program.blocks[i].name + "\", region: \"" +
            card.regions[plan.solution.region[i]].name + "\"" +
            (f.implementation == gen::Implementation::kFolded
                 ? ""
                 : ", generator: " + word(kGenerators, f.implementation)) +
            (f.variant.empty() ? "" : ", variant: \"" + f.variant + "\"") + ", pe: " + std::to_string(f.pe) +
            ", simd: " + std::to_string(f.simd) + ", pixels: " + std::to_string(f.pixels) +
            ", window: " + word(kWindows, f.window) + ", window_lanes: " + std::to_string(f.window_lanes) +
            ", multiplier: " + word(kMultipliers, f.multiplier) +
            ", weights: " + word(kPlacements, f.weights) + ", memory: " + word(kMemories, f.memory) + "}\n";
      }
    }
  }
  if (!plan.solution.copies.empty()) out += "replicas:\n";
  for (const auto& copy : plan.solution.copies) {
    std::string names;
    for (const auto card : copy)
      names += (names.empty() ? "\"" : ", \"") + plan.problem.cards[card].name + "\"";
    out += "  - {cards: [" + names + "]}\n";
  }
  return out;
}

Result<std::vector<std::string>> read_plan_changes(const std::filesystem::path& file, Plan& plan) {
  MILLRACE_ASSIGN(const yaml::Node root, yaml::load(file));
  MILLRACE_ASSIGN(const auto map, root_of(root, file.string()));
  MILLRACE_ASSIGN(const auto* splits, map.sequence("splits"));
  std::set<std::string> done;
  for (const auto& node : *splits) MILLRACE_TRY(split(node, file.string(), done, plan));
  return host_blocks(map, file.string(), plan);
}

Result<PlanFile> read_plan_file(const std::filesystem::path& file, const gen::Catalog& catalog, Plan& plan,
                                bool may_place) {
  MILLRACE_ASSIGN(const yaml::Node root, yaml::load(file));
  return Reader(file.string(), catalog, plan, may_place).run(root);
}

}  // namespace millrace::compiler
