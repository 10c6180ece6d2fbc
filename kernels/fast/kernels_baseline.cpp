// Level baseline: SSE2, which every x86-64 CPU has, or plain arithmetic on other CPUs.
#include "kernels/fast/kernels_body.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace millrace::kernels::fast {
namespace {

struct Baseline {
  static constexpr std::uint32_t kLanes = 4;
  static constexpr bool kBytes = false;
  static constexpr std::uint32_t kAccumulators = 8;
  struct Vector {
    std::int32_t lane[kLanes];
  };
  using Plain = ScalarFinisher<Baseline>;
  using Multiply32 = ScalarFinisher<Baseline>;
  using Multiply64 = ScalarFinisher<Baseline>;
  using HalfEven32 = ScalarFinisher<Baseline>;
  using HalfEven64 = ScalarFinisher<Baseline>;
  using Guess = ScalarFinisher<Baseline>;
  using Thresholds = ScalarFinisher<Baseline>;
#if defined(__SSE2__)
  struct Round {
    Round(const Finish& f, std::uint32_t block)
        : finish(f),
          scale(_mm_loadu_ps(f.scale + std::size_t{block} * kLanes)),
          least(_mm_loadu_ps(f.least + std::size_t{block} * kLanes)),
          most(_mm_loadu_ps(f.most + std::size_t{block} * kLanes)),
          addend(_mm_add_epi32(
              _mm_loadu_si128(reinterpret_cast<const __m128i*>(f.add + std::size_t{block} * kLanes)),
              _mm_set1_epi32(f.out_offset))) {}
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
      __m128i sums;
      std::memcpy(&sums, &acc, sizeof sums);
      const __m128 clamped = _mm_min_ps(_mm_max_ps(_mm_mul_ps(_mm_cvtepi32_ps(sums), scale), least), most);
      alignas(16) std::int32_t lanes[kLanes];
      _mm_store_si128(reinterpret_cast<__m128i*>(lanes), _mm_add_epi32(_mm_cvtps_epi32(clamped), addend));
      for (std::uint32_t lane = 0; lane < valid; ++lane)
        std::memcpy(out + std::size_t{lane} * finish.out_bytes, &lanes[lane], finish.out_bytes);
    }
    const Finish& finish;
    __m128 scale, least, most;
    __m128i addend;
  };
#else
  using Round = ScalarFinisher<Baseline>;
#endif

  static Vector zero() {
    return {};
  }
  static Vector load(const std::int32_t* from) {
    Vector v;
    std::memcpy(&v, from, sizeof v);
    return v;
  }
  static void store(std::int32_t* to, Vector v) {
    std::memcpy(to, &v, sizeof v);
  }
  static Vector broadcast_word(const std::uint8_t* from) {
    std::int32_t word;
    std::memcpy(&word, from, sizeof word);
    return {{word, word, word, word}};
  }

  // Sums wrap on purpose (see Forms in kernels.hpp), so they are computed as unsigned numbers.
  static std::int32_t wrapping_add(std::int32_t a, std::int32_t b) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
  }
  static Vector add(Vector a, Vector b) {
    for (std::uint32_t i = 0; i < kLanes; ++i) a.lane[i] = wrapping_add(a.lane[i], b.lane[i]);
    return a;
  }
  static Vector maximum(Vector a, Vector b) {
    for (std::uint32_t i = 0; i < kLanes; ++i) a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
    return a;
  }
  static Vector dot_words(Vector acc, Vector x, Vector w) {
#if defined(__SSE2__)
    __m128i xs, ws, sum;
    std::memcpy(&xs, &x, sizeof x);
    std::memcpy(&ws, &w, sizeof w);
    std::memcpy(&sum, &acc, sizeof acc);
    sum = _mm_add_epi32(sum, _mm_madd_epi16(xs, ws));
    std::memcpy(&acc, &sum, sizeof acc);
#else
    std::int16_t xs[2 * kLanes], ws[2 * kLanes];
    std::memcpy(xs, &x, sizeof xs);
    std::memcpy(ws, &w, sizeof ws);
    for (std::uint32_t i = 0; i < kLanes; ++i) {
      acc.lane[i] =
          wrapping_add(acc.lane[i], wrapping_add(xs[2 * i] * ws[2 * i], xs[2 * i + 1] * ws[2 * i + 1]));
    }
#endif
    return acc;
  }
  static Vector widen_bytes(const std::uint8_t* from) {
    return {{from[0], from[1], from[2], from[3]}};
  }
  static Vector widen_words(const std::uint8_t* from) {
    std::int16_t words[kLanes];
    std::memcpy(words, from, sizeof words);
    return {{words[0], words[1], words[2], words[3]}};
  }
  static Vector widen_weights(const std::int16_t* from) {
    return {{from[0], from[1], from[2], from[3]}};
  }
  static Vector multiply_add(Vector acc, Vector x, Vector w) {
    for (std::uint32_t i = 0; i < kLanes; ++i) acc.lane[i] = wrapping_add(acc.lane[i], x.lane[i] * w.lane[i]);
    return acc;
  }
};

void quantise_all(const QuantiseArgs& a) {
  quantise_tail(a, 0);
}

}  // namespace

const Kernels kBaselineKernels = {Baseline::kLanes,    Baseline::kBytes, dense<Baseline>,
                                  depthwise<Baseline>, max_pool,         stage,
                                  interleave,          quantise_all};

}  // namespace millrace::kernels::fast
