// Level avx512vnni: AVX-512 F, BW, DQ, VL and VNNI. Compiled for these; level.cpp selects it only on CPUs
// that have them all.
#include <immintrin.h>

#include "kernels/fast/kernels_vector.hpp"

namespace millrace::kernels::fast {
namespace {

struct Avx512Vnni {
  static constexpr std::uint32_t kLanes = 16;
  static constexpr bool kBytes = true;
  static constexpr std::uint32_t kAccumulators = 24;
  using Vector = __m512i;
  using Floats = __m512;

  static Vector zero() { return _mm512_setzero_si512(); }
  static Vector load(const void* from) { return _mm512_loadu_si512(from); }
  static void store(std::int32_t* to, Vector v) { _mm512_storeu_si512(to, v); }
  static Vector broadcast_word(const std::uint8_t* from) {
    std::int32_t word;
    std::memcpy(&word, from, sizeof word);
    return _mm512_set1_epi32(word);
  }
  static Vector add(Vector a, Vector b) { return _mm512_add_epi32(a, b); }
  static Vector maximum(Vector a, Vector b) { return _mm512_max_epi32(a, b); }
  static Vector dot_bytes(Vector acc, Vector x, Vector w) { return _mm512_dpbusd_epi32(acc, x, w); }
  static Vector dot_words(Vector acc, Vector x, Vector w) { return _mm512_dpwssd_epi32(acc, x, w); }
  static Vector widen_bytes(const std::uint8_t* from) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static Vector widen_words(const std::uint8_t* from) {
    return _mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  // With a zero above each weight, the pairwise product equals the product of the low halves.
  static Vector widen_weights(const std::int16_t* from) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static Vector multiply_add(Vector acc, Vector x, Vector w) { return dot_words(acc, x, w); }

  static Vector broadcast(std::int32_t x) { return _mm512_set1_epi32(x); }
  static Vector subtract(Vector a, Vector b) { return _mm512_sub_epi32(a, b); }
  static Vector multiply(Vector a, Vector b) { return _mm512_mullo_epi32(a, b); }
  static Vector minimum(Vector a, Vector b) { return _mm512_min_epi32(a, b); }
  static Vector bit_and(Vector a, Vector b) { return _mm512_and_si512(a, b); }
  static Vector halve(Vector a) { return _mm512_srli_epi32(a, 1); }
  static Vector shift_left(Vector a, Vector count) { return _mm512_sllv_epi32(a, count); }
  static Vector shift_right(Vector a, Vector count) { return _mm512_srav_epi32(a, count); }
  static Vector shift_right_unsigned(Vector a, Vector count) { return _mm512_srlv_epi32(a, count); }

  static Vector load64(const std::int64_t* from) { return load(from); }
  static Vector broadcast64(std::int64_t x) { return _mm512_set1_epi64(x); }
  static Vector add64(Vector a, Vector b) { return _mm512_add_epi64(a, b); }
  static Vector subtract64(Vector a, Vector b) { return _mm512_sub_epi64(a, b); }
  static Vector multiply_even(Vector a, Vector b) { return _mm512_mul_epi32(a, b); }
  static Vector halve64(Vector a) { return _mm512_srli_epi64(a, 1); }
  static Vector shift_left64(Vector a, Vector count) { return _mm512_sllv_epi64(a, count); }
  static Vector shift_right_unsigned64(Vector a, Vector count) { return _mm512_srlv_epi64(a, count); }
  static Vector one_if_positive64(Vector a) { return _mm512_min_epi64(a, broadcast64(1)); }
  static Vector odd_to_even(Vector a) { return _mm512_srli_epi64(a, 32); }
  static Vector join_even_odd(Vector even, Vector odd) {
    return _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
  }
  struct Shift64 {
    Shift64(Vector by) : count(by) {}
    static Vector prepare(Vector addend) { return addend; }
    Vector right(Vector sum) const { return _mm512_srav_epi64(sum, count); }
    Vector count;
  };

  static Floats load_floats(const float* from) { return _mm512_loadu_ps(from); }
  static Floats broadcast_float(float x) { return _mm512_set1_ps(x); }
  static Floats to_floats(Vector a) { return _mm512_cvtepi32_ps(a); }
  static Vector round(Floats a) { return _mm512_cvtps_epi32(a); }
  static Floats add_floats(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static Floats multiply_floats(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Floats divide_floats(Floats a, Floats b) { return _mm512_div_ps(a, b); }
  static Floats clamp_floats(Floats a, Floats least, Floats most) {
    return _mm512_min_ps(_mm512_max_ps(a, least), most);
  }
  // Between -1e9 and 1e9; NaN becomes 0.
  static Floats bounded(Floats a) {
    const __mmask16 is_number = _mm512_cmp_ps_mask(a, a, _CMP_ORD_Q);
    return _mm512_maskz_max_ps(is_number, _mm512_min_ps(a, broadcast_float(1e9F)), broadcast_float(-1e9F));
  }

  // For each lane, its index in row `at` of [rows][lane].
  static Vector in_row(Vector at) {
    const Vector lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_add_epi32(_mm512_slli_epi32(at, 4), lane);
  }
  static Vector gather(const std::int32_t* from, Vector at) {
    return _mm512_i32gather_epi32(in_row(at), from, 4);
  }
  // `count`, and one more where the accumulator reaches the threshold.
  static Vector count_if_reached(Vector count, Vector acc, Vector threshold) {
    return _mm512_mask_add_epi32(count, _mm512_cmpge_epi32_mask(acc, threshold), count, broadcast(1));
  }
  // `next` where that is at most `last` and the accumulator reaches threshold `next` - 1, else `reached`.
  static Vector advance(const std::int32_t* from, Vector reached, Vector next, Vector last, Vector acc) {
    const __mmask16 inside = _mm512_cmple_epi32_mask(next, last);
    const Vector threshold =
        _mm512_mask_i32gather_epi32(zero(), inside, in_row(subtract(next, broadcast(1))), from, 4);
    return _mm512_mask_mov_epi32(reached, _mm512_mask_cmpge_epi32_mask(inside, acc, threshold), next);
  }

  // Writes the low `bytes` bytes of the first `valid` lanes.
  static void put(Vector v, std::uint8_t bytes, std::uint8_t* out, std::uint32_t valid) {
    const auto mask = static_cast<__mmask16>((1U << valid) - 1U);
    if (bytes == 1) {
      _mm_mask_storeu_epi8(out, mask, _mm512_cvtepi32_epi8(v));
    } else if (bytes == 2) {
      _mm256_mask_storeu_epi16(out, mask, _mm512_cvtepi32_epi16(v));
    } else {
      _mm512_mask_storeu_epi32(out, mask, v);
    }
  }
};

}  // namespace

const Kernels kAvx512VnniKernels = {Avx512Vnni::kLanes,
                                    Avx512Vnni::kBytes,
                                    dense<WithFinishers<Avx512Vnni>>,
                                    depthwise<WithFinishers<Avx512Vnni>>,
                                    max_pool,
                                    stage,
                                    interleave,
                                    quantise<Avx512Vnni>};

}  // namespace millrace::kernels::fast
