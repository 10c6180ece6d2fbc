// The program's log: one line an event, on stderr, as text or JSON; before it the priority where stderr is
// systemd's journal. A line may carry fields: members of the JSON object, or " name=value" behind the text.
// Any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace millrace::log {

enum class Level { kDebug, kInfo, kWarning, kError, kOff };

/// Called at start, before other threads exist. Default: kInfo, text.
void configure(Level level, bool json);

/// From now on. Any thread.
void set_level(Level level);

/// Whether a line of this level is written: for lines that cost something to make. Any thread.
bool enabled(Level level);

/// "debug", "info", "warning", "error", "off"; false for anything else.
bool parse_level(std::string_view text, Level& level);

/// `component` says who speaks ("card", "pipeline", "http"); `message` is one line.
void debug(std::string_view component, std::string_view message);
void info(std::string_view component, std::string_view message);
void warning(std::string_view component, std::string_view message);
void error(std::string_view component, std::string_view message);

struct Entry {
  std::int64_t unix_ms = 0;
  Level level = Level::kWarning;
  std::string component, message;
};

/// The last warnings and errors, whatever the level set, oldest first: at most 64, long messages cut.
std::vector<Entry> recent();

/// `name`: letters, digits and '_'. A field whose text is empty, or whose number is no number (NaN), is left
/// out.
struct Field {
  std::string_view name;
  std::variant<std::string_view, std::uint64_t, double> value;
};

/// A line with fields: what JSON logs are searched by. The message says by itself what happened.
void write(Level level, std::string_view component, std::string_view message,
           std::initializer_list<Field> fields);

}  // namespace millrace::log
