#include "tests/shortcuts/foldings.hpp"

#include <algorithm>
#include <memory>
#include <optional>

namespace millrace::tests {
namespace {

using namespace compiler::generators;
using runtime::plan::Resources;

constexpr std::uint64_t kEdgeDepth = 32;  // the assumed depth of a FIFO before its depth is known

constexpr double kLatencyShare = 1.02;  // a shorter latency may raise a design's price by 2 %

struct Need {
  const char* name;
  std::uint64_t Resources::*field;
};
constexpr Need kNeeds[] = {{"LUTs", &Resources::lut},          {"LUTs as memory", &Resources::lutram},
                           {"flip-flops", &Resources::ff},     {"DSP slices", &Resources::dsp},
                           {"block RAMs", &Resources::bram36}, {"URAMs", &Resources::uram}};

struct Choice {
  std::vector<Candidate> blocks;
  Cost cost;
};

class Chooser {
 public:
  Chooser(const Catalog& catalog, const kernels::Program& program, const FoldingOptions& options)
      : catalog_(catalog), program_(program), options_(options) {}

  Result<std::vector<Folding>> run() {
    std::vector<std::uint64_t> intervals;
    for (std::uint32_t b = 0; b < program_.blocks.size(); ++b) {
      MILLRACE_ASSIGN(auto generator, Generator::make(program_, b));
      const auto its = generator->intervals();
      intervals.insert(intervals.end(), its.begin(), its.end());
      generators_.push_back(std::move(generator));
    }
    if (generators_.empty()) return std::vector<Folding>{};
    std::sort(intervals.begin(), intervals.end());
    intervals.erase(std::unique(intervals.begin(), intervals.end()), intervals.end());
    // Search for the shortest interval, but none below the target, whose hardware fits the budget. The
    // hardware gets cheaper as the interval grows.
    if (options_.target_interval != 0)
      intervals.erase(std::remove_if(intervals.begin(), intervals.end(),
                                     [&](auto i) { return i < options_.target_interval; }),
                      intervals.end());
    if (options_.target_interval != 0) intervals.insert(intervals.begin(), options_.target_interval);
    std::size_t low = 0, high = intervals.size();  // intervals before index `low` do not fit
    std::optional<Choice> best;
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      MILLRACE_ASSIGN(auto choice, choose_for(intervals[middle]));
      if (choice && short_of(choice->cost).first == nullptr) {
        best = std::move(choice);
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    if (!best) return does_not_fit(intervals.back());
    MILLRACE_TRY(shorten(*best));
    std::vector<Folding> foldings;
    for (const auto& candidate : best->blocks) foldings.push_back(candidate.folding);
    return foldings;
  }

 private:
  /// Returns the resource whose budget `cost` exceeds most, and by how much. Returns nullptr if the cost fits.
  std::pair<const Need*, std::uint64_t> short_of(const Cost& cost) const {
    const Resources has = options_.budget, needs = cost.resources();
    std::pair<const Need*, std::uint64_t> worst{nullptr, 0};
    for (const auto& need : kNeeds)
      if (needs.*need.field > has.*need.field && needs.*need.field - has.*need.field > worst.second)
        worst = {&need, needs.*need.field - has.*need.field};
    return worst;
  }

  /// Returns a number by which costs are compared. It grows with the share of the budget that `cost` uses of each
  /// resource, and most of all with the largest of these shares.
  double price(const Cost& cost) const {
    const Resources needs = cost.resources();
    double most = 0, sum = 0;
    for (const auto& need : kNeeds) {
      const double part = static_cast<double>(needs.*need.field) /
                          std::max(1.0, static_cast<double>(options_.budget.*need.field));
      most = std::max(most, part);
      sum += part;
    }
    return most + 0.2 * sum;
  }

  Result<std::optional<Choice>> choose_for(std::uint64_t interval) const {
    Choice choice;
    for (const auto& generator : generators_) {
      std::optional<Candidate> cheapest;
      for (const auto& folding : generator->foldings(interval)) {
        MILLRACE_ASSIGN(Candidate candidate, generator->candidate(catalog_, folding));
        if (candidate.interval_cycles > interval) continue;
        if (!cheapest || price(candidate.cost) < price(cheapest->cost)) cheapest = std::move(candidate);
      }
      if (!cheapest) return std::optional<Choice>{};
      choice.cost += cheapest->cost;
      choice.blocks.push_back(std::move(*cheapest));
    }
    MILLRACE_TRY(add_edges(choice));
    return std::optional(std::move(choice));
  }

  /// Shortens the latency: spends a little more on blocks that need long after their last input has arrived. Often
  /// these are the cheap blocks at the end of the model.
  Status shorten(Choice& choice) const {
    const double most = price(choice.cost) * kLatencyShare;
    while (true) {
      double best_gain = 0;
      std::size_t at = 0;
      std::optional<Candidate> better;
      for (std::size_t b = 0; b < generators_.size(); ++b) {
        const Candidate& now = choice.blocks[b];
        for (std::uint64_t part = 2; part <= 64; part *= 2)
          for (const auto& folding : generators_[b]->foldings(now.interval_cycles / part)) {
            MILLRACE_ASSIGN(Candidate other, generators_[b]->candidate(catalog_, folding));
            if (other.tail_cycles >= now.tail_cycles) continue;
            const double dearer =
                std::max(1e-9, price(with(choice.cost, now.cost, other.cost)) - price(choice.cost));
            const double gain = static_cast<double>(now.tail_cycles - other.tail_cycles) / dearer;
            const Cost cost = with(choice.cost, now.cost, other.cost);
            if (gain <= best_gain || price(cost) > most || short_of(cost).first != nullptr) continue;
            best_gain = gain;
            at = b;
            better = std::move(other);
          }
      }
      if (!better) return {};
      choice.cost = with(choice.cost, choice.blocks[at].cost, better->cost);
      choice.blocks[at] = std::move(*better);
    }
  }

  /// Returns `sum` - `without` + `instead`.
  static Cost with(Cost sum, const Cost& without, const Cost& instead) {
    for (const auto field :
         {&Cost::lut, &Cost::lutram, &Cost::ff, &Cost::dsp, &Cost::ramb18, &Cost::ramb36, &Cost::uram})
      sum.*field = sum.*field - without.*field + instead.*field;
    return sum;
  }

  Status add_edges(Choice& choice) const {
    for (std::size_t b = 0; b < program_.blocks.size(); ++b)
      for (std::size_t i = 0; i < program_.blocks[b].inputs.size(); ++i) {
        const auto tensor = program_.blocks[b].inputs[i];
        const std::uint32_t to = choice.blocks[b].input_lanes[i];
        std::uint32_t from = to;
        for (std::size_t p = 0; p < b; ++p)
          if (program_.blocks[p].outputs.front() == tensor) from = choice.blocks[p].output_lanes.front();
        MILLRACE_ASSIGN(const Cost edge,
                        edge_cost(catalog_, from, to, program_.tensors[tensor].type.bits, kEdgeDepth));
        choice.cost += edge;
      }
    return {};
  }

  Result<std::vector<Folding>> does_not_fit(std::uint64_t interval) const {
    MILLRACE_ASSIGN(const auto choice, choose_for(interval));
    if (!choice)
      return Error(ErrorCode::kDoesNotFit, "'" + program_.name + "': no folding makes a frame in " +
                                               std::to_string(interval) + " cycles; ask for less");
    const auto [need, excess] = short_of(choice->cost);
    if (need == nullptr)
      return Error(ErrorCode::kInternal, "'" + program_.name + "': a choice that fits was passed over");
    std::size_t largest = 0;
    for (std::size_t b = 1; b < choice->blocks.size(); ++b)
      if (choice->blocks[b].cost.resources().*need->field >
          choice->blocks[largest].cost.resources().*need->field)
        largest = b;
    return Error(ErrorCode::kDoesNotFit,
                 "'" + program_.name + "' takes " + std::to_string(excess) + " " + need->name +
                     " more than the " + std::to_string(options_.budget.*need->field) +
                     " there are, even at a frame in " + std::to_string(interval) + " cycles; block '" +
                     program_.blocks[largest].name + "' takes most; use more cards or a larger one");
  }

  const Catalog& catalog_;
  const kernels::Program& program_;
  const FoldingOptions& options_;
  std::vector<std::unique_ptr<Generator>> generators_;
};

}  // namespace

Result<std::vector<Folding>> choose_foldings(const Catalog& catalog, const kernels::Program& program,
                                             const FoldingOptions& options) {
  return Chooser(catalog, program, options).run();
}

}  // namespace millrace::tests
