// Blocks that read and write natural storage: element by element, moves of memory, and plain loops for blocks
// that no kernel computes.
// The file is above 500 lines because the steps share the element helpers below, which stay private to it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/fast/plan.hpp"

namespace millrace::kernels::fast {
namespace {

template <class T>
T load_as(const std::byte* from, std::size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store_as(std::byte* to, std::size_t index, T value) {
  std::memcpy(to + index * sizeof(T), &value, sizeof(T));
}

/// Calls use(T{}) with the C++ type that stores elements of `type`.
template <class Use>
void with_storage(ElementType type, Use use) {
  const bool is_unsigned = type.kind == ElementType::Kind::kUnsigned;
  switch (type.storage_bytes()) {
    case 1:
      return is_unsigned ? use(std::uint8_t{}) : use(std::int8_t{});
    case 2:
      return is_unsigned ? use(std::uint16_t{}) : use(std::int16_t{});
    default:
      return is_unsigned ? use(std::uint32_t{}) : use(std::int32_t{});
  }
}

/// Reads one element of any type, for the plain loops.
std::int64_t load_any(ElementType type, const std::byte* from, std::size_t index) {
  std::int64_t value = 0;
  with_storage(type, [&](auto storage) { value = load_as<decltype(storage)>(from, index); });
  return value;
}

void store_any(ElementType type, std::byte* to, std::size_t index, std::int64_t value) {
  const std::size_t width = type.storage_bytes();
  std::memcpy(to + index * width, &value, width);  // little-endian: the low bytes
}

template <class T>
T entry(const std::vector<T>& values, std::size_t channel) {
  return values[values.size() == 1 ? 0 : channel];
}

std::int64_t requantise(const Requantise& r, std::int64_t acc, std::size_t channel) {
  if (r.form != Requantise::Form::kThresholds) {
    // Unsigned, because out-of-range input bytes may overflow; valid inputs never do.
    const std::uint64_t product = static_cast<std::uint64_t>(acc) *
                                  static_cast<std::uint64_t>(std::int64_t{entry(r.multiplier, channel)});
    const auto sum =
        static_cast<std::int64_t>(product + static_cast<std::uint64_t>(entry(r.offset, channel)));
    const std::uint8_t shift = entry(r.shift, channel);
    if (r.form == Requantise::Form::kMultiplyShift || shift == 0)
      return std::clamp<std::int64_t>((sum >> shift) + r.zero_point, r.lowest, r.highest);
    const std::uint64_t odd = static_cast<std::uint64_t>(sum >> shift) & 1U;
    const std::uint64_t rounded =
        static_cast<std::uint64_t>(sum) + ((std::uint64_t{1} << (shift - 1U)) - 1U) + odd;
    return std::clamp<std::int64_t>((static_cast<std::int64_t>(rounded) >> shift) + r.zero_point, r.lowest,
                                    r.highest);
  }
  const std::int64_t steps = std::int64_t{r.highest} - r.lowest;
  const bool shared = static_cast<std::int64_t>(r.thresholds.size()) == steps;
  const auto first = r.thresholds.begin() + (shared ? 0 : static_cast<std::ptrdiff_t>(channel) * steps);
  return r.lowest + (std::upper_bound(first, first + steps, acc) - first);
}

class PlainStep : public Step {
 public:
  PlainStep(const Planning& planning, const Block& block, std::byte* destination)
      : in(planning.program.tensors[block.inputs[0]]),
        result(planning.program.tensors[block.outputs[0]]),
        elements(result.elements()),
        sources(block.inputs),
        out(destination) {
    in.scale.clear();
    result.scale.clear();
  }

 protected:
  Tensor in, result;
  std::size_t elements;
  std::vector<TensorIndex> sources;
  std::byte* out;
};

// Convolutions and sums that no kernel computes: elements above 16 bits, or extreme padding.
template <class Visit>
void for_each_tap(const Window& w, std::size_t oy, std::size_t ox, Visit visit) {
  std::size_t tap = 0;
  for (std::uint32_t ky = 0; ky < w.kernel_h; ++ky) {
    for (std::uint32_t kx = 0; kx < w.kernel_w; ++kx, ++tap) {
      visit(tap, static_cast<std::int64_t>(oy * w.stride_h + std::size_t{ky} * w.dilation_h) - w.pad_top,
            static_cast<std::int64_t>(ox * w.stride_w + std::size_t{kx} * w.dilation_w) - w.pad_left);
    }
  }
}

template <class Op>
class PlainWindowed final : public PlainStep {
 public:
  PlainWindowed(const Planning& planning, const Block& block, std::byte* destination)
      : PlainStep(planning, block, destination), op_(std::get<Op>(block.operation)) {}

  void run(const std::byte* const* values) noexcept override {
    const std::byte* from = values[sources[0]];
    std::size_t at = 0;
    for (std::size_t y = 0; y < result.shape[0]; ++y) {
      for (std::size_t x = 0; x < result.shape[1]; ++x) {
        for (std::size_t c = 0; c < result.shape[2]; ++c)
          store_any(result.type, out, at++, element(from, y, x, c));
      }
    }
  }

 private:
  std::int64_t tap(const std::byte* from, std::int64_t y, std::int64_t x, std::size_t channel) const {
    if (y < 0 || x < 0 || y >= in.shape[0] || x >= in.shape[1]) return op_.window.pad_value;
    return load_any(in.type, from, static_cast<std::size_t>(y * in.shape[1] + x) * in.shape[2] + channel);
  }

  std::int64_t element(const std::byte* from, std::size_t oy, std::size_t ox, std::size_t c) const {
    std::uint64_t acc = 0;  // may wrap for out-of-range input bytes
    if constexpr (std::is_same_v<Op, SumPool>) {
      for_each_tap(op_.window, oy, ox, [&](std::size_t, std::int64_t y, std::int64_t x) {
        acc += static_cast<std::uint64_t>(tap(from, y, x, c));
      });
      return requantise(op_.requantise, static_cast<std::int64_t>(acc), c);
    } else {
      const std::size_t group_in = in.shape[2] / op_.groups,
                        first = c / (op_.out_channels / op_.groups) * group_in;
      const std::size_t taps = std::size_t{op_.window.kernel_h} * op_.window.kernel_w;
      if (!op_.bias.empty()) acc = static_cast<std::uint64_t>(std::int64_t{op_.bias[c]});
      for_each_tap(op_.window, oy, ox, [&](std::size_t t, std::int64_t y, std::int64_t x) {
        for (std::size_t i = 0; i < group_in; ++i) {
          acc += static_cast<std::uint64_t>(tap(from, y, x, first + i) *
                                            op_.weights[(c * taps + t) * group_in + i]);
        }
      });
      const auto sum = static_cast<std::int64_t>(acc);
      return op_.requantise ? requantise(*op_.requantise, sum, c) : sum;
    }
  }

  Op op_;
};

class MaxPoolStep final : public PlainStep {
 public:
  MaxPoolStep(const Planning& planning, const Block& block, std::byte* destination)
      : PlainStep(planning, block, destination), kernels_(&planning.kernels) {
    const Window& w = std::get<MaxPool>(block.operation).window;
    args_.out = reinterpret_cast<std::uint8_t*>(out);
    args_.bytes = static_cast<std::uint8_t>(in.type.storage_bytes());
    args_.is_signed = in.type.kind != ElementType::Kind::kUnsigned;
    args_.height = in.shape[0];
    args_.width = in.shape[1];
    args_.channels = in.shape[2];
    args_.out_height = result.shape[0];
    args_.out_width = result.shape[1];
    args_.kernel_h = w.kernel_h;
    args_.kernel_w = w.kernel_w;
    args_.stride_h = w.stride_h;
    args_.stride_w = w.stride_w;
    args_.dilation_h = w.dilation_h;
    args_.dilation_w = w.dilation_w;
    args_.pad_top = w.pad_top;
    args_.pad_left = w.pad_left;
  }
  void run(const std::byte* const* values) noexcept override {
    args_.in = reinterpret_cast<const std::uint8_t*>(values[sources[0]]);
    kernels_->max_pool(args_);
  }

 private:
  const Kernels* kernels_;
  PoolArgs args_;
};

std::size_t low_bits(ElementType type) {
  return (std::size_t{1} << type.bits) - 1;
}

// A table with an entry for every byte that can store an element, one table per channel or one for all. No
// input byte can index outside it.
class TableStep final : public PlainStep {
 public:
  TableStep(const Planning& planning, const Block& block, std::byte* destination)
      : PlainStep(planning, block, destination) {
    if (const auto* lookup = std::get_if<Lookup>(&block.operation)) {
      fill(1, [&](std::int64_t value, std::size_t) {
        return lookup->table[static_cast<std::size_t>(value - in.type.lowest()) & low_bits(in.type)];
      });
    } else {
      const Requantise& r = std::get<Rescale>(block.operation).requantise;
      const auto count = static_cast<std::size_t>(std::int64_t{r.highest} - r.lowest);
      const bool shared = r.form == Requantise::Form::kThresholds
                              ? r.thresholds.size() == count
                              : r.multiplier.size() == 1 && r.offset.size() == 1 && r.shift.size() == 1;
      fill(shared ? 1 : in.shape.back(),
           [&](std::int64_t value, std::size_t c) { return requantise(r, value, c); });
    }
  }

  void run(const std::byte* const* values) noexcept override {
    const auto* from = reinterpret_cast<const std::uint8_t*>(values[sources[0]]);
    with_storage(result.type, [&](auto storage) {
      using Out = decltype(storage);
      for (std::size_t start = 0; start < elements; start += row_) {
        for (std::size_t i = 0; i < row_; ++i) {
          const std::int32_t value = table_[(channels_ == 1 ? 0 : i * 256) + from[start + i]];
          store_as<Out>(out, start + i, static_cast<Out>(value));
        }
      }
    });
  }

 private:
  template <class Function>
  void fill(std::size_t channels, Function function) {
    channels_ = channels;
    row_ = channels == 1 ? elements : channels;
    for (std::size_t c = 0; c < channels; ++c) {
      for (int byte = 0; byte < 256; ++byte) {
        const bool is_unsigned = in.type.kind == ElementType::Kind::kUnsigned;
        const std::int64_t value = is_unsigned ? byte : static_cast<std::int8_t>(byte);
        table_.push_back(static_cast<std::int32_t>(function(value, c)));
      }
    }
  }
  std::size_t channels_ = 1, row_ = 1;
  std::vector<std::int32_t> table_;
};

class RescaleStep final : public PlainStep {
 public:
  RescaleStep(const Planning& planning, const Block& block, std::byte* destination)
      : PlainStep(planning, block, destination), requantise_(std::get<Rescale>(block.operation).requantise) {}
  void run(const std::byte* const* values) noexcept override {
    const std::size_t channels = in.shape.back();
    for (std::size_t start = 0; start < elements; start += channels) {
      for (std::size_t c = 0; c < channels; ++c) {
        store_any(result.type, out, start + c,
                  requantise(requantise_, load_any(in.type, values[sources[0]], start + c), c));
      }
    }
  }

 private:
  Requantise requantise_;
};

class AddStep final : public PlainStep {
 public:
  AddStep(const Planning& planning, const Block& block, std::byte* destination)
      : PlainStep(planning, block, destination),
        op_(std::get<Add>(block.operation)),
        b_(planning.program.tensors[block.inputs[1]].type) {}

  void run(const std::byte* const* values) noexcept override {
    const std::byte* a = values[sources[0]];
    const std::byte* b = values[sources[1]];
    with_storage(in.type, [&](auto first) {
      with_storage(b_, [&](auto second) {
        with_storage(result.type,
                     [&](auto third) { add<decltype(first), decltype(second), decltype(third)>(a, b); });
      });
    });
  }

 private:
  template <class A, class B, class Out>
  void add(const std::byte* a, const std::byte* b) {
    if (!op_.table.empty()) {
      const std::int64_t low_a = in.type.lowest(), low_b = b_.lowest();
      const std::size_t mask_a = low_bits(in.type), mask_b = low_bits(b_);
      for (std::size_t i = 0; i < elements; ++i) {
        const std::size_t row = static_cast<std::size_t>(load_as<A>(a, i) - low_a) & mask_a;
        const std::size_t column = static_cast<std::size_t>(load_as<B>(b, i) - low_b) & mask_b;
        store_as<Out>(out, i, static_cast<Out>(op_.table[(row << b_.bits) + column]));
      }
      return;
    }
    for (std::size_t i = 0; i < elements; ++i) {
      const std::uint64_t x = static_cast<std::uint64_t>(std::int64_t{load_as<A>(a, i)}) *
                              static_cast<std::uint64_t>(std::int64_t{op_.multiplier_a});
      const std::uint64_t y = static_cast<std::uint64_t>(std::int64_t{load_as<B>(b, i)}) *
                              static_cast<std::uint64_t>(std::int64_t{op_.multiplier_b});
      const std::int64_t sum =
          static_cast<std::int64_t>(x + y + static_cast<std::uint64_t>(op_.offset)) >> op_.shift;
      store_as<Out>(out, i, static_cast<Out>(std::clamp<std::int64_t>(sum, op_.lowest, op_.highest)));
    }
  }
  Add op_;
  ElementType b_;
};

class ConcatStep final : public PlainStep {
 public:
  ConcatStep(const Planning& planning, const Block& block, std::byte* destination)
      : PlainStep(planning, block, destination) {
    for (const TensorIndex index : sources) {
      const Tensor& tensor = planning.program.tensors[index];
      row_bytes_.push_back(tensor.shape.back() * tensor.type.storage_bytes());
    }
    rows_ = elements / result.shape.back();
    out_row_bytes_ = result.shape.back() * result.type.storage_bytes();
  }
  void run(const std::byte* const* values) noexcept override {
    std::size_t offset = 0;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const std::byte* from = values[sources[i]];
      for (std::size_t row = 0; row < rows_; ++row)
        std::memcpy(out + row * out_row_bytes_ + offset, from + row * row_bytes_[i], row_bytes_[i]);
      offset += row_bytes_[i];
    }
  }

 private:
  std::vector<std::size_t> row_bytes_;
  std::size_t rows_ = 0, out_row_bytes_ = 0;
};

class PermuteStep final : public PlainStep {
 public:
  PermuteStep(const Planning& planning, const Block& block, std::byte* destination)
      : PlainStep(planning, block, destination), kernels_(&planning.kernels) {
    const Permute& op = std::get<Permute>(block.operation);
    std::vector<std::size_t> stride(op.dims.size(), 1);
    for (std::size_t axis = op.dims.size(); axis-- > 1;) stride[axis - 1] = stride[axis] * op.dims[axis];
    // Drop axes of length 1 and merge axes that stay neighbours: fewer and longer axes give the same move.
    for (const std::uint32_t axis : op.perm) {
      if (op.dims[axis] == 1) continue;
      if (!axes_.empty() && axes_.back().stride == stride[axis] * op.dims[axis]) {
        axes_.back() = {axes_.back().extent * op.dims[axis], stride[axis]};
      } else {
        axes_.push_back({op.dims[axis], stride[axis]});
      }
    }
    is_copy_ = axes_.empty() || (axes_.size() == 1 && axes_[0].stride == 1);
    while (axes_.size() < 2) axes_.insert(axes_.begin(), {1, 0});
    at_.resize(axes_.size());
  }

