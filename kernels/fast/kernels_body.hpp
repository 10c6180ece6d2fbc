// The kernels, written once over a level's vector type. Each level's file includes this header. Everything
// here is in an unnamed namespace and has internal linkage (kernels.hpp says why).
//
// Isa provides: kLanes and kBytes; Vector of kLanes 32-bit lanes; load, store, broadcast_word (four bytes to
// every lane), dot_words, dot_bytes, maximum, widen_bytes and widen_words (kLanes elements to lanes),
// widen_weights and multiply_add (16-bit operands in 32-bit lanes); and the finishers Plain, Multiply32,
// Multiply64, HalfEven32, HalfEven64, Round, Guess and Thresholds. A finisher is constructed for one block
// and has write(accumulators, out, valid lanes).
//
// The file is above 500 lines because every level compiles all kernels from this one body.
#pragma once

#include <cmath>
#include <cstring>

#include "kernels/fast/kernels.hpp"

#if defined(__clang__)
#define MILLRACE_UNROLL _Pragma("unroll")
#else
#define MILLRACE_UNROLL _Pragma("GCC unroll 16")
#endif

namespace millrace::kernels::fast {
namespace {

/// The product is rounded before the sum, as in the vector code. The level files are compiled without fused
/// multiply-add.
inline std::int32_t round_clamped(float x, float least, float most) {
  x = x > least ? x : least;
  x = x < most ? x : most;
  return static_cast<std::int32_t>(std::nearbyint(x));
}

/// sum / 2^shift, rounded half to even. The additions are unsigned because sums of out-of-range input bytes
/// may overflow; valid inputs never do.
inline std::int64_t shift_half_even(std::int64_t sum, std::int64_t shift) {
  if (shift == 0) return sum;
  const auto odd = static_cast<std::uint64_t>(sum >> shift) & 1U;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) + ((std::uint64_t{1} << (shift - 1)) - 1) +
                                   odd) >>
         shift;
}

/// Finishes one lane in scalar arithmetic. Each finisher computes the same for all lanes at once.
inline std::int32_t finish_lane(const Finish& f, std::uint32_t lanes, std::uint32_t block, std::uint32_t lane,
                                std::int32_t acc) {
  std::int64_t value = acc;
  switch (f.mode) {
    case Finish::Mode::kNone:
      return acc + f.out_offset;
    case Finish::Mode::kMultiply32: {
      const std::size_t i = std::size_t{block} * lanes + lane;
      value = (std::int64_t{acc} * f.multiplier32[i] + f.offset32[i]) >> f.shift32[i];
      break;
    }
    case Finish::Mode::kHalfEven32: {
      const std::size_t i = std::size_t{block} * lanes + lane;
      value = shift_half_even(std::int64_t{acc} * f.multiplier32[i] + f.offset32[i], f.shift32[i]);
      break;
    }
    case Finish::Mode::kMultiply64:
    case Finish::Mode::kMultiplyWide:
    case Finish::Mode::kHalfEven64:
    case Finish::Mode::kHalfEvenWide: {
      const std::size_t i = std::size_t{block} * lanes + (lane & 1U) * (lanes / 2) + lane / 2;
      // Unsigned, because accumulators of out-of-range input bytes may overflow; valid inputs never do.
      const auto product = static_cast<std::uint64_t>(acc * f.multiplier64[i]);
      const auto sum = static_cast<std::int64_t>(product + static_cast<std::uint64_t>(f.offset64[i]));
      const bool half_even = f.mode == Finish::Mode::kHalfEven64 || f.mode == Finish::Mode::kHalfEvenWide;
      value = half_even ? shift_half_even(sum, f.shift64[i]) : sum >> f.shift64[i];
      break;
    }
    case Finish::Mode::kRound: {
      const std::size_t i = std::size_t{block} * lanes + lane;
      return round_clamped(static_cast<float>(acc) * f.scale[i], f.least[i], f.most[i]) + f.add[i] +
             f.out_offset;
    }
    case Finish::Mode::kGuess: {
      const std::size_t i = std::size_t{block} * lanes + lane;
      const float product = static_cast<float>(acc) * f.scale[i];
      const auto guess =
          static_cast<std::uint32_t>(round_clamped(product + f.bias[i], f.least[i], f.most[i]));
      const bool more = guess < f.steps &&
                        acc >= f.thresholds32[(std::size_t{block} * (f.steps + 1) + guess) * lanes + lane];
      return f.lowest + static_cast<std::int32_t>(guess + (more ? 1 : 0)) + f.out_offset;
    }
    case Finish::Mode::kThresholds:
    case Finish::Mode::kThresholds64: {
      const std::size_t start = std::size_t{block} * f.steps * lanes + lane;
      std::uint32_t reached = 0;
      for (std::uint32_t jump = f.search; jump != 0; jump >>= 1) {
        const std::uint32_t next = reached + jump;
        if (next > f.steps) continue;
        const std::size_t i = start + std::size_t{next - 1} * lanes;
        if (f.mode == Finish::Mode::kThresholds ? acc >= f.thresholds32[i] : acc >= f.thresholds64[i])
          reached = next;
      }
      return f.lowest + static_cast<std::int32_t>(reached) + f.out_offset;
    }
  }
  if (value < f.lowest) value = f.lowest;
  if (value > f.highest) value = f.highest;
  return static_cast<std::int32_t>(value) + f.zero_point + f.out_offset;
}

