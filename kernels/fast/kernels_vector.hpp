// Vectors of 32-bit lanes, and the finishers, which turn a vector of accumulators into elements for each Finish::Mode.
// They are written once over Isa (kernels_body.hpp) with the compilers' vector extension. Operators work lane by lane,
// and a comparison gives -1 in each lane where it holds. Integers wrap, because the level files are compiled with
// -fwrapv.
#pragma once

#include <cstring>

#include "kernels/fast/kernels.hpp"

namespace millrace::kernels::fast {
namespace {

template <class Element, std::uint32_t kLanes>
using VectorOf [[gnu::vector_size(kLanes * sizeof(Element))]] = Element;

/// The vector types of one instruction-set level.
template <std::uint32_t kCount>
struct Vectors {
  static constexpr std::uint32_t kLanes = kCount;
  using Vector = VectorOf<std::int32_t, kCount>;
  using Floats = VectorOf<float, kCount>;
};

/// Loads a vector of any type from memory of any alignment.
template <class V>
inline V load(const void* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

template <class V>
inline V larger(V a, V b) {
  return a > b ? a : b;
}

template <class V>
inline V smaller(V a, V b) {
  return a < b ? a : b;
}

template <class Element, std::uint32_t kLanes>
inline void put_as(VectorOf<Element, kLanes> v, std::uint8_t* out, std::uint32_t valid) {
  if (valid == kLanes) {
    std::memcpy(out, &v, sizeof v);
    return;
  }
  // Copy the bytes in pieces of constant size, because the compiler turns each such piece into one move instruction.
  const auto* from = reinterpret_cast<const std::uint8_t*>(&v);
  const std::size_t left = valid * sizeof(Element);
  const auto put_piece = [&](auto piece) {
    if ((left & sizeof piece) == 0) return;
    std::memcpy(out, from, sizeof piece);
    out += sizeof piece;
    from += sizeof piece;
  };
  put_piece(VectorOf<std::uint64_t, 2>{});
  put_piece(std::uint64_t{});
  put_piece(std::uint32_t{});
  put_piece(std::uint16_t{});
  put_piece(std::uint8_t{});
}

/// Writes the low `bytes` bytes of the first `valid` lanes, for levels without masks.
template <class Isa>
inline void put_lanes(typename Isa::Vector v, std::uint8_t bytes, std::uint8_t* out, std::uint32_t valid) {
  if (bytes == 4) return put_as<std::int32_t, Isa::kLanes>(v, out, valid);
  if (bytes == 1) return put_as<std::int8_t, Isa::kLanes>(Isa::to_bytes(v), out, valid);
  put_as<std::int16_t, Isa::kLanes>(__builtin_convertvector(v, VectorOf<std::int16_t, Isa::kLanes>), out,
                                    valid);
}

/// Adds `even` to the vectors 0 and 2 of four, and `odd` to the others. Clamps the sums to int8, and flips the bits
/// `flip`, which is 0 or 128, of the sums' bytes. Writes the bytes of each vector to its place in `out`. Used at levels
/// that have no instructions for this.
template <class Isa>
inline void put_saturated_lanes(const typename Isa::Vector* four, typename Isa::Vector even,
                                typename Isa::Vector odd, std::uint8_t flip, std::uint8_t* const* out) {
  using Vector = typename Isa::Vector;
  for (std::uint32_t i = 0; i < 4; ++i) {
    const Vector sum = four[i] + (i % 2 == 0 ? even : odd);
    Isa::put(smaller(larger(sum, Vector{} - 128), Vector{} + 127) ^ std::int32_t{flip}, 1, out[i],
             Isa::kLanes);
  }
}

/// Like put_saturated_lanes(), but adds `above`, which is 0 or 128, to the clamped sums and writes them as 16-bit words.
template <class Isa>
inline void put_saturated_words_lanes(const typename Isa::Vector* four, typename Isa::Vector even,
                                      typename Isa::Vector odd, std::int32_t above,
                                      std::uint8_t* const* out) {
  using Vector = typename Isa::Vector;
  for (std::uint32_t i = 0; i < 4; ++i) {
    const Vector sum = four[i] + (i % 2 == 0 ? even : odd);
    Isa::put(smaller(larger(sum, Vector{} - 128), Vector{} + 127) + above, 2, out[i], Isa::kLanes);
  }
}

/// Writes the elements of one block. A finisher is made from a Finish and the number of its block.
template <class Isa>
struct PlainFinisher {
  using Vector = typename Isa::Vector;
  PlainFinisher(const Finish& f, std::uint32_t) : bytes(f.out_bytes), offset(f.out_offset - Vector{}) {}
  void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
    Isa::put(acc + offset, bytes, out, valid);
  }
  std::uint8_t bytes;
  Vector offset;
};

template <class Isa>
struct MultiplyFinisher : PlainFinisher<Isa> {
  using typename PlainFinisher<Isa>::Vector;
  static constexpr std::uint32_t kHalf = Isa::kLanes / 2;
  using Narrow = VectorOf<std::int32_t, kHalf>;
  using Wide = VectorOf<std::int64_t, kHalf>;

  // The constants for the low or the high half of a block's lanes.
  struct Half {
    Half(const Finish& f, std::size_t at)
        : multiplier(load<Wide>(f.multiplier + at)),
          offset(load<Wide>(f.offset + at)),
          half(load<Wide>(f.half + at)),
          odd(load<Wide>(f.odd + at)),
          shift(load<Wide>(f.shift + at)) {}
    Wide multiplier, offset, half, odd, shift;
  };

  MultiplyFinisher(const Finish& f, std::uint32_t block)
      : PlainFinisher<Isa>(f, block),
        low(f, std::size_t{block} * Isa::kLanes),
        high(f, std::size_t{block} * Isa::kLanes + kHalf),
        zero_point(f.zero_point - Wide{}),
        lowest(f.lowest - Wide{}),
        highest(f.highest - Wide{}) {}

