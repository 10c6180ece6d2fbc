// Plans the blocks that read and write plain storage: functions of single elements, moves of memory, and plain loops
// for blocks that no kernel computes. Sums of out-of-range input bytes may wrap, so the file is compiled with -fwrapv;
// valid inputs never overflow.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/fast/plan.hpp"
#include "kernels/program/rearrange.hpp"

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

/// Reads one element of any type for the plain loops.
std::int64_t load_any(ElementType type, const std::byte* from, std::size_t index) {
  std::int64_t value = 0;
  with_storage(type, [&](auto storage) { value = load_as<decltype(storage)>(from, index); });
  return value;
}

void store_any(ElementType type, std::byte* to, std::size_t index, std::int64_t value) {
  const std::size_t width = type.storage_bytes();
  std::memcpy(to + index * width, &value, width);  // the low bytes, because storage is little-endian
}

std::int64_t requantise(const Requantise& r, std::int64_t acc, std::size_t channel) {
  if (r.form != Requantise::Form::kThresholds) {
    const std::int64_t sum = acc * entry(r.multiplier, channel) + entry(r.offset, channel);
    const std::uint8_t shift = entry(r.shift, channel);
    const bool rounds = r.form == Requantise::Form::kMultiplyShiftHalfEven && shift > 0;
    const std::int64_t rounding = rounds ? (std::int64_t{1} << (shift - 1)) - 1 + ((sum >> shift) & 1) : 0;
    return std::clamp<std::int64_t>(((sum + rounding) >> shift) + r.zero_point, r.lowest, r.highest);
  }
  const std::int64_t steps = std::int64_t{r.highest} - r.lowest;
  const bool shared = static_cast<std::int64_t>(r.thresholds.size()) == steps;
  const auto first = r.thresholds.begin() + (shared ? 0 : static_cast<std::ptrdiff_t>(channel) * steps);
  return r.lowest + (std::upper_bound(first, first + steps, acc) - first);
}

using Values = const std::byte* const*;  // the plain storage of each tensor

/// The tensors that a block's step reads and writes.
struct Plain {
  Plain(const Planning& planning, const Block& block, std::byte* destination)
      : in(planning.program.tensors[block.inputs[0]]),
        result(planning.program.tensors[block.outputs[0]]),
        elements(result.elements()),
        sources(block.inputs),
        out(destination) {
    in.scale.clear();
    result.scale.clear();
  }
  std::uint8_t* out_bytes() const { return reinterpret_cast<std::uint8_t*>(out); }

  Tensor in, result;
  std::size_t elements;
  std::vector<TensorIndex> sources;
  std::byte* out;
};

// The functions below compute convolutions and sums that no kernel computes, because elements have more than 16 bits or
// the padding is extreme.
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
struct PlainWindowed : Plain {
  std::int64_t tap(const std::byte* from, std::int64_t y, std::int64_t x, std::size_t channel) const {
    if (y < 0 || x < 0 || y >= in.shape[0] || x >= in.shape[1]) return op.window.pad_value;
    return load_any(in.type, from, static_cast<std::size_t>(y * in.shape[1] + x) * in.shape[2] + channel);
  }

  std::int64_t element(const std::byte* from, std::size_t oy, std::size_t ox, std::size_t c) const {
    std::int64_t acc = 0;
    if constexpr (std::is_same_v<Op, SumPool>) {
      for_each_tap(op.window, oy, ox,
                   [&](std::size_t, std::int64_t y, std::int64_t x) { acc += tap(from, y, x, c); });
      return requantise(op.requantise, acc, c);
    } else {
      const std::size_t group_in = in.shape[2] / op.groups,
                        first = c / (op.out_channels / op.groups) * group_in;
      const std::size_t taps = std::size_t{op.window.kernel_h} * op.window.kernel_w;
      if (!op.bias.empty()) acc = op.bias[c];
      for_each_tap(op.window, oy, ox, [&](std::size_t t, std::int64_t y, std::int64_t x) {
        for (std::size_t i = 0; i < group_in; ++i)
          acc += tap(from, y, x, first + i) * op.weights[(c * taps + t) * group_in + i];
      });
      return op.requantise ? requantise(*op.requantise, acc, c) : acc;
    }
  }

