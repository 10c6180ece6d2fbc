#include "compiler/explore/search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "compiler/explore/format.hpp"

namespace millrace::compiler::explore {
namespace {

constexpr std::uint32_t kMostCards = 64;   // most cards of a proposed cluster
constexpr std::uint32_t kMostInACopy = 4;  // most cards of a proposed replica

/// Returns a name for a layer: that of its most expensive operation.
std::string layer_name(const Board& board, std::size_t layer) {
  const auto& operations = board.chain.layers[layer].operations;
  const auto largest = std::max_element(operations.begin(), operations.end(), [&](auto a, auto b) {
    return board.problem.operations[a].cost < board.problem.operations[b].cost;
  });
  return "layer '" + board.problem.operations[*largest].name + "'";
}

Amounts least(const Board& board, std::size_t layer, std::uint64_t cycles) {
  Amounts sum{};
  for (const auto operation : board.chain.layers[layer].operations) {
    Amounts smallest;
    smallest.fill(std::numeric_limits<std::uint64_t>::max());
    for (const auto& way : board.problem.operations[operation].implementations)
      if (way.interval_cycles <= cycles)
        for (std::size_t k = 0; k < kKinds; ++k) smallest[k] = std::min(smallest[k], way.amounts[k]);
    sum += smallest;
  }
  return sum;
}

std::optional<Solution> best_of(const Problem& problem) {
  const Board board(problem);
  return Search(board).run();
}

class Diagnosis {
 public:
  explicit Diagnosis(const Board& board)
      : board_(board), problem_(board.problem), joined_(most_joined(board.problem)) {
    if (problem_.targets.frames_per_second) seconds_ = 1 / *problem_.targets.frames_per_second;
    for (const auto& card : problem_.cards) fastest_hz_ = std::max(fastest_hz_, card.clock_hz);
  }

  Error run() {
    std::string message =
        "model '" + problem_.model + "' on cluster '" + problem_.cluster + "'" + wanted() + ": ";
    message += binding();
    message += nearest_targets();
    message += nearest_cluster();
    return Error(ErrorCode::kDoesNotFit, std::move(message));
  }

 private:
  std::string wanted() const {
    std::string out;
    const auto& targets = problem_.targets;
    if (targets.frames_per_second) out += " at " + number(*targets.frames_per_second) + " frames/s";
    if (targets.max_latency_seconds) out += " within " + time(*targets.max_latency_seconds);
    if (problem_.partitions) out += " in " + plural(*problem_.partitions, "partition");
    return out;
  }

  /// Returns the number of cards over which the model can be distributed.
  std::size_t cards() const {
    return std::min<std::size_t>(problem_.partitions.value_or(static_cast<std::uint32_t>(joined_)), joined_);
  }

  std::string unjoined() const {
    if (!problem_.partitions || *problem_.partitions <= joined_) return {};
    return (joined_ == 1 ? std::string("no two cards are joined by a cable")
                         : "cables join no more than " + std::to_string(joined_) + " of its " +
                               plural(problem_.cards.size(), "card")) +
           ", and each of the " + std::to_string(*problem_.partitions) +
           " partitions needs its own card: "
           "add cables to the cluster file";
  }

  std::string binding() {
    if (auto found = unjoined(); !found.empty()) return found;
    if (auto found = too_slow(); !found.empty()) return found;
    if (auto found = too_large(); !found.empty()) return found;
    if (auto found = too_much(); !found.empty()) return found;
    if (auto found = cable(); !found.empty()) return found;
    if (auto found = latency_bound(); !found.empty()) return found;
    return stopped();
  }

  /// Returns a text about an operation that is too slow in every implementation; empty if there is none.
  std::string too_slow() const {
    std::optional<std::uint32_t> worst;
    std::size_t in = 0;
    std::uint64_t longest = cycles_in(seconds_, fastest_hz_);
    for (std::size_t i = 0; i < board_.chain.size(); ++i)
      for (const auto operation : board_.chain.layers[i].operations) {
        const std::uint64_t quickest = least_interval(problem_.operations[operation]);
        if (quickest > longest) {
          longest = quickest;
          worst = operation;
          in = i;
        }
      }
    if (!worst) return {};
    const std::string layer = layer_name(board_, in), name = "'" + problem_.operations[*worst].name + "'";
    return (layer == "layer " + name ? layer : name + ", in " + layer + ",") + " takes at least " +
           std::to_string(longest) +
           " cycles per frame "
           "with its fastest implementation: " +
           number(fastest_hz_ / static_cast<double>(longest)) + " frames/s at " + number(fastest_hz_ / 1e6) +
           " MHz";
  }

  /// The resource whose need exceeds its budget by the largest factor. The factor is 0 if every budget suffices.
  struct Excess {
    double factor = 0;
    std::size_t kind = 0;
    std::string text;
  };

