// The levels of instructions, and which of them this CPU has.
#include <cstdlib>

#include "kernels/fast/plan.hpp"

namespace millrace::kernels::fast {

std::string_view to_string(SimdLevel level) {
  switch (level) {
    case SimdLevel::kBaseline:
      return "baseline";
    case SimdLevel::kAvx2:
      return "avx2";
    case SimdLevel::kAvx512Vnni:
      return "avx512vnni";
  }
  return "unknown";
}

bool is_available(SimdLevel level) {
  if (level == SimdLevel::kBaseline) return true;
#if defined(__x86_64__)
  // The compiler's runtime also checks that the operating system saves these registers.
  if (level == SimdLevel::kAvx2) return __builtin_cpu_supports("avx2") != 0;
  if (level == SimdLevel::kAvx512Vnni) {
    return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("avx512f") != 0 &&
           __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
           __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512vnni") != 0;
  }
#endif
  return false;
}

SimdLevel best_level() {
  SimdLevel best = SimdLevel::kBaseline;
  const char* wanted = std::getenv("MILLRACE_SIMD");
  for (const SimdLevel level : {SimdLevel::kAvx2, SimdLevel::kAvx512Vnni, SimdLevel::kBaseline}) {
    if (!is_available(level)) continue;
    if (wanted != nullptr && to_string(level) == wanted) return level;
    if (level > best) best = level;
  }
  return best;
}

const Kernels& kernels_of(SimdLevel level) {
#if defined(__x86_64__)
  if (level == SimdLevel::kAvx512Vnni && is_available(level)) return kAvx512VnniKernels;
  if (level == SimdLevel::kAvx2 && is_available(level)) return kAvx2Kernels;
#endif
  return kBaselineKernels;
}

}  // namespace millrace::kernels::fast
