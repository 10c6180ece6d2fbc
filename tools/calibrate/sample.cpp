#include "tools/calibrate/sample.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <random>

#include "compiler/generators/features.hpp"
#include "compiler/generators/unrolled.hpp"

namespace millrace::tools::calibrate {
namespace {

using compiler::generators::Parameters;
using Random = std::mt19937_64;

std::int64_t pick(Random& random, std::initializer_list<std::int64_t> values) {
  return values.begin()[random() % values.size()];
}

std::int64_t clog2(std::int64_t n) {
  std::int64_t bits = 0;
  while ((std::int64_t{1} << bits) < n) ++bits;
  return bits;
}

/// Accumulator bits as the compiler sizes them, roughly: every product at its largest would need more.
std::int64_t accumulator_bits(std::int64_t abits, std::int64_t wbits, std::int64_t inputs) {
  return abits + wbits + clog2(inputs) - 1;
}

struct Matrix {
  std::int64_t pe, simd, nf, sf, abits, akind, wbits, wkind, mul, style, bias;
};

Parameters mvu(const Matrix& m, std::int64_t buffers = 2) {
  const std::int64_t mw = m.simd * m.sf;
  return {{"MH", m.pe * m.nf},
          {"MW", mw},
          {"PE", m.pe},
          {"SIMD", m.simd},
          {"ABITS", m.abits},
          {"AKIND", m.akind},
          {"WBITS", m.wbits},
          {"WKIND", m.wkind},
          {"ACCBITS", std::max<std::int64_t>(accumulator_bits(m.abits, m.wbits, mw), 4)},
          {"MUL", m.mul},
          {"BIAS", m.bias},
          {"IBUF", m.nf > 1 ? buffers * m.sf : 1},
          {"LOADED", 0},
          {"WSTYLE", m.style}};
}

/// Logic holds tables up to 64 deep; deeper ones in block RAM.
std::int64_t usual_style(std::int64_t depth) {
  return depth <= 64 ? 2 : 1;
}

std::vector<Parameters> mvu_sample() {
  std::vector<Parameters> rows;
  const auto add = [&](std::int64_t pe, std::int64_t simd, std::int64_t nf, std::int64_t sf,
                       std::int64_t bits, std::int64_t akind, std::int64_t mul, std::int64_t bias = 0) {
    rows.push_back(mvu({pe, simd, nf, sf, bits, akind, bits, 1, mul, usual_style(nf * sf), bias}));
  };
  // A slice for two products.
  add(2, 3, 3, 25, 8, 1, 2, 1);
  add(2, 5, 3, 15, 8, 1, 2, 1);
  add(3, 25, 2, 1, 8, 1, 2, 1);
  add(4, 15, 4, 10, 8, 1, 2, 1);
  add(2, 16, 20, 25, 8, 1, 2, 1);
  add(1, 3, 10, 28, 8, 1, 2, 1);
  add(2, 15, 42, 8, 8, 1, 2, 1);
  add(2, 9, 1, 16, 8, 0, 2, 1);
  add(3, 6, 2, 12, 8, 0, 2, 0);
  add(5, 4, 4, 6, 8, 1, 2, 0);
  add(2, 2, 32, 100, 8, 1, 2, 1);
  add(8, 4, 1, 8, 8, 1, 2, 0);
  add(2, 32, 1, 4, 8, 1, 2, 1);
  add(4, 1, 16, 9, 8, 1, 2, 1);
  add(2, 50, 2, 3, 8, 1, 2, 1);
  // One product a slice, and none.
  for (const std::int64_t mul : {1, 0}) {
    add(2, 3, 3, 25, 8, 1, mul, 1);
    add(2, 10, 2, 4, 8, 1, mul);
    add(5, 4, 2, 10, 8, 0, mul, 1);
    add(1, 25, 4, 3, 8, 1, mul, 1);
    add(3, 1, 4, 20, 8, 1, mul);
  }
  // Few bits: products in LUTs.
  for (const auto& [abits, wbits, wkind, akind] : {std::array<std::int64_t, 4>{4, 4, 1, 0},
                                                   {8, 4, 1, 1},
                                                   {8, 2, 1, 1},
                                                   {4, 2, 1, 0},
                                                   {8, 3, 1, 0},
                                                   {8, 6, 1, 1},
                                                   {1, 1, 2, 2},
                                                   {8, 1, 2, 1},
                                                   {2, 2, 1, 0}}) {
    rows.push_back(mvu({2, 8, 4, 8, abits, akind, wbits, wkind, 0, 2, 0}));
    rows.push_back(mvu({2, 20, 8, 4, abits, akind, wbits, wkind, 0, 2, 1}));
  }
  // Tables in the tool's choice, and loaded.
  rows.push_back(mvu({4, 4, 2, 100, 8, 1, 8, 1, 2, 0, 0}));
  rows.push_back(mvu({4, 8, 2, 30, 8, 1, 8, 1, 2, 0, 0}));
  for (const std::int64_t style : {0, 1, 2}) {
    Parameters loaded = mvu({2, 4, 4, 8, 8, 1, 8, 1, 1, style, 0});
    for (auto& [name, value] : loaded) {
      if (name == "LOADED") value = 1;
    }
    rows.push_back(loaded);
  }
  // And by chance.
  Random random(20240611);
  for (int i = 0; i < 12; ++i) {
    Matrix m{};
    m.pe = pick(random, {1, 2, 3, 4, 5, 6, 8, 10, 12});
    m.simd = pick(random, {1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 15});
    if (m.pe * m.simd > 40) m.simd = 4;
    m.nf = pick(random, {1, 2, 3, 4, 8, 12});
    m.sf = pick(random, {2, 3, 5, 8, 9, 16, 25, 36, 64});
    m.abits = m.wbits = pick(random, {8, 8, 8, 4});
    m.akind = pick(random, {0, 1, 1});
    m.wkind = 1;
    m.mul = pick(random, {0, 1, 2, 2});
    m.bias = pick(random, {0, 1, 1});
    m.style = usual_style(m.nf * m.sf);
    rows.push_back(mvu(m, pick(random, {1, 2})));
  }
  return rows;
}

std::vector<Parameters> table_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t width : {8, 40, 128}) {
    for (const std::int64_t depth :
         {2, 3, 4, 5, 6, 8, 12, 16, 25, 32, 40, 64, 80, 100, 128, 160, 200, 256, 320, 400, 512, 700, 1024}) {
      if (width * depth <= 12000)
        rows.push_back({{"WIDTH", width}, {"DEPTH", depth}, {"STYLE", 2}, {"LOADED", 0}});
    }
  }
  for (const auto& [width, depth, style] : {std::array<std::int64_t, 3>{8, 4, 2},
                                            {8, 8, 0},
                                            {64, 32, 0},
                                            {100, 40, 0},
                                            {16, 128, 2},
                                            {24, 300, 1},
                                            {64, 64, 1},
                                            {128, 90, 0},
                                            {16, 700, 0}}) {
    rows.push_back({{"WIDTH", width}, {"DEPTH", depth}, {"STYLE", style}, {"LOADED", 1}});
  }
  for (const auto& [width, depth] :
       {std::array<std::int64_t, 2>{72, 512}, {24, 1500}, {16, 100}, {200, 300}}) {
    rows.push_back({{"WIDTH", width}, {"DEPTH", depth}, {"STYLE", 1}, {"LOADED", 0}});
    rows.push_back({{"WIDTH", width}, {"DEPTH", depth}, {"STYLE", 0}, {"LOADED", 0}});
  }
  return rows;
}