  static Excess worst_excess(const Amounts& needs, const Figures& rooms) {
    Excess out;
    for (std::size_t k = 0; k < kKinds; ++k) {
      const double need = static_cast<double>(needs[k]), room = rooms[k];
      if (need <= room || need / std::max(1.0, room) <= out.factor) continue;
      out.factor = need / std::max(1.0, room);
      out.kind = k;
      out.text = "at least " + number(need) + (k == kMemoryBytes ? " bytes a frame of " : " ") +
                 kind_name(k) +
                 (room < 1 ? ", and there is none"
                           : ", " + number(need - room) + " (" + number((need / room - 1) * 100) +
                                 " %) more than the " + number(room) + " left");
    }
    return out;
  }

  Figures room_in(const Region& region) const {
    Figures out;
    for (std::size_t k = 0; k < kKinds; ++k) out[k] = static_cast<double>(region.available[k]);
    out[kMemoryBytes] *= std::min(seconds_, 1e3);
    return out;
  }

  /// Returns the budget of a card for one kind of resource. All regions of a card share one memory's bandwidth.
  double room_on(const Card& card, std::size_t kind) const {
    double sum = 0;
    for (const auto& region : card.regions) sum += room_in(region)[kind];
    return kind == kMemoryBytes && !card.regions.empty() ? room_in(card.regions.front())[kind] : sum;
  }

  /// Returns a text about a layer that fits into no region of any card; empty if there is none.
  std::string too_large() const {
    for (std::size_t i = 0; i < board_.chain.size(); ++i) {
      std::optional<Excess> smallest;
      for (const auto& card : problem_.cards)
        for (const auto& region : card.regions) {
          Excess excess = worst_excess(least(board_, i, cycles_in(seconds_, card.clock_hz)), room_in(region));
          if (smallest && excess.factor >= smallest->factor) continue;
          excess.text +=
              " of '" + card.device + "'" + (card.regions.size() > 1 ? " region '" + region.name + "'" : "");
          smallest = std::move(excess);
        }
      if (smallest && smallest->factor > 0) return layer_name(board_, i) + " needs " + smallest->text;
    }
    return {};
  }

  /// Compares the sum of the resources that the layers need with the sum of the resources that the cards have.
  std::string too_much() const {
    std::vector<Amounts> need;
    Amounts sum{};
    for (std::size_t i = 0; i < board_.chain.size(); ++i) {
      need.push_back(least(board_, i, cycles_in(seconds_, fastest_hz_)));
      sum += need.back();
    }
    Figures room{};  // the resources of the largest cards together
    for (std::size_t k = 0; k < kKinds; ++k) {
      std::vector<double> of;
      for (const auto& card : problem_.cards) of.push_back(std::floor(room_on(card, k)));
      std::sort(of.rbegin(), of.rend());
      of.resize(std::min(of.size(), cards()));
      room[k] = std::accumulate(of.begin(), of.end(), 0.0);
    }
    const auto [factor, worst, text] = worst_excess(sum, room);
    if (factor == 0) return {};
    const auto most = [kind = worst](const Amounts& a, const Amounts& b) { return a[kind] < b[kind]; };
    const auto largest = std::max_element(need.begin(), need.end(), most);
    return "all layers together need " + text + " on " + plural(cards(), "card") +
           (joined_ < problem_.cards.size() ? " (no more are joined by cables); " : "; ") +
           layer_name(board_, static_cast<std::size_t>(largest - need.begin())) + " takes most of it, " +
           number(static_cast<double>((*largest)[worst]));
  }

  /// Returns a text about the limiting cable if there is a solution with infinitely fast cables; otherwise empty.
  std::string cable() const {
    if (cards() < 2) return {};
    Problem open = relaxed();
    for (auto& c : open.cables) c.bytes_per_second = std::numeric_limits<double>::infinity();
    const auto found = best_of(open);
    if (!found) return {};
    std::string worst;
    double most = 0;
    for (const auto& [ends, load] : board_.usage(board_.assignment(*found), found->hops).loads) {
      const auto a = found->card[ends.first], b = found->card[ends.second];
      const double share = static_cast<double>(load.all()) / board_.wire(a, b).bytes_per_second / seconds_;
      if (share <= most) continue;
      most = share;
      worst = "the cable between '" + problem_.cards[a].name + "' and '" + problem_.cards[b].name +
              "' would have to carry " + number(static_cast<double>(load.all())) + " bytes a frame, " +
              number((share - 1) * 100) + " % more than it can";
    }
    return most > 1 ? worst : std::string();
  }

  Problem relaxed() const {
    Problem open = problem_;
    open.targets.max_latency_seconds.reset();
    open.targets.objective = Objective::kCards;
    return open;
  }

