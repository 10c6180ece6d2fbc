#include "server/metrics/process.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

namespace millrace::server::metrics {
namespace {

/// Fields of /proc/self/stat from the third on: the second, the program's name, may hold spaces.
std::optional<std::vector<std::string>> stat_fields() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const auto close = line.rfind(')');
  if (close == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(close + 1));
  std::vector<std::string> fields{std::istream_iterator<std::string>(rest), {}};
  if (fields.size() < 22) return std::nullopt;
  return fields;
}

std::optional<double> boot_time_seconds() {
  std::ifstream file("/proc/stat");
  for (std::string key; file >> key;) {
    double value = 0;
    if (key == "btime") return file >> value ? std::optional(value) : std::nullopt;
    file.ignore(1 << 20, '\n');
  }
  return std::nullopt;
}

std::optional<double> open_descriptors() {
  std::error_code code;
  const std::filesystem::directory_iterator listing("/proc/self/fd", code);
  if (code) return std::nullopt;
  return static_cast<double>(std::distance(begin(listing), end(listing)) - 1);  // without the one that lists
}

}  // namespace

void sample_process(Samples& samples) {
  if (const auto fields = stat_fields()) {
    const auto field = [&](int number) { return std::stod((*fields)[static_cast<std::size_t>(number - 3)]); };
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    samples.counter("process_cpu_seconds_total", "User and system processor time.", {},
                    (field(14) + field(15)) / ticks);
    samples.gauge("process_threads", "Threads.", {}, field(20));
    samples.gauge("process_virtual_memory_bytes", "Virtual memory.", {}, field(23));
    samples.gauge("process_resident_memory_bytes", "Resident memory.", {},
                  field(24) * static_cast<double>(sysconf(_SC_PAGESIZE)));
    if (const auto boot = boot_time_seconds())
      samples.gauge("process_start_time_seconds", "Start, as Unix time.", {}, *boot + field(22) / ticks);
  }
  if (const auto open = open_descriptors())
    samples.gauge("process_open_fds", "Open file descriptors.", {}, *open);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
    samples.gauge("process_max_fds", "Limit of open file descriptors.", {},
                  static_cast<double>(limit.rlim_cur));
}

}  // namespace millrace::server::metrics
