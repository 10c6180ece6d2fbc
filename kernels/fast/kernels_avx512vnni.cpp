// Level avx512vnni: AVX-512 F, BW, DQ, VL and VNNI. Compiled for these; level.cpp selects it only on CPUs
// that have them all.
#include <immintrin.h>

#include "kernels/fast/kernels_body.hpp"

namespace millrace::kernels::fast {
namespace {

struct Avx512Vnni {
  static constexpr std::uint32_t kLanes = 16;
  static constexpr bool kBytes = true;
  static constexpr std::uint32_t kAccumulators = 24;
  using Vector = __m512i;

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

  struct Writer {
    explicit Writer(const Finish& f)
        : bytes(f.out_bytes),
          offset(_mm512_set1_epi32(f.out_offset)),
          lowest(_mm512_set1_epi32(f.lowest)),
          highest(_mm512_set1_epi32(f.highest)) {}
    void clamp_and_put(Vector v, std::uint8_t* out, std::uint32_t valid) const {
      put(_mm512_min_epi32(_mm512_max_epi32(v, lowest), highest), out, valid);
    }
    void put(Vector v, std::uint8_t* out, std::uint32_t valid) const {
      v = _mm512_add_epi32(v, offset);
      const auto mask = static_cast<__mmask16>((1U << valid) - 1U);
      if (bytes == 1) {
        _mm_mask_storeu_epi8(out, mask, _mm512_cvtepi32_epi8(v));
      } else if (bytes == 2) {
        _mm256_mask_storeu_epi16(out, mask, _mm512_cvtepi32_epi16(v));
      } else {
        _mm512_mask_storeu_epi32(out, mask, v);
      }
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
      clamp_and_put(_mm512_srav_epi32(_mm512_add_epi32(_mm512_mullo_epi32(acc, multiplier), addend), shift),
                    out, valid);
    }
    Vector multiplier, addend, shift;
  };

  struct Multiply64 : Writer {
    struct Half {
      Half(const Finish& f, std::size_t at)
          : multiplier(load(f.multiplier64 + at)),
            addend(load(f.offset64 + at)),
            shift(load(f.shift64 + at)) {}
      Vector apply(Vector acc) const {
        return _mm512_srav_epi64(_mm512_add_epi64(_mm512_mul_epi32(acc, multiplier), addend), shift);
      }
      Vector multiplier, addend, shift;
    };
    Multiply64(const Finish& f, std::uint32_t block)
        : Writer(f), even(f, std::size_t{block} * kLanes), odd(f, std::size_t{block} * kLanes + kLanes / 2) {}
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
      const Vector high = odd.apply(_mm512_srli_epi64(acc, 32));
      clamp_and_put(_mm512_mask_blend_epi32(0xAAAA, even.apply(acc), _mm512_slli_epi64(high, 32)), out,
                    valid);
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
          lowest_bit(_mm512_min_epi32(shift, _mm512_set1_epi32(1))) {
      half =
          _mm512_sub_epi32(_mm512_srli_epi32(_mm512_sllv_epi32(_mm512_set1_epi32(1), shift), 1), lowest_bit);
      offset = _mm512_add_epi32(offset, _mm512_set1_epi32(f.zero_point));
    }
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
      const Vector sum = _mm512_add_epi32(_mm512_mullo_epi32(acc, multiplier), addend);
      const Vector odd = _mm512_and_si512(_mm512_srlv_epi32(sum, shift), lowest_bit);
      clamp_and_put(_mm512_srav_epi32(_mm512_add_epi32(_mm512_add_epi32(sum, half), odd), shift), out, valid);
    }
    Vector multiplier, addend, shift, lowest_bit, half;
  };

  struct HalfEven64 : Writer {
    struct Half : Multiply64::Half {
      Half(const Finish& f, std::size_t at) : Multiply64::Half(f, at) {
        const __m512i one = _mm512_set1_epi64(1);
        lowest_bit = _mm512_min_epi64(shift, one);
        half = _mm512_sub_epi64(_mm512_srli_epi64(_mm512_sllv_epi64(one, shift), 1), lowest_bit);
      }
      Vector apply(Vector acc) const {
        const Vector sum = _mm512_add_epi64(_mm512_mul_epi32(acc, multiplier), addend);
        const Vector carry = _mm512_and_si512(_mm512_srlv_epi64(sum, shift), lowest_bit);
        return _mm512_srav_epi64(_mm512_add_epi64(_mm512_add_epi64(sum, half), carry), shift);
      }
      Vector lowest_bit, half;
    };
    HalfEven64(const Finish& f, std::uint32_t block)
        : Writer(f), even(f, std::size_t{block} * kLanes), odd(f, std::size_t{block} * kLanes + kLanes / 2) {
      offset = _mm512_add_epi32(offset, _mm512_set1_epi32(f.zero_point));
    }
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
      const Vector high = odd.apply(_mm512_srli_epi64(acc, 32));
      clamp_and_put(_mm512_mask_blend_epi32(0xAAAA, even.apply(acc), _mm512_slli_epi64(high, 32)), out,
                    valid);
    }
    Half even, odd;
  };

