#include "compiler/explore/levels.hpp"

#include <algorithm>
#include <cmath>

namespace millrace::compiler::explore {
namespace {

constexpr std::size_t kFewOperations = 24;  // for more of them not every way to build each is looked at

}  // namespace

std::uint64_t cycles_in(double seconds, double clock_hz) {
  // The seconds were a number of cycles by some clock: a hair above makes up for the division.
  const double cycles = seconds * clock_hz * (1 + 1e-12) + 1e-6;
  return cycles >= 1e18 ? std::uint64_t{1'000'000'000'000'000'000} : static_cast<std::uint64_t>(cycles);
}

std::vector<std::uint32_t> card_kinds(const Problem& problem) {
  std::vector<std::uint32_t> kinds;
  const auto alike = [](const Card& a, const Card& b) {
    return a.clock_hz == b.clock_hz && a.link == b.link &&
           std::equal(a.regions.begin(), a.regions.end(), b.regions.begin(), b.regions.end(),
                      [](const Region& x, const Region& y) { return x.available == y.available; });
  };
  for (std::uint32_t c = 0; c < problem.cards.size(); ++c) {
    std::uint32_t kind = 0;
    while (kind < c && !alike(problem.cards[kind], problem.cards[c])) ++kind;
    kinds.push_back(kind);  // named after its first card
  }
  return kinds;
}

Level::Level(const Board& board, const std::vector<std::uint32_t>& kinds, double seconds, bool optimistic)
    : board_(board), kinds_(kinds), seconds_(seconds), optimistic_(optimistic) {
  std::map<double, std::uint32_t> of_clock;  // options depend on the clock only
  for (const auto kind : kinds_) {
    if (options_.contains(kind)) continue;
    const double clock = board_.problem.cards[kind].clock_hz;
    if (const auto known = of_clock.find(clock); known != of_clock.end()) {
      options_[kind] = options_.at(known->second);
      continue;
    }
    of_clock[clock] = kind;
    auto& options = options_[kind];
    options.resize(board_.problem.operations.size());
    const std::uint64_t cycles = cycles_in(seconds, clock);
    for (std::size_t i = 0; i < options.size(); ++i)
      if (board_.chain.layer_of[i] != board_.chain.size())
        options[i] = options_within(board_.problem.operations[i], cycles);
    if (options.size() <= kFewOperations) continue;
    for (auto& of_one : options)
      if (thin(of_one, board_.problem.cards[kind].regions.front().available)) thinned_ = true;
  }
}

bool Level::quick_enough(std::uint32_t card) const {
  const auto& options = options_.at(kinds_[card]);
  for (std::size_t i = 0; i < options.size(); ++i)
    if (board_.chain.layer_of[i] != board_.chain.size() && options[i].empty()) return false;
  return true;
}

Amounts Level::budget(std::uint32_t card, std::uint32_t cables, std::size_t region) const {
  const Card& on = board_.problem.cards[card];
  Amounts out = on.regions[region].available;
  if (region == 0)
    for (std::uint32_t n = 0; n < cables; ++n) out = less(out, on.link);
  const double bytes = static_cast<double>(out[kMemoryBytes]) * seconds_ * (1 + 1e-12);
  out[kMemoryBytes] =
      bytes >= 1e18 ? std::uint64_t{1'000'000'000'000'000'000} : static_cast<std::uint64_t>(bytes);
  return out;
}

std::vector<const std::vector<Option>*> Level::between(const Options& options, std::size_t begin,
                                                       std::size_t end) const {
  std::vector<const std::vector<Option>*> out;
  for (std::size_t layer = begin; layer < end; ++layer)
    for (const auto operation : board_.chain.layers[layer].operations) out.push_back(&options[operation]);
  return out;
}

std::size_t Level::extend(const Options& options, const Amounts& budget, std::size_t begin) const {
  const auto fits = [&](std::size_t end) {
    const Fit fit = pack(between(options, begin, end), budget, thinned_).fit;
    return fit == Fit::kYes || (optimistic_ && fit == Fit::kUnknown);
  };
  // What fits is still fitting with a layer less: doubled steps, then halved.
  std::size_t good = begin, step = 1;
  const std::size_t count = board_.chain.size();
  while (good < count && fits(std::min(good + step, count))) {
    good = std::min(good + step, count);
    step *= 2;
  }
  if (good == count) return good;
  std::size_t bad = std::min(good + step, count);
  while (bad - good > 1) {
    const std::size_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

std::size_t Level::farthest(std::uint32_t card, std::uint32_t cables, std::size_t begin) {
  const auto key = std::tuple(kinds_[card], cables, begin);
  if (const auto known = farthest_.find(key); known != farthest_.end()) return known->second;
  const Card& on = board_.problem.cards[card];
  std::size_t at = begin;
  for (std::size_t r = 0; r < on.regions.size() && at < board_.chain.size(); ++r)
    at = extend(options_.at(kinds_[card]), budget(card, cables, r), at);
  farthest_[key] = at;
  return at;
}

void Level::choose(std::uint32_t card, std::uint32_t cables, std::size_t begin, std::size_t end,
                   Assignment& assignment) {
  const auto& options = options_.at(kinds_[card]);
  const Card& on = board_.problem.cards[card];
  std::size_t at = begin;
  for (std::uint32_t r = 0; r < on.regions.size() && at < end; ++r) {
    const std::size_t to = std::min(end, extend(options, budget(card, cables, r), at));
    const Packed packed = pack(between(options, at, to), budget(card, cables, r));
    std::size_t n = 0;
    for (std::size_t layer = at; layer < to; ++layer) {
      assignment.region[layer] = r;
      for (const auto operation : board_.chain.layers[layer].operations) {
        // A choice that is not there was not found; it is only asked for where one was.
        if (n < packed.choice.size())
          assignment.implementation[operation] = options[operation][packed.choice[n]].implementation;
        ++n;
      }
    }
    at = to;
  }
}

}  // namespace millrace::compiler::explore
