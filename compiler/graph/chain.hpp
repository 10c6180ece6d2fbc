// A function of one number, written as the sequence of float32 and integer steps in which a model states it:
// "to float, times 0.00009, Relu, quantise to uint8". The reference that requantisation is proved against.
//
// All arithmetic is IEEE float32, one rounding a step, in the order written (numerics.md); rounding to an
// integer is half to even.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace millrace::compiler::graph {

struct Step {
  enum class Kind : std::uint8_t {
    kAddInteger,    // integer -> integer: x + integers[c]
    kClampInteger,  // integer -> integer: min(max(x, lowest), highest)
    kToFloat,       // integer -> float: float32(x)
    kDequantise,    // integer -> float: float32(x - integers[c]) * floats[c]
    kMultiply,      // float -> float: x * floats[c]
    kAdd,           // x + floats[c]
    kDivide,        // x / floats[c]
    kRelu,          // max(x, 0)
    kClip,          // min(max(x, low), high)
    kLeakyRelu,     // x < 0 ? x * low : x
    kSigmoid,       // 1 / (1 + exp(-x))
    kTanh,
    kHardSigmoid,  // max(0, min(1, low * x + high))
    kHardSwish,    // x * max(0, min(1, x / 6 + 0.5))
    kQuantise,     // float -> integer: clamp(rne(x / floats[c]) + integers[c], lowest, highest); NaN gives
                   // integers[c]
  };
  Kind kind = Kind::kToFloat;
  std::vector<float> floats;           // one, or one a channel
  std::vector<std::int64_t> integers;  // one, or one a channel
  float low = 0, high = 0;
  std::int64_t lowest = 0, highest = 0;
  /// kDequantise of a sum of products only: the scale is a product input scale * weight scale, and a
  /// quantiser that follows (Relu and Clip may stand between) is computed as QLinearConv does: x * (floats /
  /// scale), not (x * floats) / scale.
  bool accumulator = false;
  bool operator==(const Step&) const = default;

  static Step add_integer(std::vector<std::int64_t> addend);
  static Step clamp_integer(std::int64_t lowest, std::int64_t highest);
  static Step to_float();
  static Step dequantise(std::vector<float> scale, std::int64_t zero_point);
  static Step multiply(std::vector<float> factor);
  static Step add(std::vector<float> addend);
  static Step divide(std::vector<float> divisor);
  static Step relu();
  static Step clip(float low, float high);
  static Step quantise(std::vector<float> scale, std::int64_t zero_point, std::int64_t lowest,
                       std::int64_t highest);
};

/// A number on its way through a chain.
struct Number {
  bool is_float = false;
  std::int64_t integer = 0;
  float real = 0;
};

/// How a chain's results move as its input grows.
struct Course {
  enum class Kind : std::uint8_t {
    kRising,    // never decreases
    kFalling,   // never increases
    kUnproved,  // not known to be either
  };
  Kind kind = Kind::kRising;
  std::size_t step = 0;  // kUnproved: the first step after which nothing is known
};

struct Chain {
  std::vector<Step> steps;
  bool operator==(const Chain&) const = default;

  /// One step applied after another; the types must fit (verify() checks).
  Number evaluate(Number x, std::size_t channel) const;
  /// For chains from integer to integer.
  std::int64_t evaluate(std::int64_t x, std::size_t channel) const;

  /// Proved step by step, rounding included, for every integer in lowest..highest: signs of factors count,
  /// and so does whether the range reaches where a function bends. Unproved where an intermediate overflows.
  Course course(std::int64_t lowest, std::int64_t highest, std::size_t channel) const;
  /// Never decreasing in any channel, whatever number comes in (NaN excepted).
  bool is_increasing() const;

  /// How many channels its constants distinguish: 1 where all are scalars.
  std::size_t channels() const;
  /// Empty where every step takes what the step before gives, and all constants have one or `channels()`
  /// entries.
  std::string check(bool from_float) const;
  bool gives_float(bool from_float) const;

  /// The same chain with `accumulator` dequantisations contracted with their quantiser (see
  /// Step::accumulator).
  Chain contracted() const;
  /// This chain, then `next`.
  Chain then(const Chain& next) const;
};

/// The ONNX operator that states such a step: "HardSwish".
const char* operator_name(Step::Kind kind);
std::string to_string(const Step& step);
std::string to_string(const Chain& chain);

}  // namespace millrace::compiler::graph
