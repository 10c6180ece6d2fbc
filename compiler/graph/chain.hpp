// A chain is a function of one number, written as the float32 and integer steps in which an ONNX model states it: "to
// float, times 0.00009, Relu, quantise to uint8". Requantisation in integers is proved equal to this reference.
//
// All arithmetic is IEEE float32. Each step rounds once, in the order in which the steps are written.
// Rounding to an integer is half to even.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace millrace::compiler::graph {

/// Whether the results of a function rise or fall while its input grows.
enum class Trend : std::uint8_t {
  kRising,    // the results never decrease
  kFalling,   // the results never increase
  kUnproved,  // neither rising nor falling is proved
};

/// Returns the trend of x * `factor` as a function of x.
Trend trend_of_factor(float factor);

/// A float32 function of one number, with at most two constants. The functions are in
/// compiler/operators/activations.cpp.
struct Function {
  const char* name;  // "leaky_relu": the name that printed graphs use
  const char* onnx;  // "LeakyRelu": the name of the ONNX operator
  int constants;     // how many of `low` and `high` the function reads
  float (*evaluate)(float x, float low, float high);
  /// Returns the trend over inputs from x_low to x_high. exp and tanh are assumed to be monotone in every C library.
  Trend (*trend)(float x_low, float x_high, float low, float high);
};

/// Returns a channel's entry of `values`, which has either one entry for all channels or one entry per channel.
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
    kAdd,           // float -> float: x + floats[c]
    kDivide,        // float -> float: x / floats[c]
    kRelu,          // float -> float: max(x, 0)
    kPRelu,         // float -> float: x < 0 ? x * floats[c] : x
    kMinimum,       // float -> float: min(x, floats[c])
    kMaximum,       // float -> float: max(x, floats[c])
    kClip,          // float -> float: min(max(x, low), high)
    kFunction,      // float -> float: function->evaluate(x, low, high)
    kQuantise,      // float -> integer: clamp(rne(x / floats[c]) + integers[c], lowest, highest); NaN gives
                    // integers[c]
    kThresholds,  // float -> integer: lowest + stride * (number of thresholds[c] that x reaches); NaN reaches none
    kTable,       // integer -> integer: table[x - lowest], with x clamped to the table's ends
  };
  Kind kind = Kind::kToFloat;
  std::vector<float> floats{};           // one entry for all channels, or one per channel
  std::vector<std::int64_t> integers{};  // one entry for all channels, or one per channel
  float low = 0, high = 0;
  std::int64_t lowest = 0, highest = 0;
  std::vector<std::vector<float>> thresholds{};  // one ascending list for all channels, or one per channel
  std::int64_t stride = 1;                       // kThresholds: above 0
  const Function* function = nullptr;
  std::vector<std::int64_t>
      table{};  // of kTable: one entry for each input from `lowest` on, for all channels
  /// Whether this step dequantises a sum of products. The step's scale is then input scale * weight scale. If a
  /// quantiser follows, with at most Relu and Clip between, both steps are computed as QLinearConv computes them: x *
  /// (floats / scale) instead of (x * floats) / scale.
  bool accumulator = false;
  bool qlinear = false;  // whether the step is a quantiser or dequantiser inside a QLinear operator
  /// Whether the ONNX file itself contains this conversion (QONNX and FINN models). Such a conversion is computed
  /// exactly as the file states it. It is never merged with a neighbouring one, unlike conversions of the QDQ form,
  /// which ONNX Runtime merges.
  bool written = false;
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
  static Step prelu(Floats slope) { return {.kind = Kind::kPRelu, .floats = std::move(slope)}; }
  static Step minimum(Floats bound) { return {.kind = Kind::kMinimum, .floats = std::move(bound)}; }
  static Step maximum(Floats bound) { return {.kind = Kind::kMaximum, .floats = std::move(bound)}; }
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
  static Step count_thresholds(std::vector<std::vector<float>> thresholds, std::int64_t lowest,
                               std::int64_t stride) {
    Step s{.kind = Kind::kThresholds, .lowest = lowest};
    s.thresholds = std::move(thresholds);
    s.stride = stride;
    return s;
  }
  static Step look_up(std::int64_t lowest, Integers table) {
    return {.kind = Kind::kTable, .lowest = lowest, .table = std::move(table)};
  }
};

/// An intermediate result of a chain: an integer or a float32 number.
struct Number {
  bool is_float = false;
  std::int64_t integer = 0;
  float real = 0;
};

struct ChainTrend {
  Trend trend = Trend::kRising;
  std::size_t step = 0;  // for kUnproved: the index of the first step after which no trend is known
};

struct Chain {
  std::vector<Step> steps;
  bool operator==(const Chain&) const = default;

  /// Applies all steps to `x`. The type that each step returns must fit the next step; verify() checks the types.
  Number evaluate(Number x, std::size_t channel) const;
  /// Applies all steps of a chain that maps integers to integers.
  std::int64_t evaluate(std::int64_t x, std::size_t channel) const;

  /// Returns whether the result rises or falls over all integers from `lowest` to `highest`. The trend is proved step
  /// by step, with rounding included. The result is kUnproved if an intermediate result overflows.
  ChainTrend trend(std::int64_t lowest, std::int64_t highest, std::size_t channel) const;
  /// Whether the result never decreases while the input grows, in every channel and for all inputs but NaN.
  bool is_increasing() const;

  /// Returns how many channels have constants of their own: 1 if all constants are scalars.
  std::size_t channels() const;
  /// Checks that every step accepts the type that the step before it returns, and that every constant has one entry or
  /// `channels()` entries. Returns the error, or an empty text if there is none.
  std::string check(bool from_float) const;
  bool gives_float(bool from_float) const;

  /// Returns this chain with every `accumulator` dequantisation merged with its quantiser (see Step::accumulator).
  Chain contracted() const;
  /// Returns the steps of this chain, followed by the steps of `next`.
  Chain then(const Chain& next) const;
};

/// Returns the name of the ONNX operator that a step comes from, for example "HardSwish".
const char* operator_name(const Step& step);
std::string to_string(const Step& step);
std::string to_string(const Chain& chain);

}  // namespace millrace::compiler::graph