  void run(const std::byte* const* values) noexcept override {
    const std::byte* from = values[sources[0]];
    switch (result.type.storage_bytes()) {
      case 1:
        return move<std::uint8_t>(from);
      case 2:
        return move<std::uint16_t>(from);
      default:
        return move<std::uint32_t>(from);
    }
  }

 private:
  struct Axis {
    std::size_t extent, stride;
  };

  template <class T>
  void move(const std::byte* from) {
    if (is_copy_) {
      std::memcpy(out, from, elements * sizeof(T));
      return;
    }
    const Axis inner = axes_[axes_.size() - 1], middle = axes_[axes_.size() - 2];
    if (sizeof(T) == 1 && axes_.size() == 2 && middle.stride == 1 && inner.extent >= 2 &&
        inner.extent <= 4) {  // an image: from planes to pixels
      kernels_->interleave({reinterpret_cast<const std::uint8_t*>(from), reinterpret_cast<std::uint8_t*>(out),
                            middle.extent, inner.stride, static_cast<std::uint32_t>(inner.extent)});
      return;
    }
    std::size_t to = 0;
    std::fill(at_.begin(), at_.end(), 0U);
    while (to < elements) {
      std::size_t base = 0;
      for (std::size_t axis = 0; axis + 2 < axes_.size(); ++axis) base += at_[axis] * axes_[axis].stride;
      to = move_plane<T>(from + base * sizeof(T), to, middle, inner);
      for (std::size_t axis = axes_.size() - 2; axis-- > 0;) {
        if (++at_[axis] < axes_[axis].extent) break;
        at_[axis] = 0;
      }
    }
  }