  Narrow apply(const Half& h, const std::int32_t* accs) const {
    const Wide sum = __builtin_convertvector(load<Narrow>(accs), Wide) * h.multiplier + h.offset;
    const Wide result = ((sum + h.half + ((sum >> h.shift) & h.odd)) >> h.shift) + zero_point;
    return __builtin_convertvector(smaller(larger(result, lowest), highest), Narrow);
  }
  void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
    std::int32_t lanes[Isa::kLanes];
    std::memcpy(lanes, &acc, sizeof lanes);
    const Narrow results[] = {apply(low, lanes), apply(high, lanes + kHalf)};
    PlainFinisher<Isa>::write(load<Vector>(results), out, valid);
  }

  Half low, high;
  Wide zero_point, lowest, highest;
};

template <class Isa>
struct RoundFinisher : PlainFinisher<Isa> {
  using typename PlainFinisher<Isa>::Vector;
  using Floats = typename Isa::Floats;
  RoundFinisher(const Finish& f, std::uint32_t block)
      : PlainFinisher<Isa>(f, block),
        scale(load<Floats>(f.scale + std::size_t{block} * Isa::kLanes)),
        bias(load<Floats>(f.bias + std::size_t{block} * Isa::kLanes)),
        least(load<Floats>(f.least + std::size_t{block} * Isa::kLanes)),
        most(load<Floats>(f.most + std::size_t{block} * Isa::kLanes)) {
    this->offset += load<Vector>(f.add + std::size_t{block} * Isa::kLanes);
  }
  Vector rounded(Floats x) const { return Isa::round(smaller(larger(x, least), most)); }
  void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
    PlainFinisher<Isa>::write(rounded(__builtin_convertvector(acc, Floats) * scale), out, valid);
  }
  Floats scale, bias, least, most;
};

/// Writes the elements of four whole vectors at a time, for Finish::saturates. The vectors 0 and 2 belong to the block
/// `even`, the others to the block `odd`. The bounds of int8 are those of the instructions; the bounds of uint8 are 128
/// higher, which `flip` compensates.
template <class Isa>
struct SaturateFinisher {
  using Vector = typename Isa::Vector;
  using Floats = typename Isa::Floats;
  SaturateFinisher(const Finish& f, std::uint32_t even, std::uint32_t odd)
      : scales{load<Floats>(f.scale + std::size_t{even} * Isa::kLanes),
               load<Floats>(f.scale + std::size_t{odd} * Isa::kLanes)},
        adds{load<Vector>(f.add + std::size_t{even} * Isa::kLanes) - (f.lowest + 128),
             load<Vector>(f.add + std::size_t{odd} * Isa::kLanes) - (f.lowest + 128)},
        flip(static_cast<std::uint8_t>(f.lowest + 128 + f.out_offset)),
        words(f.out_bytes == 2) {}
  void write(const Vector* accs, std::uint8_t* const* out) const {
    Vector results[4];
    for (std::uint32_t i = 0; i < 4; ++i)
      results[i] = Isa::round(__builtin_convertvector(accs[i], Floats) * scales[i % 2]);
    if (words) {
      Isa::put_saturated_words(results, adds[0], adds[1], flip, out);
    } else {
      Isa::put_saturated(results, adds[0], adds[1], flip, out);
    }
  }
  Floats scales[2];
  Vector adds[2];
  std::uint8_t flip;  // 0 or 128
  bool words;
};

/// The thresholds of one block of channels.
template <class Isa>
struct Steps {
  using Vector = typename Isa::Vector;
  Steps(const Finish& f, std::uint32_t block)
      : from(f.thresholds + std::size_t{block} * 2 * f.search * Isa::kLanes),
        reachable(load<Vector>(f.reachable + std::size_t{block} * Isa::kLanes)) {}
  // Returns for each lane i the threshold of this lane in row rows[i].
  Vector at(Vector rows) const { return Isa::gather(from, rows); }
  const std::int32_t* from;
  Vector reachable;
};

template <class Isa>
struct GuessFinisher : RoundFinisher<Isa> {
  using typename PlainFinisher<Isa>::Vector;
  using typename RoundFinisher<Isa>::Floats;
  GuessFinisher(const Finish& f, std::uint32_t block) : RoundFinisher<Isa>(f, block), steps(f, block) {}
  void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
    const Vector guess = this->rounded(__builtin_convertvector(acc, Floats) * this->scale + this->bias);
    const Vector reached = guess - (acc >= steps.at(guess));
    PlainFinisher<Isa>::write(smaller(reached, steps.reachable), out, valid);
  }
  Steps<Isa> steps;
};

template <class Isa>
struct ThresholdFinisher : PlainFinisher<Isa> {
  using typename PlainFinisher<Isa>::Vector;
  ThresholdFinisher(const Finish& f, std::uint32_t block)
      : PlainFinisher<Isa>(f, block), steps(f, block), count(f.steps), search(f.search) {
    this->offset += f.lowest;
  }
  void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
    Vector reached{};
    if (count <= 16) {
      for (std::uint32_t i = 0; i < count; ++i) reached -= acc >= load<Vector>(steps.from + i * Isa::kLanes);
    } else {
      for (auto jump = static_cast<std::int32_t>(search); jump != 0; jump >>= 1)
        reached = acc >= steps.at(reached + (jump - 1)) ? reached + jump : reached;
    }
    PlainFinisher<Isa>::write(smaller(reached, steps.reachable), out, valid);
  }
  Steps<Isa> steps;
  std::uint32_t count, search;
};

}  // namespace
}  // namespace millrace::kernels::fast
