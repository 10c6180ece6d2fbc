// The seed of a test that draws random cases.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string_view>

namespace millrace::tests {

/// The seed is the same in every run, so that a failing run is caused by the change under test. MILLRACE_SEED
/// overrides it: with the number that a failed test printed, or with "random" to search further.
inline std::uint32_t chosen_seed(std::uint32_t usual = 1) {
  const char* const given = std::getenv("MILLRACE_SEED");
  if (given == nullptr) return usual;
  if (std::string_view(given) == "random") return std::random_device()();
  return static_cast<std::uint32_t>(std::strtoull(given, nullptr, 10));
}

}  // namespace millrace::tests
