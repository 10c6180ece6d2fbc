#include "runtime/base/log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "runtime/base/text.hpp"

namespace millrace::log {
namespace {

bool json_lines = false;

/// Whether standard error is systemd's journal: $JOURNAL_STREAM names its device and inode (systemd.exec(5)).
bool writes_to_journal() {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat status {};
  return stream != nullptr && ::fstat(STDERR_FILENO, &status) == 0 &&
         stream == std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
}

/// "<4>" before a line: the journal's priority of it (sd-daemon(3)), for `journalctl -p warning`.
class JournalPriority final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string_view prefix = message.level >= spdlog::level::err    ? "<3>"
                                    : message.level == spdlog::level::warn ? "<4>"
                                    : message.level == spdlog::level::info ? "<6>"
                                                                           : "<7>";
    out.append(prefix.data(), prefix.data() + prefix.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JournalPriority>();
  }
};

void set_pattern(spdlog::logger& logger, const std::string& pattern) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<JournalPriority>('J').set_pattern((writes_to_journal() ? "%J" : "") + pattern);
  logger.set_formatter(std::move(formatter));
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made =
        std::make_shared<spdlog::logger>("millrace", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    set_pattern(*made, "%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
    return made;
  }();
  return *instance;
}

/// What is not UTF-8 is taken for Latin-1: a line is JSON whatever it says.
void append_escaped(std::string& out, std::string_view text) {
  const bool utf8 = is_utf8(text);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || (byte >= 0x80 && !utf8)) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(byte));
    } else {
      out += c;
    }
  }
}

constexpr std::size_t kKept = 64;
constexpr std::size_t kKeptBytes = 1'024;

struct Kept {
  std::mutex mutex;
  std::deque<Entry> entries;
};

Kept& kept() {
  static auto* const instance = new Kept;  // never destroyed: threads may log to the end
  return *instance;
}

void keep(Level level, std::string_view component, std::string_view message) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  try {
    Entry entry{std::chrono::duration_cast<std::chrono::milliseconds>(now).count(), level,
                std::string(component), std::string(message.substr(0, kKeptBytes))};
    const std::lock_guard lock(kept().mutex);
    kept().entries.push_back(std::move(entry));
    if (kept().entries.size() > kKept) kept().entries.pop_front();
  } catch (const std::bad_alloc&) {
    // The line itself matters more than its copy.
  }
}

spdlog::level::level_enum level_of(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
    case Level::kOff:
      break;
  }
  return spdlog::level::off;
}

void write(spdlog::level::level_enum level, std::string_view component, std::string_view message,
           std::string_view request = {}) {
  auto& out = logger();
  if (!out.should_log(level)) return;
  std::string line;
  if (json_lines) {
    line = "\"component\":\"";
    append_escaped(line, component);
    line += "\",\"message\":\"";
    append_escaped(line, message);
    line += '"';
    if (!request.empty()) {
      line += ",\"request\":\"";
      append_escaped(line, request);
      line += '"';
    }
  } else {
    line.append(component).append(": ").append(printable(message));
    if (!request.empty()) line.append(" [").append(printable(request)).append("]");
  }
  out.log(level, "{}", line);
}

}  // namespace

void configure(Level level, bool json) {
  json_lines = json;
  auto& out = logger();
  if (json) set_pattern(out, "{\"time\":\"%Y-%m-%dT%H:%M:%S.%f%z\",\"level\":\"%l\",%v}");
  set_level(level);
}

void set_level(Level level) {
  logger().set_level(level_of(level));
}

bool enabled(Level level) {
  return logger().should_log(level_of(level));
}

void about_request(Level level, std::string_view component, std::string_view message,
                   std::string_view request) {
  if (level == Level::kWarning || level == Level::kError) keep(level, component, message);
  write(level_of(level), component, message, request);
}

bool parse_level(std::string_view text, Level& level) {
  if (text == "debug")
    level = Level::kDebug;
  else if (text == "info")
    level = Level::kInfo;
  else if (text == "warning")
    level = Level::kWarning;
  else if (text == "error")
    level = Level::kError;
  else if (text == "off")
    level = Level::kOff;
  else
    return false;
  return true;
}

void debug(std::string_view component, std::string_view message) {
  write(spdlog::level::debug, component, message);
}
void info(std::string_view component, std::string_view message) {
  write(spdlog::level::info, component, message);
}
void warning(std::string_view component, std::string_view message) {
  keep(Level::kWarning, component, message);
  write(spdlog::level::warn, component, message);
}
std::vector<Entry> recent() {
  const std::lock_guard lock(kept().mutex);
  return {kept().entries.begin(), kept().entries.end()};
}

void error(std::string_view component, std::string_view message) {
  keep(Level::kError, component, message);
  write(spdlog::level::err, component, message);
}

}  // namespace millrace::log