  template <class T>
  std::size_t move_plane(const std::byte* from, std::size_t to, Axis middle, Axis inner) {
    if (inner.extent < middle.extent) {  // make the longer loop the inner one
      for (std::size_t j = 0; j < inner.extent; ++j) {
        const std::byte* column = from + j * inner.stride * sizeof(T);
        for (std::size_t i = 0; i < middle.extent; ++i)
          store_as<T>(out, to + i * inner.extent + j, load_as<T>(column, i * middle.stride));
      }
    } else {
      for (std::size_t i = 0; i < middle.extent; ++i) {
        const std::byte* row = from + i * middle.stride * sizeof(T);
        for (std::size_t j = 0; j < inner.extent; ++j)
          store_as<T>(out, to + i * inner.extent + j, load_as<T>(row, j * inner.stride));
      }
    }
    return to + middle.extent * inner.extent;
  }

  const Kernels* kernels_;
  std::vector<Axis> axes_;  // of the output, outermost first
  std::vector<std::size_t> at_;
  bool is_copy_ = false;
};

class QuantiseStep final : public PlainStep {
 public:
  QuantiseStep(const Planning& planning, const Block& block, std::byte* destination)
      : PlainStep(planning, block, destination),
        kernels_(&planning.kernels),
        scale_(std::get<Quantise>(block.operation).scale) {
    args_.out = reinterpret_cast<std::uint8_t*>(out);
    args_.elements = elements;
    args_.zero_point = std::get<Quantise>(block.operation).zero_point;
    args_.lowest = static_cast<std::int32_t>(result.type.lowest());
    args_.highest = static_cast<std::int32_t>(result.type.highest());
    args_.out_bytes = static_cast<std::uint8_t>(result.type.storage_bytes());
  }
  void run(const std::byte* const* values) noexcept override {
    const std::byte* from = values[sources[0]];
    QuantiseArgs args = args_;
    if (scale_.size() == 1) {
      args.in = reinterpret_cast<const float*>(from);
      args.scale = scale_[0];
      kernels_->quantise(args);
      return;
    }
    args.elements = 1;
    for (std::size_t i = 0; i < elements; ++i) {
      args.in = reinterpret_cast<const float*>(from + i * sizeof(float));
      args.out = args_.out + i * args.out_bytes;
      args.scale = scale_[i % scale_.size()];
      kernels_->quantise(args);
    }
  }

