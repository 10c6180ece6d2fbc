// What `millrace bench` says: a table, JSON (schema 1, described in README.md), and the comparison with an
// earlier one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "tools/load/run.hpp"

namespace millrace::load {

struct Latencies {  // µs
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, p999 = 0, max = 0;
};

struct RunReport {
  std::uint32_t connections = 0;
  std::optional<double> rate;
  std::uint64_t requests = 0;  // measured and succeeded
  double requests_per_second = 0;
  Latencies latency_us;
  std::uint64_t errors = 0;
  std::map<std::string, std::uint64_t> errors_by_status;
  std::uint64_t late_sends = 0;
  double send_delay_max_us = 0;
  std::optional<double> watts;               // mean of all cards of the model
  std::optional<double> joules_per_request;  // the same over the requests a second
  // (below, count), non-empty buckets; not read back
  std::vector<std::pair<double, std::uint64_t>> histogram_us;
};

struct Report {
  std::string url, model;
  std::uint64_t input_bytes = 0;
  double duration_seconds = 0, warmup_seconds = 0;
  std::vector<RunReport> runs;

  std::uint64_t errors() const;
};

/// `watts`: what the cards took meanwhile, where that is known.
RunReport summarise(const Tally& tally, const Settings& settings, std::optional<double> watts = std::nullopt);

/// Runs of two reports that were made alike: the same connections and the same rate.
struct Comparison {
  std::string file;
  std::vector<std::pair<RunReport, RunReport>> runs;  // then, now
  std::vector<std::string> notes;                     // what else differs
};

/// kInvalidInput where a run of `now` has no partner in `then`.
Result<Comparison> compare(const std::string& file, const Report& then, const Report& now);

/// kInvalidInput where the file is not a report of this schema.
Result<Report> read_report(const std::filesystem::path& file);

std::string to_json(const Report& report, const Comparison* comparison);

/// The percentile distribution of a run as HdrHistogram writes it, in microseconds: what its plotters read.
void print_histogram(std::ostream& out, const RunReport& run);

void print_table(std::ostream& out, const Report& report);
void print_comparison(std::ostream& out, const Comparison& comparison);

}  // namespace millrace::load
