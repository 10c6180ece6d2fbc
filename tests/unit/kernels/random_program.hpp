// Makes random but valid programs and frames, with every kind of block, type, shape and requantisation.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/program/program.hpp"
#include "kernels/reference/reference.hpp"

namespace millrace::tests {

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : engine_(seed) {}
  std::int64_t between(std::int64_t lowest, std::int64_t highest) {
    return std::uniform_int_distribution<std::int64_t>(lowest, highest)(engine_);
  }
  bool one_in(int n) { return between(1, n) == 1; }
  template <class T>
  T of(std::initializer_list<T> choices) {
    return choices.begin()[between(0, static_cast<std::int64_t>(choices.size()) - 1)];
  }

 private:
  std::mt19937_64 engine_;
};

/// Returns a random chain of up to `blocks` blocks with an occasional branch. validate() accepts the program.
kernels::Program random_program(Chance& chance, int blocks);

/// Returns random data for each input of the program. Every element is a valid value of the input's type.
std::vector<kernels::reference::Buffer> random_inputs(Chance& chance, const kernels::Program& program);

/// Returns the seeds of a property test: only the environment variable MILLRACE_SEED if it is set, otherwise `count`
/// seeds that are the same in every run.
std::vector<std::uint64_t> seeds(std::uint64_t count);

/// Describes the program in a few words, for a failing test's message.
std::string outline(const kernels::Program& program);

}  // namespace millrace::tests
