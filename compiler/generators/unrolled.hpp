// A matrix of constants as a circuit of shifts and adders, which accepts one vector per clock. The module's text
// depends on the weights, so it is written here and not in kernels/rtl.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/generators/netlist.hpp"
#include "kernels/program/program.hpp"

namespace millrace::compiler::generators {

/// Defines y[o] = biases[o] + Σ x[i] * weights[o * columns + i], computed exactly in acc_bits bits.
struct ConstantMatrix {
  std::uint32_t rows = 1, columns = 1;
  kernels::ElementType input;
  unsigned acc_bits = 1;
  std::vector<std::int64_t> weights;  // absolute values of at most kLargestConstant
  std::vector<std::int64_t> biases;   // one for each row, or empty
};

constexpr std::int64_t kLargestConstant = 128;

/// The name of unrolled modules in the cost model. Their parameters are counts.
inline constexpr const char* kUnrolledModule = "mr_unrolled";

struct UnrolledModule {
  /// The parameters MH, MW, ABITS, ACCBITS, LATENCY, ADDERS (number of adders), ADDBITS (bits of all adders' results) and
  /// REGBITS (bits of all data registers).
  Parameters parameters;
  unsigned latency = 1;  // clocks from a vector to its result; a new vector can enter every clock
  std::string text;      // SystemVerilog with ports clk, rst, s_ and m_; empty if not wanted
};

/// Builds the circuit of a matrix. Each input is multiplied once by every odd number that occurs among its weights.
/// Multiples with two signed digits (2^k + 1 or 2^k - 1) take one clock. Multiples with three or four digits are sums
/// of two such multiples and take a second clock. Zero weights take no hardware. A tree of adders sums up the multiples
/// of each row, narrow multiples first. If all terms of an adder are negative, the adder computes the sum of their
/// absolute values, which is subtracted later. If any row has a bias, a last clock adds it.
///
/// `about` becomes a line of comment. If `text` is false, only the counts are computed, which takes less time.
UnrolledModule unroll(const ConstantMatrix& matrix, const std::string& name, const std::string& about,
                      bool text);

}  // namespace millrace::compiler::generators
