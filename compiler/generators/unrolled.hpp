// A matrix of constants as hardware of its own: every product in its place, made of shifts and adders, a
// vector a clock. The module's text depends on the weights, so it is written here and not in kernels/rtl.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/generators/instance.hpp"
#include "kernels/program/program.hpp"

namespace millrace::compiler::generators {

/// y[o] = biases[o] + Σ x[i] * weights[o * columns + i], exact in acc_bits.
struct ConstantMatrix {
  std::uint32_t rows = 1, columns = 1;
  kernels::ElementType input;
  unsigned acc_bits = 1;
  std::vector<std::int64_t> weights;  // of at most kLargestConstant
  std::vector<std::int64_t> biases;   // a row each; empty: none
};

constexpr std::int64_t kLargestConstant = 128;

/// What the cost model calls such a module; its parameters are counts.
inline constexpr const char* kUnrolledModule = "mr_unrolled";

struct UnrolledModule {
  /// MH, MW, ABITS, ACCBITS; LATENCY; ADDERS and ADDBITS of all adders' results; REGBITS of all data
  /// registers.
  Parameters parameters;
  unsigned latency = 1;  // clocks from a vector to its result; one vector a clock
  std::string text;      // SystemVerilog of module `name`: clk rst, s_ and m_ streams; empty where not wanted
};

/// How it is built: each input is multiplied once by every odd number that occurs among its weights: those of
/// two signed digits (2^k + 1, 2^k - 1) in one clock, those of three and four digits, as sums of two such, in
/// a second. A tree of adders a row takes the multiples, narrow ones first; zeros take nothing, and a node
/// whose terms are all negative holds their sum and is subtracted later. The last clock adds the bias, where
/// a row has one.
///
/// `about` is a line of comment. `text`: whether the text is wanted; counting takes less.
UnrolledModule unroll(const ConstantMatrix& matrix, const std::string& name, const std::string& about,
                      bool text);

}  // namespace millrace::compiler::generators