std::vector<Parameters> vvu_sample() {
  std::vector<Parameters> rows;
  Random random(7);
  for (int i = 0; i < 18; ++i) {
    const std::int64_t pe = pick(random, {1, 2, 4, 8, 16}), cf = pick(random, {1, 2, 4, 8});
    const std::int64_t taps = pick(random, {9, 9, 25, 40}), bits = pick(random, {8, 8, 4});
    rows.push_back({{"CHANNELS", pe * cf},
                    {"PE", pe},
                    {"TAPS", taps},
                    {"ABITS", bits},
                    {"AKIND", pick(random, {0, 1})},
                    {"WBITS", bits},
                    {"WKIND", 1},
                    {"ACCBITS", accumulator_bits(bits, bits, taps)},
                    {"MUL", pick(random, {0, 1, 1})},
                    {"BIAS", pick(random, {0, 1})},
                    {"LOADED", 0},
                    {"WSTYLE", usual_style(taps * cf)}});
  }
  for (const std::int64_t abits : {4, 8}) {  // weights of one bit
    rows.push_back({{"CHANNELS", 16},
                    {"PE", 8},
                    {"TAPS", 9},
                    {"ABITS", abits},
                    {"AKIND", 1},
                    {"WBITS", 1},
                    {"WKIND", 2},
                    {"ACCBITS", abits + 4},
                    {"MUL", 0},
                    {"BIAS", 0},
                    {"LOADED", 0},
                    {"WSTYLE", 2}});
  }
  return rows;
}

