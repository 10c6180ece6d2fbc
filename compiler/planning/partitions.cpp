#include "compiler/planning/partitions.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace millrace::compiler {
namespace {

using explore::Part;
using explore::Solution;
using kernels::Block;
using kernels::Program;

std::string partition_name(const Solution& solution, std::size_t part) {
  const auto& parts = solution.parts;
  if (parts[part].host)
    return part == 0 ? "input" : part + 1 == parts.size() ? "output" : "host" + std::to_string(part);
  const auto cards = std::count_if(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(part),
                                   [](const auto& p) { return !p.host; });
  return "part" + std::to_string(cards);
}

std::vector<std::string> names(const Program& program, const std::vector<kernels::TensorIndex>& tensors) {
  std::vector<std::string> out;
  for (const auto t : tensors) out.push_back(program.tensors[t].name);
  return out;
}

/// Between the cards of all places.
generators::Links links(const Solution& solution, const runtime::plan::Cluster& cluster) {
  std::map<std::string, std::uint32_t> place;
  for (std::uint32_t p = 0; p < solution.card.size(); ++p) place[cluster.cards[solution.card[p]].name] = p;
  generators::Links out;
  for (const auto& cable : cluster.cables) {
    const auto a = place.find(cable.a.card), b = place.find(cable.b.card);
    if (a == place.end() || b == place.end()) continue;
    const generators::Link link{cable.gigabits_per_second * 1e9 / 8, cable.latency_ns * 1e-9};
    out.try_emplace({a->second, b->second}, link);
    out.try_emplace({b->second, a->second}, link);
  }
  return out;
}

struct Relay {
  std::uint32_t tensor, place;
};

std::string as_file_name(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
  return out.substr(0, 80);
}

class Insertion {
 public:
  Insertion(Program& program, Solution& solution) : program_(program), solution_(solution) {
    place_.assign(program.blocks.size(), kHost);
    stage_.assign(program.blocks.size(), 0);
    for (const auto& part : solution.parts)
      for (const auto block : part.operations) {
        place_[block] = part.host ? kHost : part.place;
        stage_[block] = part.stage;
      }
    for (std::uint32_t b = 0; b < program.blocks.size(); ++b)
      for (const auto t : program.blocks[b].outputs) maker_[t] = b;
    // A relay stands on each card that a tensor leaves without having been made there. Hops ascend, so the relays of
    // a tensor are in the order of its route.
    for (const auto& hop : solution.hops) {
      from_[{hop.tensor, hop.to}] = hop.from;
      if (place_[maker_.at(hop.tensor)] != hop.from &&
          std::none_of(relays_.begin(), relays_.end(),
                       [&](const Relay& r) { return r.tensor == hop.tensor && r.place == hop.from; }))
        relays_.push_back({hop.tensor, hop.from});
    }
    for (const auto& block : program.blocks) names_.insert(block.name);
    for (const auto& tensor : program.tensors) tensors_.insert(tensor.name);
  }

  void run() {
    if (!relays_.empty()) {
      add_tensors();
      add_blocks();
    }
    solution_.hops.clear();
  }

 private:
  static constexpr std::uint32_t kHost = 0xFFFFFFFFU;

  std::string unique(std::string wanted, std::set<std::string>& taken) {
    while (!taken.insert(wanted).second) wanted += "_";
    return wanted;
  }

  void add_tensors() {
    for (const auto& relay : relays_) {
      kernels::Tensor copy = program_.tensors[relay.tensor];
      copy.name = unique(copy.name + ".relay" + std::to_string(relay.place), tensors_);
      output_[{relay.tensor, relay.place}] = static_cast<std::uint32_t>(program_.tensors.size());
      program_.tensors.push_back(std::move(copy));
    }
  }

  /// The tensor that a place reads: the tensor itself, or the output of the last relay on the route.
  std::uint32_t seen_from(std::uint32_t tensor, std::uint32_t place) const {
    const auto hop = from_.find({tensor, place});
    if (hop == from_.end()) return tensor;
    const auto relayed = output_.find({tensor, hop->second});
    return relayed == output_.end() ? tensor : relayed->second;
  }

