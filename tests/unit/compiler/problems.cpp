#include "problems.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace millrace::compiler::explore::tests {

Problem row(const std::vector<std::uint64_t>& work, std::uint32_t cards, std::uint64_t dsp) {
  Problem problem;
  problem.model = "net";
  problem.cluster = "c";
  problem.tensors.push_back({"t0", 100});
  for (std::uint32_t i = 0; i < work.size(); ++i) {
    problem.tensors.push_back({"t" + std::to_string(i + 1), 100});
    Operation operation{"conv" + std::to_string(i), work[i], false, true, {i}, {i + 1}};
    for (std::uint64_t side = 1; side <= work[i]; side *= 2) {
      Implementation way;
      way.name = std::to_string(side) + " side by side";
      way.interval_cycles = work[i] / side;
      way.fill_cycles = way.interval_cycles / 4;
      way.depth_cycles = 10;
      way.amounts[kLut] = 100 + side;
      way.amounts[kDsp] = side;
      operation.implementations.push_back(way);
    }
    problem.operations.push_back(std::move(operation));
  }
  for (std::uint32_t c = 0; c < cards; ++c) {
    Card card{"fpga" + std::to_string(c), "ku060"};
    card.clock_hz = 1e8;
    card.regions = {{"all", {100000, 1000, 100000, dsp, 100, 0, 1'000'000'000}}};
    problem.cards.push_back(card);
    if (c > 0) problem.cables.push_back({c - 1, c, 1.25e9, 5e-7});
  }
  return problem;
}

Solution verified(const Problem& problem, Result<Solution> found) {
  if (!found.ok()) {
    ADD_FAILURE() << found.error().message();
    return {};
  }
  EXPECT_EQ(verify(problem, *found), "");
  return std::move(*found);
}

std::string refusal_of(const Result<Solution>& found, ErrorCode code) {
  if (found.ok()) return "accepted";
  EXPECT_EQ(found.error().code(), code) << found.error().message();
  return found.error().message();
}

void expect(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace millrace::compiler::explore::tests
