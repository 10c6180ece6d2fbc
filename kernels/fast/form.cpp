#include <cstring>
#include <limits>
#include <new>

#include "kernels/fast/plan.hpp"

namespace millrace::kernels::fast {

namespace {
constexpr std::align_val_t kLine{64};
}

void Arena::Release::operator()(std::byte* memory) const {
  ::operator delete(memory, kLine);
}

std::byte* Arena::allocate(std::size_t bytes) {
  const std::size_t whole = bytes + kFormSlackBytes;
  pieces_.emplace_back(static_cast<std::byte*>(::operator new(whole, kLine)));
  std::byte* memory = pieces_.back().get();
  std::memset(memory, 0, whole);
  return memory;
}

bool Form::is_natural(ElementType type) const {
  return offset == 0 && type.storage_bytes() == element_bytes() &&
         bytes == std::size_t{height} * width * channels * element_bytes();
}

std::optional<Form> form_for(const Tensor& tensor, const Window& window, bool bytes) {
  if (tensor.type.bits > 16 || tensor.shape.size() != 3) return std::nullopt;
  Form form;
  form.words = !bytes || tensor.type.bits > 8;
  if (!form.words && tensor.type.kind != ElementType::Kind::kUnsigned) form.offset = 128;
  if (form.words && tensor.type.kind == ElementType::Kind::kUnsigned && tensor.type.bits == 16)
    form.offset = -32768;
  form.height = tensor.shape[0];
  form.width = tensor.shape[1];
  form.channels = tensor.shape[2];
  form.pad_top = window.pad_top;
  form.pad_left = window.pad_left;
  form.pixel_bytes = form.channels * form.element_bytes();
  const std::uint64_t rows = std::uint64_t{form.height} + window.pad_top + window.pad_bottom;
  const std::uint64_t columns = std::uint64_t{form.width} + window.pad_left + window.pad_right;
  // Offsets into a form have 32 bits. There are fewer than 2^32 rows and columns and fewer than 2^32 bytes
  // per pixel, so nothing before this line overflows.
  std::uint64_t total = 0;
  if (__builtin_mul_overflow(rows * columns, form.pixel_bytes, &total) ||
      total > std::numeric_limits<std::int32_t>::max())
    return std::nullopt;
  if (total > 8 * tensor.elements() * form.element_bytes() + (std::size_t{1} << 20U)) return std::nullopt;
  form.pitch_bytes = columns * form.pixel_bytes;
  form.bytes = total;
  form.origin_bytes = form.pad_top * form.pitch_bytes + form.pad_left * form.pixel_bytes;
  form.fill = window.pad_value + form.offset;
  return form;
}

std::uint8_t* make_buffer(Arena& arena, const Form& form) {
  auto* memory = arena.make<std::uint8_t>(form.bytes);
  if (form.words) {
    const auto fill = static_cast<std::uint16_t>(form.fill);
    for (std::size_t i = 0; i < form.bytes; i += 2) std::memcpy(memory + i, &fill, 2);
  } else {
    std::memset(memory, form.fill & 0xff, form.bytes);
  }
  return memory;
}

}  // namespace millrace::kernels::fast
