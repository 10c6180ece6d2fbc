// The fast kernels, written once over the vector type of an instruction-set level. Each level's file includes this
// header. Everything in it is in an unnamed namespace and has internal linkage (kernels.hpp says why).
//
// Isa is a Vectors<lanes> with these additional members: kBytes (whether dot_bytes exists); kAccumulators (how many
// vectors fit into its registers); dot_words and dot_bytes (add products of 16-bit words or of bytes); widen_bytes and
// widen_words (turn kLanes elements into lanes); round (to the nearest integer, half to even); gather (takes lane i of
// row rows[i] from [row][lane]); put (writes the low bytes of some lanes); put_saturated
// and put_saturated_words (see put_saturated_lanes() and put_saturated_words_lanes()).
#pragma once

#include "kernels/fast/kernels_vector.hpp"

#if defined(__clang__)
#define MILLRACE_UNROLL _Pragma("unroll")
#else
#define MILLRACE_UNROLL _Pragma("GCC unroll 16")
#endif

namespace millrace::kernels::fast {
namespace {

/// Where the results of one tile are written.
struct Destination {
  std::uint8_t* out;
  const std::int32_t* offsets;  // [result of the tile]: where it is written, in bytes from `out`
  std::uint32_t results;
  std::uint32_t pool;  // accumulators for each result
  std::uint32_t channels;
};

/// Writes the results of one block of channels. `accs` is an array [result * pool][stride] of vectors and begins with
/// this block's vectors.
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
    auto acc = load<Vector>(from);
    for (std::uint32_t j = 1; j < to.pool; ++j)
      acc = larger(acc, load<Vector>(from + std::size_t{j} * stride * Isa::kLanes));
    finisher.write(acc, out + to.offsets[r], valid);
  }
}

/// Returns whether SaturateFinisher can write the results.
inline bool uses_saturation(const Finish& f) {
  return f.mode == Finish::Mode::kRound && f.saturates &&
         (f.out_bytes == 1 || (f.out_bytes == 2 && f.out_offset == 0));
}

/// Like write_block(), but clamps with instructions that saturate, as Finish::saturates permits. Writes four results at
/// a time. Writes results one by one if fewer than four are left, or if the block has fewer channels than lanes.
template <class Isa>
inline void write_saturated(const Finish& f, std::uint32_t block, const std::int32_t* accs,
                            std::uint32_t stride, const Destination& to) {
  using Vector = typename Isa::Vector;
  const std::uint32_t first = block * Isa::kLanes;
  std::uint32_t r = 0;
  if (to.channels - first >= Isa::kLanes && to.results >= 4) {
    const SaturateFinisher<Isa> finisher(f, block, block);
    for (; r + 4 <= to.results; r += 4) {
      Vector largest[4];
      std::uint8_t* out[4];
      MILLRACE_UNROLL
      for (std::uint32_t i = 0; i < 4; ++i) {
        const std::int32_t* from = accs + std::size_t{r + i} * to.pool * stride * Isa::kLanes;
        largest[i] = load<Vector>(from);
        for (std::uint32_t j = 1; j < to.pool; ++j)
          largest[i] = larger(largest[i], load<Vector>(from + std::size_t{j} * stride * Isa::kLanes));
        out[i] = to.out + std::size_t{first} * f.out_bytes + to.offsets[r + i];
      }
      finisher.write(largest, out);
    }
  }
  if (r == to.results) return;
  const Destination rest{to.out, to.offsets + r, to.results - r, to.pool, to.channels};
  write_block<Isa, RoundFinisher<Isa>>(f, block, accs + std::size_t{r} * to.pool * stride * Isa::kLanes,
                                       stride, rest);
}

