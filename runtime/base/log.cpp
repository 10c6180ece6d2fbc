#include "runtime/base/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>

#include "runtime/base/text.hpp"

namespace millrace::log {
namespace {

bool json_lines = false;

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made =
        std::make_shared<spdlog::logger>("millrace", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
    return made;
  }();
  return *instance;
}

void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(byte));
    } else {
      out += c;
    }
  }
}

void write(spdlog::level::level_enum level, std::string_view component, std::string_view message) {
  auto& out = logger();
  if (!out.should_log(level)) return;
  std::string line;
  if (json_lines) {
    line = "\"component\":\"";
    append_escaped(line, component);
    line += "\",\"message\":\"";
    append_escaped(line, message);
    line += '"';
  } else {
    line.append(component).append(": ").append(printable(message));
  }
  out.log(level, "{}", line);
}

}  // namespace

void configure(Level level, bool json) {
  json_lines = json;
  auto& out = logger();
  if (json) out.set_pattern("{\"time\":\"%Y-%m-%dT%H:%M:%S.%f%z\",\"level\":\"%l\",%v}");
  set_level(level);
}

void set_level(Level level) {
  auto& out = logger();
  switch (level) {
    case Level::kDebug:
      out.set_level(spdlog::level::debug);
      break;
    case Level::kInfo:
      out.set_level(spdlog::level::info);
      break;
    case Level::kWarning:
      out.set_level(spdlog::level::warn);
      break;
    case Level::kError:
      out.set_level(spdlog::level::err);
      break;
    case Level::kOff:
      out.set_level(spdlog::level::off);
      break;
  }
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
  write(spdlog::level::warn, component, message);
}
void error(std::string_view component, std::string_view message) {
  write(spdlog::level::err, component, message);
}

}  // namespace millrace::log
