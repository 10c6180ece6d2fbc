#include "server/http/connection/date.hpp"

namespace millrace::server::http {

std::array<char, 29> imf_fixdate(std::chrono::sys_seconds time) {
  static constexpr std::string_view kDays = "SunMonTueWedThuFriSat";
  static constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);

  std::array<char, 29> out{};
  std::string_view("___, __ ___ ____ __:__:__ GMT").copy(out.data(), out.size());
  const auto put = [&](std::size_t at, std::size_t digits, auto value) {
    auto rest = static_cast<unsigned long>(value);
    for (std::size_t i = digits; i-- > 0; rest /= 10) out[at + i] = static_cast<char>('0' + rest % 10);
  };
  kDays.copy(out.data(), 3, std::chrono::weekday(day).c_encoding() * 3U);
  put(5, 2, static_cast<unsigned>(date.day()));
  kMonths.copy(out.data() + 8, 3, (static_cast<unsigned>(date.month()) - 1) * 3U);
  put(12, 4, static_cast<int>(date.year()));
  put(17, 2, clock.hours().count());
  put(20, 2, clock.minutes().count());
  put(23, 2, clock.seconds().count());
  return out;
}

}  // namespace millrace::server::http