std::vector<Parameters> requant_sample() {
  std::vector<Parameters> rows;
  const auto add = [&](std::int64_t nf, std::int64_t pe, std::int64_t acc, std::int64_t mbits,
                       std::int64_t offbits, std::int64_t shift, std::int64_t even, bool uniform,
                       std::int64_t obits = 8, std::int64_t kind = 1, std::int64_t zero = 0) {
    const std::int64_t lowest = kind == 1 ? -(std::int64_t{1} << (obits - 1)) : 0;
    rows.push_back({{"CHANNELS", nf * pe},
                    {"PE", pe},
                    {"ACCBITS", acc},
                    {"MBITS", mbits},
                    {"OFFBITS", offbits},
                    {"SBITS", shift >= 0 ? 1 : 5},
                    {"SHIFT", shift},
                    {"OBITS", obits},
                    {"LOWEST", lowest},
                    {"HIGHEST", lowest + (std::int64_t{1} << obits) - 1},
                    {"ROUND_HALF_EVEN", even},
                    {"ZERO_POINT", zero},
                    {"UNIFORM", uniform ? 1 : 0},
                    {"LOADED", 0}});
  };
  for (const std::int64_t pe : {1, 4, 10}) {
    add(1, pe, 20, 0, 0, 8, 1, true);      // a power of two for all
    add(4, pe, 20, 0, 18, 7, 1, false);    // and a bias a channel
    add(6, pe, 22, 0, 20, -1, 1, false);   // powers of two that differ
    add(4, pe, 21, 16, 36, 20, 0, false);  // multiply-shift
    add(8, pe, 23, 17, 40, -1, 1, false);  // … and shift a channel
    add(1, pe, 21, 16, 38, 21, 1, true);   // one multiplier
  }
  add(16, 2, 19, 0, 18, 9, 1, false, 8, 0, 128);
  add(60, 2, 23, 0, 21, 9, 1, false);
  add(120, 1, 24, 17, 42, -1, 1, false);
  add(42, 2, 24, 17, 42, 24, 0, false, 8, 0, 3);
  add(1, 8, 12, 0, 0, 3, 1, true, 4, 0);
  add(4, 4, 14, 9, 22, 12, 0, false, 4, 1);
  add(2, 6, 28, 20, 48, 26, 0, false);
  add(1, 6, 17, 0, 16, 7, 1, false);
  add(1, 16, 22, 0, 20, 9, 1, false);
  add(3, 2, 17, 0, 16, 7, 0, false);
  return rows;
}

std::vector<Parameters> threshold_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t obits : {1, 2, 3, 4}) {
    for (const std::int64_t pe : {1, 4}) {
      for (const std::int64_t nf : {1, 4, 16}) {
        rows.push_back({{"CHANNELS", pe * nf},
                        {"PE", pe},
                        {"ACCBITS", 8 + 4 * (obits % 3)},
                        {"OBITS", obits},
                        {"LOWEST", obits % 2 == 0 ? 0 : -(std::int64_t{1} << (obits - 1))},
                        {"UNIFORM", 0},
                        {"LOADED", 0}});
      }
    }
  }
  return rows;
}

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

std::vector<Parameters> add_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t simd : {1, 4, 16}) {
    for (const auto& [a, b, shift, z, offset] : {std::array<std::int64_t, 5>{1, 1, 0, 10, 0},
                                                 {256, 512, 9, 19, 256},
                                                 {12345, 23457, 15, 26, 16384},
                                                 {1048583, 876543, 20, 31, 524288}}) {
      rows.push_back({{"SIMD", simd},
                      {"ABITS", 8},
                      {"AKIND", 1},
                      {"BBITS", 8},
                      {"BKIND", 1},
                      {"A_FACTOR", a},
                      {"B_FACTOR", b},
                      {"OFFSET", offset},
                      {"SHIFT", shift},
                      {"ZBITS", z},
                      {"OBITS", 8},
                      {"LOWEST", -128},
                      {"HIGHEST", 127}});
    }
  }
  return rows;
}

