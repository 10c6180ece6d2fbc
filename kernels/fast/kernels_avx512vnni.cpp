// The kernels of level avx512vnni, compiled for AVX-512 F, BW, DQ, VL and VNNI. kernels_of() selects them only on CPUs
// that have all of these.
#include <immintrin.h>

#include "kernels/fast/kernels_body.hpp"

namespace millrace::kernels::fast {
namespace {

struct Avx512Vnni : Vectors<16> {
  static constexpr bool kBytes = true;
  static constexpr std::uint32_t kAccumulators = 24;

  static __m512i bits(Vector v) { return reinterpret_cast<__m512i>(v); }
  static Vector lanes(__m512i v) { return reinterpret_cast<Vector>(v); }

  static Vector dot_bytes(Vector acc, Vector x, Vector w) {
    return lanes(_mm512_dpbusd_epi32(bits(acc), bits(x), bits(w)));
  }
  static Vector dot_words(Vector acc, Vector x, Vector w) {
    return lanes(_mm512_dpwssd_epi32(bits(acc), bits(x), bits(w)));
  }
  static Vector widen_bytes(const std::uint8_t* from) {
    return lanes(_mm512_cvtepu8_epi32(load<__m128i>(from)));
  }
  static Vector widen_words(const std::uint8_t* from) {
    return lanes(_mm512_cvtepi16_epi32(load<__m256i>(from)));
  }
  static Vector round(Floats a) { return lanes(_mm512_cvtps_epi32(a)); }
  static Vector gather(const std::int32_t* from, Vector rows) {
    const Vector at = (rows << 4) + Vector{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return lanes(_mm512_i32gather_epi32(bits(at), from, 4));
  }
  static void put(Vector v, std::uint8_t bytes, std::uint8_t* out, std::uint32_t valid) {
    const auto mask = static_cast<__mmask16>((1U << valid) - 1U);
    if (bytes == 1) {
      _mm_mask_storeu_epi8(out, mask, _mm512_cvtepi32_epi8(bits(v)));
    } else if (bytes == 2) {
      _mm256_mask_storeu_epi16(out, mask, _mm512_cvtepi32_epi16(bits(v)));
    } else {
      _mm512_mask_storeu_epi32(out, mask, bits(v));
    }
  }
  static void put_saturated(const Vector* four, Vector even, Vector odd, std::uint8_t flip,
                            std::uint8_t* const* out) {
    const __m128i flips = _mm_set1_epi8(static_cast<char>(flip));
    for (std::uint32_t i = 0; i < 4; ++i) {
      const __m128i bytes =
          _mm_xor_si128(_mm512_cvtsepi32_epi8(bits(four[i] + (i % 2 == 0 ? even : odd))), flips);
      std::memcpy(out[i], &bytes, sizeof bytes);
    }
  }
  static void put_saturated_words(const Vector* four, Vector even, Vector odd, std::int32_t above,
                                  std::uint8_t* const* out) {
    put_saturated_words_lanes<Avx512Vnni>(four, even, odd, above, out);
  }
};

}  // namespace

const Kernels kAvx512VnniKernels = kernels_with<Avx512Vnni>();

}  // namespace millrace::kernels::fast