  static __m512 load_floats(const float* from) { return _mm512_loadu_ps(from); }

  struct Round : Writer {
    Round(const Finish& f, std::uint32_t block)
        : Writer(f),
          scale(load_floats(f.scale + std::size_t{block} * kLanes)),
          least(load_floats(f.least + std::size_t{block} * kLanes)),
          most(load_floats(f.most + std::size_t{block} * kLanes)),
          addend(load(f.add + std::size_t{block} * kLanes)) {}
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
      const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(acc), scale);
      const __m512 clamped = _mm512_min_ps(_mm512_max_ps(scaled, least), most);
      put(_mm512_add_epi32(_mm512_cvtps_epi32(clamped), addend), out, valid);
    }
    __m512 scale, least, most;
    Vector addend;
  };

  struct Guess : Writer {
    Guess(const Finish& f, std::uint32_t block)
        : Writer(f),
          scale(load_floats(f.scale + std::size_t{block} * kLanes)),
          bias(load_floats(f.bias + std::size_t{block} * kLanes)),
          least(load_floats(f.least + std::size_t{block} * kLanes)),
          most(load_floats(f.most + std::size_t{block} * kLanes)),
          from(f.thresholds32 + std::size_t{block} * (f.steps + 1) * kLanes),
          base(_mm512_set1_epi32(f.lowest)),
          last(_mm512_set1_epi32(static_cast<std::int32_t>(f.steps))) {}
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
      const Vector lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      const __m512 scaled = _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(acc), scale), bias);
      Vector reached = _mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(scaled, least), most));
      const Vector threshold =
          _mm512_i32gather_epi32(_mm512_add_epi32(_mm512_slli_epi32(reached, 4), lane), from, 4);
      reached = _mm512_mask_add_epi32(reached, _mm512_cmpge_epi32_mask(acc, threshold), reached,
                                      _mm512_set1_epi32(1));
      put(_mm512_add_epi32(_mm512_min_epi32(reached, last), base), out, valid);
    }
    __m512 scale, bias, least, most;
    const std::int32_t* from;
    Vector base, last;
  };

  struct Thresholds : Writer {
    Thresholds(const Finish& f, std::uint32_t block)
        : Writer(f),
          from(f.thresholds32 + std::size_t{block} * f.steps * kLanes),
          steps(f.steps),
          search(f.search),
          base(_mm512_set1_epi32(f.lowest)) {}
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
      const Vector one = _mm512_set1_epi32(1);
      Vector reached = zero();
      if (steps <= 16) {
        for (std::uint32_t i = 0; i < steps; ++i) {
          reached = _mm512_mask_add_epi32(
              reached, _mm512_cmpge_epi32_mask(acc, load(from + std::size_t{i} * kLanes)), reached, one);
        }
      } else {
        const Vector lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        const Vector last = _mm512_set1_epi32(static_cast<std::int32_t>(steps));
        for (std::uint32_t jump = search; jump != 0; jump >>= 1) {
          const Vector next = _mm512_add_epi32(reached, _mm512_set1_epi32(static_cast<std::int32_t>(jump)));
          const __mmask16 inside = _mm512_cmple_epi32_mask(next, last);
          const Vector at = _mm512_sub_epi32(next, one);
          const Vector threshold = _mm512_mask_i32gather_epi32(
              zero(), inside, _mm512_add_epi32(_mm512_slli_epi32(at, 4), lane), from, 4);
          reached =
              _mm512_mask_mov_epi32(reached, _mm512_mask_cmpge_epi32_mask(inside, acc, threshold), next);
        }
      }
      put(_mm512_add_epi32(reached, base), out, valid);
    }
    const std::int32_t* from;
    std::uint32_t steps, search;
    Vector base;
  };
};

void quantise(const QuantiseArgs& a) {
  const __m512 scale = _mm512_set1_ps(a.scale), bound = _mm512_set1_ps(1e9F), below = _mm512_set1_ps(-1e9F);
  const __m512i zero_point = _mm512_set1_epi32(a.zero_point);
  Finish plain;
  plain.out_bytes = a.out_bytes;
  plain.lowest = a.lowest;
  plain.highest = a.highest;
  const Avx512Vnni::Writer writer(plain);
  std::size_t i = 0;
  for (; i + 16 <= a.elements; i += 16) {
    const __m512 steps = _mm512_div_ps(_mm512_loadu_ps(a.in + i), scale);
    const __mmask16 number = _mm512_cmp_ps_mask(steps, steps, _CMP_ORD_Q);
    const __m512 bounded = _mm512_maskz_max_ps(number, _mm512_min_ps(steps, bound), below);
    writer.clamp_and_put(_mm512_add_epi32(_mm512_cvtps_epi32(bounded), zero_point), a.out + i * a.out_bytes,
                         16);
  }
  quantise_tail(a, i);
}

}  // namespace

const Kernels kAvx512VnniKernels = {Avx512Vnni::kLanes, Avx512Vnni::kBytes,
                                    dense<Avx512Vnni>,  depthwise<Avx512Vnni>,
                                    max_pool,           stage,
                                    interleave,         quantise};

}  // namespace millrace::kernels::fast