std::vector<Parameters> lut_sample() {
  std::vector<Parameters> rows;
  for (const auto& [bits, style] :
       {std::array<std::int64_t, 2>{3, 2}, {4, 2}, {5, 2}, {6, 2}, {7, 2}, {8, 2}, {8, 1}, {8, 0}}) {
    for (const std::int64_t simd : {1, 4}) {
      rows.push_back({{"SIMD", simd},
                      {"IBITS", bits},
                      {"OBITS", bits},
                      {"FLIP", std::int64_t{1} << (bits - 1)},
                      {"STYLE", style},
                      {"LOADED", 0}});
    }
  }
  return rows;
}

std::vector<Parameters> fifo_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t width : {1, 8, 24, 64, 200}) {
    for (const std::int64_t depth : {2, 3, 6, 16, 21, 32, 48, 64}) {
      if ((width + depth) % 3 != 0 || depth == 2)
        rows.push_back({{"WIDTH", width}, {"DEPTH", depth}, {"MEMORY", 0}});
    }
  }
  for (const auto& [width, depth] : {std::array<std::int64_t, 2>{8, 100},
                                     {16, 130},
                                     {24, 160},
                                     {48, 300},
                                     {64, 1024},
                                     {150, 97},
                                     {8, 1500},
                                     {8, 400}}) {
    rows.push_back({{"WIDTH", width}, {"DEPTH", depth}, {"MEMORY", 0}});
  }
  return rows;
}

std::vector<Parameters> width_adapter_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t lane : {4, 8, 24}) {
    for (const auto& [s, m] : {std::array<std::int64_t, 2>{1, 2},
                               {1, 6},
                               {2, 16},
                               {4, 1},
                               {16, 2},
                               {6, 3},
                               {2, 3},
                               {6, 4},
                               {4, 25},
                               {10, 8},
                               {5, 3},
                               {16, 25}}) {
      if (lane == 24 && s * m > 60) continue;
      rows.push_back({{"LANE", lane}, {"S_LANES", s}, {"M_LANES", m}});
    }
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

std::vector<Parameters> skid_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t width : {1, 8, 24, 64, 200, 512}) rows.push_back({{"WIDTH", width}});
  return rows;
}

std::vector<Parameters> readers_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t n : {1, 2, 3, 4, 8, 16}) rows.push_back({{"WIDTH", 8}, {"N", n}});
  return rows;
}

Parameters port(std::int64_t data_bytes, std::int64_t lanes, std::int64_t ebytes, std::int64_t bits) {
  return {{"DATA_BYTES", data_bytes}, {"BURST", 16},   {"LANES", lanes},
          {"EBYTES", ebytes},         {"ABITS", bits}, {"AKIND", 1}};
}

/// The bus is as wide as compile makes it; what differs is how its words become beats.
std::vector<Parameters> ingress_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t lanes : {1, 2, 4, 8, 16, 3, 6, 10}) rows.push_back(port(64, lanes, 1, 8));
  return rows;
}

std::vector<Parameters> egress_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t lanes : {1, 2, 4, 8, 3, 6, 10, 5}) rows.push_back(port(64, lanes, 1, 8));
  return rows;
}

std::vector<Parameters> sender_sample() {
  std::vector<Parameters> rows;
  const auto add = [&](std::int64_t lanes, std::int64_t bits, std::int64_t beats, std::int64_t packet) {
    rows.push_back({{"BYTES", 8},
                    {"LANES", lanes},
                    {"ABITS", bits},
                    {"BEATS", beats},
                    {"PACKET", packet},
                    {"REFRESH", 4096}});
  };
  for (const std::int64_t lanes : {1, 2, 4, 3, 6, 10}) add(lanes, 8, 40 * lanes, 1024);
  add(2, 4, 800, 1024);
  add(1, 8, 10, 64);
  return rows;
}

