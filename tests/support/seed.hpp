// The seed of a test that draws random cases.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string_view>

namespace millrace::tests {

/// Returns the same seed in every run, so that a new failure is caused by the change under test. The environment
/// variable MILLRACE_SEED replaces the seed by its value, which is a number or "random".
inline std::uint32_t chosen_seed(std::uint32_t usual = 1) {
  const char* const given = std::getenv("MILLRACE_SEED");
  if (given == nullptr) return usual;
  if (std::string_view(given) == "random") return std::random_device()();
  return static_cast<std::uint32_t>(std::strtoull(given, nullptr, 10));
}

}  // namespace millrace::tests