/// Finishes any mode, lane by lane.
template <class Isa>
struct ScalarFinisher {
  ScalarFinisher(const Finish& f, std::uint32_t block) : finish(f), at(block) {}
  void write(typename Isa::Vector acc, std::uint8_t* out, std::uint32_t valid) const {
    std::int32_t lanes[Isa::kLanes];
    Isa::store(lanes, acc);
    for (std::uint32_t lane = 0; lane < valid; ++lane) {
      const std::int32_t value = finish_lane(finish, Isa::kLanes, at, lane, lanes[lane]);
      std::memcpy(out + std::size_t{lane} * finish.out_bytes, &value, finish.out_bytes);
    }
  }
  const Finish& finish;
  std::uint32_t at;
};

/// Where results of one tile go.
struct Destination {
  std::uint8_t* out;
  const std::int32_t* offsets;  // of the tile's first result
  std::uint32_t results;
  std::uint32_t pool;  // accumulators a result
  std::uint32_t channels;
};

/// `accs` holds [result * pool][stride] vectors; this block's vectors come first.
template <class Isa, class Finisher>
inline void write_block(const Finish& f, std::uint32_t block, const std::int32_t* accs, std::uint32_t stride,
                        const Destination& to) {
  using Vector = typename Isa::Vector;
  const Finisher finisher(f, block);
  const std::uint32_t first = block * Isa::kLanes;
  const std::uint32_t left = to.channels - first;
  const std::uint32_t valid = left < Isa::kLanes ? left : Isa::kLanes;
  std::uint8_t* out = to.out + std::size_t{first} * f.out_bytes;
  for (std::uint32_t r = 0; r < to.results; ++r) {
    const std::int32_t* from = accs + std::size_t{r} * to.pool * stride * Isa::kLanes;
    Vector acc = Isa::load(from);
    for (std::uint32_t j = 1; j < to.pool; ++j)
      acc = Isa::maximum(acc, Isa::load(from + std::size_t{j} * stride * Isa::kLanes));
    finisher.write(acc, out + to.offsets[r], valid);
  }
}

