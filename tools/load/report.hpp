// The report of `millrace bench`: a table, JSON (schema 1, specified in README.md), and the comparison with
// an earlier report.
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

struct Latencies {  // in microseconds
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, p999 = 0, max = 0;
};

struct RunReport {
  std::uint32_t connections = 0;
  std::optional<double> rate;
  std::uint64_t requests = 0;  // successful requests after the warm-up
  double requests_per_second = 0;
  Latencies latency_us;
  std::uint64_t errors = 0;
  std::map<std::string, std::uint64_t> errors_by_status;
  std::uint64_t late_sends = 0;
  double send_delay_max_us = 0;
  std::optional<double> watts;               // total power of the model's cards, averaged over the run
  std::optional<double> joules_per_request;  // watts divided by requests per second
  // The buckets of the latency histogram that are not empty: the upper bound and the count of each. read_report() does
  // not read them.
  std::vector<std::pair<double, std::uint64_t>> histogram_us;
};

struct Report {
  std::string url, model;
  std::uint64_t input_bytes = 0;
  double duration_seconds = 0, warmup_seconds = 0;
  std::vector<RunReport> runs;

  std::uint64_t errors() const;
};

/// Computes a run's report. `watts` is the power of the cards during the run, if known.
RunReport summarise(const Tally& tally, const Settings& settings, std::optional<double> watts = std::nullopt);

/// The runs of two reports, paired by number of connections and request rate.
struct Comparison {
  std::string file;
  std::vector<std::pair<RunReport, RunReport>> runs;  // (earlier run, current run)
  std::vector<std::string> notes;                     // other differences between the reports
};

/// Pairs the runs of two reports. Returns kInvalidInput if a run of `now` has no counterpart in `then`.
Result<Comparison> compare(const std::string& file, const Report& then, const Report& now);

/// Reads a report that to_json() wrote. Returns kInvalidInput if the file is not a report of schema 1.
Result<Report> read_report(const std::filesystem::path& file);

std::string to_json(const Report& report, const Comparison* comparison);

/// Prints the percentile distribution of a run's latencies, in microseconds and in HdrHistogram's text format.
void print_histogram(std::ostream& out, const RunReport& run);

void print_table(std::ostream& out, const Report& report);
void print_comparison(std::ostream& out, const Comparison& comparison);

}  // namespace millrace::load
