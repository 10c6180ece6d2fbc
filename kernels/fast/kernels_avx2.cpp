// Level avx2. Compiled for AVX2; level.cpp selects it only on CPUs that have it.
#include <immintrin.h>

#include "kernels/fast/kernels_body.hpp"

namespace millrace::kernels::fast {
namespace {

struct Avx2 {
  static constexpr std::uint32_t kLanes = 8;
  static constexpr bool kBytes = false;  // the byte product of this level saturates
  static constexpr std::uint32_t kAccumulators = 8;
  using Vector = __m256i;

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

  struct Writer {
    explicit Writer(const Finish& f)
        : bytes(f.out_bytes),
          offset(_mm256_set1_epi32(f.out_offset)),
          lowest(_mm256_set1_epi32(f.lowest)),
          highest(_mm256_set1_epi32(f.highest)) {}
    // Writes `left` bytes as pieces whose sizes are powers of two.
    template <std::uint32_t kPiece>
    static void put_piece(std::uint8_t*& out, const std::uint8_t*& from, std::uint32_t left) {
      if ((left & kPiece) == 0) return;
      std::memcpy(out, from, kPiece);
      out += kPiece;
      from += kPiece;
    }
    void clamp_and_put(Vector v, std::uint8_t* out, std::uint32_t valid) const {
      put(_mm256_min_epi32(_mm256_max_epi32(v, lowest), highest), out, valid);
    }
    void put(Vector v, std::uint8_t* out, std::uint32_t valid) const {
      v = _mm256_add_epi32(v, offset);
      alignas(32) std::uint8_t packed[32];
      if (bytes == 1) {
        const __m256i pick = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0,
                                              4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
        const __m256i low = _mm256_shuffle_epi8(v, pick);
        const __m128i eight =
            _mm_unpacklo_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
        if (valid == kLanes) {
          _mm_storel_epi64(reinterpret_cast<__m128i*>(out), eight);
          return;
        }
        _mm_store_si128(reinterpret_cast<__m128i*>(packed), eight);
      } else if (bytes == 2) {
        const __m256i pick = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1, 0, 1,
                                              4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1);
        const __m256i low = _mm256_shuffle_epi8(v, pick);
        const __m128i eight =
            _mm_unpacklo_epi64(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
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
    std::uint8_t bytes;
    Vector offset, lowest, highest;
  };

  struct Plain : Writer {
    Plain(const Finish& f, std::uint32_t) : Writer(f) {}
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const { put(acc, out, valid); }
  };

  struct Multiply32 : Writer {
    Multiply32(const Finish& f, std::uint32_t block)
        : Writer(f),
          multiplier(load(f.multiplier32 + std::size_t{block} * kLanes)),
          addend(load(f.offset32 + std::size_t{block} * kLanes)),
          shift(load(f.shift32 + std::size_t{block} * kLanes)) {}
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
      clamp_and_put(_mm256_srav_epi32(_mm256_add_epi32(_mm256_mullo_epi32(acc, multiplier), addend), shift),
                    out, valid);
    }
    Vector multiplier, addend, shift;
  };

  static Vector load64(const std::int64_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }

  struct Multiply64 : Writer {
    // Makes an arithmetic shift from a logical one: ((x + 2^63) >> s) - (2^63 >> s). The addend already
    // contains the first 2^63.
    struct Half {
      Half(const Finish& f, std::size_t at)
          : multiplier(load64(f.multiplier64 + at)), shift(load64(f.shift64 + at)) {
        const __m256i sign = _mm256_set1_epi64x(INT64_MIN);
        addend = _mm256_xor_si256(load64(f.offset64 + at), sign);
        correction = _mm256_srlv_epi64(sign, shift);
      }
      Vector apply(Vector acc) const {
        const Vector sum = _mm256_add_epi64(_mm256_mul_epi32(acc, multiplier), addend);
        return _mm256_sub_epi64(_mm256_srlv_epi64(sum, shift), correction);
      }
      Vector multiplier, shift, addend, correction;
    };
    Multiply64(const Finish& f, std::uint32_t block)
        : Writer(f), even(f, std::size_t{block} * kLanes), odd(f, std::size_t{block} * kLanes + kLanes / 2) {}
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
      const Vector high = odd.apply(_mm256_srli_epi64(acc, 32));
      clamp_and_put(_mm256_blend_epi32(even.apply(acc), _mm256_slli_epi64(high, 32), 0xAA), out, valid);
    }
    Half even, odd;
  };

