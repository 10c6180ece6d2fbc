// The finishers of the levels with wide vectors: how a vector of accumulators becomes elements, for each
// Finish::Mode. Written once over Isa, which wraps a level's intrinsics; included by the level's file only
// (kernels.hpp says why). A finisher is made for one block of channels.
//
// Isa provides, besides what kernels_body.hpp needs: Floats; Shift64; and the functions used here, named after what
// they do to each lane.
#pragma once

#include "kernels/fast/kernels_body.hpp"

namespace millrace::kernels::fast {
namespace {

template <class Isa>
struct WithFinishers : Isa {
  using typename Isa::Floats;
  using typename Isa::Vector;
  static constexpr std::uint32_t kLanes = Isa::kLanes;

  struct Writer {
    explicit Writer(const Finish& f)
        : bytes(f.out_bytes),
          offset(Isa::broadcast(f.out_offset)),
          lowest(Isa::broadcast(f.lowest)),
          highest(Isa::broadcast(f.highest)) {}
    void clamp_and_put(Vector v, std::uint8_t* out, std::uint32_t valid) const {
      put(Isa::minimum(Isa::maximum(v, lowest), highest), out, valid);
    }
    void put(Vector v, std::uint8_t* out, std::uint32_t valid) const {
      Isa::put(Isa::add(v, offset), bytes, out, valid);
    }
    std::uint8_t bytes;
    Vector offset, lowest, highest;
  };

  struct Plain : Writer {
    Plain(const Finish& f, std::uint32_t) : Writer(f) {}
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const { this->put(acc, out, valid); }
  };

  struct Multiply32 : Writer {
    Multiply32(const Finish& f, std::uint32_t block)
        : Writer(f),
          multiplier(Isa::load(f.multiplier32 + block * kLanes)),
          addend(Isa::load(f.offset32 + block * kLanes)),
          shift(Isa::load(f.shift32 + block * kLanes)) {}
    Vector sum(Vector acc) const { return Isa::add(Isa::multiply(acc, multiplier), addend); }
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
      this->clamp_and_put(Isa::shift_right(sum(acc), shift), out, valid);
    }
    Vector multiplier, addend, shift;
  };

  // Rounding half to even adds 2^(shift-1) - 1 to a sum before the shift, plus the bit that becomes the
  // lowest. A shift of 0 adds nothing.
  struct HalfEven32 : Multiply32 {
    HalfEven32(const Finish& f, std::uint32_t block)
        : Multiply32(f, block), lowest_bit(Isa::minimum(this->shift, Isa::broadcast(1))) {
      half = Isa::subtract(Isa::halve(Isa::shift_left(Isa::broadcast(1), this->shift)), lowest_bit);
      this->offset = Isa::add(this->offset, Isa::broadcast(f.zero_point));
    }
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
      const Vector sum = this->sum(acc);
      const Vector odd = Isa::bit_and(Isa::shift_right_unsigned(sum, this->shift), lowest_bit);
      this->clamp_and_put(Isa::shift_right(Isa::add(Isa::add(sum, half), odd), this->shift), out, valid);
    }
    Vector lowest_bit, half;
  };

  // The even or the odd lanes of a block, 64 bits each.
  struct Half64 {
    Half64(const Finish& f, std::size_t at)
        : multiplier(Isa::load64(f.multiplier64 + at)),
          shift(Isa::load64(f.shift64 + at)),
          addend(shift.prepare(Isa::load64(f.offset64 + at))) {}
    Vector sum(Vector acc) const { return Isa::add64(Isa::multiply_even(acc, multiplier), addend); }
    Vector apply(Vector acc) const { return shift.right(sum(acc)); }
    Vector multiplier;
    typename Isa::Shift64 shift;
    Vector addend;
  };

  struct HalfEvenHalf64 : Half64 {
    HalfEvenHalf64(const Finish& f, std::size_t at) : Half64(f, at) {
      const Vector one = Isa::broadcast64(1);
      lowest_bit = Isa::one_if_positive64(this->shift.count);
      half = Isa::subtract64(Isa::halve64(Isa::shift_left64(one, this->shift.count)), lowest_bit);
    }
    Vector apply(Vector acc) const {
      const Vector sum = this->sum(acc);
      const Vector odd = Isa::bit_and(Isa::shift_right_unsigned64(sum, this->shift.count), lowest_bit);
      return this->shift.right(Isa::add64(Isa::add64(sum, half), odd));
    }
    Vector lowest_bit, half;
  };

