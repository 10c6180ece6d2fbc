// The program's log on stderr: one line for each event, as text or JSON. If stderr is systemd's journal, each
// line begins with its priority. A line may carry fields: members of the JSON object, or " name=value" after
// the text. All functions but configure() may be called on any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace millrace::log {

enum class Level { kDebug, kInfo, kWarning, kError, kOff };

/// Sets level and format. Must be called before other threads exist. The defaults are kInfo and text.
void configure(Level level, bool json);

/// Sets the least severe level that is logged. Any thread may call it.
void set_level(Level level);

/// Whether lines of this level are written. Check it before building an expensive message. Any thread may call it.
bool enabled(Level level);

/// Parses "debug", "info", "warning", "error" or "off" into `level`; returns false for any other text.
bool parse_level(std::string_view text, Level& level);

/// Writes a line. `component` is the part of the program ("card", "pipeline", "http"); `message` is one line.
void debug(std::string_view component, std::string_view message);
void info(std::string_view component, std::string_view message);
void warning(std::string_view component, std::string_view message);
void error(std::string_view component, std::string_view message);

struct Entry {
  std::int64_t unix_ms = 0;
  Level level = Level::kWarning;
  std::string component, message;
};

/// Returns the last 64 warnings and errors, oldest first, whatever the level is. Long messages are shortened.
std::vector<Entry> recent();

/// A named value at the end of a log line. `name` consists of letters, digits and '_'. A field whose value is an empty
/// text, NaN or infinite is left out.
struct Field {
  std::string_view name;
  std::variant<std::string_view, std::uint64_t, double> value;
};

/// Writes a line with fields, by which JSON logs can be searched. The message alone must say what happened.
void write(Level level, std::string_view component, std::string_view message,
           std::initializer_list<Field> fields);

}  // namespace millrace::log
