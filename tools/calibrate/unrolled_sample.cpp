// Draws samples for modules that are generated for specific constants.
#include <algorithm>
#include <bit>
#include <cstdlib>

#include "compiler/generators/unrolled.hpp"
#include "tools/calibrate/contents.hpp"
#include "tools/calibrate/sample.hpp"

namespace millrace::tools::calibrate {

std::vector<Sample> unrolled_sample() {
  using compiler::generators::ConstantMatrix;
  using Kind = kernels::ElementType::Kind;
  struct Shape {
    std::uint32_t rows, columns;
    unsigned abits, wbits, zeros;  // zeros: zero weights in percent
    Kind kind;
  };
  std::vector<Sample> rows;
  Content content;
  for (const Shape& s : {Shape{5, 32, 8, 6, 10, Kind::kSigned},
                         {16, 16, 8, 6, 30, Kind::kUnsigned},
                         {8, 25, 8, 8, 0, Kind::kUnsigned},
                         {10, 32, 8, 8, 5, Kind::kSigned},
                         {12, 24, 4, 4, 20, Kind::kUnsigned},
                         {16, 32, 8, 4, 20, Kind::kSigned},
                         {16, 32, 8, 2, 40, Kind::kSigned},
                         {8, 30, 8, 6, 75, Kind::kSigned},
                         {6, 9, 8, 8, 0, Kind::kUnsigned},
                         {3, 8, 8, 5, 0, Kind::kSigned},
                         {1, 64, 8, 8, 0, Kind::kSigned}}) {
    ConstantMatrix matrix{s.rows, s.columns, {s.kind, static_cast<std::uint8_t>(s.abits)}, 0, {}, {}};
    std::int64_t largest = 1;
    for (std::uint32_t o = 0; o < s.rows; ++o) {
      std::int64_t reach = 256;
      for (std::uint32_t i = 0; i < s.columns; ++i) {
        const bool zero = content.uniform(0, 99) < static_cast<std::int64_t>(s.zeros);
        matrix.weights.push_back(zero ? 0 : content.normal(s.wbits));
        reach += std::abs(matrix.weights.back()) << s.abits;
      }
      largest = std::max(largest, reach);
    }
    matrix.acc_bits = static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(largest - 1))) + 1;
    if (s.rows % 2 == 0)
      for (std::uint32_t o = 0; o < s.rows; ++o) matrix.biases.push_back(content.uniform(-200, 200));
    auto made = compiler::generators::unroll(matrix, kWritten, "a sample.", true);
    rows.push_back({std::move(made.parameters), std::move(made.text)});
  }
  return rows;
}

}  // namespace millrace::tools::calibrate