std::vector<Parameters> receiver_sample() {
  std::vector<Parameters> rows;
  const auto add = [&](std::int64_t lanes, std::int64_t bits, std::int64_t beats, std::int64_t buffer,
                       std::int64_t most) {
    rows.push_back({{"BYTES", 8},
                    {"LANES", lanes},
                    {"ABITS", bits},
                    {"BEATS", beats},
                    {"BUFFER", buffer},
                    {"MOST", most},
                    {"REFRESH", 4096}});
  };
  add(1, 8, 84, 256, 2);
  add(2, 8, 400, 256, 2);
  add(4, 8, 100, 256, 4);
  add(8, 8, 1000, 512, 8);
  add(3, 8, 1024, 2048, 16);
  add(6, 8, 196, 256, 2);
  add(10, 8, 40, 1024, 8);
  add(2, 4, 800, 256, 2);
  return rows;
}

std::vector<Parameters> hub_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t connectors : {1, 2})
    for (const std::int64_t ports : {1, 2, 3, 4})
      rows.push_back({{"BYTES", 8}, {"PORTS", ports}, {"CONNECTORS", connectors}, {"PACKET", 1024}});
  return rows;
}

std::vector<Parameters> mvu_streamed_sample() {
  std::vector<Parameters> rows;
  const auto add = [&](std::int64_t pe, std::int64_t simd, std::int64_t nf, std::int64_t sf,
                       std::int64_t bits, std::int64_t akind, std::int64_t mul) {
    rows.push_back({{"MH", pe * nf},
                    {"MW", simd * sf},
                    {"PE", pe},
                    {"SIMD", simd},
                    {"ABITS", bits},
                    {"AKIND", akind},
                    {"WBITS", bits},
                    {"WKIND", 1},
                    {"ACCBITS", accumulator_bits(bits, bits, simd * sf)},
                    {"MUL", mul},
                    {"IBUF", nf > 1 ? 2 * sf : 1}});
  };
  add(2, 8, 4, 16, 8, 1, 1);
  add(4, 16, 8, 8, 8, 0, 1);
  add(1, 32, 10, 25, 8, 1, 1);
  add(8, 4, 1, 12, 8, 1, 1);
  add(2, 5, 3, 15, 8, 1, 1);
  add(4, 1, 16, 9, 8, 0, 1);
  add(3, 6, 2, 40, 8, 1, 1);
  add(2, 16, 20, 100, 8, 1, 1);
  add(4, 8, 4, 8, 4, 0, 0);
  add(2, 20, 8, 4, 4, 1, 0);
  add(2, 10, 2, 4, 8, 1, 0);
  add(1, 25, 4, 3, 8, 0, 0);
  for (const std::int64_t simd : {18, 40}) {  // signs by signs
    add(4, simd, 4, 4, 1, 2, 0);
    for (auto& [name, value] : rows.back())
      if (name == "WKIND") value = 2;
  }
  return rows;
}

std::vector<Parameters> reader_sample() {
  std::vector<Parameters> rows;
  for (const auto& [bus, width, lines] : {std::array<std::int64_t, 3>{64, 512, 100},
                                          {64, 64, 1000},
                                          {64, 8, 33},
                                          {64, 72, 13},
                                          {64, 1024, 64},
                                          {64, 2048, 20},
                                          {32, 256, 7},
                                          {32, 32, 500},
                                          {16, 128, 64},
                                          {16, 40, 90}})
    rows.push_back({{"DATA_BYTES", bus}, {"BURST", 16}, {"WIDTH", width}, {"LINES", lines}});
  return rows;
}

std::vector<Parameters> supervisor_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t bus : {8, 16, 32, 64}) rows.push_back({{"DATA_BYTES", bus}});
  return rows;
}

std::vector<Parameters> control_sample() {
  std::vector<Parameters> rows;
  for (const std::int64_t clock : {100, 150, 156, 250, 300}) {
    rows.push_back({{"ABI_VERSION", 1}, {"LINK_PORTS", 0}, {"CLOCK_MHZ", clock}, {"RESET_CYCLES", 4}});
  }
  return rows;
}