template <class Isa>
[[gnu::noinline]] void write_tile(const Finish& f, std::uint32_t block, std::uint32_t blocks,
                                  const std::int32_t* accs, const Destination& to) {
  for (std::uint32_t q = 0; q < blocks; ++q) {
    const std::int32_t* from = accs + std::size_t{q} * Isa::kLanes;
    switch (f.mode) {
      case Finish::Mode::kNone:
        write_block<Isa, typename Isa::Plain>(f, block + q, from, blocks, to);
        break;
      case Finish::Mode::kMultiply32:
        write_block<Isa, typename Isa::Multiply32>(f, block + q, from, blocks, to);
        break;
      case Finish::Mode::kMultiply64:
        write_block<Isa, typename Isa::Multiply64>(f, block + q, from, blocks, to);
        break;
      case Finish::Mode::kHalfEven32:
        write_block<Isa, typename Isa::HalfEven32>(f, block + q, from, blocks, to);
        break;
      case Finish::Mode::kHalfEven64:
        write_block<Isa, typename Isa::HalfEven64>(f, block + q, from, blocks, to);
        break;
      case Finish::Mode::kRound:
        write_block<Isa, typename Isa::Round>(f, block + q, from, blocks, to);
        break;
      case Finish::Mode::kGuess:
        write_block<Isa, typename Isa::Guess>(f, block + q, from, blocks, to);
        break;
      case Finish::Mode::kThresholds:
        write_block<Isa, typename Isa::Thresholds>(f, block + q, from, blocks, to);
        break;
      case Finish::Mode::kMultiplyWide:
      case Finish::Mode::kHalfEvenWide:
      case Finish::Mode::kThresholds64:
        write_block<Isa, ScalarFinisher<Isa>>(f, block + q, from, blocks, to);
        break;
    }
  }
}

template <class Isa, bool kWords>
inline typename Isa::Vector dot(typename Isa::Vector acc, typename Isa::Vector x, typename Isa::Vector w) {
  if constexpr (kWords) {
    return Isa::dot_words(acc, x, w);
  } else {
    return Isa::dot_bytes(acc, x, w);
  }
}

// Computes P positions by Q blocks of channels with all accumulators in registers. If there are few
// accumulators, each is split into U partial sums to hide the instruction's latency.
template <class Isa, bool kWords, std::uint32_t P, std::uint32_t Q, std::uint32_t U>
void dense_tile(const DenseArgs& a, std::uint32_t block, std::uint32_t pixel) {
  using Vector = typename Isa::Vector;
  constexpr std::size_t kWordBytes = std::size_t{Isa::kLanes} * 4;  // one word of weights of a block
  Vector acc[U][P][Q];
  const std::uint8_t* in[P];
  const std::uint8_t* weights[Q];
  const std::uint8_t* all_weights = kWords ? reinterpret_cast<const std::uint8_t*>(a.weights16)
                                           : reinterpret_cast<const std::uint8_t*>(a.weights8);
  MILLRACE_UNROLL
  for (std::uint32_t q = 0; q < Q; ++q) {
    const std::size_t b = block + q;
    weights[q] = all_weights + b * a.taps * kWordBytes;
    const Vector bias = Isa::load(a.bias + b * Isa::kLanes);
    MILLRACE_UNROLL
    for (std::uint32_t p = 0; p < P; ++p) {
      acc[0][p][q] = bias;
      MILLRACE_UNROLL
      for (std::uint32_t u = 1; u < U; ++u) acc[u][p][q] = Isa::zero();
    }
  }
  MILLRACE_UNROLL
  for (std::uint32_t p = 0; p < P; ++p) in[p] = a.in + a.pixel_offsets[pixel + p];

  std::uint32_t t = 0;
  for (; t + U <= a.taps; t += U) {
    MILLRACE_UNROLL
    for (std::uint32_t u = 0; u < U; ++u) {
      const std::size_t tap = t + u;
      const std::ptrdiff_t offset = a.tap_offsets[tap];
      Vector w[Q];
      MILLRACE_UNROLL
      for (std::uint32_t q = 0; q < Q; ++q)
        w[q] = Isa::load(reinterpret_cast<const std::int32_t*>(weights[q] + tap * kWordBytes));
      MILLRACE_UNROLL
      for (std::uint32_t p = 0; p < P; ++p) {
        const Vector x = Isa::broadcast_word(in[p] + offset);
        MILLRACE_UNROLL
        for (std::uint32_t q = 0; q < Q; ++q) acc[u][p][q] = dot<Isa, kWords>(acc[u][p][q], x, w[q]);
      }
    }
  }
  if constexpr (U > 1) {
    for (; t < a.taps; ++t) {
      MILLRACE_UNROLL
      for (std::uint32_t p = 0; p < P; ++p) {
        const Vector x = Isa::broadcast_word(in[p] + a.tap_offsets[t]);
        MILLRACE_UNROLL
        for (std::uint32_t q = 0; q < Q; ++q) {
          const Vector w = Isa::load(reinterpret_cast<const std::int32_t*>(weights[q] + t * kWordBytes));
          acc[0][p][q] = dot<Isa, kWords>(acc[0][p][q], x, w);
        }
      }
    }
    MILLRACE_UNROLL
    for (std::uint32_t u = 1; u < U; ++u) {
      MILLRACE_UNROLL
      for (std::uint32_t p = 0; p < P; ++p) {
        MILLRACE_UNROLL
        for (std::uint32_t q = 0; q < Q; ++q) acc[0][p][q] = Isa::add(acc[0][p][q], acc[u][p][q]);
      }
    }
  }
  alignas(64) std::int32_t spilled[P * Q * Isa::kLanes];
  MILLRACE_UNROLL
  for (std::uint32_t p = 0; p < P; ++p) {
    MILLRACE_UNROLL
    for (std::uint32_t q = 0; q < Q; ++q)
      Isa::store(spilled + std::size_t{p * Q + q} * Isa::kLanes, acc[0][p][q]);
  }
  write_tile<Isa>(a.finish, block, Q, spilled,
                  {a.out, a.out_offsets + pixel / a.pool, P / a.pool, a.pool, a.channels});
}

