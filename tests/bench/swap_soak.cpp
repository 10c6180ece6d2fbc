// Swaps under load for minutes: half of saturation, one swap after the other between two versions, every
// answer compared with its version's. Prints a line of JSON a phase; exit code 1 where a request failed, an
// answer was wrong, or something was left over.
//
//   swap_soak [--minutes M] [--phase drain|overlap|rolling|slow]…      default: 10, all four
//
// drain, overlap, rolling: a swap a second. slow: programming takes 2 s, a swap by drain every 10 s in which
// every image changes, deadlines of 5 s.

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>

#include "kernels/reference/reference.hpp"
#include "open_loop.hpp"
#include "tests/integration/repository_host.hpp"
#include "tests/support/programs.hpp"

namespace {

using namespace millrace;
using namespace millrace::tests;
using bench::OpenLoop;
using Clock = OpenLoop::Clock;
using namespace std::chrono_literals;

constexpr std::uint32_t kFrames = 16;
constexpr double kShare = 0.5;  // of saturation
constexpr int kSettled = 50, kLate = 500;
constexpr double kGrowth = 1.02;

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

/// Resident bytes of a process.
std::uint64_t resident(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/statm");
  std::uint64_t total = 0, pages = 0;
  file >> total >> pages;
  return pages * 4096;
}

struct Belongings {
  std::size_t descriptors = 0, cards = 0;
  std::uint64_t bytes = 0, card_bytes = 0;
};

Belongings belongings(RepositoryHost& host) {
  Belongings now;
  const pid_t server = host.server().pid();
  const auto cards = host.cards();
  now.cards = cards.size();
  now.descriptors = open_descriptors(server);
  now.bytes = resident(server);
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

/// What the versions answer to each frame.
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

bool run(const Phase& phase, double minutes) {
  RepositoryHost host(phase.cards);
  const kernels::Program one = chain_program(6), other = chain_program(6, 4, 99);
  host.add("1", one);
  host.add("2", other);
  auto options = phase.options;
  options.insert(options.end(), {"--max-connections", "16000", "--log-level", "warning"});
  host.start(options, phase.environment);
  for (const std::string version : {"1", "2", "1"})
    if (host.load(version, phase.policy).status != 200) {
      std::fprintf(stderr, "%s: version %s does not load: %s\n", phase.name.c_str(), version.c_str(),
                   host.server().err().c_str());
      return false;
    }
  const auto expected = expectations(host, {{"1", one}, {"2", other}});
  std::vector<std::string> requests;
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    const std::string frame = host.frame(i);
    requests.push_back(
        "POST /v2/models/m/infer HTTP/1.1\r\nHost: soak\r\nInference-Header-Content-Length: "
        "0\r\nContent-Length: " +
        std::to_string(frame.size()) + "\r\n\r\n" + frame);
  }

  std::uint64_t failed = 0, wrong = 0;
  std::map<int, std::uint64_t> statuses;
  std::vector<Sample> samples;
  const auto check = [&](const OpenLoop::Result& result) {
    ++statuses[result.status];
    if (result.status != 200) {
      ++failed;
      return;
    }
    const auto key = result.body.find("\"model_version\":\"");
    const std::string version(key == std::string_view::npos ? "" : result.body.substr(key + 17, 1));
    const auto known = expected.find(version);
    if (known == expected.end() || !result.body.ends_with(known->second[result.request])) ++wrong;
    samples.push_back(
        {result.due, std::chrono::duration<double, std::milli>(result.done - result.due).count()});
  };

  double saturation = 0;
  {
    OpenLoop closed(host.port(), requests, 32, check);
    const auto sent = closed.run(0, 3s);
    saturation = static_cast<double>(sent) / 3;
  }
  const std::uint64_t failed_before = failed;
  samples.clear();

  OpenLoop load(host.port(), requests, phase.connections, check);
  std::this_thread::sleep_for(2s);  // the server has taken them all, and forgotten the others
  const Belongings before = belongings(host);
  std::mutex mutex;
  std::vector<std::pair<Clock::time_point, Clock::time_point>> swaps;
  std::uint64_t failed_swaps = 0;
  Belongings settled, late;
  std::jthread swapper([&](const std::stop_token& stop) {
    auto next = Clock::now();
    for (int count = 1; !stop.stop_requested(); ++count) {
      const auto begin = Clock::now();
      const auto answer = host.load(count % 2 == 1 ? "2" : "1", phase.policy);
      {
        const std::lock_guard lock(mutex);
        swaps.emplace_back(begin, Clock::now());
        if (answer.status != 200) {
          ++failed_swaps;
          std::fprintf(stderr, "%s: swap %d: %s\n", phase.name.c_str(), count, answer.body.c_str());
        }
      }
      if (count == kSettled) settled = belongings(host);
      late = belongings(host);
      if (count == kLate) std::fprintf(stderr, "%s: 500 swaps\n", phase.name.c_str());
      next = std::max(next + phase.between, Clock::now());
      while (!stop.stop_requested() && Clock::now() < next) std::this_thread::sleep_for(5ms);
    }
  });
  const auto duration = std::chrono::milliseconds(static_cast<std::int64_t>(minutes * 60'000));
  const std::uint64_t sent = load.run(kShare * saturation, duration);
  swapper.request_stop();
  swapper.join();
  const Belongings after = belongings(host);

  std::vector<double> all, during;
  for (const Sample& sample : samples) {
    all.push_back(sample.milliseconds);
    // The last swap that had begun by then.
    const auto after_it =
        std::upper_bound(swaps.begin(), swaps.end(), sample.due,
                         [](Clock::time_point due, const auto& swap) { return due < swap.first; });
    const bool in = after_it != swaps.begin() && sample.due <= std::prev(after_it)->second;
    if (in) during.push_back(sample.milliseconds);
  }
  std::vector<double> times;
  for (const auto& [begin, end] : swaps)
    times.push_back(std::chrono::duration<double, std::milli>(end - begin).count());
  if (settled.bytes == 0) settled = before;
  const double growth = static_cast<double>(late.bytes) / static_cast<double>(settled.bytes);
  const bool enough = swaps.size() >= static_cast<std::size_t>(kLate);
  const bool left_over = after.cards != before.cards || after.descriptors > before.descriptors + 1;
  const bool good =
      failed == 0 && wrong == 0 && failed_swaps == 0 && !left_over && (!enough || growth <= kGrowth);
  std::printf(
      "{\"phase\":\"%s\",\"minutes\":%g,\"saturation_per_second\":%.0f,\"sent\":%llu,\"failed\":%llu,"
      "\"failed_before\":"
      "%llu,\"wrong\":%llu,\"swaps\":%zu,\"failed_swaps\":%llu,\"swap_ms\":{\"p50\":%.1f,\"max\":%.1f},"
      "\"latency_ms\":{\"p50\":%.3f,\"p99\":%.3f,\"max\":%.3f},\"latency_during_swaps_ms\":{\"p50\":%.3f,"
      "\"p99\":%.3f},"
      "\"server_bytes\":{\"settled\":%llu,\"end\":%llu},\"growth\":%.4f,\"growth_judged\":%s,\"cards_bytes\":"
      "{\"settled\":"
      "%llu,\"end\":%llu},\"descriptors\":[%zu,%zu],\"cards\":[%zu,%zu],\"good\":%s}\n",
      phase.name.c_str(), minutes, saturation, static_cast<unsigned long long>(sent),
      static_cast<unsigned long long>(failed), static_cast<unsigned long long>(failed_before),
      static_cast<unsigned long long>(wrong), swaps.size(), static_cast<unsigned long long>(failed_swaps),
      percentile(times, 0.5), percentile(times, 1), percentile(all, 0.5), percentile(all, 0.99),
      percentile(all, 1), percentile(during, 0.5), percentile(during, 0.99),
      static_cast<unsigned long long>(settled.bytes), static_cast<unsigned long long>(late.bytes), growth,
      enough ? "true" : "false", static_cast<unsigned long long>(settled.card_bytes),
      static_cast<unsigned long long>(late.card_bytes), before.descriptors, after.descriptors, before.cards,
      after.cards, good ? "true" : "false");
  std::fflush(stdout);
  for (const auto& [status, count] : statuses)
    if (status != 200)
      std::fprintf(stderr, "%s: status %d: %llu times\n", phase.name.c_str(), status,
                   static_cast<unsigned long long>(count));
  if (host.server().stop(SIGTERM) != 0) {
    std::fprintf(stderr, "%s: the server did not end well: %s\n", phase.name.c_str(),
                 host.server().err().c_str());
    return false;
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  double minutes = 10;
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool more = i + 1 < argc;
    if (word == "--minutes" && more) {
      minutes = std::atof(argv[++i]);
    } else if (word == "--phase" && more) {
      wanted.emplace_back(argv[++i]);
    } else {
      std::fprintf(stderr, "usage: swap_soak [--minutes M] [--phase drain|overlap|rolling|slow]...\n");
      return 2;
    }
  }
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  bool good = true, any = false;
  for (const Phase& phase : phases()) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), phase.name) == wanted.end()) continue;
    any = true;
    good = run(phase, minutes) && good;
  }
  if (!any) {
    std::fprintf(stderr, "swap_soak: no such phase\n");
    return 2;
  }
  return good ? 0 : 1;
}
