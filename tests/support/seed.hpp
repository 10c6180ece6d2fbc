// The seed of a test that draws its cases.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string_view>

namespace millrace::tests {

/// The same every time, so that a run judges the change it is made for and no other. MILLRACE_SEED gives
/// another: a number, for what a test that failed has printed, or "random", to look further.
inline std::uint32_t chosen_seed(std::uint32_t usual = 1) {
  const char* const given = std::getenv("MILLRACE_SEED");
  if (given == nullptr) return usual;
  if (std::string_view(given) == "random") return std::random_device()();
  return static_cast<std::uint32_t>(std::strtoull(given, nullptr, 10));
}

}  // namespace millrace::tests