  std::string latency_bound() {
    if (!problem_.targets.max_latency_seconds) return {};
    Problem open = relaxed();
    open.targets.objective = Objective::kLatency;
    const auto found = best_of(open);
    const double most = *problem_.targets.max_latency_seconds;
    if (!found || found->latency_seconds <= most) return {};
    lowest_latency_ = found;
    return "the least latency found is " + time_up(found->latency_seconds) + ", " +
           number((found->latency_seconds / most - 1) * 100) + " % too long";
  }

  /// Fills cards one after another. Returns the first layer that no longer fits, and the last card that was filled.
  std::pair<std::size_t, std::uint32_t> fill(const Board& board) const {
    const auto kinds = card_kinds(board.problem);
    IntervalFit fit(board, kinds, seconds_);
    const auto count = static_cast<std::uint32_t>(cards());
    std::size_t at = 0;
    std::uint32_t card = 0;
    for (; card < count && at < board.chain.size(); ++card) {
      const std::uint32_t neighbours = (card > 0) + (card + 1 < count);
      at = fit.farthest(card, neighbours, at, Unknown::kDoesNotFit);
    }
    return {at, card - 1};
  }

  /// Returns a text that says before which layer the cards are full, and which resource would have to grow least to
  /// make all layers fit. Called if no single resource rules out all solutions.
  std::string stopped() const {
    const auto [at, card] = fill(board_);
    if (at == board_.chain.size())
      return "the layers fit on consecutive cards, but the cables do not allow these cuts of the model";
    const std::string full = joined_ == problem_.cards.size() ? "the cards are"
                             : joined_ == 1                   ? "a card alone is"
                                            : plural(joined_, "card") + ", as many as cables join, are";
    return full + " full before " + layer_name(board_, at) + ": " + lacking(problem_.cards[card]);
  }

  std::string lacking(const Card& full) const {
    Problem more = problem_;
    const Board board(more);
    const auto fits = [&](const Figures& factors) {
      for (std::size_t c = 0; c < more.cards.size(); ++c)
        for (std::size_t r = 0; r < more.cards[c].regions.size(); ++r)
          for (std::size_t k = 0; k < kKinds; ++k)
            more.cards[c].regions[r].available[k] = static_cast<std::uint64_t>(
                std::floor(static_cast<double>(problem_.cards[c].regions[r].available[k]) * factors[k]));
      return fill(board).first == board.chain.size();
    };
    const auto shortage = find_shortage(fits);
    if (!shortage) return "and not even " + number(kLargestFactor) + " times the resources would do";
    const std::string start =
        "what it has too little of is " + names_of(*shortage) + ", with " + increase_of(*shortage);
    if (shortage->kinds.size() > 1) return start + " of each all layers fit";
    const std::size_t binding = shortage->kinds.front();
    const double room = room_on(full, binding);
    return start + " (" + number(std::ceil(room * shortage->factor)) +
           (binding == kMemoryBytes ? " bytes a frame" : "") + " instead of the " + number(room) +
           " left to '" + full.name + "'" + (cards() > 1 ? ", and so on each card" : "") + ") all layers fit";
  }

  std::string nearest_targets() const {
    std::string out;
    Problem open = relaxed();
    open.targets.frames_per_second.reset();
    open.targets.objective = Objective::kThroughput;
    if (const auto found = best_of(open)) {
      const std::string rate = rate_down(1 / found->interval_seconds);
      out += "; this cluster reaches " + rate + " frames/s on " + plural(found->card.size(), "card");
      if (!problem_.targets.max_latency_seconds) return out;
      out += " in " + time_up(found->latency_seconds);
      if (lowest_latency_ && lowest_latency_->latency_seconds < found->latency_seconds) {
        const std::string slower = rate_down(1 / lowest_latency_->interval_seconds);
        out += ", or " + slower + " in " + time_up(lowest_latency_->latency_seconds);
      }
      return out;
    }
    if (!unjoined().empty()) return reached_alone(open);
    return "; unless layers are split, the model does not fit at any frame rate";
  }

  /// Reports the rate that the cluster reaches without --partitions. Called if cables join fewer cards than asked for.
  std::string reached_alone(Problem open) const {
    open.partitions.reset();
    const auto found = best_of(open);
    return found ? "; without --partitions this cluster reaches " + rate_down(1 / found->interval_seconds) +
                       " frames/s on " + plural(found->card.size(), "card")
                 : "; even without --partitions, the model does not fit unless layers are split";
  }

  /// Returns the problem of running the same model on `cards` cards of one kind, each joined to the next by a cable.
  Problem in_a_row(const Card& card, std::uint32_t cards, Cable cable) const {
    Problem row = problem_;
    row.targets.objective = Objective::kCards;
    row.cards.assign(cards, card);
    row.cables.clear();
    for (std::uint32_t i = 1; i < cards; ++i) {
      cable.a = i - 1;
      cable.b = i;
      row.cables.push_back(cable);
    }
    return row;
  }

