// Swaps between two versions of a model for several minutes while clients send half of the load that saturates the
// server, and checks every answer. Prints one line of JSON per phase. Exit code 1 if a request failed, an answer was wrong, or a process or
// descriptor was left over.
//
//   swap_soak [--minutes M] [--phase drain|overlap|rolling|slow]… [--between MS] [--share S]
//
// The default is 10 minutes for each of the four phases, at half of the saturating load (--share 0.5). --between
// replaces the time between the starts of two swaps, which the phase defines. With --between 0, two minutes suffice for
// 500 swaps; the growth of memory is checked after 500 swaps.
//
// The phases drain, overlap and rolling swap once a second. In the phase slow, programming a card takes 2 s, a drain
// swap changes every FPGA image every 10 s, and deadlines are 5 s.

#include <sys/resource.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <thread>

#include "kernels/reference/reference.hpp"
#include "open_loop.hpp"
#include "tests/integration/repository_host.hpp"
#include "tests/support/programs.hpp"

namespace {

using namespace millrace;
using namespace millrace::tests;
namespace json = boost::json;
using bench::OpenLoop;
using Clock = OpenLoop::Clock;
using namespace std::chrono_literals;

constexpr std::uint32_t kFrames = 16;
constexpr int kSettled = 50, kLate = 500;
constexpr double kGrowth = 1.02;
constexpr std::uint64_t kTold = 3;             // how many failed answers are printed
constexpr std::int64_t kSpareDescriptors = 1;  // descriptors that a running request may use
constexpr std::chrono::seconds kMeasuring{3};  // how long the measurement of the saturating load takes

struct Phase {
  std::string name, policy;
  std::uint32_t cards = 3;
  std::vector<std::string> options;
  std::vector<std::string> environment;
  std::chrono::milliseconds between{1'000};
  std::uint32_t connections = 256;
};

const std::vector<Phase>& phases() {
  static const std::vector<Phase> all = {
      {"drain", "drain", 3, {"--queue-capacity", "4096"}, {}, 1'000ms, 256},
      {"overlap", "overlap", 6, {"--queue-capacity", "4096"}, {}, 1'000ms, 256},
      {"rolling", "rolling", 6, {"--queue-capacity", "4096", "--replicas", "2"}, {}, 1'000ms, 256},
      {"slow",
       "drain",
       3,
       {"--queue-capacity", "16384", "--default-timeout-ms", "5000"},
       {"MILLRACE_EMULATION_OPTIONS=program_time=2000"},
       10'000ms,
       12'000}};
  return all;
}

/// Returns how many bytes of the process are resident in memory.
std::uint64_t resident(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/statm");
  std::uint64_t total = 0, pages = 0;
  file >> total >> pages;
  return pages * 4096;
}

/// Returns the resident bytes of a process by kind of mapping: "heap", "anonymous" (stacks and further malloc arenas),
/// "cards" (memory shared with the cards' processes) and "files".
std::map<std::string, std::uint64_t> resident_by_mapping(pid_t process) {
  std::map<std::string, std::uint64_t> out;
  std::ifstream file("/proc/" + std::to_string(process) + "/smaps");
  std::string line, kind;
  while (std::getline(file, line)) {
    if (line.starts_with("Rss:")) {
      out[kind] += std::stoull(line.substr(4)) * 1024;
    } else if (!line.empty() && std::isupper(static_cast<unsigned char>(line.front())) == 0) {
      const auto path = line.find_first_of("/[");
      kind = path == std::string::npos               ? "anonymous"
             : line.compare(path, 6, "[heap]") == 0  ? "heap"
             : line.compare(path, 7, "/memfd:") == 0 ? "cards"
             : line[path] == '/'                     ? "files"
                                                     : "anonymous";
    }
  }
  return out;
}

/// Descriptors, processes and memory that the server and its cards use at one moment.
struct Belongings {
  std::size_t descriptors = 0, cards = 0;
  std::uint64_t bytes = 0, card_bytes = 0;
  std::map<std::string, std::uint64_t> by_mapping;  // the server's resident bytes

  json::object to_json() const {
    return {{"server_bytes", bytes},
            {"server_bytes_by_mapping", json::value_from(by_mapping)},
            {"cards_bytes", card_bytes},
            {"descriptors", descriptors},
            {"card_processes", cards}};
  }
};

Belongings belongings(RepositoryHost& host) {
  Belongings now;
  const pid_t server = host.server().pid();
  const auto cards = host.cards();
  now.cards = cards.size();
  now.descriptors = open_descriptors(server);
  now.bytes = resident(server);
  now.by_mapping = resident_by_mapping(server);
  for (const pid_t card : cards) now.card_bytes += resident(card);
  return now;
}

struct Sample {
  Clock::time_point due;
  double milliseconds = 0;
};

double percentile(std::vector<double>& values, double p) {
  if (values.empty()) return 0;
  const auto place = static_cast<std::ptrdiff_t>(p * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<std::size_t>(place)];
}

/// Returns, for each version, the expected output of each frame.
std::map<std::string, std::vector<std::string>> expectations(
    const RepositoryHost& host, const std::map<std::string, kernels::Program>& programs) {
  std::map<std::string, std::vector<std::string>> out;
  for (const auto& [version, program] : programs)
    for (std::uint32_t i = 0; i < kFrames; ++i) {
      const std::string input = host.frame(i);
      const auto bytes = std::as_bytes(std::span(input));
      const auto answer = kernels::reference::run(program, {{bytes.begin(), bytes.end()}}).front();
      out[version].emplace_back(reinterpret_cast<const char*>(answer.data()), answer.size());
    }
  return out;
}

/// Returns one raw POST request per frame.
std::vector<std::string> requests_of(const RepositoryHost& host) {
  std::vector<std::string> out;
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    const std::string frame = host.frame(i);
    out.push_back(
        "POST /v2/models/m/infer HTTP/1.1\r\nHost: soak\r\nInference-Header-Content-Length: "
        "0\r\nContent-Length: " +
        std::to_string(frame.size()) + "\r\n\r\n" + frame);
  }
  return out;
}

/// Counts the outcomes of requests and compares each answer with the expected answer of the version that answered. Only
/// one thread may use an object.
class Answers {
 public:
  explicit Answers(std::map<std::string, std::vector<std::string>> expected)
      : expected_(std::move(expected)) {}

  void take(const OpenLoop::Result& result) {
    ++statuses_[result.status];
    if (result.status != 200) {
      if (++failed_ <= kTold) std::cerr << "after " << result.status << ": " << result.body << std::endl;
      return;
    }
    const auto key = result.body.find("\"model_version\":\"");
    const std::string version(key == std::string_view::npos ? "" : result.body.substr(key + 17, 1));
    const auto known = expected_.find(version);
    if (known == expected_.end() || !result.body.ends_with(known->second[result.request])) ++wrong_;
    samples_.push_back(
        {result.due, std::chrono::duration<double, std::milli>(result.done - result.due).count()});
  }
  void forget_samples() { samples_.clear(); }

  std::uint64_t failed() const { return failed_; }
  std::uint64_t wrong() const { return wrong_; }
  const std::vector<Sample>& samples() const { return samples_; }
  json::object by_status() const {
    json::object out;
    for (const auto& [status, count] : statuses_)
      out[status == 0 ? "no answer" : std::to_string(status)] = count;
    return out;
  }

 private:
  const std::map<std::string, std::vector<std::string>> expected_;
  std::uint64_t failed_ = 0, wrong_ = 0;
  std::map<int, std::uint64_t> statuses_;
  std::vector<Sample> samples_;
};

struct Swap {
  Clock::time_point begin, end;
};

/// A thread that swaps between versions 1 and 2 until stop().
class Swapping {
 public:
  Swapping(RepositoryHost& host, const Phase& phase)
      : host_(host), phase_(phase), thread_([this](const std::stop_token& stop) { go(stop); }) {}

  /// Waits for the running swap and stops the thread.
  void stop() {
    thread_.request_stop();
    thread_.join();
  }

  // The following results are valid after stop().
  const std::vector<Swap>& swaps() const { return swaps_; }
  std::uint64_t failed() const { return failed_; }
  const std::optional<Belongings>& after_50() const { return after_50_; }
  const std::optional<Belongings>& after_500() const { return after_500_; }

 private:
  void go(const std::stop_token& stop) {
    auto next = Clock::now();
    for (int count = 1; !stop.stop_requested(); ++count) {
      const auto begin = Clock::now();
      const auto answer = host_.load(count % 2 == 1 ? "2" : "1", phase_.policy);
      swaps_.push_back({begin, Clock::now()});
      if (answer.status != 200) {
        ++failed_;
        std::cerr << phase_.name << ": swap " << count << ": " << answer.body << std::endl;
      }
      if (count == kSettled) after_50_ = belongings(host_);
      if (count == kLate) after_500_ = belongings(host_);
      if (count % 50 == 0) std::cerr << phase_.name << ": " << count << " swaps" << std::endl;
      next = std::max(next + phase_.between, Clock::now());
      while (!stop.stop_requested() && Clock::now() < next) std::this_thread::sleep_for(5ms);
    }
  }

  RepositoryHost& host_;
  const Phase& phase_;
  std::vector<Swap> swaps_;
  std::uint64_t failed_ = 0;
  std::optional<Belongings> after_50_, after_500_;
  std::jthread thread_;  // must be last: the thread uses the members above
};

json::object milliseconds(std::vector<double> values) {
  return {
      {"p50", percentile(values, 0.5)}, {"p99", percentile(values, 0.99)}, {"max", percentile(values, 1)}};
}

/// Adds two latency distributions to the report: that of all requests, and that of the requests that were due during a
/// swap.
void tell_latencies(json::object& report, const std::vector<Sample>& samples,
                    const std::vector<Swap>& swaps) {
  std::vector<double> all, during, times;
  for (const Sample& sample : samples) {
    all.push_back(sample.milliseconds);
    // Find the last swap that began before the request was due.
    const auto after =
        std::upper_bound(swaps.begin(), swaps.end(), sample.due,
                         [](Clock::time_point due, const Swap& swap) { return due < swap.begin; });
    if (after != swaps.begin() && sample.due <= std::prev(after)->end) during.push_back(sample.milliseconds);
  }
  for (const Swap& swap : swaps)
    times.push_back(std::chrono::duration<double, std::milli>(swap.end - swap.begin).count());
  report["swap_ms"] = milliseconds(std::move(times));
  report["latency_ms"] = milliseconds(std::move(all));
  report["latency_during_swaps_ms"] = milliseconds(std::move(during));
}

/// Adds two versions that differ in every FPGA image and loads both once. Afterwards version 1 answers requests.
bool bring_up(RepositoryHost& host, const Phase& phase, const kernels::Program& one,
              const kernels::Program& other) {
  host.add("1", one);
  host.add("2", other);
  auto options = phase.options;
  options.insert(options.end(), {"--max-connections", "16000", "--log-level", "warning"});
  host.start(options, phase.environment);
  for (const std::string version : {"1", "2", "1"})
    if (host.load(version, phase.policy).status != 200) {
      std::cerr << phase.name << ": version " << version << " does not load: " << host.server().err() << '\n';
      return false;
    }
  return true;
}

/// Adds memory use to the report. Returns whether the server's memory grew by at most 2 % between swap 50 and swap 500.
/// Returns true if there were fewer than 500 swaps.
bool tell_memory(json::object& report, const Swapping& swapping, const Belongings& before,
                 const Belongings& after) {
  const auto bytes_of = [](const std::optional<Belongings>& at) {
    return at ? json::value(at->to_json()) : json::value();
  };
  report["before"] = before.to_json();
  report["after_50_swaps"] = bytes_of(swapping.after_50());
  report["after_500_swaps"] = bytes_of(swapping.after_500());
  report["after"] = after.to_json();
  report["memory_after_500_to_50"] = nullptr;
  if (!swapping.after_500()) return true;
  const double growth =
      static_cast<double>(swapping.after_500()->bytes) / static_cast<double>(swapping.after_50()->bytes);
  report["memory_after_500_to_50"] = growth;
  report["cards_memory_after_500_to_50"] = static_cast<double>(swapping.after_500()->card_bytes) /
                                           static_cast<double>(swapping.after_50()->card_bytes);
  return growth <= kGrowth;
}

/// Stops the server and reports how many card processes outlive the server. Returns false if any does or the server
/// fails.
bool tell_end(json::object& report, RepositoryHost& host) {
  const std::vector<pid_t> cards = host.cards();
  const int code = host.server().stop(SIGTERM);
  // Cards exit once they notice that their server has exited, which takes a moment on a busy machine.
  std::ptrdiff_t left = 0;
  for (const auto bound = Clock::now() + 5s; Clock::now() < bound; std::this_thread::sleep_for(10ms)) {
    left = std::count_if(cards.begin(), cards.end(), process_exists);
    if (left == 0) break;
  }
  report["exit_code"] = code;
  report["processes_left_over"] = left;
  if (code != 0) std::cerr << "the server did not end well: " << host.server().err() << '\n';
  return code == 0 && left == 0;
}

bool run(const Phase& phase, double minutes, double share) {
  const kernels::Program one = chain_program(6), other = chain_program(6, 4, 99);
  RepositoryHost host(phase.cards);
  if (!bring_up(host, phase, one, other)) return false;
  const auto requests = requests_of(host);
  Answers answers(expectations(host, {{"1", one}, {"2", other}}));
  const auto take = [&](const OpenLoop::Result& result) { answers.take(result); };

  double saturation = 0;
  {
    OpenLoop closed(host.port(), requests, 32, take);
    saturation =
        static_cast<double>(closed.run(0, kMeasuring)) / std::chrono::duration<double>(kMeasuring).count();
  }
  const std::uint64_t failed_before = answers.failed();
  answers.forget_samples();

  OpenLoop load(host.port(), requests, phase.connections, take);
  std::this_thread::sleep_for(2s);  // until the server has accepted these connections and closed the old ones
  const Belongings before = belongings(host);
  Swapping swapping(host, phase);
  const std::uint64_t sent =
      load.run(share * saturation, std::chrono::milliseconds(static_cast<std::int64_t>(minutes * 60'000)));
  swapping.stop();
  const Belongings after = belongings(host);

  json::object report{{"phase", phase.name},
                      {"minutes", minutes},
                      {"saturation_per_second", saturation},
                      {"sent", sent},
                      {"failed", answers.failed()},
                      {"failed_before_swaps", failed_before},
                      {"wrong", answers.wrong()},
                      {"by_status", answers.by_status()},
                      {"swaps", swapping.swaps().size()},
                      {"failed_swaps", swapping.failed()}};
  tell_latencies(report, answers.samples(), swapping.swaps());
  bool good = answers.failed() == 0 && answers.wrong() == 0 && swapping.failed() == 0;
  good = tell_memory(report, swapping, before, after) && good;
  const auto more =
      static_cast<std::int64_t>(after.descriptors) - static_cast<std::int64_t>(before.descriptors);
  report["descriptors_left_over"] = more;
  good = more <= kSpareDescriptors && after.cards == before.cards && good;
  good = tell_end(report, host) && good;
  if (!good) std::cerr << phase.name << ": the server said:\n" << host.server().err() << '\n';
  report["good"] = good;
  std::cout << json::serialize(report) << std::endl;
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  double minutes = 10, share = 0.5;
  std::optional<std::chrono::milliseconds> between;
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool more = i + 1 < argc;
    if (word == "--minutes" && more) {
      minutes = std::atof(argv[++i]);
    } else if (word == "--phase" && more) {
      wanted.emplace_back(argv[++i]);
    } else if (word == "--between" && more) {
      between = std::chrono::milliseconds(std::atoi(argv[++i]));
    } else if (word == "--share" && more) {
      share = std::atof(argv[++i]);
    } else {
      std::cerr << "usage: swap_soak [--minutes M] [--phase drain|overlap|rolling|slow]... [--between MS] "
                   "[--share S]\n";
      return 2;
    }
  }
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  bool good = true, any = false;
  for (Phase phase : phases()) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), phase.name) == wanted.end()) continue;
    any = true;
    phase.between = between.value_or(phase.between);
    good = run(phase, minutes, share) && good;
  }
  if (!any) {
    std::cerr << "swap_soak: no such phase\n";
    return 2;
  }
  return good ? 0 : 1;
}
