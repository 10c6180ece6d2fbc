// What mr_mvu and mr_mvu_streamed have in common. Private to compiler/generators.
#pragma once

#include "compiler/generators/modules/play.hpp"

namespace millrace::compiler::generators {

/// A tree that adds `leaves` values pairwise, level by level. Every level is registered, and so is a value
/// without a partner. Widths grow by `grow` bits a level.
struct AdderTree {
  double adder_bits = 0;     // of all adders' results
  double register_bits = 0;  // of all levels, the leaves' own registers included
};
AdderTree adder_tree(std::int64_t leaves, std::int64_t leaf_bits, std::int64_t grow, std::int64_t levels);

/// The buffer of a vector's inputs, of `width` bits a beat. It holds `held` of them if `buffered`: further
/// outputs read them again.
void add_input_buffer(Features& f, std::int64_t width, std::int64_t held, bool buffered);

/// `count` dot products of SIMD elements.
void add_dot_products(Features& f, const Values& v, std::int64_t count);

std::unique_ptr<TimingUnit> play_matrix_unit(const PlayedInstance& p, const Values& v);
std::uint64_t matrix_unit_latency(const Values& v);
Beats matrix_unit_frame(const Values& v, std::int64_t interval);

/// Of a frame in which the matrix is applied to several vectors; a line of weights takes `line_cycles`.
inline std::uint64_t matrix_unit_interval(const Values& v, std::uint64_t beats_out,
                                          std::uint64_t line_cycles) {
  const auto nf = static_cast<std::uint64_t>(v["MH"] / v["PE"]),
             sf = static_cast<std::uint64_t>(v["MW"] / v["SIMD"]);
  return beats_out / nf * nf * sf * line_cycles;
}

}  // namespace millrace::compiler::generators