// Computes all positions for Q blocks of channels, whose weights stay in the nearest cache. The last tile
// overlaps the one before it and recomputes some positions, because that is faster than narrow tiles.
template <class Isa, bool kWords, std::uint32_t Q>
void dense_blocks(const DenseArgs& a, std::uint32_t block) {
  if constexpr (Q * 8 <= Isa::kAccumulators) {
    if (a.pixels >= 8) {
      std::uint32_t pixel = 0;
      for (; pixel + 8 <= a.pixels; pixel += 8) dense_tile<Isa, kWords, 8, Q, 1>(a, block, pixel);
      if (pixel < a.pixels) dense_tile<Isa, kWords, 8, Q, 1>(a, block, a.pixels - 8);
      return;
    }
  }
  if constexpr (Q * 4 <= Isa::kAccumulators) {
    if (a.pixels >= 4) {
      std::uint32_t pixel = 0;
      for (; pixel + 4 <= a.pixels; pixel += 4) dense_tile<Isa, kWords, 4, Q, 1>(a, block, pixel);
      if (pixel < a.pixels) dense_tile<Isa, kWords, 4, Q, 1>(a, block, a.pixels - 4);
      return;
    }
  }
  constexpr std::uint32_t kPartial = Q >= 8 ? 1 : Q >= 4 ? 2 : 4;
  if (a.pool == 1) {
    for (std::uint32_t pixel = 0; pixel < a.pixels; ++pixel)
      dense_tile<Isa, kWords, 1, Q, kPartial>(a, block, pixel);
  } else {
    for (std::uint32_t pixel = 0; pixel < a.pixels; pixel += 2)
      dense_tile<Isa, kWords, 2, Q, 1>(a, block, pixel);
  }
}

template <class Isa, bool kWords>
void dense_form(const DenseArgs& a) {
  const std::uint32_t blocks = (a.channels + Isa::kLanes - 1) / Isa::kLanes;
  std::uint32_t block = 0;
  while (block < blocks) {
    const std::uint32_t left = blocks - block;
    // With few positions, wide tiles keep the multiplier busy. With many, tiles are as wide as the registers
    // allow.
    if (a.pixels < 4 && a.pool == 1 && left >= 8) {
      dense_blocks<Isa, kWords, 8>(a, block);
      block += 8;
    } else if (a.pixels < 8 && left >= 4 && 16 <= Isa::kAccumulators) {
      dense_blocks<Isa, kWords, 4>(a, block);
      block += 4;
    } else if (left >= 3 && 24 <= Isa::kAccumulators) {
      dense_blocks<Isa, kWords, 3>(a, block);
      block += 3;
    } else if (left >= 2) {
      dense_blocks<Isa, kWords, 2>(a, block);
      block += 2;
    } else {
      dense_blocks<Isa, kWords, 1>(a, block);
      block += 1;
    }
  }
}