  void operator()(Values values) const {
    std::size_t at = 0;
    for (std::size_t y = 0; y < result.shape[0]; ++y) {
      for (std::size_t x = 0; x < result.shape[1]; ++x) {
        for (std::size_t c = 0; c < result.shape[2]; ++c)
          store_any(result.type, out, at++, element(values[sources[0]], y, x, c));
      }
    }
  }

  Op op;
};

Step plan(const Planning&, Plain p, const Convolution& op) {
  return PlainWindowed<Convolution>{std::move(p), op};
}

Step plan(const Planning&, Plain p, const SumPool& op) {
  return PlainWindowed<SumPool>{std::move(p), op};
}

Step plan(const Planning& planning, Plain p, const MaxPool& op) {
  const Window& w = op.window;
  PoolArgs args;
  args.out = p.out_bytes();
  args.bytes = static_cast<std::uint8_t>(p.in.type.storage_bytes());
  args.is_signed = p.in.type.kind != ElementType::Kind::kUnsigned;
  args.height = p.in.shape[0];
  args.width = p.in.shape[1];
  args.channels = p.in.shape[2];
  args.out_height = p.result.shape[0];
  args.out_width = p.result.shape[1];
  args.kernel_h = w.kernel_h;
  args.kernel_w = w.kernel_w;
  args.stride_h = w.stride_h;
  args.stride_w = w.stride_w;
  args.dilation_h = w.dilation_h;
  args.dilation_w = w.dilation_w;
  args.pad_top = w.pad_top;
  args.pad_left = w.pad_left;
  return [args, source = p.sources[0], &kernels = planning.kernels](Values values) mutable {
    args.in = reinterpret_cast<const std::uint8_t*>(values[source]);
    kernels.max_pool(args);
  };
}

std::size_t low_bits(ElementType type) {
  return (std::size_t{1} << type.bits) - 1;
}

/// Plans a step that looks results up in tables of function(value, channel), which cover every byte that can store an
/// element. One table serves all channels, or each channel has its own. No input byte can index outside its table.
template <class Function>
Step plan_table(Plain p, std::size_t channels, Function function) {
  std::vector<std::int32_t> table;
  for (std::size_t c = 0; c < channels; ++c) {
    for (int byte = 0; byte < 256; ++byte) {
      const bool is_unsigned = p.in.type.kind == ElementType::Kind::kUnsigned;
      const std::int64_t value = is_unsigned ? byte : static_cast<std::int8_t>(byte);
      table.push_back(static_cast<std::int32_t>(function(value, c)));
    }
  }
  const std::size_t row = channels == 1 ? p.elements : channels;
  return [p = std::move(p), table = std::move(table), channels, row](Values values) {
    const auto* from = reinterpret_cast<const std::uint8_t*>(values[p.sources[0]]);
    with_storage(p.result.type, [&](auto storage) {
      using Out = decltype(storage);
      for (std::size_t start = 0; start < p.elements; start += row) {
        for (std::size_t i = 0; i < row; ++i) {
          const std::int32_t value = table[(channels == 1 ? 0 : i * 256) + from[start + i]];
          store_as<Out>(p.out, start + i, static_cast<Out>(value));
        }
      }
    });
  };
}

Step plan(const Planning&, Plain p, const Lookup& op) {
  const ElementType type = p.in.type;
  return plan_table(std::move(p), 1, [&](std::int64_t value, std::size_t) {
    return op.table[static_cast<std::size_t>(value - type.lowest()) & low_bits(type)];
  });
}

