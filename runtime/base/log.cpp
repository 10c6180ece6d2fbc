#include "runtime/base/log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
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

/// Writes the line's priority for the journal, "<4>", before the line (sd-daemon(3)). `journalctl -p warning` filters
/// by priority.
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

constexpr const char* kText = "%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v";
constexpr const char* kJson = "{\"time\":\"%Y-%m-%dT%H:%M:%S.%f%z\",\"level\":\"%l\",%v}";

void set_pattern(spdlog::logger& logger, const std::string& pattern) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<JournalPriority>('J').set_pattern((writes_to_journal() ? "%J" : "") + pattern);
  logger.set_formatter(std::move(formatter));
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made =
        std::make_shared<spdlog::logger>("millrace", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    set_pattern(*made, kText);
    return made;
  }();
  return *instance;
}

/// Appends a JSON string. Text that is not UTF-8 is read as Latin-1, so that every line is valid JSON.
void append_quoted(std::string& out, std::string_view text) {
  const bool utf8 = is_utf8(text);
  out += '"';
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
  out += '"';
}

constexpr std::size_t kKept = 64;
constexpr std::size_t kKeptBytes = 1'024;

struct Kept {
  std::mutex mutex;
  std::deque<Entry> entries;
};

Kept& kept() {
  static auto* const instance = new Kept;  // never destroyed, because threads may log until the process ends
  return *instance;
}

void keep(Level level, std::string_view component, std::string_view message) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  Entry entry{std::chrono::duration_cast<std::chrono::milliseconds>(now).count(), level,
              std::string(component), std::string(message.substr(0, kKeptBytes))};
  const std::lock_guard lock(kept().mutex);
  kept().entries.push_back(std::move(entry));
  if (kept().entries.size() > kKept) kept().entries.pop_front();
}

// The names and spdlog levels, in the order of enum Level.
constexpr std::pair<std::string_view, spdlog::level::level_enum> kLevels[] = {
    {"debug", spdlog::level::debug},
    {"info", spdlog::level::info},
    {"warning", spdlog::level::warn},
    {"error", spdlog::level::err},
    {"off", spdlog::level::off}};

spdlog::level::level_enum level_of(Level level) {
  return kLevels[static_cast<std::size_t>(level)].second;
}

/// Appends a field's value. Puts the value in quotes only if a reader could not see otherwise where the value ends.
void append_text(std::string& out, std::string_view text) {
  const std::string shown = printable(text);
  if (shown.find_first_of(" \"=") == std::string::npos)
    out += shown;
  else
    append_quoted(out, shown);
}

void append_field(std::string& out, const Field& field, std::string_view before, std::string_view between) {
  const auto* text = std::get_if<std::string_view>(&field.value);
  const auto* number = std::get_if<double>(&field.value);
  if ((text != nullptr && text->empty()) || (number != nullptr && !std::isfinite(*number))) return;
  out.append(before).append(field.name).append(between);
  if (text != nullptr)
    json_lines ? append_quoted(out, *text) : append_text(out, *text);
  else if (number != nullptr)
    out += fmt::format("{}", *number);
  else
    out += std::to_string(std::get<std::uint64_t>(field.value));
}

}  // namespace

void configure(Level level, bool json) {
  json_lines = json;
  set_pattern(logger(), json ? kJson : kText);
  set_level(level);
}

void set_level(Level level) {
  logger().set_level(level_of(level));
}

bool enabled(Level level) {
  return logger().should_log(level_of(level));
}

void write(Level level, std::string_view component, std::string_view message,
           std::initializer_list<Field> fields) {
  if (level == Level::kWarning || level == Level::kError) keep(level, component, message);
  if (!enabled(level)) return;
  std::string line;
  if (json_lines) {
    line = "\"component\":";
    append_quoted(line, component);
    line += ",\"message\":";
    append_quoted(line, message);
    for (const Field& field : fields) append_field(line, field, ",\"", "\":");
  } else {
    line.append(component).append(": ").append(printable(message));
    for (const Field& field : fields) append_field(line, field, " ", "=");
  }
  logger().log(level_of(level), "{}", line);
}

bool parse_level(std::string_view text, Level& level) {
  for (std::size_t i = 0; i < std::size(kLevels); ++i) {
    if (kLevels[i].first != text) continue;
    level = static_cast<Level>(i);
    return true;
  }
  return false;
}

void debug(std::string_view component, std::string_view message) {
  write(Level::kDebug, component, message, {});
}
void info(std::string_view component, std::string_view message) {
  write(Level::kInfo, component, message, {});
}
void warning(std::string_view component, std::string_view message) {
  write(Level::kWarning, component, message, {});
}
void error(std::string_view component, std::string_view message) {
  write(Level::kError, component, message, {});
}

std::vector<Entry> recent() {
  const std::lock_guard lock(kept().mutex);
  return {kept().entries.begin(), kept().entries.end()};
}

}  // namespace millrace::log