template <class Isa>
[[gnu::noinline]] void write_tile(const Finish& f, std::uint32_t block, std::uint32_t blocks,
                                  const std::int32_t* accs, const Destination& to) {
  for (std::uint32_t q = 0; q < blocks; ++q) {
    const std::int32_t* from = accs + std::size_t{q} * Isa::kLanes;
    switch (f.mode) {
      case Finish::Mode::kNone:
        write_block<Isa, PlainFinisher<Isa>>(f, block + q, from, blocks, to);
        break;
      case Finish::Mode::kMultiply:
        write_block<Isa, MultiplyFinisher<Isa>>(f, block + q, from, blocks, to);
        break;
      case Finish::Mode::kRound:
        if (uses_saturation(f)) {
          write_saturated<Isa>(f, block + q, from, blocks, to);
        } else {
          write_block<Isa, RoundFinisher<Isa>>(f, block + q, from, blocks, to);
        }
        break;
      case Finish::Mode::kGuess:
        write_block<Isa, GuessFinisher<Isa>>(f, block + q, from, blocks, to);
        break;
      case Finish::Mode::kThresholds:
        write_block<Isa, ThresholdFinisher<Isa>>(f, block + q, from, blocks, to);
        break;
    }
  }
}

/// Writes the results of P positions and Q whole blocks directly from registers if Finish::saturates applies and
/// nothing is pooled. Returns whether it wrote them. In all other cases, write_tile() writes the results from memory,
/// which keeps the code small.
template <class Isa, std::uint32_t P, std::uint32_t Q>
inline bool write_from_registers(const Finish& f, std::uint32_t block,
                                 const typename Isa::Vector (&acc)[P][Q], const Destination& to) {
  using Vector = typename Isa::Vector;
  // Four vectors are written together: those of four positions, or of two positions and two blocks.
  constexpr bool kTwoBlocks = Q == 2 && P % 4 != 0;
  if constexpr (P % (kTwoBlocks ? 2 : 4) == 0) {
    if (!uses_saturation(f) || to.pool != 1 || (block + Q) * Isa::kLanes > to.channels) return false;
    constexpr std::uint32_t kStep = kTwoBlocks ? 2 : 1, kPositions = 4 / kStep;
    const std::size_t block_bytes = std::size_t{Isa::kLanes} * f.out_bytes;
    MILLRACE_UNROLL
    for (std::uint32_t q = 0; q < Q; q += kStep) {
      const SaturateFinisher<Isa> finisher(f, block + q, block + q + kStep - 1);
      std::uint8_t* const out = to.out + (block + q) * block_bytes;
      MILLRACE_UNROLL
      for (std::uint32_t p = 0; p < P; p += kPositions) {
        Vector four[4];
        std::uint8_t* places[4];
        MILLRACE_UNROLL
        for (std::uint32_t i = 0; i < 4; ++i) {
          four[i] = acc[p + i / kStep][q + i % kStep];
          places[i] = out + to.offsets[p + i / kStep] + i % kStep * block_bytes;
        }
        finisher.write(four, places);
      }
    }
    return true;
  }
  return false;
}

/// Returns a vector of which every lane holds the word at `from`.
template <class Isa>
inline typename Isa::Vector broadcast_word(const std::uint8_t* from) {
  return load<std::int32_t>(from) - typename Isa::Vector{};
}