const std::vector<std::pair<std::string, std::function<std::vector<Parameters>()>>>& samples() {
  static const std::vector<std::pair<std::string, std::function<std::vector<Parameters>()>>> all = {
      {"mr_skid", skid_sample},
      {"mr_fork", readers_sample},
      {"mr_split", readers_sample},
      {"mr_join", readers_sample},
      {"mr_fifo", fifo_sample},
      {"mr_width_adapter", width_adapter_sample},
      {"mr_pad", pad_sample},
      {"mr_crop", crop_sample},
      {"mr_concat", concat_sample},
      {"mr_requant", requant_sample},
      {"mr_swu", swu_sample},
      {"mr_swu_par", swu_par_sample},
      {"mr_pool", pool_sample},
      {"mr_reduce", reduce_sample},
      {"mr_add", add_sample},
      {"mr_table", table_sample},
      {"mr_mvu", mvu_sample},
      {"mr_threshold", threshold_sample},
      {"mr_lut", lut_sample},
      {"mr_vvu", vvu_sample},
      {"mr_control", control_sample},
      {"mr_supervisor", supervisor_sample},
      {"mr_ingress", ingress_sample},
      {"mr_egress", egress_sample},
      {"mr_link_send", sender_sample},
      {"mr_link_receive", receiver_sample},
      {"mr_link_hub", hub_sample},
      {"mr_mvu_streamed", mvu_streamed_sample},
      {"mr_weight_reader", reader_sample},
  };
  return all;
}

// ---- memory contents

/// A line of a memory file: fields appended from the lowest bit up.
class Line {
 public:
  void field(std::int64_t value, std::int64_t bits) {
    for (std::int64_t i = 0; i < bits; ++i)
      bits_.push_back(((value >> std::min<std::int64_t>(i, 63)) & 1) != 0);
  }
  std::string hex() const {
    std::string text;
    for (std::size_t at = 0; at < bits_.size(); at += 4) {
      unsigned digit = 0;
      for (std::size_t i = 0; i < 4 && at + i < bits_.size(); ++i) digit |= (bits_[at + i] ? 1U : 0U) << i;
      text.insert(text.begin(), "0123456789abcdef"[digit]);
    }
    return text + "\n";
  }

 private:
  std::vector<bool> bits_;
};

struct Content {
  Random random{1};

  std::int64_t uniform(std::int64_t from, std::int64_t to) {
    return from + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(to - from + 1));
  }
  /// About normal with the deviation a third of the range; never the most negative value.
  std::int64_t normal(std::int64_t bits) {
    const std::int64_t most = std::max<std::int64_t>((std::int64_t{1} << (bits - 1)) - 1, 1);
    std::int64_t sum = 0;
    for (int i = 0; i < 4; ++i) sum += uniform(-most, most);
    return std::clamp<std::int64_t>(sum / 3, -most, most);
  }

  std::string table(std::int64_t lines, const std::function<void(Line&, std::int64_t)>& fill) {
    std::string text;
    for (std::int64_t i = 0; i < lines; ++i) {
      Line line;
      fill(line, i);
      text += line.hex();
    }
    return text;
  }
};

}  // namespace

const std::vector<std::string>& sampled_modules() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, unused] : samples()) all.push_back(name);
    all.emplace_back(compiler::generators::kUnrolledModule);
    return all;
  }();
  return names;
}

namespace {

/// Weights about normally distributed over their range, a share of them zero.
std::vector<Sample> unrolled_sample() {
  using compiler::generators::ConstantMatrix;
  using Kind = kernels::ElementType::Kind;
  struct Shape {
    std::uint32_t rows, columns;
    unsigned abits, wbits, zeros;  // percent
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
    matrix.acc_bits = static_cast<unsigned>(clog2(largest)) + 1;
    if (s.rows % 2 == 0)
      for (std::uint32_t o = 0; o < s.rows; ++o) matrix.biases.push_back(content.uniform(-200, 200));
    auto made = compiler::generators::unroll(matrix, kWritten, "a sample.", true);
    rows.push_back({compiler::generators::kUnrolledModule, std::move(made.parameters), std::move(made.text)});
  }
  return rows;
}

}  // namespace

std::vector<Sample> sample_of(const std::string& module) {
  if (module == compiler::generators::kUnrolledModule) return unrolled_sample();
  std::vector<Sample> rows;
  for (const auto& [name, make] : samples()) {
    if (name != module) continue;
    for (Parameters& parameters : make()) {
      // Chance may give the same twice.
      const bool known =
          std::any_of(rows.begin(), rows.end(), [&](const Sample& s) { return s.parameters == parameters; });
      if (!known) rows.push_back({module, std::move(parameters), {}});
    }
  }
  return rows;
}

