#include "kernels/tb/model.hpp"

#include <algorithm>
#include <stdexcept>

namespace millrace::kernels::tb {

std::uint64_t Port::get() const {
  if (bits <= 8) return *static_cast<std::uint8_t*>(storage);
  if (bits <= 16) return *static_cast<std::uint16_t*>(storage);
  if (bits <= 32) return *static_cast<std::uint32_t*>(storage);
  if (bits <= 64) return *static_cast<std::uint64_t*>(storage);
  throw std::logic_error("Port::get of a port wider than 64 bits");
}

void Port::set(std::uint64_t value) const {
  if (bits < 64) value &= (std::uint64_t{1} << bits) - 1;
  if (bits <= 8) {
    *static_cast<std::uint8_t*>(storage) = static_cast<std::uint8_t>(value);
  } else if (bits <= 16) {
    *static_cast<std::uint16_t*>(storage) = static_cast<std::uint16_t>(value);
  } else if (bits <= 32) {
    *static_cast<std::uint32_t*>(storage) = static_cast<std::uint32_t>(value);
  } else if (bits <= 64) {
    *static_cast<std::uint64_t*>(storage) = value;
  } else {
    throw std::logic_error("Port::set of a port wider than 64 bits");
  }
}

Beat Port::read() const {
  Beat beat(bits);
  if (bits <= 64) {
    beat.set(0, bits, get());
  } else {
    const auto* words = static_cast<const std::uint32_t*>(storage);
    std::copy(words, words + beat.words().size(), beat.words().begin());
  }
  return beat;
}

Beat Port::read(unsigned low, unsigned width) const {
  return low == 0 && width == bits ? read() : read().slice(low, width);
}

void Port::write(unsigned low, const Beat& beat) const {
  Beat whole = low == 0 && beat.bits() == bits ? beat : read();
  if (low != 0 || beat.bits() != bits) whole.place(low, beat);
  if (bits <= 64) {
    set(whole.get(0, bits));
  } else {
    std::copy(whole.words().begin(), whole.words().end(), static_cast<std::uint32_t*>(storage));
  }
}

int Parameters::operator[](const std::string& name) const {
  return std::stoi(text(name));
}

const std::string& Parameters::text(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) throw std::out_of_range("row " + row_ + " has no parameter " + name);
  return found->second;
}

}  // namespace millrace::kernels::tb
