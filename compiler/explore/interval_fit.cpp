#include "compiler/explore/interval_fit.hpp"

#include <algorithm>
#include <limits>

namespace millrace::compiler::explore {
namespace {

constexpr std::size_t kMostPriceLists = 32;  // most price lists in a cache; the oldest are dropped
constexpr double kFitSlack = 1e-9;           // a cost above 1 by less than this may still fit
constexpr double kTooMuch = 2;               // the cost of an operation that does not fit even alone
// Factors by which a card's memory bandwidth is divided among its regions: each region's share is this factor times the
// share of the region before. With 0 the first region takes all it can use; with 1 all regions get the same share.
constexpr double kGrowths[] = {0, 1, 4, 64};

}  // namespace

std::uint64_t cycles_in(double seconds, double clock_hz) {
  // `seconds` was computed as a number of cycles divided by a clock. A small margin compensates for rounding.
  const double cycles = seconds * clock_hz * (1 + 1e-12) + 1e-6;
  return cycles >= 1e18 ? std::uint64_t{1'000'000'000'000'000'000} : static_cast<std::uint64_t>(cycles);
}

std::vector<std::uint32_t> card_kinds(const Problem& problem) {
  std::vector<std::uint32_t> kinds;
  for (std::uint32_t c = 0; c < problem.cards.size(); ++c) {
    std::uint32_t kind = 0;
    while (!alike(problem.cards[kind], problem.cards[c])) ++kind;
    kinds.push_back(kind);  // the index of the first card of this kind
  }
  return kinds;
}

IntervalFit::IntervalFit(const Board& board, const std::vector<std::uint32_t>& kinds, double seconds)
    : board_(board), kinds_(kinds), seconds_(seconds) {
  for (const auto kind : kinds_) {
    const double clock = board_.problem.cards[kind].clock_hz;
    if (options_.contains(clock)) continue;
    auto& options = options_[clock];
    options.resize(board_.problem.operations.size());
    const std::uint64_t cycles = cycles_in(seconds, clock);
    for (std::size_t i = 0; i < options.size(); ++i)
      if (board_.chain.layer_of[i] != board_.chain.size())
        options[i] = options_within(board_.problem.operations[i], cycles);
  }
  for (const auto& [clock, options] : options_)
    for (const auto& ways : options)
      for (const auto& way : ways) reads_memory_ = reads_memory_ || way.amounts[kMemoryBytes] > 0;
}

Amounts IntervalFit::budget(std::uint32_t card, std::uint32_t cables, std::size_t region,
                            std::uint64_t memory) const {
  const Card& on = board_.problem.cards[card];
  Amounts out = on.regions[region].available;
  if (region == 0)
    for (std::uint32_t n = 0; n < cables; ++n) out = less(out, on.link);
  out[kMemoryBytes] = memory;
  return out;
}

/// Returns the known packings into a budget that is the sum of a card's regions. Layers that exceed this budget do not
/// fit on the card.
IntervalFit::PackingCache& IntervalFit::whole_card_cache(std::uint32_t card, std::uint32_t cables) {
  Amounts all{};
  for (std::size_t r = 0; r < board_.problem.cards[card].regions.size(); ++r)
    all += budget(card, cables, r, 0);
  all[kMemoryBytes] = readable(card);
  return cache(board_.problem.cards[card].clock_hz, all);
}

/// Returns the number of bytes that a card can read from its memory in one interval.
std::uint64_t IntervalFit::readable(std::uint32_t card) const {
  const double rate = static_cast<double>(board_.problem.cards[card].regions.front().available[kMemoryBytes]);
  const double bytes = rate * seconds_ * (1 + 1e-12);
  return bytes >= 1e18 ? std::uint64_t{1'000'000'000'000'000'000} : static_cast<std::uint64_t>(bytes);
}

IntervalFit::PackingCache& IntervalFit::cache(double clock, const Amounts& budget) {
  auto& made = caches_[{clock, budget}];
  if (made == nullptr) {
    made = std::make_unique<PackingCache>();
    made->budget = budget;
    made->options = &options_.at(clock);
    for (const auto& options : *made->options) made->choices.push_back(choices(options, budget));
    for (std::size_t k = 0; k < kKinds; ++k) {
      Prices one{};
      if (budget[k] > 0) one[k] = 1 / static_cast<double>(budget[k]);
      add_price_list(*made, one);
    }
  }
  return *made;
}

void IntervalFit::add_price_list(PackingCache& cache, const Prices& prices) const {
  PriceList price_list{prices, {0}};
  for (const auto& layer : board_.chain.layers) {
    double cost = 0;
    for (const auto operation : layer.operations) {
      double least = std::numeric_limits<double>::infinity();
      for (const auto n : cache.choices[operation].fitting)
        least = std::min(least, price((*cache.options)[operation][n].figures, prices));
      cost += std::min(least, kTooMuch);
    }
    price_list.cost_before.push_back(price_list.cost_before.back() + cost);
  }
  if (cache.price_lists.size() == kMostPriceLists)
    cache.price_lists.erase(cache.price_lists.begin() + kKinds);
  cache.price_lists.push_back(std::move(price_list));
}

/// Returns the largest `end` for which the layers [begin, end) may fit: no known list of resource prices
/// proves that they do not.
std::size_t IntervalFit::affordable(const PackingCache& cache, std::size_t begin) const {
  std::size_t end = board_.chain.size();
  for (const auto& price_list : cache.price_lists) {
    const auto& before = price_list.cost_before;
    const double most = before[begin] + 1 + kFitSlack;
    if (before[end] <= most) continue;
    const auto from = before.begin() + static_cast<std::ptrdiff_t>(begin);
    end = static_cast<std::size_t>(
        std::upper_bound(from, before.begin() + static_cast<std::ptrdiff_t>(end), most) - before.begin() - 1);
  }
  return end;
}

const Packed& IntervalFit::packed(PackingCache& cache, std::size_t begin, std::size_t end) const {
  const auto [at, added] = cache.packed.try_emplace({begin, end});
  if (!added) return at->second;
  std::vector<const Choices*> operations;
  for (std::size_t layer = begin; layer < end; ++layer)
    for (const auto operation : board_.chain.layers[layer].operations)
      operations.push_back(&cache.choices[operation]);
  at->second = pack(operations, cache.budget, cache.weights);
  if (at->second.proof) add_price_list(cache, *at->second.proof);
  return at->second;
}

std::size_t IntervalFit::extend(PackingCache& cache, std::size_t begin, Unknown unknown) const {
  for (std::size_t end = affordable(cache, begin); end > begin;
       end = std::min(end - 1, affordable(cache, begin))) {
    const Fit fit = packed(cache, begin, end).fit;
    if (fit == Fit::kYes || (fit == Fit::kUnknown && unknown == Unknown::kFits)) return end;
  }
  return begin;
}

std::vector<IntervalFit::Run> IntervalFit::fill(std::uint32_t card, std::uint32_t cables, std::size_t begin,
                                                Unknown unknown, double growth) {
  const auto& regions = board_.problem.cards[card].regions;
  std::uint64_t left = readable(card);
  std::vector<Run> runs;
  for (std::uint32_t r = 0; r < regions.size() && begin < board_.chain.size(); ++r) {
    double shares = 1, share = 1;  // this region has share 1; `shares` is the sum up to the last region
    for (std::size_t later = r + 1; later < regions.size(); ++later) shares += share *= growth;
    const std::uint64_t memory =
        shares == 1 ? left : static_cast<std::uint64_t>(static_cast<double>(left) / shares);
    PackingCache& into = cache(board_.problem.cards[card].clock_hz, budget(card, cables, r, memory));
    const std::size_t end = extend(into, begin, unknown);
    if (end == begin) continue;
    if (unknown == Unknown::kDoesNotFit) left -= packed(into, begin, end).used[kMemoryBytes];
    runs.push_back({&into, r, begin, end});
    begin = end;
  }
  return runs;
}

const IntervalFit::Filling& IntervalFit::filling(std::uint32_t card, std::uint32_t cables, std::size_t begin,
                                                 Unknown unknown) {
  const auto [known, added] = fillings_.try_emplace({kinds_[card], cables, begin, unknown});
  Filling& out = known->second;
  if (!added) return out;
  out.end = begin;
  const bool shared = reads_memory_ && board_.problem.cards[card].regions.size() > 1;
  for (const double growth : kGrowths) {
    auto runs = fill(card, cables, begin, unknown, growth);
    if (!runs.empty() && runs.back().end > out.end) out = {runs.back().end, std::move(runs)};
    if (!shared || unknown == Unknown::kFits || out.end == board_.chain.size()) break;
  }
  // With Unknown::kFits, fill() let each region use the memory's whole bandwidth, so `end` is only an upper bound.
  // Lower this bound: the regions of the card together must not need more than the memory's bandwidth.
  if (unknown == Unknown::kFits && shared)
    out.end = std::min(out.end, extend(whole_card_cache(card, cables), begin, unknown));
  return out;
}

void IntervalFit::choose(std::uint32_t card, std::uint32_t cables, std::size_t begin, std::size_t end,
                         Assignment& assignment) {
  for (const auto& run : filling(card, cables, begin, Unknown::kDoesNotFit).runs) {
    if (run.begin >= end) return;
    // A run (consecutive layers in one region) may extend beyond `end`. In that case, use only the choices
    // that the run makes for layers before `end`.
    const Packed& found = packed(*run.cache, run.begin, run.end);
    std::size_t n = 0;
    for (std::size_t layer = run.begin; layer < std::min(run.end, end); ++layer) {
      assignment.region[layer] = run.region;
      for (const auto operation : board_.chain.layers[layer].operations)
        assignment.implementation[operation] =
            (*run.cache->options)[operation][found.choice[n++]].implementation;
    }
  }
}

}  // namespace millrace::compiler::explore
