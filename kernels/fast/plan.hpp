// How a program becomes steps: what Executor's constructor works with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/fast/kernels.hpp"
#include "kernels/program/program.hpp"

namespace millrace::kernels::fast {

/// Zeroed memory on cache lines, with slack behind each piece; lives as long as its executor.
class Arena {
 public:
  template <class T>
  T* make(std::size_t count) {
    return reinterpret_cast<T*>(allocate(count * sizeof(T)));
  }

 private:
  struct Release {
    void operator()(std::byte* memory) const;
  };
  std::byte* allocate(std::size_t bytes);
  std::vector<std::unique_ptr<std::byte, Release>> pieces_;
};

/// Where a tensor stands while a convolution reads it: see "Forms" in kernels.hpp.
struct Form {
  bool words = false;
  std::int32_t offset = 0;
  std::uint32_t height = 0, width = 0, channels = 0;  // of the tensor, without padding
  std::uint32_t pad_top = 0, pad_left = 0;
  std::size_t pixel_bytes = 0, pitch_bytes = 0, bytes = 0;
  std::size_t origin_bytes = 0;  // the first element inside the padding
  std::int32_t fill = 0;         // what stands in the padding, offset included

  std::size_t element_bytes() const { return words ? 2 : 1; }
  std::size_t at(std::uint32_t y, std::uint32_t x) const {
    return origin_bytes + y * pitch_bytes + x * pixel_bytes;
  }
  /// Whether the tensor's natural storage is already this form.
  bool is_natural(ElementType type) const;
};

/// The form a window over `tensor` wants, in bytes where `bytes` allows it. Nothing where there is none
/// (elements of more than 16 bits) or where padding would outgrow the tensor by far.
std::optional<Form> form_for(const Tensor& tensor, const Window& window, bool bytes);

/// A buffer for the form, its padding written.
std::uint8_t* make_buffer(Arena& arena, const Form& form);

/// The finish of channels [first, first + count) for accumulators within `ranges` (one a channel of these).
struct AccumulatorRange {
  std::int64_t lowest = 0, highest = 0;
};
Finish make_finish(Arena& arena, const Requantise* requantise, std::uint32_t first,
                   const std::vector<AccumulatorRange>& ranges, std::uint32_t lanes);

/// Whether make_finish's tables stay in proportion to the program.
bool can_finish(const Requantise* requantise, std::uint32_t channels);

/// One thing to do for a frame. Destinations are fixed; sources are looked up, because a program's inputs
/// move.
class Step {
 public:
  virtual ~Step() = default;
  virtual void run(const std::byte* const* values) noexcept = 0;
};

/// What the planner of a convolution or pooling is told and tells.
struct Planning {
  const Program& program;
  const Kernels& kernels;
  Arena& arena;
};

/// Where a step's result goes: natural storage, or the form its only reader wants.
struct Target {
  std::uint8_t* memory = nullptr;
  const Form* form = nullptr;  // null: natural
};

/// How a convolution or a sum over windows is done.
enum class Method : std::uint8_t { kDense, kDepthwise, kPlain };
Method method_of(const Planning& planning, const Block& block);

/// A convolution or sum over windows by kDense or kDepthwise, followed by `pool` where it is fused. `source`
/// is the form buffer its producer writes, or null: then the step stages the natural tensor itself.
std::unique_ptr<Step> plan_windowed(const Planning& planning, const Block& block, const MaxPool* pool,
                                    const Form& form, std::uint8_t* source, const Tensor& result,
                                    const Target& destination);

/// Any block, into natural storage; without forms.
std::unique_ptr<Step> plan_plain(const Planning& planning, const Block& block, std::byte* destination);

}  // namespace millrace::kernels::fast
