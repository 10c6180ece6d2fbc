// A bench describes what a hardware module must do (frames of input beats and the expected frames of output beats) and
// how fast the module must be.
//
// A Case tests one row of a module's table (<module>.rows), which is one set of parameters. The runner
// (stream_bench.cpp) sends the case's frames through the row's instance under every pattern of valid and ready, and
// compares every beat. It finds streams by port name: `<stream>_valid`, `_ready`, `_data`. A vector of N valid signals
// is N streams `<stream>0`… with their data next to each other. Names of input streams start with "s" or "l", names of
// output streams with "m".
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kernels/tb/beat.hpp"
#include "kernels/tb/model.hpp"

namespace millrace::kernels::tb {

class Rng {
 public:
  explicit Rng(std::uint64_t seed) : engine_(seed) {}
  std::int64_t between(std::int64_t lowest, std::int64_t highest) {
    return std::uniform_int_distribution<std::int64_t>(lowest, highest)(engine_);
  }
  bool chance(double p) { return std::bernoulli_distribution(p)(engine_); }

 private:
  std::mt19937_64 engine_;
};

struct Frame {
  std::map<std::string, Beats> inputs;   // by the stream's name
  std::map<std::string, Beats> outputs;  // by the stream's name: the expected beats, in order
};

/// The timing of a module at full speed, with inputs always offered and outputs always taken, as the module's header
/// promises it. The runner requires exactly this timing.
struct Timing {
  std::int64_t latency_cycles = 0;    // from taking the first input beat to offering the first output beat
  std::uint64_t interval_cycles = 0;  // between the last output beats of successive frames
};

class Case {
 public:
  virtual ~Case() = default;
  virtual Frame frame(Rng& rng) = 0;
  /// Returns the beats of those input streams that the bench feeds once, at the start: the weights that are loaded into
  /// the module. Loaded weights survive resets.
  virtual std::map<std::string, Beats> load() { return {}; }
  virtual std::optional<Timing> timing() const { return std::nullopt; }
  virtual int frames() const { return 8; }  // in each phase
};

/// Makes a case from random values of `rng`. Writes the memory files of the row to the current directory before the
/// model is made.
using MakeCase = std::function<std::unique_ptr<Case>(const Parameters&, Rng&)>;

/// A bench for a module that has more ports than streams, such as the shell. Returns the number of failures.
using RunBench = std::function<int(std::uint64_t seed, int rounds)>;

/// Cases and benches by the module's name. Each bench file adds its own entries.
using Cases = std::map<std::string, MakeCase>;
using Benches = std::map<std::string, RunBench>;
void add_stream_cases(Cases& cases);
void add_window_cases(Cases& cases);
void add_arithmetic_cases(Cases& cases);
void add_element_cases(Cases& cases);
void add_reader_bench(Benches& benches);
void add_load_bench(Benches& benches);
void add_shell_bench(Benches& benches);
void add_link_bench(Benches& benches);
void add_aurora_bench(Benches& benches);
void add_top_bench(Benches& benches);
void add_ring_in_bench(Benches& benches);
void add_ring_out_bench(Benches& benches);
void add_udp_bench(Benches& benches);
void add_udp_link_bench(Benches& benches);

/// Runs all rows of a module's table in parallel for `cycles` cycles. A Row is constructed from (parameters, ports,
/// seed). It has `clk`, drive(cycle), sample(), print(), `failures`, and worked(), which returns whether everything
/// that a run must contain has happened. Returns the number of failures.
template <class Row>
int run_rows(std::uint64_t seed, int cycles) {
  const auto& parameters = model_rows();
  const auto model = make_model();
  std::vector<std::unique_ptr<Row>> rows;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    rows.push_back(std::make_unique<Row>(parameters[i], model->ports(i), seed * 1000 + i));
  for (int cycle = 0; cycle < cycles; ++cycle) {
    for (auto& row : rows) row->drive(cycle);
    model->eval();
    for (auto& row : rows) {
      row->sample();
      row->clk.set(1);
    }
    model->eval();
    for (auto& row : rows) row->clk.set(0);
  }
  model->final();
  int failures = 0;
  for (const auto& row : rows) {
    row->print();
    failures += row->failures + (row->worked() ? 0 : 1);
  }
  return failures;
}

/// Runs every row of the model's table. Prints one line per row and every failure. Returns the number of failures.
int run_stream_bench(const MakeCase& make, std::uint64_t seed, int rounds);

}  // namespace millrace::kernels::tb