// Computes P positions by Q blocks of channels with all accumulators in registers. If there are few
// accumulators, each is split into U partial sums to hide the instruction's latency.
template <class Isa, bool kWords, std::uint32_t P, std::uint32_t Q, std::uint32_t U>
void dense_tile(const DenseArgs& a, std::uint32_t block, std::uint32_t pixel) {
  using Vector = typename Isa::Vector;
  Vector acc[U][P][Q];
  const std::uint8_t* in[P];
  const std::uint8_t* weights[Q];
  const std::uint8_t* all_weights = kWords ? reinterpret_cast<const std::uint8_t*>(a.weights16)
                                           : reinterpret_cast<const std::uint8_t*>(a.weights8);
  MILLRACE_UNROLL
  for (std::uint32_t q = 0; q < Q; ++q) {
    const std::size_t b = block + q;
    weights[q] = all_weights + b * a.taps * sizeof(Vector);
    const auto bias = load<Vector>(a.bias + b * Isa::kLanes);
    MILLRACE_UNROLL
    for (std::uint32_t p = 0; p < P; ++p) {
      acc[0][p][q] = bias;
      MILLRACE_UNROLL
      for (std::uint32_t u = 1; u < U; ++u) acc[u][p][q] = Vector{};
    }
  }
  MILLRACE_UNROLL
  for (std::uint32_t p = 0; p < P; ++p) in[p] = a.in + a.pixel_offsets[pixel + p];

  const auto add_tap = [&](std::uint32_t u, std::size_t tap) __attribute__((always_inline)) {
    const std::ptrdiff_t offset = a.tap_offsets[tap];
    Vector w[Q];
    MILLRACE_UNROLL
    for (std::uint32_t q = 0; q < Q; ++q) w[q] = load<Vector>(weights[q] + tap * sizeof(Vector));
    MILLRACE_UNROLL
    for (std::uint32_t p = 0; p < P; ++p) {
      const Vector x = broadcast_word<Isa>(in[p] + offset);
      MILLRACE_UNROLL
      for (std::uint32_t q = 0; q < Q; ++q) {
        if constexpr (kWords) {
          acc[u][p][q] = Isa::dot_words(acc[u][p][q], x, w[q]);
        } else {
          acc[u][p][q] = Isa::dot_bytes(acc[u][p][q], x, w[q]);
        }
      }
    }
  };
  std::uint32_t t = 0;
  for (; t + U <= a.taps; t += U) {
    MILLRACE_UNROLL
    for (std::uint32_t u = 0; u < U; ++u) add_tap(u, std::size_t{t} + u);
  }
  if constexpr (U > 1) {
    for (; t < a.taps; ++t) add_tap(0, t);
    MILLRACE_UNROLL
    for (std::uint32_t u = 1; u < U; ++u) {
      MILLRACE_UNROLL
      for (std::uint32_t p = 0; p < P; ++p) {
        MILLRACE_UNROLL
        for (std::uint32_t q = 0; q < Q; ++q) acc[0][p][q] += acc[u][p][q];
      }
    }
  }
  const Destination to{a.out, a.out_offsets + pixel / a.pool, P / a.pool, a.pool, a.channels};
  if (write_from_registers<Isa, P, Q>(a.finish, block, acc[0], to)) return;
  alignas(64) std::int32_t spilled[P * Q * Isa::kLanes];
  MILLRACE_UNROLL
  for (std::uint32_t p = 0; p < P; ++p) {
    MILLRACE_UNROLL
    for (std::uint32_t q = 0; q < Q; ++q)
      std::memcpy(spilled + (p * Q + q) * Isa::kLanes, &acc[0][p][q], sizeof(Vector));
  }
  write_tile<Isa>(a.finish, block, Q, spilled, to);
}

// Computes all positions in tiles of P. The last tile overlaps the previous one and recomputes some positions, which is
// faster than narrow tiles.
template <class Isa, bool kWords, std::uint32_t P, std::uint32_t Q, std::uint32_t U = 1>
void dense_tiles(const DenseArgs& a, std::uint32_t block) {
  for (std::uint32_t pixel = 0; pixel < a.pixels; pixel += P)
    dense_tile<Isa, kWords, P, Q, U>(a, block, smaller(pixel, a.pixels - P));
}

