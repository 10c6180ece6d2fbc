// The samples of the modules, one function a module. Private to tools/calibrate.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

#include "tools/calibrate/sample.hpp"

namespace millrace::tools::calibrate {

using compiler::generators::Parameters;
using Random = std::mt19937_64;

inline std::int64_t pick(Random& random, std::initializer_list<std::int64_t> values) {
  return values.begin()[random() % values.size()];
}

inline std::int64_t clog2(std::int64_t n) {
  std::int64_t bits = 0;
  while ((std::int64_t{1} << bits) < n) ++bits;
  return bits;
}

// Products, sums and functions of values: modules_arithmetic.cpp.
std::vector<Parameters> mvu_sample();
std::vector<Parameters> mvu_streamed_sample();
std::vector<Parameters> vvu_sample();
std::vector<Parameters> requant_sample();
std::vector<Parameters> threshold_sample();
std::vector<Parameters> add_sample();
std::vector<Parameters> lut_sample();
std::vector<Parameters> table_sample();

// Windows over images, and what changes an image's size: modules_windows.cpp.
std::vector<Parameters> swu_sample();
std::vector<Parameters> swu_par_sample();
std::vector<Parameters> pool_sample();
std::vector<Parameters> reduce_sample();
std::vector<Parameters> pad_sample();
std::vector<Parameters> crop_sample();
std::vector<Parameters> concat_sample();

// Between units, and around a partition: modules_streams.cpp.
std::vector<Parameters> skid_sample();
std::vector<Parameters> readers_sample();
std::vector<Parameters> fifo_sample();
std::vector<Parameters> width_adapter_sample();
std::vector<Parameters> ingress_sample();
std::vector<Parameters> egress_sample();
std::vector<Parameters> sender_sample();
std::vector<Parameters> receiver_sample();
std::vector<Parameters> hub_sample();
std::vector<Parameters> reader_sample();
std::vector<Parameters> load_sample();
std::vector<Parameters> parameters_sample();
std::vector<Parameters> supervisor_sample();
std::vector<Parameters> control_sample();

// A module written for its constants: modules_written.cpp.
std::vector<Sample> unrolled_sample();

}  // namespace millrace::tools::calibrate
