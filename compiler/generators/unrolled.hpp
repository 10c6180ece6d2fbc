// A matrix of constants as a circuit of shifts and adders, which takes a vector a clock. The module's text
// depends on the weights, so it is written here and not in kernels/rtl.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/generators/netlist.hpp"
#include "kernels/program/program.hpp"

namespace millrace::compiler::generators {

/// y[o] = biases[o] + Σ x[i] * weights[o * columns + i], exact in acc_bits.
struct ConstantMatrix {
  std::uint32_t rows = 1, columns = 1;
  kernels::ElementType input;
  unsigned acc_bits = 1;
  std::vector<std::int64_t> weights;  // each at most kLargestConstant in size
  std::vector<std::int64_t> biases;   // one a row; empty: none
};

constexpr std::int64_t kLargestConstant = 128;

/// The name of such a module in the cost model; its parameters are counts.
inline constexpr const char* kUnrolledModule = "mr_unrolled";

struct UnrolledModule {
  /// MH, MW, ABITS, ACCBITS; LATENCY; ADDERS and ADDBITS of all adders' results; REGBITS of all data
  /// registers.
  Parameters parameters;
  unsigned latency = 1;  // clocks from a vector to its result; one vector a clock
  std::string text;      // SystemVerilog with ports clk, rst, s_ and m_; empty if not wanted
};

/// Each input is multiplied once by every odd number that occurs among its weights. Multiples of two signed
/// digits (2^k + 1, 2^k - 1) take one clock; those of three and four digits are sums of two such and take a
/// second. A tree of adders sums up the multiples of each row, narrow ones first. Zeros take nothing. A node
/// whose terms are all negative holds their sum, which is subtracted later. The last clock adds the bias, if
/// a row has one.
///
/// `about` becomes a line of comment. Without `text` only the counts are made, which takes less time.
UnrolledModule unroll(const ConstantMatrix& matrix, const std::string& name, const std::string& about,
                      bool text);

}  // namespace millrace::compiler::generators
