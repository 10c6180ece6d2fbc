// Products, sums and functions of values.
#include <algorithm>
#include <array>

#include "tools/calibrate/modules.hpp"

namespace millrace::tools::calibrate {
namespace {

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

}  // namespace

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
  // Loaded, in the widths that compile rounds up to: multipliers of a sign and whole bytes, offsets of whole
  // bytes, any shift.
  const auto load = [&](std::int64_t nf, std::int64_t pe, std::int64_t acc, std::int64_t mbits,
                        std::int64_t offbits, std::int64_t sbits, std::int64_t even, bool uniform = false,
                        std::int64_t obits = 8, std::int64_t kind = 1, std::int64_t zero = 0) {
    add(nf, pe, acc, mbits, offbits, -1, even, uniform, obits, kind, zero);
    for (auto& [name, value] : rows.back()) {
      if (name == "LOADED") value = 1;
      if (name == "SBITS") value = sbits;
    }
  };
  for (const std::int64_t pe : {1, 3, 8}) {
    load(4, pe, 20, 0, 0, 5, 1);     // powers of two
    load(6, pe, 22, 0, 24, 5, 1);    // and a bias
    load(10, pe, 23, 17, 40, 6, 0);  // multiply-shift
    load(3, pe, 24, 17, 48, 6, 1);   // … and halves to even
  }
  load(1, 2, 20, 0, 0, 5, 1);
  load(1, 6, 24, 17, 40, 6, 0);
  load(1, 1, 22, 17, 40, 5, 1, true);
  load(6, 4, 22, 17, 40, 5, 1, true);
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
  // As deep as tables get that Yosys leaves in logic, and one that it does not.
  for (const auto& [width, depth] :
       {std::array<std::int64_t, 2>{4, 1280}, {6, 1400}, {4, 2048}, {4, 2304}, {2, 4096}, {1, 8192}}) {
    rows.push_back({{"WIDTH", width}, {"DEPTH", depth}, {"STYLE", 0}, {"LOADED", 0}});
  }
  return rows;
}

}  // namespace millrace::tools::calibrate