Step plan(const Planning&, Plain p, const Rescale& op) {
  const Requantise& r = op.requantise;
  const std::size_t channels = p.in.shape.back();
  if (p.in.type.bits <= 8 && channels <= 4096) {
    const auto count = static_cast<std::size_t>(std::int64_t{r.highest} - r.lowest);
    const bool shared = r.form == Requantise::Form::kThresholds
                            ? r.thresholds.size() == count
                            : r.multiplier.size() == 1 && r.offset.size() == 1 && r.shift.size() == 1;
    return plan_table(std::move(p), shared ? 1 : channels,
                      [&](std::int64_t value, std::size_t c) { return requantise(r, value, c); });
  }
  return [p = std::move(p), r, channels](Values values) {
    for (std::size_t i = 0; i < p.elements; ++i) {
      const std::int64_t value = load_any(p.in.type, values[p.sources[0]], i);
      store_any(p.result.type, p.out, i, requantise(r, value, i % channels));
    }
  };
}

template <class A, class B, class Out>
void add(const Plain& p, const Add& op, ElementType b_type, const std::byte* a, const std::byte* b) {
  if (!op.table.empty()) {
    const std::int64_t low_a = p.in.type.lowest(), low_b = b_type.lowest();
    const std::size_t mask_a = low_bits(p.in.type), mask_b = low_bits(b_type);
    for (std::size_t i = 0; i < p.elements; ++i) {
      const std::size_t row = static_cast<std::size_t>(load_as<A>(a, i) - low_a) & mask_a;
      const std::size_t column = static_cast<std::size_t>(load_as<B>(b, i) - low_b) & mask_b;
      store_as<Out>(p.out, i, static_cast<Out>(op.table[(row << b_type.bits) + column]));
    }
    return;
  }
  for (std::size_t i = 0; i < p.elements; ++i) {
    const std::int64_t x = load_as<A>(a, i), y = load_as<B>(b, i);
    const std::int64_t sum = (x * op.multiplier_a + y * op.multiplier_b + op.offset) >> op.shift;
    store_as<Out>(p.out, i, static_cast<Out>(std::clamp<std::int64_t>(sum, op.lowest, op.highest)));
  }
}

/// Returns the arguments of the kernel that adds two tensors of bytes, or nothing if that kernel cannot compute `op`.
std::optional<AddArgs> add_args(const Plain& p, const Add& op, ElementType b_type) {
  const auto is_byte = [](ElementType type) { return type.is_integer() && type.storage_bytes() == 1; };
  if (!op.table.empty() || op.shift > 31 || !is_byte(p.in.type) || !is_byte(b_type) ||
      !is_byte(p.result.type))
    return std::nullopt;
  const auto flip = [](ElementType type) -> std::uint8_t {
    return type.kind == ElementType::Kind::kUnsigned ? 0 : 128;
  };
  AddArgs args;
  args.flip_a = flip(p.in.type);
  args.flip_b = flip(b_type);
  const std::int64_t ma = op.multiplier_a, mb = op.multiplier_b;
  const std::int64_t offset = op.offset - args.flip_a * ma - args.flip_b * mb;
  // Elements narrower than a byte may have any bits in a caller's memory, so the bounds are those of bytes.
  const std::int64_t least = offset + 255 * (std::min<std::int64_t>(ma, 0) + std::min<std::int64_t>(mb, 0));
  const std::int64_t most = offset + 255 * (std::max<std::int64_t>(ma, 0) + std::max<std::int64_t>(mb, 0));
  if (least < INT32_MIN || most > INT32_MAX) return std::nullopt;
  args.multiplier_a = op.multiplier_a;
  args.multiplier_b = op.multiplier_b;
  args.offset = static_cast<std::int32_t>(offset);
  args.shift = op.shift;
  args.lowest = op.lowest;
  args.highest = op.highest;
  args.is_unsigned = p.result.type.kind == ElementType::Kind::kUnsigned;
  args.out = p.out_bytes();
  args.elements = p.elements;
  return args;
}

