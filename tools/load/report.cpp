#include "tools/load/report.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <ostream>

#include "runtime/base/file.hpp"

namespace millrace::load {
namespace {

namespace json = boost::json;

constexpr int kSchema = 1;

double microseconds(std::chrono::nanoseconds value) {
  return std::chrono::duration<double, std::micro>(value).count();
}

/// Rounds to a thousandth, because clock and histogram are not more accurate.
double rounded(double value) {
  return std::round(value * 1000) / 1000;
}

json::object as_json(const Latencies& l) {
  return {{"mean", rounded(l.mean)}, {"p50", rounded(l.p50)},    {"p90", rounded(l.p90)},
          {"p99", rounded(l.p99)},   {"p99_9", rounded(l.p999)}, {"max", rounded(l.max)}};
}

json::value as_json(const std::optional<double>& value) {
  return value ? json::value(rounded(*value)) : json::value(nullptr);
}

json::object as_json(const RunReport& run) {
  json::object by_status;
  for (const auto& [status, count] : run.errors_by_status) by_status[status] = count;
  json::array histogram;
  for (const auto& [below, count] : run.histogram_us) histogram.push_back(json::array{rounded(below), count});
  json::object out{{"connections", run.connections},
                   {"rate", nullptr},
                   {"requests", run.requests},
                   {"requests_per_second", rounded(run.requests_per_second)},
                   {"latency_us", as_json(run.latency_us)},
                   {"errors", run.errors},
                   {"errors_by_status", std::move(by_status)},
                   {"late_sends", run.late_sends},
                   {"send_delay_max_us", rounded(run.send_delay_max_us)},
                   {"watts", as_json(run.watts)},
                   {"joules_per_request",
                    run.joules_per_request ? json::value(*run.joules_per_request) : json::value(nullptr)},
                   {"histogram_us", std::move(histogram)}};
  if (run.rate) out["rate"] = *run.rate;
  return out;
}

/// The run whose figures the report's top-level keys repeat: the run with the most requests per second.
const RunReport& best_of(const Report& report) {
  return *std::max_element(
      report.runs.begin(), report.runs.end(),
      [](const RunReport& a, const RunReport& b) { return a.requests_per_second < b.requests_per_second; });
}

std::optional<double> ratio(double now, double then) {
  if (then == 0) return std::nullopt;
  return now / then;
}

json::object as_json(const Comparison& comparison) {
  json::array runs;
  for (const auto& pair : comparison.runs) {
    const RunReport& then = pair.first;
    const RunReport& now = pair.second;
    json::object old = as_json(then);
    old.erase("histogram_us");  // read_report() does not read it
    const auto of = [&](double Latencies::*p) {
      return as_json(ratio(now.latency_us.*p, then.latency_us.*p));
    };
    runs.push_back(json::object{
        {"then", std::move(old)},
        {"ratio",
         {{"requests_per_second", as_json(ratio(now.requests_per_second, then.requests_per_second))},
          {"latency_us",
           {{"mean", of(&Latencies::mean)},
            {"p50", of(&Latencies::p50)},
            {"p90", of(&Latencies::p90)},
            {"p99", of(&Latencies::p99)},
            {"p99_9", of(&Latencies::p999)},
            {"max", of(&Latencies::max)}}}}}});
  }
  json::array notes;
  for (const auto& note : comparison.notes) notes.emplace_back(note);
  return {{"file", comparison.file}, {"runs", std::move(runs)}, {"notes", std::move(notes)}};
}

RunReport run_from(const json::object& object) {
  RunReport run;
  run.connections = object.at("connections").to_number<std::uint32_t>();
  if (!object.at("rate").is_null()) run.rate = object.at("rate").to_number<double>();
  run.requests = object.at("requests").to_number<std::uint64_t>();
  run.requests_per_second = object.at("requests_per_second").to_number<double>();
  const json::object& latency = object.at("latency_us").as_object();
  const auto of = [&](const char* key) { return latency.at(key).to_number<double>(); };
  run.latency_us = {of("mean"), of("p50"), of("p90"), of("p99"), of("p99_9"), of("max")};
  run.errors = object.at("errors").to_number<std::uint64_t>();
  for (const auto& [status, count] : object.at("errors_by_status").as_object())
    run.errors_by_status[std::string(status)] = count.to_number<std::uint64_t>();
  run.late_sends = object.at("late_sends").to_number<std::uint64_t>();
  run.send_delay_max_us = object.at("send_delay_max_us").to_number<double>();
  return run;
}

[[gnu::format(printf, 2, 3)]] void line(std::ostream& out, const char* format, ...) {
  char text[512];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  out << text << '\n';
}

/// Formats a number for nine columns, with a decimal if there is room.
std::string column(double value) {
  char text[64];
  std::snprintf(text, sizeof text, value < 1e6 ? "%.1f" : value < 1e9 ? "%.0f" : "%.2e", value);
  return text;
}

std::string shortest(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

std::string load_of(const RunReport& run) {
  return run.rate ? shortest(*run.rate) + "/s" : std::to_string(run.connections);
}

void print_head(std::ostream& out, bool open) {
  line(out, "%9s %9s %9s %9s %9s %9s %9s %8s", open ? "rate" : "conns", "req/s", "p50 us", "p90 us", "p99 us",
       "p99.9 us", "max us", "errors");
}

void print_row(std::ostream& out, const std::string& first, const RunReport& run) {
  const Latencies& l = run.latency_us;
  line(out, "%9s %9s %9s %9s %9s %9s %9s %8llu", first.c_str(), column(run.requests_per_second).c_str(),
       column(l.p50).c_str(), column(l.p90).c_str(), column(l.p99).c_str(), column(l.p999).c_str(),
       column(l.max).c_str(), static_cast<unsigned long long>(run.errors));
}

bool same_load(const RunReport& a, const RunReport& b) {
  return a.connections == b.connections && a.rate == b.rate;
}

std::string described(const RunReport& run) {
  return std::to_string(run.connections) + (run.connections == 1 ? " connection" : " connections") +
         (run.rate ? " at " + shortest(*run.rate) + " requests/s" : "");
}

}  // namespace

std::uint64_t Report::errors() const {
  std::uint64_t sum = 0;
  for (const RunReport& run : runs) sum += run.errors;
  return sum;
}

RunReport summarise(const Tally& tally, const Settings& settings, std::optional<double> watts) {
  RunReport run;
  run.connections = settings.connections;
  run.rate = settings.rate;
  run.requests = tally.latency.count();
  run.requests_per_second = static_cast<double>(run.requests) /
                            std::max(1e-9, std::chrono::duration<double>(tally.measured).count());
  const auto at = [&](double percent) { return microseconds(tally.latency.percentile(percent)); };
  run.latency_us = {tally.latency.mean_ns() / 1000,   at(50), at(90), at(99), at(99.9),
                    microseconds(tally.latency.max())};
  run.watts = watts;
  if (watts && run.requests_per_second > 0) run.joules_per_request = *watts / run.requests_per_second;
  run.errors_by_status = tally.errors;
  for (const auto& [status, count] : tally.errors) run.errors += count;
  if (settings.rate) {
    run.late_sends = tally.late;
    run.send_delay_max_us = microseconds(tally.send_delay.max());
  }
  tally.latency.for_each(
      [&](auto below, std::uint64_t count) { run.histogram_us.emplace_back(microseconds(below), count); });
  return run;
}

Result<Comparison> compare(const std::string& file, const Report& then, const Report& now) {
  Comparison out;
  out.file = file;
  for (const RunReport& run : now.runs) {
    const auto partner = std::find_if(then.runs.begin(), then.runs.end(),
                                      [&](const RunReport& old) { return same_load(old, run); });
    if (partner == then.runs.end()) {
      std::string has;
      for (const RunReport& old : then.runs) has += (has.empty() ? "" : "; ") + described(old);
      return Error(ErrorCode::kInvalidInput,
                   "--compare " + file + ": it has no run of " + described(run) + ", only: " + has);
    }
    out.runs.emplace_back(*partner, run);
  }
  if (then.model != now.model) out.notes.push_back("the model was '" + then.model + "'");
  if (then.input_bytes != now.input_bytes)
    out.notes.push_back("the input had " + std::to_string(then.input_bytes) + " bytes");
  if (then.url.substr(0, then.url.find(':')) != now.url.substr(0, now.url.find(':')))
    out.notes.push_back("the URL was " + then.url);
  if (then.duration_seconds != now.duration_seconds)
    out.notes.push_back("a run took " + shortest(then.duration_seconds) + " s");
  return out;
}

Result<Report> read_report(const std::filesystem::path& file) {
  const std::string what = "--compare " + file.string();
  auto text = read_text_file(file);
  if (!text) return text.error().within("--compare");
  json::error_code failed;
  const json::value value = json::parse(*text, failed);
  const json::object* object = failed ? nullptr : value.if_object();
  const json::value* schema = object == nullptr ? nullptr : object->if_contains("schema");
  if (schema == nullptr)
    return Error(ErrorCode::kInvalidInput, what + " is not what 'millrace bench --json' writes");
  if (const auto* number = schema->if_int64(); number == nullptr || *number != kSchema)
    return Error(ErrorCode::kInvalidInput, what + ": schema " + json::serialize(*schema).substr(0, 40) +
                                               ", this program reads " + std::to_string(kSchema) +
                                               "; measure again with this version");
  try {
    Report report;
    report.url = std::string(object->at("url").as_string());
    report.model = std::string(object->at("model").as_string());
    report.input_bytes = object->at("input_bytes").to_number<std::uint64_t>();
    report.duration_seconds = object->at("duration_seconds").to_number<double>();
    report.warmup_seconds = object->at("warmup_seconds").to_number<double>();
    for (const json::value& run : object->at("runs").as_array())
      report.runs.push_back(run_from(run.as_object()));
    return report;
  } catch (const std::exception&) {
    return Error(ErrorCode::kInvalidInput,
                 what + ": a key that 'millrace bench --json' writes is missing or has the wrong type");
  }
}

std::string to_json(const Report& report, const Comparison* comparison) {
  json::array runs;
  for (const RunReport& run : report.runs) runs.push_back(as_json(run));
  const RunReport& best = best_of(report);
  json::object out{{"schema", kSchema},
                   {"url", report.url},
                   {"model", report.model},
                   {"input_bytes", report.input_bytes},
                   {"duration_seconds", report.duration_seconds},
                   {"warmup_seconds", report.warmup_seconds},
                   {"latency_us", as_json(best.latency_us)},
                   {"requests_per_second", rounded(best.requests_per_second)},
                   {"errors", report.errors()},
                   {"runs", std::move(runs)}};
  if (comparison != nullptr) out["comparison"] = as_json(*comparison);
  return json::serialize(out);
}

void print_histogram(std::ostream& out, const RunReport& run) {
  line(out, "%12s %14s %10s %14s\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
  std::uint64_t total = 0, seen = 0;
  for (const auto& [below, count] : run.histogram_us) total += count;
  for (const auto& [below, count] : run.histogram_us) {
    seen += count;
    const double share = static_cast<double>(seen) / static_cast<double>(total);
    const double value = seen == total ? run.latency_us.max : below;
    if (seen == total)
      line(out, "%12.3f %14.12f %10llu", value, share, static_cast<unsigned long long>(seen));
    else
      line(out, "%12.3f %14.12f %10llu %14.2f", value, share, static_cast<unsigned long long>(seen),
           1 / (1 - share));
  }
  line(out, "#[Mean    = %12.3f, Max         = %12.3f]", run.latency_us.mean, run.latency_us.max);
  line(out, "#[Total count = %llu]", static_cast<unsigned long long>(total));
}

void print_table(std::ostream& out, const Report& report) {
  const bool open = report.runs.front().rate.has_value();
  out << report.model << " at " << report.url << ", " << (open ? "open" : "closed") << " loop, "
      << shortest(report.duration_seconds) << " s a run after " << shortest(report.warmup_seconds) << " s\n";
  print_head(out, open);
  for (const RunReport& run : report.runs) print_row(out, load_of(run), run);
  for (const RunReport& run : report.runs) {
    if (run.errors > 0) {
      out << "errors with " << described(run) << ':';
      for (const auto& [status, count] : run.errors_by_status) out << ' ' << status << " x " << count;
      out << '\n';
    }
    if (run.joules_per_request)
      out << "power with " << described(run) << ": " << column(*run.watts) << " W, "
          << shortest(*run.joules_per_request) << " J a request\n";
    if (run.late_sends > 0)
      out << run.late_sends << " requests were sent over 1 ms late; the largest delay was "
          << column(run.send_delay_max_us) << " us\n";
  }
}

void print_comparison(std::ostream& out, const Comparison& comparison) {
  const auto text = [](const std::optional<double>& value) {
    char buffer[32] = "-";
    if (value) std::snprintf(buffer, sizeof buffer, "%.3f", *value);
    return std::string(buffer);
  };
  out << "\ncompared with " << comparison.file << '\n';
  for (const std::string& note : comparison.notes) out << "note: there " << note << '\n';
  for (const auto& pair : comparison.runs) {
    const RunReport& then = pair.first;
    const RunReport& now = pair.second;
    out << described(now) << '\n';
    print_head(out, false);
    print_row(out, "then", then);
    print_row(out, "now", now);
    const auto of = [&](double Latencies::*p) { return text(ratio(now.latency_us.*p, then.latency_us.*p)); };
    line(out, "%9s %9s %9s %9s %9s %9s %9s", "now/then",
         text(ratio(now.requests_per_second, then.requests_per_second)).c_str(), of(&Latencies::p50).c_str(),
         of(&Latencies::p90).c_str(), of(&Latencies::p99).c_str(), of(&Latencies::p999).c_str(),
         of(&Latencies::max).c_str());
  }
}

}  // namespace millrace::load