template <class Isa>
void dense(const DenseArgs& a) {
  if constexpr (Isa::kBytes) {
    if (a.weights8 != nullptr) return dense_form<Isa, false>(a);
  }
  dense_form<Isa, true>(a);
}

template <class Isa, bool kWords>
void depthwise_form(const DepthwiseArgs& a) {
  using Vector = typename Isa::Vector;
  constexpr std::uint32_t kPixels = 4;
  const std::uint32_t blocks = (a.channels + Isa::kLanes - 1) / Isa::kLanes;
  const std::size_t weight_pitch = std::size_t{blocks} * Isa::kLanes;
  const auto widen = [](const std::uint8_t* p) { return kWords ? Isa::widen_words(p) : Isa::widen_bytes(p); };
  for (std::uint32_t block = 0; block < blocks; ++block) {
    const std::size_t channel = std::size_t{block} * Isa::kLanes;
    const std::uint8_t* in = a.in + channel * (kWords ? 2 : 1);
    const Vector bias = Isa::load(a.bias + channel);
    for (std::uint32_t pixel = 0; pixel < a.pixels;) {
      alignas(64) std::int32_t spilled[kPixels * Isa::kLanes];
      const std::uint32_t count = a.pixels - pixel >= kPixels ? kPixels : 1;
      if (count == kPixels) {
        Vector acc[kPixels] = {bias, bias, bias, bias};
        for (std::uint32_t t = 0; t < a.taps; ++t) {
          const Vector w = Isa::widen_weights(a.weights + t * weight_pitch + channel);
          const std::uint8_t* tap = in + a.tap_offsets[t];
          MILLRACE_UNROLL
          for (std::uint32_t p = 0; p < kPixels; ++p)
            acc[p] = Isa::multiply_add(acc[p], widen(tap + a.pixel_offsets[pixel + p]), w);
        }
        for (std::uint32_t p = 0; p < kPixels; ++p) Isa::store(spilled + p * Isa::kLanes, acc[p]);
      } else {
        Vector acc = bias;
        for (std::uint32_t t = 0; t < a.taps; ++t) {
          const Vector w = Isa::widen_weights(a.weights + t * weight_pitch + channel);
          acc = Isa::multiply_add(acc, widen(in + a.tap_offsets[t] + a.pixel_offsets[pixel]), w);
        }
        Isa::store(spilled, acc);
      }
      write_tile<Isa>(a.finish, block, 1, spilled, {a.out, a.out_offsets + pixel, count, 1, a.channels});
      pixel += count;
    }
  }
}

template <class Isa>
void depthwise(const DepthwiseArgs& a) {
  if (a.words) {
    depthwise_form<Isa, true>(a);
  } else {
    depthwise_form<Isa, false>(a);
  }
}

// Loops that compilers vectorise well for each level. Arguments are copied to locals, because the compiler
// must assume that a written byte can alias anything.

template <class Element>
void max_pool_of(const PoolArgs& args) {
  const PoolArgs a = args;
  auto* out = reinterpret_cast<Element*>(a.out);
  const std::size_t channels = a.channels;
  for (std::uint32_t oy = 0; oy < a.out_height; ++oy) {
    for (std::uint32_t ox = 0; ox < a.out_width; ++ox, out += channels) {
      bool first = true;
      for (std::uint32_t ky = 0; ky < a.kernel_h; ++ky) {
        const std::int64_t y = std::int64_t{oy} * a.stride_h + std::int64_t{ky} * a.dilation_h - a.pad_top;
        if (y < 0 || y >= a.height) continue;
        for (std::uint32_t kx = 0; kx < a.kernel_w; ++kx) {
          const std::int64_t x = std::int64_t{ox} * a.stride_w + std::int64_t{kx} * a.dilation_w - a.pad_left;
          if (x < 0 || x >= a.width) continue;
          const std::uint8_t* from =
              a.in + static_cast<std::size_t>(y * a.width + x) * channels * sizeof(Element);
          if (first) {
            std::memcpy(out, from, channels * sizeof(Element));
          } else {
            for (std::size_t c = 0; c < channels; ++c) {
              Element element;  // a caller's memory may be unaligned
              std::memcpy(&element, from + c * sizeof(Element), sizeof(Element));
              out[c] = element > out[c] ? element : out[c];
            }
          }
          first = false;
        }
      }
    }
  }
}