  /// Returns the largest number of cards to propose. More cards do not help against a missed latency target, because
  /// each card adds the latency of a cable.
  std::uint32_t most_cards() const {
    const auto layers = static_cast<std::uint32_t>(board_.chain.size());
    return std::min(lowest_latency_ ? kMostInACopy : kMostCards, layers);
  }

  /// Returns the smallest number of cards on which one pipeline meets the targets (0 if none), and a phrase about it.
  std::pair<std::uint32_t, std::string> fewest_in_a_row(const Card& card, const Cable& cable) const {
    for (std::uint32_t n = 1; n <= most_cards(); n = n < 16 ? n + 1 : n + n / 4) {
      const Problem row = in_a_row(card, n, cable);
      const Board board(row);
      const auto found =
          Search(board).feasible(n, std::min(seconds_, 1e6), problem_.targets.max_latency_seconds);
      if (!found) continue;
      std::string out = plural(n, "card") + " of '" + card.device + "' in a row";
      if (std::isfinite(cable.bytes_per_second) || !problem_.targets.frames_per_second) return {n, out};
      std::uint64_t most = 0;
      for (const auto& [ends, load] : board.usage(board.assignment(*found), found->hops).loads)
        most = std::max(most, load.all());
      const double gigabits = static_cast<double>(most) / seconds_ * 8e-9;
      return {n, out + " with cables of " + (gigabits < 0.1 ? "less than 0.1" : number(gigabits)) + " Gb/s"};
    }
    return {0, {}};
  }

  /// Returns the smallest number of cards on which copies of a pipeline, on a few cards each, meet the targets.
  std::pair<std::uint32_t, std::string> fewest_as_copies(const Card& card, const Cable& cable) const {
    if (!problem_.targets.frames_per_second) return {0, {}};
    std::uint32_t fewest = 0, each = 0;
    for (std::uint32_t n = 1; n <= kMostInACopy && n <= board_.chain.size(); ++n) {
      Problem row = in_a_row(card, n, cable);
      row.targets.frames_per_second.reset();
      const Board board(row);
      const auto found = Search(board).shortest(n, 1e6);
      if (!found) continue;
      const double copies = std::ceil(found->interval_seconds / seconds_ / (1 + 1e-9));
      if (copies * n > kMostCards || (fewest != 0 && copies * n >= fewest)) continue;
      fewest = static_cast<std::uint32_t>(copies) * n;
      each = n;
    }
    if (fewest == 0 || fewest == each) return {0, {}};
    return {fewest, plural(fewest, "card") + " of '" + card.device + "' as " +
                        plural(fewest / each, "replica") + (each == 1 ? "" : " of " + plural(each, "card"))};
  }

  /// Returns a phrase with the smallest number of cards of one kind that meet the targets.
  std::string fewest(const Card& card, const Cable& cable) const {
    auto row = fewest_in_a_row(card, cable);
    auto copies = fewest_as_copies(card, cable);
    return row.first == 0 || (copies.first != 0 && copies.first < row.first) ? copies.second : row.second;
  }

  /// Names for each device the smallest number of cards that meet the targets, with faster cables if necessary.
  std::string nearest_cluster() const {
    if (problem_.partitions) return "; choose another number with --partitions, or leave the option out";
    Cable cable;
    if (!problem_.cables.empty()) cable = problem_.cables.front();
    Cable endless = cable;
    endless.bytes_per_second = std::numeric_limits<double>::infinity();
    std::string out;
    std::vector<std::string> seen;
    for (const auto& card : problem_.cards) {
      if (std::find(seen.begin(), seen.end(), card.device) != seen.end()) continue;
      seen.push_back(card.device);
      std::string one = fewest(card, cable);
      if (one.empty() && !problem_.cables.empty()) one = fewest(card, endless);
      if (!one.empty()) out += (out.empty() ? "; it would fit on " : ", or on ") + one;
    }
    if (!out.empty()) return out;
    out = "; with layers unsplit, no row of up to " + std::to_string(most_cards()) +
          " cards of its kinds would do";
    return problem_.targets.frames_per_second
               ? out + ", nor up to " + std::to_string(kMostCards) + " in replicas"
               : out;
  }

  const Board& board_;
  const Problem& problem_;
  double seconds_ = 1e6, fastest_hz_ = 0;
  std::optional<Solution> lowest_latency_;  // set if the latency target is missed
  std::size_t joined_;                      // number of cards in the largest group that cables join
};

}  // namespace

Error diagnose(const Board& board) {
  return Diagnosis(board).run();
}

}  // namespace millrace::compiler::explore