  // Rounding half to even adds 2^(shift-1) - 1 to a sum before the shift, plus the bit that becomes the
  // lowest. A shift of 0 adds nothing.
  struct HalfEven32 : Writer {
    HalfEven32(const Finish& f, std::uint32_t block)
        : Writer(f),
          multiplier(load(f.multiplier32 + std::size_t{block} * kLanes)),
          addend(load(f.offset32 + std::size_t{block} * kLanes)),
          shift(load(f.shift32 + std::size_t{block} * kLanes)),
          lowest_bit(_mm256_min_epi32(shift, _mm256_set1_epi32(1))) {
      half =
          _mm256_sub_epi32(_mm256_srli_epi32(_mm256_sllv_epi32(_mm256_set1_epi32(1), shift), 1), lowest_bit);
      offset = _mm256_add_epi32(offset, _mm256_set1_epi32(f.zero_point));
    }
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
      const Vector sum = _mm256_add_epi32(_mm256_mullo_epi32(acc, multiplier), addend);
      const Vector odd = _mm256_and_si256(_mm256_srlv_epi32(sum, shift), lowest_bit);
      clamp_and_put(_mm256_srav_epi32(_mm256_add_epi32(_mm256_add_epi32(sum, half), odd), shift), out, valid);
    }
    Vector multiplier, addend, shift, lowest_bit, half;
  };

  struct HalfEven64 : Writer {
    // As in Multiply64. The bit that becomes the lowest is never the sign bit.
    struct Half : Multiply64::Half {
      Half(const Finish& f, std::size_t at) : Multiply64::Half(f, at) {
        const __m256i one = _mm256_set1_epi64x(1);
        lowest_bit = _mm256_and_si256(_mm256_cmpgt_epi64(shift, zero()), one);
        half = _mm256_sub_epi64(_mm256_srli_epi64(_mm256_sllv_epi64(one, shift), 1), lowest_bit);
      }
      Vector apply(Vector acc) const {
        const Vector sum = _mm256_add_epi64(_mm256_mul_epi32(acc, multiplier), addend);
        const Vector carry = _mm256_and_si256(_mm256_srlv_epi64(sum, shift), lowest_bit);
        return _mm256_sub_epi64(
            _mm256_srlv_epi64(_mm256_add_epi64(_mm256_add_epi64(sum, half), carry), shift), correction);
      }
      Vector lowest_bit, half;
    };
    HalfEven64(const Finish& f, std::uint32_t block)
        : Writer(f), even(f, std::size_t{block} * kLanes), odd(f, std::size_t{block} * kLanes + kLanes / 2) {
      offset = _mm256_add_epi32(offset, _mm256_set1_epi32(f.zero_point));
    }
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
      const Vector high = odd.apply(_mm256_srli_epi64(acc, 32));
      clamp_and_put(_mm256_blend_epi32(even.apply(acc), _mm256_slli_epi64(high, 32), 0xAA), out, valid);
    }
    Half even, odd;
  };

