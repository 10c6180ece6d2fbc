// A function of one number, written as the float32 and integer steps in which a model states it: "to float,
// times 0.00009, Relu, quantise to uint8". Requantisation is proved against this reference.
//
// All arithmetic is IEEE float32 with one rounding per step, in the order written (numerics.md). Rounding to an
// integer is half to even.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace millrace::compiler::graph {

/// How a function's results move as its input grows.
enum class Trend : std::uint8_t {
  kRising,    // never decreases
  kFalling,   // never increases
  kUnproved,  // not known to be either
};

/// The trend of a product with `factor`.
Trend trend_of_factor(float factor);

/// A float32 function that has at most two constants. compiler/operators/activations.cpp lists them.
struct Function {
  const char* name;  // "leaky_relu": as printed
  const char* onnx;  // "LeakyRelu": the ONNX operator
  int constants;     // how many of low and high it reads
  float (*evaluate)(float x, float low, float high);
  /// The trend over inputs from x_low to x_high. exp and tanh count as monotone, as C libraries round them.
  Trend (*trend)(float x_low, float x_high, float low, float high);
};

/// The entry of a channel in `values`, which has one entry for all channels or one per channel.
template <class T>
T pick(const std::vector<T>& values, std::size_t channel) {
  return values.size() == 1 ? values[0] : values[channel];
}

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
    kFunction,      // function->evaluate(x, low, high)
    kQuantise,      // float -> integer: clamp(rne(x / floats[c]) + integers[c], lowest, highest); NaN gives
                    // integers[c]
  };
  Kind kind = Kind::kToFloat;
  std::vector<float> floats{};           // one, or one per channel
  std::vector<std::int64_t> integers{};  // one, or one per channel
  float low = 0, high = 0;
  std::int64_t lowest = 0, highest = 0;
  const Function* function = nullptr;
  /// True for the dequantisation of a sum of products. Its scale is input scale * weight scale. If a quantiser
  /// follows, with at most Relu and Clip between, both steps are computed as QLinearConv does: x * (floats / scale)
  /// instead of (x * floats) / scale.
  bool accumulator = false;
  bool qlinear = false;  // a quantiser or dequantiser inside a QLinear operator
  bool operator==(const Step&) const = default;

  using Floats = std::vector<float>;
  using Integers = std::vector<std::int64_t>;
  static Step add_integer(Integers addend) {
    return {.kind = Kind::kAddInteger, .integers = std::move(addend)};
  }
  static Step clamp_integer(std::int64_t lowest, std::int64_t highest) {
    return {.kind = Kind::kClampInteger, .lowest = lowest, .highest = highest};
  }
  static Step to_float() { return {}; }
  static Step dequantise(Floats scale, std::int64_t zero_point) {
    return {.kind = Kind::kDequantise, .floats = std::move(scale), .integers = {zero_point}};
  }
  static Step multiply(Floats factor) { return {.kind = Kind::kMultiply, .floats = std::move(factor)}; }
  static Step add(Floats addend) { return {.kind = Kind::kAdd, .floats = std::move(addend)}; }
  static Step divide(Floats divisor) { return {.kind = Kind::kDivide, .floats = std::move(divisor)}; }
  static Step relu() { return {.kind = Kind::kRelu}; }
  static Step clip(float low, float high) { return {.kind = Kind::kClip, .low = low, .high = high}; }
  static Step apply(const Function& function, float low = 0, float high = 0) {
    return {.kind = Kind::kFunction, .low = low, .high = high, .function = &function};
  }
  static Step quantise(Floats scale, std::int64_t zero_point, std::int64_t lowest, std::int64_t highest) {
    Step s{.kind = Kind::kQuantise, .floats = std::move(scale), .integers = {zero_point}};
    s.lowest = lowest;
    s.highest = highest;
    return s;
  }
};

/// An intermediate result of a chain.
struct Number {
  bool is_float = false;
  std::int64_t integer = 0;
  float real = 0;
};

struct ChainTrend {
  Trend trend = Trend::kRising;
  std::size_t step = 0;  // kUnproved: the first step after which nothing is known
};

struct Chain {
  std::vector<Step> steps;
  bool operator==(const Chain&) const = default;

  /// Applies all steps. Their types must fit (verify() checks).
  Number evaluate(Number x, std::size_t channel) const;
  /// For chains from integer to integer.
  std::int64_t evaluate(std::int64_t x, std::size_t channel) const;

  /// The trend over all integers from `lowest` to `highest`, proved step by step with rounding included.
  /// Unproved if an intermediate result overflows.
  ChainTrend trend(std::int64_t lowest, std::int64_t highest, std::size_t channel) const;
  /// Whether every channel never decreases, for all inputs but NaN.
  bool is_increasing() const;

  /// How many channels the constants distinguish; 1 if all constants are scalars.
  std::size_t channels() const;
  /// Empty if every step accepts the type that the step before gives, and all constants have one entry or
  /// `channels()` entries. Otherwise the error.
  std::string check(bool from_float) const;
  bool gives_float(bool from_float) const;

  /// The same chain with each `accumulator` dequantisation contracted with its quantiser (Step::accumulator).
  Chain contracted() const;
  /// The steps of this chain, followed by those of `next`.
  Chain then(const Chain& next) const;
};

/// The ONNX operator that states such a step: "HardSwish".
const char* operator_name(const Step& step);
std::string to_string(const Step& step);
std::string to_string(const Chain& chain);

}  // namespace millrace::compiler::graph
