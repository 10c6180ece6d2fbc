// Which layers fit which card at one interval. Private to this folder.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "compiler/explore/board.hpp"
#include "compiler/explore/packing.hpp"

namespace millrace::compiler::explore {

/// For each card, the first card that is like it: same clock, regions and cost of a link.
std::vector<std::uint32_t> card_kinds(const Problem& problem);

/// What is assumed of a packing that is neither found nor ruled out.
enum class Unknown { kDoesNotFit, kFits };

/// For one interval: how many layers, from a given one on, fit a card of a kind.
class IntervalFit {
 public:
  IntervalFit(const Board& board, const std::vector<std::uint32_t>& kinds, double seconds);

  double seconds() const { return seconds_; }

  /// The first layer that no longer fits if `card` holds the layers from `begin` on and uses this many cables;
  /// `begin` if not even one fits.
  std::size_t farthest(std::uint32_t card, std::uint32_t cables, std::size_t begin, Unknown unknown) {
    return filling(card, cables, begin, unknown).end;
  }

  /// Sets region and implementation of each layer in [begin, end). `end` is at most farthest() with kImpossible.
  void choose(std::uint32_t card, std::uint32_t cables, std::size_t begin, std::size_t end,
              Assignment& assignment);

 private:
  using Options = std::vector<std::vector<Option>>;  // of each operation

  /// Prices, and the cost of all layers before each layer at these prices.
  struct PriceList {
    Prices prices;
    std::vector<double> cost_before;
  };
  /// Everything known about packing layers into one budget.
  struct PackingCache {
    Amounts budget;
    const Options* options = nullptr;
    std::vector<Choices> choices;  // of each operation
    std::deque<PriceList> price_lists;
    Figures weights = even_weights();  // the price search begins with them
    std::map<std::pair<std::size_t, std::size_t>, Packed> packed;
  };

  /// A run of layers in a region of a card.
  struct Run {
    PackingCache* cache = nullptr;
    std::uint32_t region = 0;
    std::size_t begin = 0, end = 0;
  };
  struct Filling {
    std::size_t end = 0;    // the first layer that no longer fits the card
    std::vector<Run> runs;  // that got the farthest
  };

  PackingCache& cache(double clock, const Amounts& budget);
  PackingCache& whole_card_cache(std::uint32_t card, std::uint32_t cables);
  std::uint64_t readable(std::uint32_t card) const;
  /// `memory`: what the region may read of a frame, in bytes.
  Amounts budget(std::uint32_t card, std::uint32_t cables, std::size_t region, std::uint64_t memory) const;
  /// Fills the card's regions one after another. `growth` says how the memory's bytes are dealt out to them.
  const Filling& filling(std::uint32_t card, std::uint32_t cables, std::size_t begin, Unknown unknown);
  std::vector<Run> fill(std::uint32_t card, std::uint32_t cables, std::size_t begin, Unknown unknown,
                        double growth);
  void add_price_list(PackingCache& cache, const Prices& prices) const;
  std::size_t affordable(const PackingCache& cache, std::size_t begin) const;
  const Packed& packed(PackingCache& cache, std::size_t begin, std::size_t end) const;
  std::size_t extend(PackingCache& cache, std::size_t begin, Unknown unknown) const;

  const Board& board_;
  const std::vector<std::uint32_t>& kinds_;
  double seconds_;
  std::map<double, Options> options_;  // of a clock
  std::map<std::pair<double, Amounts>, std::unique_ptr<PackingCache>> caches_;
  bool reads_memory_ = false;
  // By kind, cables and first layer.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::size_t, Unknown>, Filling> fillings_;
};

/// The whole cycles of a clock in this many seconds.
std::uint64_t cycles_in(double seconds, double clock_hz);

}  // namespace millrace::compiler::explore