 private:
  const Kernels* kernels_;
  std::vector<float> scale_;
  QuantiseArgs args_;
};

class DequantiseStep final : public PlainStep {
 public:
  DequantiseStep(const Planning& planning, const Block& block, std::byte* destination)
      : PlainStep(planning, block, destination), op_(std::get<Dequantise>(block.operation)) {}
  void run(const std::byte* const* values) noexcept override {
    const std::byte* from = values[sources[0]];
    const std::size_t row = op_.scale.size();
    with_storage(in.type, [&](auto storage) {
      for (std::size_t start = 0; start < elements; start += row) {
        for (std::size_t c = 0; c < row; ++c) {
          const std::int64_t q = load_as<decltype(storage)>(from, start + c);
          store_as<float>(out, start + c, static_cast<float>(q - op_.zero_point) * op_.scale[c]);
        }
      }
    });
  }

 private:
  Dequantise op_;
};

// Adds in the reference's order, so that the sums round alike.
class SoftmaxStep final : public PlainStep {
 public:
  using PlainStep::PlainStep;
  void run(const std::byte* const* values) noexcept override {
    const std::byte* from = values[sources[0]];
    const std::size_t row = in.shape.back();
    for (std::size_t start = 0; start < elements; start += row) {
      float largest = load_as<float>(from, start);
      for (std::size_t i = 1; i < row; ++i) largest = std::max(largest, load_as<float>(from, start + i));
      float sum = 0;
      for (std::size_t i = 0; i < row; ++i) {
        const float x = std::exp(load_as<float>(from, start + i) - largest);
        store_as<float>(out, start + i, x);
        sum += x;
      }
      for (std::size_t i = 0; i < row; ++i)
        store_as<float>(out, start + i, load_as<float>(out, start + i) / sum);
    }
  }
};

}  // namespace

std::unique_ptr<Step> plan_plain(const Planning& planning, const Block& block, std::byte* destination) {
  const Tensor& in = planning.program.tensors[block.inputs[0]];
  const auto make = [&](auto* step) {
    return std::make_unique<std::remove_pointer_t<decltype(step)>>(planning, block, destination);
  };
  const auto plan = [&](const auto& op) -> std::unique_ptr<Step> {
    using Op = std::decay_t<decltype(op)>;
    if constexpr (std::is_same_v<Op, Convolution> || std::is_same_v<Op, SumPool>)
      return make(static_cast<PlainWindowed<Op>*>(nullptr));
    if constexpr (std::is_same_v<Op, MaxPool>) return make(static_cast<MaxPoolStep*>(nullptr));
    if constexpr (std::is_same_v<Op, Lookup>) return make(static_cast<TableStep*>(nullptr));
    if constexpr (std::is_same_v<Op, Rescale>) {
      if (in.type.bits <= 8 && in.shape.back() <= 4096) return make(static_cast<TableStep*>(nullptr));
      return make(static_cast<RescaleStep*>(nullptr));
    }
    if constexpr (std::is_same_v<Op, Add>) return make(static_cast<AddStep*>(nullptr));
    if constexpr (std::is_same_v<Op, Concat>) return make(static_cast<ConcatStep*>(nullptr));
    if constexpr (std::is_same_v<Op, Permute>) return make(static_cast<PermuteStep*>(nullptr));
    if constexpr (std::is_same_v<Op, Quantise>) return make(static_cast<QuantiseStep*>(nullptr));
    if constexpr (std::is_same_v<Op, Dequantise>) return make(static_cast<DequantiseStep*>(nullptr));
    if constexpr (std::is_same_v<Op, Softmax>) return make(static_cast<SoftmaxStep*>(nullptr));
  };
  return std::visit(plan, block.operation);
}

}  // namespace millrace::kernels::fast