  template <class Half>
  struct Joined64 : Writer {
    Joined64(const Finish& f, std::uint32_t block)
        : Writer(f), even(f, block * kLanes), odd(f, block * kLanes + kLanes / 2) {
      this->offset = Isa::add(this->offset, Isa::broadcast(f.zero_point));
    }
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
      const Vector high = odd.apply(Isa::odd_to_even(acc));
      this->clamp_and_put(Isa::join_even_odd(even.apply(acc), high), out, valid);
    }
    Half even, odd;
  };
  using Multiply64 = Joined64<Half64>;
  using HalfEven64 = Joined64<HalfEvenHalf64>;

  struct Round : Writer {
    Round(const Finish& f, std::uint32_t block)
        : Writer(f),
          scale(Isa::load_floats(f.scale + block * kLanes)),
          least(Isa::load_floats(f.least + block * kLanes)),
          most(Isa::load_floats(f.most + block * kLanes)),
          addend(Isa::load(f.add + block * kLanes)) {}
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
      const Floats scaled = Isa::multiply_floats(Isa::to_floats(acc), scale);
      this->put(Isa::add(Isa::round(Isa::clamp_floats(scaled, least, most)), addend), out, valid);
    }
    Floats scale, least, most;
    Vector addend;
  };

  struct Guess : Writer {
    Guess(const Finish& f, std::uint32_t block)
        : Writer(f),
          scale(Isa::load_floats(f.scale + block * kLanes)),
          bias(Isa::load_floats(f.bias + block * kLanes)),
          least(Isa::load_floats(f.least + block * kLanes)),
          most(Isa::load_floats(f.most + block * kLanes)),
          from(f.thresholds32 + block * (f.steps + std::size_t{1}) * kLanes),
          base(Isa::broadcast(f.lowest)),
          last(Isa::broadcast(static_cast<std::int32_t>(f.steps))) {}
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
      const Floats scaled = Isa::add_floats(Isa::multiply_floats(Isa::to_floats(acc), scale), bias);
      const Vector guess = Isa::round(Isa::clamp_floats(scaled, least, most));
      const Vector reached = Isa::count_if_reached(guess, acc, Isa::gather(from, guess));
      this->put(Isa::add(Isa::minimum(reached, last), base), out, valid);
    }
    Floats scale, bias, least, most;
    const std::int32_t* from;
    Vector base, last;
  };

  struct Thresholds : Writer {
    Thresholds(const Finish& f, std::uint32_t block)
        : Writer(f),
          from(f.thresholds32 + std::size_t{block} * f.steps * kLanes),
          steps(f.steps),
          search(f.search),
          base(Isa::broadcast(f.lowest)) {}
    void write(Vector acc, std::uint8_t* out, std::uint32_t valid) const {
      Vector reached = Isa::zero();
      if (steps <= 16) {
        for (std::uint32_t i = 0; i < steps; ++i)
          reached = Isa::count_if_reached(reached, acc, Isa::load(from + i * kLanes));
      } else {
        const Vector last = Isa::broadcast(static_cast<std::int32_t>(steps));
        for (std::uint32_t jump = search; jump != 0; jump >>= 1) {
          const Vector next = Isa::add(reached, Isa::broadcast(static_cast<std::int32_t>(jump)));
          reached = Isa::advance(from, reached, next, last, acc);
        }
      }
      this->put(Isa::add(reached, base), out, valid);
    }
    const std::int32_t* from;
    std::uint32_t steps, search;
    Vector base;
  };
};

template <class Isa>
void quantise(const QuantiseArgs& a) {
  const auto scale = Isa::broadcast_float(a.scale);
  const auto zero_point = Isa::broadcast(a.zero_point);
  Finish plain;
  plain.out_bytes = a.out_bytes;
  plain.lowest = a.lowest;
  plain.highest = a.highest;
  const typename WithFinishers<Isa>::Writer writer(plain);
  std::size_t i = 0;
  for (; i + Isa::kLanes <= a.elements; i += Isa::kLanes) {
    const auto steps = Isa::divide_floats(Isa::load_floats(a.in + i), scale);
    writer.clamp_and_put(Isa::add(Isa::round(Isa::bounded(steps)), zero_point), a.out + i * a.out_bytes,
                         Isa::kLanes);
  }
  quantise_tail(a, i);
}

}  // namespace
}  // namespace millrace::kernels::fast