Memories memories_of(const std::string& module, const Parameters& parameters) {
  const auto value = [&](std::string_view name) {
    for (const auto& [key, v] : parameters) {
      if (key == name) return v;
    }
    return std::int64_t{0};
  };
  Content content;
  Memories result;
  const auto lanes = [&](std::int64_t count, std::int64_t bits, std::int64_t kind) {
    return [&content, count, bits, kind](Line& line, std::int64_t) {
      for (std::int64_t i = 0; i < count; ++i) {
        line.field(kind == 1 ? content.normal(bits) : content.uniform(0, (std::int64_t{1} << bits) - 1),
                   bits);
      }
    };
  };
  const bool loaded = value("LOADED") != 0;
  if (module == "mr_table" && !loaded) {
    result.names.emplace_back("FILE", "table.hex");
    // Words of eight bits, as weights are.
    result.files["table.hex"] = content.table(value("DEPTH"), lanes(value("WIDTH") / 8, 8, 1));
  } else if (module == "mr_mvu" && !loaded) {
    result.names.emplace_back("WFILE", "weights.hex");
    const std::int64_t lines = value("MH") / value("PE") * (value("MW") / value("SIMD"));
    result.files["weights.hex"] =
        content.table(lines, lanes(value("PE") * value("SIMD"), value("WBITS"), value("WKIND")));
  } else if (module == "mr_vvu" && !loaded) {
    result.names.emplace_back("WFILE", "weights.hex");
    const std::int64_t lines = value("TAPS") * (value("CHANNELS") / value("PE"));
    result.files["weights.hex"] = content.table(lines, lanes(value("PE"), value("WBITS"), value("WKIND")));
  }
  if ((module == "mr_mvu" || module == "mr_vvu") && value("BIAS") != 0) {
    result.names.emplace_back("BFILE", "bias.hex");
    const std::int64_t rows = module == "mr_mvu" ? value("MH") : value("CHANNELS");
    result.files["bias.hex"] = content.table(rows / value("PE"), [&](Line& line, std::int64_t) {
      for (std::int64_t i = 0; i < value("PE"); ++i) {
        line.field(content.normal(std::max<std::int64_t>(value("ACCBITS") - 4, 2)), value("ACCBITS"));
      }
    });
  } else if (module == "mr_requant" && !loaded) {
    result.names.emplace_back("QFILE", "requant.hex");
    const std::int64_t lines = value("UNIFORM") != 0 ? 1 : value("CHANNELS") / value("PE");
    const std::int64_t mbits = value("MBITS"), offbits = value("OFFBITS"), sbits = value("SBITS");
    result.files["requant.hex"] = content.table(lines, [&](Line& line, std::int64_t) {
      for (std::int64_t i = 0; i < value("PE"); ++i) {
        if (mbits > 0) {
          line.field(content.uniform(std::int64_t{1} << (mbits - 2), (std::int64_t{1} << (mbits - 1)) - 1),
                     mbits);
        }
        if (offbits > 0) line.field(content.normal(std::max<std::int64_t>(offbits - 2, 2)), offbits);
        line.field(
            value("SHIFT") >= 0 ? value("SHIFT") : (std::int64_t{1} << (sbits - 2)) + content.uniform(0, 2),
            sbits);
      }
    });
  } else if (module == "mr_threshold" && !loaded) {
    result.names.emplace_back("TFILE", "thresholds");
    const std::int64_t nf = value("UNIFORM") != 0 ? 1 : value("CHANNELS") / value("PE"),
                       bits = value("ACCBITS") + 1;
    for (std::int64_t level = 0; level < value("OBITS"); ++level) {
      for (std::int64_t lane = 0; lane < value("PE"); ++lane) {
        std::string number = std::to_string(lane);
        number.insert(0, 3 - number.size(), '0');
        result.files["thresholds." + std::to_string(level) + "." + number] =
            content.table(nf << level, lanes(1, bits, 1));
      }
    }
  } else if (module == "mr_lut" && !loaded) {
    result.names.emplace_back("FILE", "lut.hex");
    result.files["lut.hex"] = content.table(std::int64_t{1} << value("IBITS"), lanes(1, value("OBITS"), 0));
  }
  return result;
}

}  // namespace millrace::tools::calibrate
