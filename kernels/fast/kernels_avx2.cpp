// The kernels of level avx2, compiled for AVX2. kernels_of() selects them only on CPUs that have AVX2.
#include <immintrin.h>

#include "kernels/fast/kernels_body.hpp"

namespace millrace::kernels::fast {
namespace {

struct Avx2 : Vectors<8> {
  static constexpr bool kBytes = false;  // the byte product of AVX2 saturates
  static constexpr std::uint32_t kAccumulators = 12;

  static Vector dot_words(Vector acc, Vector x, Vector w) {
    return acc + reinterpret_cast<Vector>(
                     _mm256_madd_epi16(reinterpret_cast<__m256i>(x), reinterpret_cast<__m256i>(w)));
  }
  static Vector widen_bytes(const std::uint8_t* from) {
    return reinterpret_cast<Vector>(_mm256_cvtepu8_epi32(_mm_loadu_si64(from)));
  }
  static Vector widen_words(const std::uint8_t* from) {
    return reinterpret_cast<Vector>(_mm256_cvtepi16_epi32(load<__m128i>(from)));
  }
  static Vector round(Floats a) { return reinterpret_cast<Vector>(_mm256_cvtps_epi32(a)); }
  static Vector gather(const std::int32_t* from, Vector rows) {
    const Vector at = (rows << 3) + Vector{0, 1, 2, 3, 4, 5, 6, 7};
    return reinterpret_cast<Vector>(_mm256_i32gather_epi32(from, reinterpret_cast<__m256i>(at), 4));
  }
  static VectorOf<std::int8_t, kLanes> to_bytes(Vector v) {
    const __m256i low = _mm256_shuffle_epi8(reinterpret_cast<__m256i>(v), _mm256_set1_epi32(0x0c080400));
    const __m128i eight = _mm_unpacklo_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    return load<VectorOf<std::int8_t, kLanes>>(&eight);
  }
  static void put(Vector v, std::uint8_t bytes, std::uint8_t* out, std::uint32_t valid) {
    put_lanes<Avx2>(v, bytes, out, valid);
  }
  // Packs two vectors with saturation to 16 bits: lanes 0 to 3 of both, then lanes 4 to 7 of both.
  static __m256i packed(Vector first, Vector second) {
    return _mm256_packs_epi32(reinterpret_cast<__m256i>(first), reinterpret_cast<__m256i>(second));
  }
  static void put_saturated(const Vector* four, Vector even, Vector odd, std::uint8_t flip,
                            std::uint8_t* const* out) {
    const __m256i adds = packed(even, odd);
    const __m256i bytes =
        _mm256_xor_si256(_mm256_packs_epi16(_mm256_adds_epi16(packed(four[0], four[1]), adds),
                                            _mm256_adds_epi16(packed(four[2], four[3]), adds)),
                         _mm256_set1_epi8(static_cast<char>(flip)));
    // The pack instructions leave lanes 0 to 3 of all vectors in the low half, and lanes 4 to 7 in the high half.
    const __m256i sorted = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    const auto eight = load<VectorOf<std::int64_t, 4>>(&sorted);
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::int64_t results = eight[i];
      std::memcpy(out[i], &results, 8);
    }
  }
  static void put_saturated_words(const Vector* four, Vector even, Vector odd, std::int32_t above,
                                  std::uint8_t* const* out) {
    const __m256i adds = packed(even, odd);
    for (std::uint32_t i = 0; i < 4; i += 2) {
      const __m256i sums = _mm256_adds_epi16(packed(four[i], four[i + 1]), adds);
      const __m256i clamped =
          _mm256_max_epi16(_mm256_min_epi16(sums, _mm256_set1_epi16(127)), _mm256_set1_epi16(-128));
      const __m256i words = _mm256_add_epi16(clamped, _mm256_set1_epi16(static_cast<short>(above)));
      const __m256i sorted = _mm256_permute4x64_epi64(words, 0xd8);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out[i]), _mm256_castsi256_si128(sorted));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out[i + 1]), _mm256_extracti128_si256(sorted, 1));
    }
  }
};

}  // namespace

const Kernels kAvx2Kernels = kernels_with<Avx2>();

}  // namespace millrace::kernels::fast