inline void max_pool(const PoolArgs& a) {
  switch (a.bytes) {
    case 1:
      return a.is_signed ? max_pool_of<std::int8_t>(a) : max_pool_of<std::uint8_t>(a);
    case 2:
      return a.is_signed ? max_pool_of<std::int16_t>(a) : max_pool_of<std::uint16_t>(a);
    default:
      return a.is_signed ? max_pool_of<std::int32_t>(a) : max_pool_of<std::uint32_t>(a);
  }
}

void stage_bytes(const StageArgs& args) {
  const StageArgs a = args;
  const auto offset = static_cast<std::uint8_t>(a.offset);
  for (std::uint32_t row = 0; row < a.rows; ++row) {
    const std::uint8_t* __restrict in = a.in + row * a.row_elements;
    std::uint8_t* __restrict out = a.out + row * a.out_pitch_bytes;
    for (std::size_t i = 0; i < a.row_elements; ++i) out[i] = static_cast<std::uint8_t>(in[i] + offset);
  }
}

template <class In, class Out>
void stage_words(const StageArgs& args) {
  const StageArgs a = args;
  const auto offset = static_cast<Out>(a.offset);
  for (std::uint32_t row = 0; row < a.rows; ++row) {
    const std::uint8_t* __restrict in = a.in + row * a.row_elements * sizeof(In);
    std::uint8_t* __restrict out = a.out + row * a.out_pitch_bytes;
    for (std::size_t i = 0; i < a.row_elements; ++i) {
      In element;
      std::memcpy(&element, in + i * sizeof(In), sizeof(In));
      const auto value = static_cast<Out>(static_cast<Out>(element) + offset);
      std::memcpy(out + i * sizeof(Out), &value, sizeof(Out));
    }
  }
}

inline void stage(const StageArgs& a) {
  if (!a.words) return stage_bytes(a);
  if (a.in_bytes == 1)
    return a.in_signed ? stage_words<std::int8_t, std::uint16_t>(a)
                       : stage_words<std::uint8_t, std::uint16_t>(a);
  return stage_words<std::uint16_t, std::uint16_t>(a);
}

// Compilers turn the stores into shuffles if the number of planes is a constant.
template <std::size_t kPlanes>
void interleave_planes(const InterleaveArgs& args) {
  const InterleaveArgs a = args;
  std::uint8_t* __restrict out = a.out;
  const std::uint8_t* __restrict in = a.in;
  for (std::size_t i = 0; i < a.elements; ++i) {
    MILLRACE_UNROLL
    for (std::size_t plane = 0; plane < kPlanes; ++plane)
      out[i * kPlanes + plane] = in[plane * a.plane_bytes + i];
  }
}

inline void interleave(const InterleaveArgs& a) {
  switch (a.planes) {
    case 2:
      return interleave_planes<2>(a);
    case 3:
      return interleave_planes<3>(a);
    default:
      return interleave_planes<4>(a);
  }
}

inline std::int32_t quantise_one(const QuantiseArgs& a, float x) {
  const float steps = std::nearbyint(x / a.scale);
  if (std::isnan(steps)) return a.zero_point;
  const float bounded = steps < -1e9F ? -1e9F : steps > 1e9F ? 1e9F : steps;
  const std::int32_t q = static_cast<std::int32_t>(bounded) + a.zero_point;  // at most 1e9 + 65535
  return q < a.lowest ? a.lowest : q > a.highest ? a.highest : q;
}

inline void quantise_tail(const QuantiseArgs& a, std::size_t from) {
  for (std::size_t i = from; i < a.elements; ++i) {
    float x;
    std::memcpy(&x, reinterpret_cast<const std::uint8_t*>(a.in) + i * sizeof(float), sizeof(float));
    const std::int32_t q = quantise_one(a, x);
    std::memcpy(a.out + i * a.out_bytes, &q, a.out_bytes);
  }
}

}  // namespace
}  // namespace millrace::kernels::fast
