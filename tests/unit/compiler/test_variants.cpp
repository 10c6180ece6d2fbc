#include <gtest/gtest.h>

#include "compiler/variants/variants.hpp"

namespace millrace::compiler::variants::test_variants {
namespace {

TEST(Variants, AVariantDominatesAnotherIfItIsBetterInOneFigureAndWorseInNone) {
  const Figures a{1, 1e-6, 1e-5, 0.5};
  EXPECT_FALSE(dominates(a, a));
  EXPECT_TRUE(dominates(a, {1, 2e-6, 1e-5, 0.5}));
  EXPECT_TRUE(dominates(a, {2, 1e-6, 1e-5, 0.6}));
  EXPECT_FALSE(dominates(a, {2, 0.5e-6, 1e-5, 0.5}));
  EXPECT_FALSE(dominates({1, 1e-6, 1e-5, 0.6}, a));
  // If two variants differ in only one figure, the variant with the smaller figure dominates.
  for (double Figures::*figure :
       {&Figures::cards, &Figures::interval_seconds, &Figures::latency_seconds, &Figures::fullest}) {
    Figures worse = a;
    worse.*figure *= 2;
    EXPECT_TRUE(dominates(a, worse));
    EXPECT_FALSE(dominates(worse, a));
    Figures other = worse;  // worse in `figure`, better in another figure
    (figure == &Figures::cards ? other.fullest : other.cards) /= 2;
    EXPECT_FALSE(dominates(a, other));
    EXPECT_FALSE(dominates(other, a));
  }
}

TEST(Variants, ChoosesTheFirstVariantAndOmitsDominatedOrEqualVariants) {
  const std::vector<Figures> all{{2, 2e-6, 1e-5, 0.5},  // dominated by the next, but always chosen
                                 {1, 1e-6, 1e-5, 0.5},
                                 {1, 1e-6, 1e-5, 0.5},  // equal to the variant before
                                 {3, 5e-6, 2e-5, 0.9},  // dominated
                                 {1, 4e-6, 1e-5, 0.1}};
  EXPECT_EQ(choose(all, 8), (std::vector<std::size_t>{0, 1, 4}));
  EXPECT_EQ(choose(all, 1), (std::vector<std::size_t>{0}));
  EXPECT_TRUE(choose({}, 3).empty());
}

TEST(Variants, ChoosesTheMostDifferentVariantsFirst) {
  std::vector<Figures> all;
  for (int i = 0; i <= 8; ++i) all.push_back({1, 1e-6 * (1 << i), 1e-5, 0.8 / (1 << i)});
  EXPECT_EQ(choose(all, 2), (std::vector<std::size_t>{0, 8}));
  EXPECT_EQ(choose(all, 3), (std::vector<std::size_t>{0, 4, 8}));
  EXPECT_EQ(choose(all, 100).size(), 9U);
}

}  // namespace
}  // namespace millrace::compiler::variants::test_variants
