#include "kernels/tb/beat.hpp"

#include <algorithm>
#include <fstream>
#include <stdexcept>

namespace millrace::kernels::tb {

std::uint64_t Beat::get(unsigned low, unsigned width) const {
  std::uint64_t value = 0;
  for (unsigned done = 0; done < width && low + done < bits_;) {
    const unsigned at = low + done;
    const unsigned take = std::min({32 - at % 32, width - done, bits_ - at});
    const std::uint64_t part = (words_[at / 32] >> (at % 32)) & (0xffffffffu >> (32 - take));
    value |= part << done;
    done += take;
  }
  return value;
}

std::int64_t Beat::get_signed(unsigned low, unsigned width) const {
  const std::uint64_t raw = get(low, width);
  return static_cast<std::int64_t>(raw << (64 - width)) >> (64 - width);
}

void Beat::set(unsigned low, unsigned width, std::uint64_t value) {
  for (unsigned done = 0; done < width && low + done < bits_;) {
    const unsigned at = low + done;
    const unsigned take = std::min({32 - at % 32, width - done, bits_ - at});
    const std::uint32_t mask = (0xffffffffu >> (32 - take)) << (at % 32);
    const auto part = static_cast<std::uint32_t>(value >> done) << (at % 32);
    words_[at / 32] = (words_[at / 32] & ~mask) | (part & mask);
    done += take;
  }
}

void Beat::place(unsigned low, const Beat& source) {
  for (unsigned at = 0; at < source.bits(); at += 32) {
    set(low + at, std::min(32u, source.bits() - at), source.get(at, 32));
  }
}

Beat Beat::slice(unsigned low, unsigned width) const {
  Beat result(width);
  for (unsigned at = 0; at < width; at += 32) result.set(at, std::min(32u, width - at), get(low + at, 32));
  return result;
}

std::string Beat::hex() const {
  std::string text;
  for (unsigned digit = (bits_ + 3) / 4; digit-- > 0;) text += "0123456789abcdef"[get(digit * 4, 4)];
  return text;
}

Beats to_beats(const std::vector<std::int64_t>& values, unsigned lanes, unsigned bits) {
  Beats beats(values.size() / lanes, Beat(lanes * bits));
  for (std::size_t i = 0; i < values.size(); ++i) {
    beats[i / lanes].set(static_cast<unsigned>(i % lanes) * bits, bits,
                         static_cast<std::uint64_t>(values[i]));
  }
  return beats;
}

void write_hex(const std::string& path, const Beats& lines) {
  std::ofstream out(path);
  for (const Beat& line : lines) out << line.hex() << '\n';
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

}  // namespace millrace::kernels::tb
