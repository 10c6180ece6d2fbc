#include "compiler/report/figures.hpp"

#include <boost/json.hpp>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <iterator>

#include "compiler/templates/fill.hpp"

namespace millrace::compiler::report {
namespace {

std::string joules(double micro) {
  return micro >= 1e6   ? fixed(micro / 1e6, 2) + " J"
         : micro >= 1e3 ? fixed(micro / 1e3, 2) + " mJ"
                        : fixed(micro, 2) + " µJ";
}

std::string shown(const boost::json::value* value, std::string_view format) {
  if (format.empty()) return templates::escaped(templates::plain(value));
  if (value == nullptr || !value->is_number()) return "-";
  const auto number = value->to_number<double>();
  if (format == "commas") return with_commas(number);
  if (format == "short") return short_number(number);
  if (format == "percent") return percent(number);
  if (format == "bytes") return bytes(number);
  if (format == "us") return duration(number * 1e-6, "µ");
  if (format == "joules") return joules(number);
  assert(format == "fixed");
  return fixed(number, 1);
}

}  // namespace

std::string with_commas(double value) {
  std::string text = std::to_string(std::llround(value));
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string fixed(double value, int digits) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string short_number(double value) {
  if (!std::isfinite(value)) return "-";
  if (value >= 1e6) return fixed(value / 1e6, value >= 1e8 ? 0 : 1) + " M";
  if (value >= 1e5) return fixed(value / 1e3, 0) + " k";
  return with_commas(value);
}

std::string percent(double share) {
  if (!std::isfinite(share)) return "-";
  return fixed(share * 100, share != 0 && std::abs(share) < 0.0995 ? 1 : 0) + " %";
}

std::string bytes(double value) {
  if (!std::isfinite(value)) return "-";
  constexpr const char* kUnits[] = {" B", " kB", " MB", " GB", " TB"};
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return fixed(value, unit > 0 && value < 100 ? 1 : 0) + kUnits[unit];
}

std::string duration(double seconds, std::string_view micro) {
  if (!std::isfinite(seconds)) return "-";
  const auto in = [](double value, const std::string& unit) {
    return fixed(value, value < 10 ? 2 : value < 100 ? 1 : 0) + unit;
  };
  if (seconds >= 1) return in(seconds, " s");
  if (seconds >= 1e-3) return in(seconds * 1e3, " ms");
  return in(seconds * 1e6, " " + std::string(micro) + "s");
}

std::string shortened(std::string_view text, std::size_t characters) {
  std::size_t seen = 0, last = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0U) == 0x80 && i > 0) continue;
    if (++seen == characters) last = i;
    if (seen > characters) return std::string(text.substr(0, last)) + "…";
  }
  return std::string(text);
}

std::string fill(std::string_view text, const boost::json::value& values) {
  return templates::fill(text, values, {"{{", "}}", shown});
}

}  // namespace millrace::compiler::report
