// Windows over images, and what changes an image's size.
#include <array>

#include "tools/calibrate/modules.hpp"

namespace millrace::tools::calibrate {

std::vector<Parameters> swu_sample() {
  std::vector<Parameters> rows;
  Random random(11);
  for (int i = 0; i < 28; ++i) {
    const std::int64_t h = pick(random, {5, 8, 12, 14, 16, 28, 32}), k = pick(random, {2, 3, 3, 5, 5});
    const std::int64_t pad = pick(random, {0, 0, 1}), stride = pick(random, {1, 1, 2});
    rows.push_back({{"H", h},
                    {"W", h},
                    {"CF", pick(random, {1, 1, 2, 3, 4})},
                    {"SIMD", pick(random, {1, 2, 3, 6, 8, 16})},
                    {"ABITS", pick(random, {8, 8, 4})},
                    {"KH", k},
                    {"KW", k},
                    {"SH", stride},
                    {"SW", stride},
                    {"DH", 1},
                    {"DW", 1},
                    {"PT", pad},
                    {"PL", pad},
                    {"PB", pad},
                    {"PR", pad},
                    {"PAD_VALUE", 0},
                    {"ROWS", k + stride}});
  }
  return rows;
}

std::vector<Parameters> swu_par_sample() {
  std::vector<Parameters> rows;
  Random random(13);
  for (int i = 0; i < 24; ++i) {
    const std::int64_t h = pick(random, {8, 12, 14, 16, 28, 32}), k = pick(random, {2, 3, 3, 5});
    const std::int64_t pad = pick(random, {0, 0, 1}), px = pad == 0 ? pick(random, {1, 1, 2}) : 1;
    const std::int64_t odd = (h - k + 1) % 2 == 0 ? px : 1;
    rows.push_back({{"H", h},
                    {"W", h},
                    {"C", pick(random, {1, 2, 3, 6, 8})},
                    {"ABITS", pick(random, {8, 8, 4})},
                    {"PX", odd},
                    {"KH", k},
                    {"KW", k},
                    {"SH", 1},
                    {"SW", 1},
                    {"DH", 1},
                    {"DW", 1},
                    {"PT", pad},
                    {"PL", pad},
                    {"PB", pad},
                    {"PR", pad},
                    {"PAD_VALUE", 0}});
  }
  return rows;
}

std::vector<Parameters> pool_sample() {
  std::vector<Parameters> rows;
  Random random(17);
  for (int i = 0; i < 20; ++i) {
    const std::int64_t sum = pick(random, {0, 0, 1}), bits = pick(random, {8, 8, 4});
    const std::int64_t k = pick(random, {2, 2, 3}), cf = pick(random, {1, 1, 2, 4, 16});
    rows.push_back({{"OP", sum},
                    {"H", pick(random, {8, 10, 24, 28})},
                    {"W", pick(random, {12, 24, 28, 36})},
                    {"CF", cf},
                    {"SIMD", pick(random, {1, 2, 6, 8, 16})},
                    {"KH", k},
                    {"KW", k},
                    {"ABITS", bits},
                    {"AKIND", pick(random, {0, 1})},
                    {"OBITS", bits + (sum == 1 ? 4 : 0)},
                    {"PX", cf == 1 && k == 2 ? pick(random, {1, 2}) : 1}});
  }
  return rows;
}

std::vector<Parameters> reduce_sample() {
  std::vector<Parameters> rows;
  Random random(19);
  for (int i = 0; i < 14; ++i) {
    const std::int64_t sum = pick(random, {0, 1}), taps = pick(random, {4, 9, 16, 49});
    rows.push_back({{"OP", sum},
                    {"TAPS", taps},
                    {"CF", pick(random, {1, 2, 8, 40})},
                    {"SIMD", pick(random, {1, 4, 8, 16})},
                    {"ABITS", 8},
                    {"AKIND", pick(random, {0, 1})},
                    {"OBITS", 8 + (sum == 1 ? clog2(taps) : 0)}});
  }
  return rows;
}

std::vector<Parameters> pad_sample() {
  std::vector<Parameters> rows;
  Random random(23);
  for (int i = 0; i < 10; ++i) {
    rows.push_back({{"H", pick(random, {7, 14, 28})},
                    {"W", pick(random, {7, 14, 32})},
                    {"CF", pick(random, {1, 2, 5})},
                    {"SIMD", pick(random, {1, 3, 8, 16})},
                    {"ABITS", 8},
                    {"TOP", pick(random, {0, 1, 2})},
                    {"LEFT", 1},
                    {"BOTTOM", 1},
                    {"RIGHT", pick(random, {1, 2})},
                    {"VALUE", pick(random, {0, -128, 17})}});
  }
  return rows;
}

std::vector<Parameters> crop_sample() {
  std::vector<Parameters> rows;
  Random random(29);
  for (int i = 0; i < 8; ++i) {
    rows.push_back({{"H", pick(random, {7, 14, 28})},
                    {"W", pick(random, {7, 14, 32})},
                    {"CF", pick(random, {1, 2, 5})},
                    {"WIDTH", pick(random, {8, 24, 64, 128})},
                    {"TOP", pick(random, {0, 1, 2})},
                    {"LEFT", 1},
                    {"BOTTOM", 1},
                    {"RIGHT", pick(random, {1, 2})}});
  }
  return rows;
}

std::vector<Parameters> concat_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t width : {8, 32, 128}) {
    for (const auto& [a, b] : {std::array<std::int64_t, 2>{1, 1}, {2, 3}, {16, 8}}) {
      rows.push_back({{"WIDTH", width}, {"CF0", a}, {"CF1", b}});
    }
  }
  return rows;
}

}  // namespace millrace::tools::calibrate