Step plan(const Planning& planning, Plain p, const Add& op) {
  const ElementType b_type = planning.program.tensors[p.sources[1]].type;
  if (const std::optional<AddArgs> args = add_args(p, op, b_type))
    return [args = *args, a = p.sources[0], b = p.sources[1],
            &kernels = planning.kernels](Values values) mutable {
      args.a = reinterpret_cast<const std::uint8_t*>(values[a]);
      args.b = reinterpret_cast<const std::uint8_t*>(values[b]);
      kernels.add(args);
    };
  return [p = std::move(p), op, b_type](Values values) {
    const std::byte *a = values[p.sources[0]], *b = values[p.sources[1]];
    with_storage(p.in.type, [&](auto first) {
      with_storage(b_type, [&](auto second) {
        with_storage(p.result.type, [&](auto third) {
          add<decltype(first), decltype(second), decltype(third)>(p, op, b_type, a, b);
        });
      });
    });
  };
}

Step plan(const Planning& planning, Plain p, const Concat&) {
  std::vector<std::size_t> row_bytes;
  for (const TensorIndex index : p.sources) {
    const Tensor& tensor = planning.program.tensors[index];
    row_bytes.push_back(tensor.shape.back() * tensor.type.storage_bytes());
  }
  const std::size_t rows = p.elements / p.result.shape.back();
  const std::size_t out_row_bytes = p.result.shape.back() * p.result.type.storage_bytes();
  return [p = std::move(p), row_bytes = std::move(row_bytes), rows, out_row_bytes](Values values) {
    std::size_t offset = 0;
    for (std::size_t i = 0; i < p.sources.size(); ++i) {
      const std::byte* from = values[p.sources[i]];
      for (std::size_t row = 0; row < rows; ++row)
        std::memcpy(p.out + row * out_row_bytes + offset, from + row * row_bytes[i], row_bytes[i]);
      offset += row_bytes[i];
    }
  };
}

/// Copies `count` elements of type Element to consecutive places. In the source, these elements are `stride` elements
/// apart.
template <class Element>
void gather(std::byte* to, const std::byte* from, std::size_t count, std::int64_t stride) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(Element));
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(count); ++i)
    std::memcpy(to + i * kBytes, from + i * stride * kBytes, sizeof(Element));
}

Step plan(const Planning& planning, Plain p, const Rearrange& op) {
  const auto width = static_cast<std::uint32_t>(p.result.type.storage_bytes());
  Rearrange loops = simplified(op, p.elements);
  const std::size_t run = loops.extents.back();
  const std::int64_t stride = loops.strides.back();
  // Converting a picture of bytes from planes to pixels has its own kernel.
  const bool interleaves = width == 1 && loops.offset == 0 && loops.extents.size() == 2 && run <= 4 &&
                           loops.strides[0] == 1 && stride == std::int64_t{loops.extents[0]};
  if (interleaves)
    return [p = std::move(p), size = std::size_t{loops.extents[0]}, run,
            &kernels = planning.kernels](Values values) {
      kernels.interleave({reinterpret_cast<const std::uint8_t*>(values[p.sources[0]]), p.out_bytes(), size,
                          size, static_cast<std::uint32_t>(run)});
    };
  loops.extents.pop_back();
  loops.strides.pop_back();
  std::vector<std::uint32_t> starts = sources_of(loops);
  if (stride == 1)
    return [p = std::move(p), starts = std::move(starts), bytes = run * width, width](Values values) {
      for (std::size_t i = 0; i < starts.size(); ++i)
        std::memcpy(p.out + i * bytes, values[p.sources[0]] + std::size_t{starts[i]} * width, bytes);
    };
  return [p = std::move(p), starts = std::move(starts), run, stride, width](Values values) {
    const auto copy = width == 1   ? gather<std::uint8_t>
                      : width == 2 ? gather<std::uint16_t>
                      : width == 4 ? gather<std::uint32_t>
                                   : gather<std::uint64_t>;
    for (std::size_t i = 0; i < starts.size(); ++i)
      copy(p.out + i * run * width, values[p.sources[0]] + std::size_t{starts[i]} * width, run, stride);
  };
}

