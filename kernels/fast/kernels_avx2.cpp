// Level avx2. Compiled for AVX2; level.cpp selects it only on CPUs that have it.
#include <immintrin.h>

#include "kernels/fast/kernels_vector.hpp"

namespace millrace::kernels::fast {
namespace {

struct Avx2 {
  static constexpr std::uint32_t kLanes = 8;
  static constexpr bool kBytes = false;  // the byte product of this level saturates
  static constexpr std::uint32_t kAccumulators = 8;
  using Vector = __m256i;
  using Floats = __m256;

  static Vector zero() { return _mm256_setzero_si256(); }
  static Vector load(const std::int32_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  static void store(std::int32_t* to, Vector v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v); }
  static Vector broadcast_word(const std::uint8_t* from) {
    std::int32_t word;
    std::memcpy(&word, from, sizeof word);
    return _mm256_set1_epi32(word);
  }
  static Vector add(Vector a, Vector b) { return _mm256_add_epi32(a, b); }
  static Vector maximum(Vector a, Vector b) { return _mm256_max_epi32(a, b); }
  static Vector dot_words(Vector acc, Vector x, Vector w) {
    return _mm256_add_epi32(acc, _mm256_madd_epi16(x, w));
  }
  static Vector widen_bytes(const std::uint8_t* from) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
  }
  static Vector widen_words(const std::uint8_t* from) {
    return _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  // With a zero above each weight, the pairwise product equals the product of the low halves.
  static Vector widen_weights(const std::int16_t* from) {
    return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static Vector multiply_add(Vector acc, Vector x, Vector w) { return dot_words(acc, x, w); }

  static Vector broadcast(std::int32_t x) { return _mm256_set1_epi32(x); }
  static Vector subtract(Vector a, Vector b) { return _mm256_sub_epi32(a, b); }
  static Vector multiply(Vector a, Vector b) { return _mm256_mullo_epi32(a, b); }
  static Vector minimum(Vector a, Vector b) { return _mm256_min_epi32(a, b); }
  static Vector bit_and(Vector a, Vector b) { return _mm256_and_si256(a, b); }
  static Vector halve(Vector a) { return _mm256_srli_epi32(a, 1); }
  static Vector shift_left(Vector a, Vector count) { return _mm256_sllv_epi32(a, count); }
  static Vector shift_right(Vector a, Vector count) { return _mm256_srav_epi32(a, count); }
  static Vector shift_right_unsigned(Vector a, Vector count) { return _mm256_srlv_epi32(a, count); }

  static Vector load64(const std::int64_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  static Vector broadcast64(std::int64_t x) { return _mm256_set1_epi64x(x); }
  static Vector add64(Vector a, Vector b) { return _mm256_add_epi64(a, b); }
  static Vector subtract64(Vector a, Vector b) { return _mm256_sub_epi64(a, b); }
  static Vector multiply_even(Vector a, Vector b) { return _mm256_mul_epi32(a, b); }
  static Vector halve64(Vector a) { return _mm256_srli_epi64(a, 1); }
  static Vector shift_left64(Vector a, Vector count) { return _mm256_sllv_epi64(a, count); }
  static Vector shift_right_unsigned64(Vector a, Vector count) { return _mm256_srlv_epi64(a, count); }
  static Vector one_if_positive64(Vector a) {
    return _mm256_and_si256(_mm256_cmpgt_epi64(a, zero()), broadcast64(1));
  }
  static Vector odd_to_even(Vector a) { return _mm256_srli_epi64(a, 32); }
  static Vector join_even_odd(Vector even, Vector odd) {
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
  }
  // Makes an arithmetic shift from a logical one: ((x + 2^63) >> s) - (2^63 >> s). The addend already contains
  // the first 2^63.
  struct Shift64 {
    Shift64(Vector by) : count(by), correction(_mm256_srlv_epi64(_mm256_set1_epi64x(INT64_MIN), by)) {}
    static Vector prepare(Vector addend) { return _mm256_xor_si256(addend, _mm256_set1_epi64x(INT64_MIN)); }
    Vector right(Vector sum) const { return _mm256_sub_epi64(_mm256_srlv_epi64(sum, count), correction); }
    Vector count, correction;
  };

  static Floats load_floats(const float* from) { return _mm256_loadu_ps(from); }
  static Floats broadcast_float(float x) { return _mm256_set1_ps(x); }
  static Floats to_floats(Vector a) { return _mm256_cvtepi32_ps(a); }
  static Vector round(Floats a) { return _mm256_cvtps_epi32(a); }
  static Floats add_floats(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  static Floats multiply_floats(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Floats divide_floats(Floats a, Floats b) { return _mm256_div_ps(a, b); }
  static Floats clamp_floats(Floats a, Floats least, Floats most) {
    return _mm256_min_ps(_mm256_max_ps(a, least), most);
  }
  // Between -1e9 and 1e9; NaN becomes 0.
  static Floats bounded(Floats a) {
    const Floats is_number = _mm256_cmp_ps(a, a, _CMP_ORD_Q);
    return _mm256_and_ps(is_number,
                         _mm256_max_ps(_mm256_min_ps(a, broadcast_float(1e9F)), broadcast_float(-1e9F)));
  }

  // Lane i of row `at[i]` of [rows][lane].
  static Vector gather(const std::int32_t* from, Vector at) {
    const Vector lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_i32gather_epi32(from, _mm256_add_epi32(_mm256_slli_epi32(at, 3), lane), 4);
  }
  // `count`, and one more where the accumulator reaches the threshold.
  static Vector count_if_reached(Vector count, Vector acc, Vector threshold) {
    const Vector below = _mm256_cmpgt_epi32(threshold, acc);  // -1 where it does not
    return _mm256_add_epi32(_mm256_add_epi32(count, broadcast(1)), below);
  }
  // `next` where that is at most `last` and the accumulator reaches threshold `next` - 1, else `reached`.
  static Vector advance(const std::int32_t* from, Vector reached, Vector next, Vector last, Vector acc) {
    const Vector outside = _mm256_cmpgt_epi32(next, last);
    const Vector threshold = gather(from, subtract(minimum(next, last), broadcast(1)));
    return _mm256_blendv_epi8(next, reached, _mm256_or_si256(outside, _mm256_cmpgt_epi32(threshold, acc)));
  }

  // Writes the pieces of `left` bytes whose sizes are powers of two.
  template <std::uint32_t kPiece>
  static void put_piece(std::uint8_t*& out, const std::uint8_t*& from, std::uint32_t left) {
    if ((left & kPiece) == 0) return;
    std::memcpy(out, from, kPiece);
    out += kPiece;
    from += kPiece;
  }
  // Writes the low `bytes` bytes of the first `valid` lanes.
  static void put(Vector v, std::uint8_t bytes, std::uint8_t* out, std::uint32_t valid) {
    alignas(32) std::uint8_t packed[32];
    if (bytes == 1) {
      const __m256i pick = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4,
                                            8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
      const __m256i low = _mm256_shuffle_epi8(v, pick);
      const __m128i eight = _mm_unpacklo_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
      if (valid == kLanes) {
        _mm_storel_epi64(reinterpret_cast<__m128i*>(out), eight);
        return;
      }
      _mm_store_si128(reinterpret_cast<__m128i*>(packed), eight);
    } else if (bytes == 2) {
      const __m256i pick = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1, 0, 1, 4,
                                            5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1);
      const __m256i low = _mm256_shuffle_epi8(v, pick);
      const __m128i eight = _mm_unpacklo_epi64(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
      if (valid == kLanes) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out), eight);
        return;
      }
      _mm_store_si128(reinterpret_cast<__m128i*>(packed), eight);
    } else {
      if (valid == kLanes) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), v);
        return;
      }
      _mm256_store_si256(reinterpret_cast<__m256i*>(packed), v);
    }
    const std::uint8_t* from = packed;
    put_piece<16>(out, from, valid * bytes);
    put_piece<8>(out, from, valid * bytes);
    put_piece<4>(out, from, valid * bytes);
    put_piece<2>(out, from, valid * bytes);
    put_piece<1>(out, from, valid * bytes);
  }
};

}  // namespace

const Kernels kAvx2Kernels = {
    Avx2::kLanes, Avx2::kBytes,  dense<WithFinishers<Avx2>>, depthwise<WithFinishers<Avx2>>, max_pool, stage,
    interleave,   quantise<Avx2>};

}  // namespace millrace::kernels::fast
