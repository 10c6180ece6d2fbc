#include "compiler/explore/resources.hpp"

#include <algorithm>

namespace millrace::compiler::explore {

const char* kind_name(std::size_t kind) {
  static constexpr const char* kNames[kKinds] = {"LUT",  "LUTRAM",          "FF", "DSP", "BRAM18",
                                                 "URAM", "memory bandwidth"};
  return kind < kKinds ? kNames[kind] : "?";
}

Amounts operator+(const Amounts& a, const Amounts& b) {
  Amounts sum = a;
  return sum += b;
}

Amounts& operator+=(Amounts& a, const Amounts& b) {
  for (std::size_t k = 0; k < kKinds; ++k) a[k] += b[k];
  return a;
}

Amounts& operator-=(Amounts& a, const Amounts& b) {
  for (std::size_t k = 0; k < kKinds; ++k) a[k] -= b[k];
  return a;
}

Amounts less(const Amounts& a, const Amounts& b) {
  Amounts out{};
  for (std::size_t k = 0; k < kKinds; ++k) out[k] = a[k] - std::min(a[k], b[k]);
  return out;
}

bool within(const Amounts& a, const Amounts& b) {
  for (std::size_t k = 0; k < kKinds; ++k)
    if (a[k] > b[k]) return false;
  return true;
}

Amounts amounts(const runtime::plan::Resources& r) {
  return {r.lut, r.lutram, r.ff, r.dsp, 2 * r.bram36, r.uram, 0};
}

runtime::plan::Resources resources(const Amounts& a) {
  return {a[kLut], a[kLutram], a[kFf], a[kDsp], (a[kBram18] + 1) / 2, a[kUram]};
}

}  // namespace millrace::compiler::explore
