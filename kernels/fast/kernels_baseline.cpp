// The kernels of level baseline: SSE2, which every x86-64 CPU has, or plain arithmetic on other CPUs.
#include <cmath>

#include "kernels/fast/kernels_body.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace millrace::kernels::fast {
namespace {

struct Baseline : Vectors<4> {
  static constexpr bool kBytes = false;
  static constexpr std::uint32_t kAccumulators = 8;

#if defined(__SSE2__)
  static Vector dot_words(Vector acc, Vector x, Vector w) {
    return acc + reinterpret_cast<Vector>(
                     _mm_madd_epi16(reinterpret_cast<__m128i>(x), reinterpret_cast<__m128i>(w)));
  }
  static Vector round(Floats a) {
    return reinterpret_cast<Vector>(_mm_cvtps_epi32(a));
  }
#else
  static Vector dot_words(Vector acc, Vector x, Vector w) {
    return acc + (x << 16 >> 16) * (w << 16 >> 16) + (x >> 16) * (w >> 16);
  }
  static Vector round(Floats a) {
    for (std::uint32_t i = 0; i < kLanes; ++i) a[i] = std::nearbyint(a[i]);
    return __builtin_convertvector(a, Vector);
  }
#endif
  static Vector widen_bytes(const std::uint8_t* from) {
    return Vector{from[0], from[1], from[2], from[3]};
  }
  static Vector widen_words(const std::uint8_t* from) {
    return __builtin_convertvector(load<VectorOf<std::int16_t, kLanes>>(from), Vector);
  }
  static Vector gather(const std::int32_t* from, Vector rows) {
    Vector out;
    for (std::uint32_t i = 0; i < kLanes; ++i)
      out[i] = from[rows[i] * std::int32_t{kLanes} + std::int32_t(i)];
    return out;
  }
  static VectorOf<std::int8_t, kLanes> to_bytes(Vector v) {
    return __builtin_convertvector(__builtin_convertvector(v, VectorOf<std::int16_t, kLanes>),
                                   VectorOf<std::int8_t, kLanes>);
  }
  static void put(Vector v, std::uint8_t bytes, std::uint8_t* out, std::uint32_t valid) {
    put_lanes<Baseline>(v, bytes, out, valid);
  }
  static void put_saturated(const Vector* four, Vector even, Vector odd, std::uint8_t flip,
                            std::uint8_t* const* out) {
    put_saturated_lanes<Baseline>(four, even, odd, flip, out);
  }
  static void put_saturated_words(const Vector* four, Vector even, Vector odd, std::int32_t above,
                                  std::uint8_t* const* out) {
    put_saturated_words_lanes<Baseline>(four, even, odd, above, out);
  }
};

}  // namespace

const Kernels kBaselineKernels = kernels_with<Baseline>();

}  // namespace millrace::kernels::fast