/// Quantises to more than 16 bits, for which there is no vector kernel.
Step plan_wide_quantise(Plain p, const Quantise& op) {
  return [p = std::move(p), op](Values values) {
    for (std::size_t i = 0; i < p.elements; ++i) {
      const float x = load_as<float>(values[p.sources[0]], i);
      const float steps = std::nearbyint(x / op.scale[i % op.scale.size()]);
      const std::int64_t bounded =
          std::isnan(steps) ? 0 : static_cast<std::int64_t>(std::clamp(steps, -1e9F, 1e9F));
      const std::int64_t q =
          std::clamp(bounded + op.zero_point, p.result.type.lowest(), p.result.type.highest());
      store_any(p.result.type, p.out, i, q);
    }
  };
}

Step plan(const Planning& planning, Plain p, const Quantise& op) {
  if (p.result.type.bits > 16) return plan_wide_quantise(std::move(p), op);
  QuantiseArgs args;
  args.out = p.out_bytes();
  args.elements = op.scale.size() == 1 ? p.elements : 1;
  args.zero_point = op.zero_point;
  args.lowest = static_cast<std::int32_t>(p.result.type.lowest());
  args.highest = static_cast<std::int32_t>(p.result.type.highest());
  args.out_bytes = static_cast<std::uint8_t>(p.result.type.storage_bytes());
  return [p = std::move(p), args, scale = op.scale, &kernels = planning.kernels](Values values) {
    QuantiseArgs part = args;  // all elements at once, or one element if there are several scales
    for (std::size_t i = 0; i < p.elements; i += part.elements) {
      part.in = reinterpret_cast<const float*>(values[p.sources[0]] + i * sizeof(float));
      part.out = args.out + i * args.out_bytes;
      part.scale = scale[i % scale.size()];
      kernels.quantise(part);
    }
  };
}

Step plan(const Planning&, Plain p, const Dequantise& op) {
  return [p = std::move(p), op](Values values) {
    const std::byte* from = values[p.sources[0]];
    const std::size_t row = op.scale.size();
    const auto convert = [&](auto storage) {
      for (std::size_t start = 0; start < p.elements; start += row) {
        for (std::size_t c = 0; c < row; ++c) {
          const std::int64_t q = load_as<decltype(storage)>(from, start + c);
          store_as<float>(p.out, start + c, static_cast<float>(q - op.zero_point) * op.scale[c]);
        }
      }
    };
    if (p.in.type.bits > 32)
      convert(std::int64_t{});
    else
      with_storage(p.in.type, convert);
  };
}

// Adds in the same order as kernels/reference, so that float32 rounding gives the same sums.
Step plan(const Planning&, Plain p, const Softmax&) {
  return [p = std::move(p)](Values values) {
    const std::byte* from = values[p.sources[0]];
    const std::size_t row = p.in.shape.back();
    for (std::size_t start = 0; start < p.elements; start += row) {
      float largest = load_as<float>(from, start);
      for (std::size_t i = 1; i < row; ++i) largest = std::max(largest, load_as<float>(from, start + i));
      float sum = 0;
      for (std::size_t i = 0; i < row; ++i) {
        const float x = std::exp(load_as<float>(from, start + i) - largest);
        store_as<float>(p.out, start + i, x);
        sum += x;
      }
      for (std::size_t i = 0; i < row; ++i)
        store_as<float>(p.out, start + i, load_as<float>(p.out, start + i) / sum);
    }
  };
}

// Plans an operator of kernels/host, which kernels/reference also calls. Unlike all other steps, this step allocates
// memory for each frame.
Step plan(const Planning&, Plain p, const FloatOperator& op) {
  return [p = std::move(p), op](Values values) {
    std::vector<const float*> tensors;
    for (const TensorIndex source : p.sources)
      tensors.push_back(reinterpret_cast<const float*>(values[source]));
    host::compute(op, tensors, reinterpret_cast<float*>(p.out));
  };
}

// Executor itself plans a block with a plugin's operator, because the block may have several outputs.
Step plan(const Planning&, const Plain&, const PluginOperator&) {
  return {};
}

}  // namespace

Step plan_plain(const Planning& planning, const Block& block, std::byte* destination) {
  return std::visit([&](const auto& op) { return plan(planning, Plain(planning, block, destination), op); },
                    block.operation);
}

}  // namespace millrace::kernels::fast