  struct Round : Writer {
    Round(const Finish& f, std::uint32_t block)
        : Writer(f),
          scale(_mm256_loadu_ps(f.scale + std::size_t{block} * kLanes)),
          least(_mm256_loadu_ps(f.least + std::size_t{block} * kLanes)),
          most(_mm256_loadu_ps(f.most + std::size_t{block} * kLanes)),
          addend(load(f.add + std::size_t{block} * kLanes)) {}
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
      const __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(acc), scale);
      const __m256 clamped = _mm256_min_ps(_mm256_max_ps(scaled, least), most);
      put(_mm256_add_epi32(_mm256_cvtps_epi32(clamped), addend), out, valid);
    }
    __m256 scale, least, most;
    Vector addend;
  };

  struct Guess : Writer {
    Guess(const Finish& f, std::uint32_t block)
        : Writer(f),
          scale(_mm256_loadu_ps(f.scale + std::size_t{block} * kLanes)),
          bias(_mm256_loadu_ps(f.bias + std::size_t{block} * kLanes)),
          least(_mm256_loadu_ps(f.least + std::size_t{block} * kLanes)),
          most(_mm256_loadu_ps(f.most + std::size_t{block} * kLanes)),
          from(f.thresholds32 + std::size_t{block} * (f.steps + 1) * kLanes),
          base(_mm256_set1_epi32(f.lowest)),
          last(_mm256_set1_epi32(static_cast<std::int32_t>(f.steps))) {}
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
      const Vector lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
      const __m256 scaled = _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(acc), scale), bias);
      const Vector guess = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(scaled, least), most));
      const Vector threshold =
          _mm256_i32gather_epi32(from, _mm256_add_epi32(_mm256_slli_epi32(guess, 3), lane), 4);
      const Vector below = _mm256_cmpgt_epi32(threshold, acc);  // -1 where the guess stands
      const Vector reached = _mm256_add_epi32(_mm256_add_epi32(guess, _mm256_set1_epi32(1)), below);
      put(_mm256_add_epi32(_mm256_min_epi32(reached, last), base), out, valid);
    }
    __m256 scale, bias, least, most;
    const std::int32_t* from;
    Vector base, last;
  };

  struct Thresholds : Writer {
    Thresholds(const Finish& f, std::uint32_t block)
        : Writer(f),
          from(f.thresholds32 + std::size_t{block} * f.steps * kLanes),
          steps(f.steps),
          search(f.search),
          base(_mm256_set1_epi32(f.lowest)) {}
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
      Vector reached = zero();
      if (steps <= 16) {
        for (std::uint32_t i = 0; i < steps; ++i) {
          reached =
              _mm256_sub_epi32(_mm256_add_epi32(reached, _mm256_set1_epi32(1)),
                               _mm256_and_si256(_mm256_cmpgt_epi32(load(from + std::size_t{i} * kLanes), acc),
                                                _mm256_set1_epi32(1)));
        }
      } else {
        const Vector lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        const Vector last = _mm256_set1_epi32(static_cast<std::int32_t>(steps));
        for (std::uint32_t jump = search; jump != 0; jump >>= 1) {
          const Vector next = _mm256_add_epi32(reached, _mm256_set1_epi32(static_cast<std::int32_t>(jump)));
          const Vector outside = _mm256_cmpgt_epi32(next, last);
          const Vector at = _mm256_sub_epi32(_mm256_min_epi32(next, last), _mm256_set1_epi32(1));
          const Vector threshold =
              _mm256_i32gather_epi32(from, _mm256_add_epi32(_mm256_slli_epi32(at, 3), lane), 4);
          const Vector stay = _mm256_or_si256(outside, _mm256_cmpgt_epi32(threshold, acc));
          reached = _mm256_blendv_epi8(next, reached, stay);
        }
      }
      put(_mm256_add_epi32(reached, base), out, valid);
    }
    const std::int32_t* from;
    std::uint32_t steps, search;
    Vector base;
  };
};

void quantise(const QuantiseArgs& a) {
  const __m256 scale = _mm256_set1_ps(a.scale), bound = _mm256_set1_ps(1e9F), below = _mm256_set1_ps(-1e9F);
  const __m256i zero_point = _mm256_set1_epi32(a.zero_point);
  Finish plain;
  plain.out_bytes = a.out_bytes;
  plain.lowest = a.lowest;
  plain.highest = a.highest;
  const Avx2::Writer writer(plain);
  std::size_t i = 0;
  for (; i + 8 <= a.elements; i += 8) {
    const __m256 steps = _mm256_div_ps(_mm256_loadu_ps(a.in + i), scale);
    const __m256 number = _mm256_cmp_ps(steps, steps, _CMP_ORD_Q);
    const __m256 bounded = _mm256_and_ps(number, _mm256_max_ps(_mm256_min_ps(steps, bound), below));
    writer.clamp_and_put(_mm256_add_epi32(_mm256_cvtps_epi32(bounded), zero_point), a.out + i * a.out_bytes,
                         8);
  }
  quantise_tail(a, i);
}

}  // namespace

const Kernels kAvx2Kernels = {Avx2::kLanes, Avx2::kBytes, dense<Avx2>, depthwise<Avx2>,
                              max_pool,     stage,        interleave,  quantise};

}  // namespace millrace::kernels::fast