// Computes all positions for Q blocks of channels. The weights of these blocks stay in the nearest cache.
template <class Isa, bool kWords, std::uint32_t Q>
void dense_blocks(const DenseArgs& a, std::uint32_t block) {
  if constexpr (Q * 8 <= Isa::kAccumulators)
    if (a.pixels >= 8) return dense_tiles<Isa, kWords, 8, Q>(a, block);
  if constexpr (Q * 6 <= Isa::kAccumulators)
    if (a.pixels >= 6 && a.pool != 4) return dense_tiles<Isa, kWords, 6, Q>(a, block);
  if constexpr (Q * 4 <= Isa::kAccumulators)
    if (a.pixels >= 4) return dense_tiles<Isa, kWords, 4, Q>(a, block);
  if (a.pool != 1) return dense_tiles<Isa, kWords, 2, Q>(a, block);
  dense_tiles<Isa, kWords, 1, Q, Q >= 8 ? 1 : Q >= 4 ? 2 : 4>(a, block);
}

template <class Isa, bool kWords>
void dense_form(const DenseArgs& a) {
  const std::uint32_t blocks = (a.channels + Isa::kLanes - 1) / Isa::kLanes;
  std::uint32_t block = 0;
  while (block < blocks) {
    const std::uint32_t left = blocks - block;
    // With few positions, tiles with many blocks of channels keep the multiplier busy. With many positions, tiles have
    // as many blocks as fit into the registers.
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

// Computes P positions of one block of channels.
template <class Isa, bool kWords, std::uint32_t P>
void depthwise_tile(const DepthwiseArgs& a, std::uint32_t block, std::size_t weight_pitch,
                    std::uint32_t pixel) {
  using Vector = typename Isa::Vector;
  const std::size_t channel = std::size_t{block} * Isa::kLanes;
  const std::uint8_t* in = a.in + channel * (kWords ? 2 : 1);
  Vector acc[P][1];
  MILLRACE_UNROLL
  for (std::uint32_t p = 0; p < P; ++p) acc[p][0] = load<Vector>(a.bias + channel);
  for (std::uint32_t t = 0; t < a.taps; ++t) {
    const auto w = load<Vector>(a.weights + t * weight_pitch + channel);
    MILLRACE_UNROLL
    for (std::uint32_t p = 0; p < P; ++p) {
      const std::uint8_t* from = in + a.tap_offsets[t] + a.pixel_offsets[pixel + p];
      // The high words of `w` are zero, so the sum of two products is just the product of the low words.
      acc[p][0] = Isa::dot_words(acc[p][0], kWords ? Isa::widen_words(from) : Isa::widen_bytes(from), w);
    }
  }
  const Destination to{a.out, a.out_offsets + pixel, P, 1, a.channels};
  if (write_from_registers<Isa, P, 1>(a.finish, block, acc, to)) return;
  alignas(64) std::int32_t spilled[P * Isa::kLanes];
  MILLRACE_UNROLL
  for (std::uint32_t p = 0; p < P; ++p) std::memcpy(spilled + p * Isa::kLanes, &acc[p][0], sizeof(Vector));
  write_tile<Isa>(a.finish, block, 1, spilled, to);
}

template <class Isa, bool kWords>
void depthwise_form(const DepthwiseArgs& a) {
  const std::uint32_t blocks = (a.channels + Isa::kLanes - 1) / Isa::kLanes;
  const std::size_t weight_pitch = std::size_t{blocks} * Isa::kLanes;
  for (std::uint32_t block = 0; block < blocks; ++block) {
    std::uint32_t pixel = 0;
    // The last tile overlaps the previous one, as in dense_tiles().
    for (; a.pixels >= 4 && pixel < a.pixels; pixel += 4)
      depthwise_tile<Isa, kWords, 4>(a, block, weight_pitch, smaller(pixel, a.pixels - 4));
    for (; pixel < a.pixels; ++pixel) depthwise_tile<Isa, kWords, 1>(a, block, weight_pitch, pixel);
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

// Compilers vectorise the loops below well for each level. Arguments are copied to local variables, because the
// compiler must assume that a written byte can alias anything.

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

template <class In, class Out>
void stage_as(const StageArgs& args) {
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
  if (!a.words) return stage_as<std::uint8_t, std::uint8_t>(a);
  if (a.in_bytes == 2) return stage_as<std::uint16_t, std::uint16_t>(a);
  return a.in_signed ? stage_as<std::int8_t, std::uint16_t>(a) : stage_as<std::uint8_t, std::uint16_t>(a);
}

// The number of planes is a template parameter. Compilers turn the stores into shuffles only if it is a constant.
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

template <class Isa>
void add(const AddArgs& args) {
  using Vector = typename Isa::Vector;
  const AddArgs a = args;
  constexpr std::size_t kGroup = std::size_t{4} * Isa::kLanes;
  const std::int32_t low = a.is_unsigned ? 128 : 0;  // what put_saturated() needs to clamp to uint8
  const auto vector_at = [&](std::size_t at) __attribute__((always_inline)) {
    const Vector x = Isa::widen_bytes(a.a + at) ^ std::int32_t{a.flip_a},
                 y = Isa::widen_bytes(a.b + at) ^ std::int32_t{a.flip_b};
    const Vector sum = (x * a.multiplier_a + y * a.multiplier_b + a.offset) >> a.shift;
    return smaller(larger(sum, Vector{} + a.lowest), Vector{} + a.highest);
  };
  // The last group overlaps the previous one. If there are fewer elements than a group has, they are added one by one.
  for (std::size_t i = 0; i < a.elements && a.elements >= kGroup; i += kGroup) {
    const std::size_t at = smaller(i, a.elements - kGroup);
    std::uint8_t* const out[] = {a.out + at, a.out + at + Isa::kLanes,
                                 a.out + at + std::size_t{2} * Isa::kLanes,
                                 a.out + at + std::size_t{3} * Isa::kLanes};
    const Vector four[] = {vector_at(at), vector_at(at + Isa::kLanes),
                           vector_at(at + std::size_t{2} * Isa::kLanes),
                           vector_at(at + std::size_t{3} * Isa::kLanes)};
    Isa::put_saturated(four, Vector{} - low, Vector{} - low, static_cast<std::uint8_t>(low), out);
  }
  if (a.elements >= kGroup) return;
  for (std::size_t i = 0; i < a.elements; ++i) {
    const std::int32_t sum =
        ((a.a[i] ^ a.flip_a) * a.multiplier_a + (a.b[i] ^ a.flip_b) * a.multiplier_b + a.offset) >> a.shift;
    a.out[i] = static_cast<std::uint8_t>(smaller(larger(sum, a.lowest), a.highest));
  }
}

template <class Isa>
void quantise(const QuantiseArgs& a) {
  using Floats = typename Isa::Floats;
  constexpr std::size_t kLanes = Isa::kLanes;
  // The bounds are whole numbers, so clamping before rounding gives the same result.
  const Floats least = Floats{} + static_cast<float>(a.lowest - a.zero_point);
  const Floats most = Floats{} + static_cast<float>(a.highest - a.zero_point);
  for (std::size_t i = 0; i < a.elements; i += kLanes) {
    const std::size_t valid = smaller(kLanes, a.elements - i);
    Floats x{};
    if (valid == kLanes) {
      x = load<Floats>(a.in + i);
    } else {
      std::memcpy(&x, a.in + i, valid * sizeof(float));
    }
    const Floats steps = x / a.scale;
    const Floats number = steps == steps ? steps : Floats{};  // NaN becomes the zero point
    Isa::put(Isa::round(smaller(larger(number, least), most)) + a.zero_point, a.out_bytes,
             a.out + i * a.out_bytes, static_cast<std::uint32_t>(valid));
  }
}

template <class Isa>
constexpr Kernels kernels_with() {
  return {Isa::kLanes, Isa::kBytes, dense<Isa>, depthwise<Isa>, max_pool,
          stage,       interleave,  add<Isa>,   quantise<Isa>};
}

}  // namespace
}  // namespace millrace::kernels::fast
