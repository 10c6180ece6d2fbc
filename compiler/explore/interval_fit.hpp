// Computes which layers fit on which card at a given interval between frames. Private to this folder.
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

/// Returns for each card the first card with the same clock, regions and cost of a link.
std::vector<std::uint32_t> card_kinds(const Problem& problem);

/// What to assume about layers for which a packing was neither found nor ruled out.
enum class Unknown { kDoesNotFit, kFits };

/// Says for one interval how many consecutive layers, from a given layer on, fit on a card of some kind.
class IntervalFit {
 public:
  IntervalFit(const Board& board, const std::vector<std::uint32_t>& kinds, double seconds);

  double seconds() const { return seconds_; }

  /// Returns the first layer that no longer fits if `card` contains the layers from `begin` on and uses `cables`
  /// cables. Returns `begin` if no layer fits.
  std::size_t farthest(std::uint32_t card, std::uint32_t cables, std::size_t begin, Unknown unknown) {
    return filling(card, cables, begin, unknown).end;
  }

  /// Sets region and implementation of the layers [begin, end). These layers must fit: `end` must not exceed the result
  /// of farthest() with `unknown` = kDoesNotFit.
  void choose(std::uint32_t card, std::uint32_t cables, std::size_t begin, std::size_t end,
              Assignment& assignment);

 private:
  using Options = std::vector<std::vector<Option>>;  // [operation]: its options

  /// Prices of resources and, for each layer, the cost of all layers before it at these prices.
  struct PriceList {
    Prices prices;
    std::vector<double> cost_before;
  };
  /// What is known so far about which layers fit into one budget (a limit for each kind of resource).
  struct PackingCache {
    Amounts budget;
    const Options* options = nullptr;
    std::vector<Choices> choices;  // [operation]: the options that fit into the budget
    std::deque<PriceList> price_lists;
    Figures weights = even_weights();  // where the next search for prices begins
    std::map<std::pair<std::size_t, std::size_t>, Packed> packed;
  };

  /// Consecutive layers in one region of a card: those in [begin, end).
  struct Run {
    PackingCache* cache = nullptr;
    std::uint32_t region = 0;
    std::size_t begin = 0, end = 0;
  };
  struct Filling {
    std::size_t end = 0;    // the first layer that no longer fits the card
    std::vector<Run> runs;  // the layers of each region, as far as they fit
  };

  PackingCache& cache(double clock, const Amounts& budget);
  PackingCache& whole_card_cache(std::uint32_t card, std::uint32_t cables);
  std::uint64_t readable(std::uint32_t card) const;
  /// Returns a region's budget. `memory` is the number of bytes that the region may read from memory for each frame.
  Amounts budget(std::uint32_t card, std::uint32_t cables, std::size_t region, std::uint64_t memory) const;
  /// filling() and fill() fill a card's regions one after another. `growth` says how regions share memory bandwidth.
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
  std::map<double, Options> options_;  // clock in Hz -> options
  std::map<std::pair<double, Amounts>, std::unique_ptr<PackingCache>> caches_;
  bool reads_memory_ = false;
  // The key is the kind of card, the number of cables, the first layer, and the assumption about unknown packings.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::size_t, Unknown>, Filling> fillings_;
};

/// Returns the number of whole clock cycles in `seconds`.
std::uint64_t cycles_in(double seconds, double clock_hz);

}  // namespace millrace::compiler::explore