  void add_blocks() {
    std::vector<Block> blocks;
    std::vector<std::uint32_t> moved(program_.blocks.size()), implementation, region;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>> added;  // (stage, place)
    for (std::uint32_t b = 0; b < program_.blocks.size(); ++b) {
      moved[b] = static_cast<std::uint32_t>(blocks.size());
      Block block = std::move(program_.blocks[b]);
      const auto outputs = block.outputs;
      if (place_[b] != kHost)
        for (auto& t : block.inputs) t = seen_from(t, place_[b]);
      blocks.push_back(std::move(block));
      implementation.push_back(solution_.implementation[b]);
      region.push_back(solution_.region[b]);
      for (const auto& relay : relays_) {
        if (std::find(outputs.begin(), outputs.end(), relay.tensor) == outputs.end()) continue;
        added[{stage_[b], relay.place}].push_back(static_cast<std::uint32_t>(blocks.size()));
        const auto& tensor = program_.tensors[relay.tensor];
        Block pass;
        pass.name = unique("relay_" + as_file_name(tensor.name) + "_" + std::to_string(relay.place), names_);
        pass.inputs = {seen_from(relay.tensor, relay.place)};
        pass.outputs = {output_.at({relay.tensor, relay.place})};
        pass.operation = kernels::Permute{tensor.shape, {}};
        blocks.push_back(std::move(pass));
        implementation.push_back(0);
        region.push_back(0);
      }
    }
    program_.blocks = std::move(blocks);
    solution_.implementation = std::move(implementation);
    solution_.region = std::move(region);
    for (auto& part : solution_.parts) {
      for (auto& block : part.operations) block = moved[block];
      if (part.host) continue;
      auto& more = added[{part.stage, part.place}];
      part.operations.insert(part.operations.end(), more.begin(), more.end());
      std::sort(part.operations.begin(), part.operations.end());
      more.clear();
    }
    // A relay on a card without blocks of its stage is a part of its own.
    for (auto& [at, relayed] : added) {
      if (relayed.empty()) continue;
      Part part{false, at.second, at.first, relayed};
      const auto behind =
          std::find_if(solution_.parts.begin(), solution_.parts.end(), [&](const Part& other) {
            return std::pair(other.stage, other.place) > std::pair(part.stage, part.place);
          });
      solution_.parts.insert(behind, std::move(part));
    }
  }

  Program& program_;
  Solution& solution_;
  std::vector<std::uint32_t> place_, stage_;  // of a block
  std::map<std::uint32_t, std::uint32_t> maker_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> from_, output_;  // (tensor, place)
  std::vector<Relay> relays_;
  std::set<std::string> names_, tensors_;
};

}  // namespace

std::vector<Program> partition_programs(const Program& program, const Solution& solution) {
  std::vector<Program> programs;
  for (std::size_t i = 0; i < solution.parts.size(); ++i) {
    programs.push_back(kernels::extract(program, solution.parts[i].operations, partition_name(solution, i)));
    // The host computes with the weights that its program holds.
    if (!solution.parts[i].host) continue;
    for (auto& block : programs.back().blocks) block.placement = kernels::Placement::kBaked;
  }
  return programs;
}

std::vector<std::uint32_t> regions_of(const Solution& solution, const Part& part) {
  std::vector<std::uint32_t> regions;
  for (const auto block : part.operations) regions.push_back(solution.region[block]);
  return regions;
}

Result<std::vector<generators::Passage>> passages(const std::vector<Program>& programs,
                                                  const Solution& solution,
                                                  const runtime::plan::Cluster& cluster,
                                                  const Designs& designs,
                                                  const std::vector<double>& host_seconds) {
  std::vector<generators::Stage> stages;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const auto& part = solution.parts[i];
    generators::Stage& stage = stages.emplace_back();
    stage.inputs = names(programs[i], programs[i].inputs);
    stage.outputs = names(programs[i], programs[i].outputs);
    if (part.host) {
      stage.host_seconds = host_seconds.empty() ? 0 : host_seconds[i];
      continue;
    }
    stage.design = &designs.at(programs[i].name);
    stage.clock_hz = cluster.device_of(cluster.cards[solution.card[part.place]]).clock_mhz * 1e6;
    stage.card = part.place;
  }
  return generators::play_first_frame(stages, links(solution, cluster));
}

void insert_relays(Program& program, Solution& solution) {
  Insertion(program, solution).run();
}

}  // namespace millrace::compiler
