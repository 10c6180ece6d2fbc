// Turns a program into the steps of an executor. Executor's constructor uses this header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "kernels/fast/executor.hpp"
#include "kernels/fast/kernels.hpp"
#include "kernels/program/program.hpp"

namespace millrace::kernels::fast {

/// Returns the kernels of `level` if this CPU can run them, otherwise the baseline kernels.
const Kernels& kernels_of(SimdLevel level);

/// Returns the value of a channel from a vector with one entry for all channels, or one for each.
template <class T>
T entry(const std::vector<T>& values, std::size_t channel) {
  return values[values.size() == 1 ? 0 : channel];
}

/// Zeroed memory, aligned to cache lines, with at least kFormSlackBytes after each allocation. An arena lives as long
/// as its executor.
class Arena {
 public:
  template <class T>
  T* make(std::size_t count) {
    auto& piece = pieces_.emplace_back((count * sizeof(T) + kFormSlackBytes) / sizeof(Line) + 1);
    return reinterpret_cast<T*>(piece.data());
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<std::vector<Line>> pieces_;
};

/// How a tensor is stored while a convolution reads it. "Forms" in kernels.hpp describes the two kinds.
struct Form {
  bool words = false;
  std::int32_t offset = 0;
  std::uint32_t height = 0, width = 0, channels = 0;  // size of the tensor, without padding
  std::size_t pixel_bytes = 0, pitch_bytes = 0, bytes = 0;
  std::size_t origin_bytes = 0;  // offset from the buffer's begin to the first element inside the padding
  std::int32_t fill = 0;         // the padding's value, offset included

  std::size_t element_bytes() const { return words ? 2 : 1; }
  /// Returns whether a tensor's plain storage already has the layout of this form (bytes or words, with padding).
  bool is_natural(ElementType type) const;
};

/// Returns the form (memory layout) that a window over `tensor` needs: bytes if `bytes` allows them and the elements
/// fit, otherwise words. Returns nothing if elements have more than 16 bits, or if the padding would be far larger than
/// the tensor.
std::optional<Form> form_for(const Tensor& tensor, const Window& window, bool bytes);

/// Allocates a buffer for a tensor in this form (memory layout) and fills the buffer's padding.
std::uint8_t* make_buffer(Arena& arena, const Form& form);

struct AccumulatorRange {
  std::int64_t lowest = 0, highest = 0;
};

/// A float32 scale and bias that give the same results as a table of thresholds:
///   count = round_half_even(clamp(float32(acc) * scale + bias, least, most)) + add
///
/// The usual requantisation of a quantised net is clamp(round_half_even(float32(acc) * scale) + zero point). If no
/// integer multiply-shift gives equal results, a program has a table of thresholds instead. A few vector instructions
/// compute the float32 form.
struct LinearFit {
  float scale = 0, bias = 0, least = 0, most = 0;
  std::int32_t add = 0;
  std::int32_t count(std::int32_t acc) const;
};

/// Finds a LinearFit with bias 0 whose count(acc) is the number of thresholds <= acc, for every acc of `range`. Returns
/// nothing if no such fit was found. `thresholds` ascend. `lowest` is the output for a count of 0.
std::optional<LinearFit> fit_exactly(std::span<const std::int64_t> thresholds, AccumulatorRange range,
                                     std::int32_t lowest);

/// Finds a LinearFit whose count(acc), for every acc of `range`, equals the number of thresholds <= acc or is 1
/// smaller. The fit's `add` is 0. Returns nothing if no such fit was found.
std::optional<LinearFit> fit_from_below(std::span<const std::int64_t> thresholds, AccumulatorRange range);

/// Returns the Finish (the constants of a requantisation) of channels [first, first + ranges.size()) for accumulators
/// within `ranges`, one range per channel.
Finish make_finish(Arena& arena, const Requantise* requantise, std::uint32_t first,
                   const std::vector<AccumulatorRange>& ranges, std::uint32_t lanes);

/// Returns whether the tables that make_finish() would make have an acceptable size.
bool can_finish(const Requantise* requantise, std::uint32_t channels);

/// One step of a frame's computation. Its destination is fixed. The step finds its sources in `values` (by tensor),
/// because the caller passes other input buffers for each frame. A step never throws and never allocates.
using Step = std::function<void(const std::byte* const* values)>;

/// The data that every planning function reads, and the arena in which planning allocates memory.
struct Planning {
  const Program& program;
  const Kernels& kernels;
  Arena& arena;
};

/// Where a step writes its result: to plain storage, or to the form (memory layout) that the result's only reader
/// needs.
struct Target {
  std::uint8_t* memory = nullptr;
  const Form* form = nullptr;  // null for plain storage
};

/// How a convolution or a sum over windows is computed: by dense kernels, by depthwise kernels or by plain loops.
enum class Method : std::uint8_t { kDense, kDepthwise, kPlain };
Method method_of(const Planning& planning, const Block& block);

/// Plans a convolution or sum over windows of method kDense or kDepthwise, followed by `pool` if it is fused.
/// `source` is the buffer to which the input's producer writes in the form (memory layout) that the kernels read. If
/// `source` is null, the step itself copies the input from plain storage into the form.
Step plan_windowed(const Planning& planning, const Block& block, const MaxPool* pool, const Form& form,
                   std::uint8_t* source, const Tensor& result, const Target& destination);

/// Plans any block. The block's inputs and output are stored as Tensor says, without padding or reordering.
Step plan_plain(const Planning& planning, const Block& block, std::byte* destination);

}  // namespace millrace::kernels::fast
