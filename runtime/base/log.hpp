// The program's log on stderr: one line an event, as text or JSON. If stderr is systemd's journal, each line
// begins with its priority. A line may carry fields: members of the JSON object, or " name=value" after the
// text. Any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace millrace::log {

enum class Level { kDebug, kInfo, kWarning, kError, kOff };

/// Call it at start, before other threads exist. Default: kInfo, text.
void configure(Level level, bool json);

/// Changes the level from now on. Any thread.
void set_level(Level level);

/// Whether lines of this level are written. Ask before a line that is expensive to make. Any thread.
bool enabled(Level level);

/// "debug", "info", "warning", "error", "off"; false for anything else.
bool parse_level(std::string_view text, Level& level);

/// `component` names the part of the program ("card", "pipeline", "http"); `message` is one line.
void debug(std::string_view component, std::string_view message);
void info(std::string_view component, std::string_view message);
void warning(std::string_view component, std::string_view message);
void error(std::string_view component, std::string_view message);

struct Entry {
  std::int64_t unix_ms = 0;
  Level level = Level::kWarning;
  std::string component, message;
};

/// The last 64 warnings and errors, oldest first, at any level. Long messages are cut.
std::vector<Entry> recent();

/// `name`: letters, digits and '_'. A field is left out if its text is empty or its number is not finite.
struct Field {
  std::string_view name;
  std::variant<std::string_view, std::uint64_t, double> value;
};

/// A line with fields, by which JSON logs are searched. The message alone must say what happened.
void write(Level level, std::string_view component, std::string_view message,
           std::initializer_list<Field> fields);

}  // namespace millrace::log
