// Makes random programs for property tests. This source has more than 500 lines because every kind of block has a
// generator, and all generators share the functions that choose types, shapes and requantisations.
#include "random_program.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>
#include <utility>

#include "kernels/program/rearrange.hpp"

namespace millrace::tests {
namespace {

using namespace kernels;
using Kind = ElementType::Kind;

struct Bounds {
  std::int64_t lowest = 0, highest = 0;
};

class Builder {
 public:
  Builder(Chance& c, int count) : chance_(c) {
    program_.name = "random";
    const std::uint32_t height = extent(12), width = extent(14);
    TensorIndex at = add_tensor(chance_.one_in(6) ? ElementType{Kind::kFloat32, 32} : any_type(16),
                                {height, width, channels()});
    program_.inputs.push_back(at);
    if (!type(at).is_integer()) at = quantise(at);
    for (int i = 0; i < count; ++i) {
      const TensorIndex next = any_block(at);
      if (chance_.one_in(8) && next != at) program_.outputs.push_back(next);
      at = next;
    }
    if (std::find(program_.outputs.begin(), program_.outputs.end(), at) == program_.outputs.end())
      program_.outputs.push_back(at);
  }
  Program take() { return std::move(program_); }

 private:
  std::uint32_t extent(std::int64_t most) { return static_cast<std::uint32_t>(chance_.between(1, most)); }
  std::uint32_t channels() {
    return static_cast<std::uint32_t>(chance_.one_in(3) ? chance_.between(1, 70) : chance_.between(1, 9));
  }

  std::uint32_t one_or(std::uint32_t count) {
    return chance_.one_in(2) ? 1 : count;
  }  // the number of constants: one for the tensor, or one for each channel

  ElementType any_type(std::int64_t widest) {
    const auto bits =
        static_cast<std::uint8_t>(chance_.one_in(2) && widest >= 8 ? 8 : chance_.between(1, widest));
    if (chance_.one_in(12)) return {Kind::kBipolar, 1};
    return {chance_.one_in(2) ? Kind::kSigned : Kind::kUnsigned, bits};
  }

  const Tensor& tensor(TensorIndex i) const { return program_.tensors[i]; }
  ElementType type(TensorIndex i) const { return tensor(i).type; }

  TensorIndex add_tensor(ElementType t, std::vector<std::uint32_t> shape) {
    Tensor out;
    out.name = "t" + std::to_string(program_.tensors.size());
    out.type = t;
    out.shape = std::move(shape);
    program_.tensors.push_back(std::move(out));
    return static_cast<TensorIndex>(program_.tensors.size() - 1);
  }

  TensorIndex add_block(Operation operation, std::vector<TensorIndex> inputs, ElementType t,
                        std::vector<std::uint32_t> shape) {
    const TensorIndex out = add_tensor(t, std::move(shape));
    Block block;
    block.name = "b" + std::to_string(program_.blocks.size());
    block.inputs = std::move(inputs);
    block.outputs = {out};
    block.operation = std::move(operation);
    program_.blocks.push_back(std::move(block));
    return out;
  }

  // Returns the number of bits of the narrowest signed type for both bounds, or 33 if 32 bits are not enough.
  static std::uint8_t signed_bits(Bounds b) {
    std::uint8_t bits = 1;
    while (bits < 33 &&
           (b.lowest < -(std::int64_t{1} << (bits - 1)) || b.highest > (std::int64_t{1} << (bits - 1)) - 1))
      ++bits;
    return bits;
  }

  // Returns the thresholds of clamp(round_half_even(float32(acc) * scale) + zero point), as in quantised nets.
  std::vector<std::int64_t> scaled_ladder(Bounds b, std::int32_t lowest, std::int64_t steps) {
    const std::int64_t zero_point =
        lowest + chance_.of<std::int64_t>({0, 0, steps / 2, chance_.between(-3, steps)});
    const auto span = static_cast<float>(std::max<std::int64_t>(b.highest - b.lowest, 1));
    float scale =
        static_cast<float>(steps + 1) / span * static_cast<float>(chance_.between(1, 3000)) / 1000.0F;
    if (chance_.one_in(3)) scale = std::exp2(std::round(std::log2(scale)));
    const auto passes = [&](std::int64_t acc, std::int64_t value) {
      return std::nearbyint(static_cast<float>(acc) * scale) + static_cast<float>(zero_point) >=
             static_cast<float>(value);
    };
    std::vector<std::int64_t> ladder;
    for (std::int64_t i = 0; i < steps; ++i) {
      std::int64_t low = b.lowest - 1,
                   high = b.highest + 1;  // the threshold is in low + 1 .. high
      while (high - low > 1)
        (passes(low + (high - low) / 2, lowest + i + 1) ? high : low) = low + (high - low) / 2;
      ladder.push_back(high);
    }
    return ladder;
  }

  // Makes a requantisation that rounds half to even. Multipliers are often powers of two, because otherwise random sums
  // would rarely lie halfway between two results.
  void round_half_even(Requantise& r, ElementType out) {
    r.form = Requantise::Form::kMultiplyShiftHalfEven;
    r.zero_point = static_cast<std::int32_t>(chance_.between(out.lowest(), out.highest()));
    if (chance_.one_in(3)) return;
    const int bits = static_cast<int>(chance_.between(0, 4));
    for (std::int32_t& m : r.multiplier) m = std::int32_t{1} << bits;
    for (std::uint8_t& s : r.shift) s = static_cast<std::uint8_t>(chance_.between(0, 12));
    for (std::int64_t& o : r.offset) o = chance_.one_in(2) ? 0 : chance_.between(-40, 40) << bits;
  }

  // Returns a random requantisation. It maps accumulators in `b` to the whole range of `out` and clamps some of them.
  Requantise requantise(Bounds b, ElementType out, std::uint32_t count) {
    Requantise r;
    r.lowest = static_cast<std::int32_t>(out.lowest());
    r.highest = static_cast<std::int32_t>(std::min<std::int64_t>(out.highest(), INT32_MAX));
    if (chance_.one_in(4) && out.kind != Kind::kBipolar) {  // include a Relu or a Clip
      r.lowest = static_cast<std::int32_t>(chance_.between(r.lowest, r.highest));
      r.highest = static_cast<std::int32_t>(chance_.between(r.lowest, r.highest));
    }
    const std::int64_t steps = std::int64_t{r.highest} - r.lowest;
    const bool thresholds = out.kind == Kind::kBipolar || (steps <= 255 && chance_.one_in(3));
    const std::int64_t span = std::max<std::int64_t>(b.highest - b.lowest, 1);
    if (thresholds) {
      r.form = Requantise::Form::kThresholds;
      for (std::uint32_t c = one_or(count); c > 0; --c) {
        std::vector<std::int64_t> ladder;
        const int kind = static_cast<int>(chance_.between(1, 3));
        if (kind != 1) ladder = scaled_ladder(b, r.lowest, steps);
        if (kind == 3) {  // move each threshold by at most one
          for (std::int64_t& t : ladder) t += chance_.between(-1, 1);
        }
        for (auto i = static_cast<std::int64_t>(ladder.size()); i < steps; ++i) {
          ladder.push_back(chance_.one_in(30) ? chance_.between(INT64_MIN / 2, INT64_MAX / 2)
                                              : chance_.between(b.lowest - span / 8, b.highest + span / 8));
        }
        std::sort(ladder.begin(), ladder.end());
        if (out.kind == Kind::kBipolar && steps == 2) ladder[1] = ladder[0];
        r.thresholds.insert(r.thresholds.end(), ladder.begin(), ladder.end());
      }
      return r;
    }
    // The width of the multiplier decides whether 32-bit arithmetic is exact or 64-bit arithmetic is needed.
    const std::int64_t wide = chance_.between(1, 30);
    for (std::uint32_t c = one_or(count); c > 0; --c)
      r.multiplier.push_back(static_cast<std::int32_t>(chance_.between(0, std::int64_t{1} << wide)));
    const auto most = *std::max_element(r.multiplier.begin(), r.multiplier.end());
    std::int64_t fitting = 0;  // the shift with which results cover about the range of the output
    while (fitting < 62 && (span * most >> fitting) > 2 * std::max<std::int64_t>(steps, 1)) ++fitting;
    for (std::uint32_t c = one_or(count); c > 0; --c) {
      const std::int64_t shift = chance_.one_in(12)
                                     ? chance_.between(0, 62)
                                     : std::clamp<std::int64_t>(fitting + chance_.between(-2, 2), 0, 62);
      r.shift.push_back(static_cast<std::uint8_t>(shift));
    }
    for (std::uint32_t c = one_or(count); c > 0; --c) {
      const std::int64_t reach =
          std::min<std::int64_t>(span * most + (std::int64_t{1} << fitting), INT64_MAX / 4);
      r.offset.push_back(chance_.one_in(12) ? chance_.between(-(std::int64_t{1} << 61), std::int64_t{1} << 61)
                                            : chance_.between(-reach, reach));
    }
    if (chance_.one_in(2)) round_half_even(r, out);
    return r;
  }

  Window window(const Tensor& in, bool padded, std::int64_t largest_kernel) {
    Window w;
    const auto field = [&](std::int64_t most) {
      return static_cast<std::uint32_t>(chance_.between(1, std::max<std::int64_t>(most, 1)));
    };
    w.kernel_h = field(std::min<std::int64_t>(largest_kernel, in.shape[0]));
    w.kernel_w = field(std::min<std::int64_t>(largest_kernel, in.shape[1]));
    w.stride_h = field(chance_.one_in(2) ? 1 : 3);
    w.stride_w = field(chance_.one_in(2) ? 1 : 3);
    if (chance_.one_in(4) && w.kernel_h > 1) w.dilation_h = field((in.shape[0] - 1) / (w.kernel_h - 1));
    if (chance_.one_in(4) && w.kernel_w > 1) w.dilation_w = field((in.shape[1] - 1) / (w.kernel_w - 1));
    if (padded && chance_.one_in(2)) {
      const auto pad = [&](std::uint32_t kernel) {
        return static_cast<std::uint32_t>(chance_.between(0, kernel - 1));
      };
      w.pad_top = pad(w.kernel_h);
      w.pad_bottom = pad(w.kernel_h);
      w.pad_left = pad(w.kernel_w);
      w.pad_right = pad(w.kernel_w);
      w.pad_value = static_cast<std::int32_t>(in.type.kind == Kind::kBipolar
                                                  ? chance_.of({-1, 1})
                                                  : chance_.between(in.type.lowest(), in.type.highest()));
    }
    return w;
  }

  std::vector<std::uint32_t> windowed(const Window& w, TensorIndex at, std::uint32_t count) const {
    return {windowed_height(w, tensor(at).shape[0]), windowed_width(w, tensor(at).shape[1]), count};
  }

  TensorIndex convolution(TensorIndex at) {
    const Tensor in = tensor(at);
    Convolution c;
    c.window = window(in, true, 5);
    if (chance_.one_in(4)) {  // a fully connected layer
      c.window = {};
      c.window.kernel_h = in.shape[0];
      c.window.kernel_w = in.shape[1];
    }
    std::vector<std::uint32_t> divisors;
    for (std::uint32_t g = 1; g <= in.shape[2]; ++g) {
      if (in.shape[2] % g == 0) divisors.push_back(g);
    }
    c.groups = chance_.one_in(3) ? divisors[static_cast<std::size_t>(
                                       chance_.between(0, static_cast<std::int64_t>(divisors.size()) - 1))]
                                 : 1;
    if (chance_.one_in(6)) c.groups = in.shape[2];
    c.out_channels = c.groups == 1 ? channels() : c.groups * (chance_.one_in(2) ? 1 : extent(3));
    c.weight_type = any_type(chance_.one_in(3) ? 16 : 8);
    if (c.weight_type.kind == Kind::kUnsigned && c.weight_type.bits == 16)
      c.weight_type.bits = 15;  // int16 stores at most 15 unsigned bits
    const std::size_t taps = std::size_t{c.window.kernel_h} * c.window.kernel_w * (in.shape[2] / c.groups);
    for (std::size_t i = 0; i < taps * c.out_channels; ++i) {
      const auto low = c.weight_type.lowest(), high = c.weight_type.highest();
      const std::int64_t w = c.weight_type.kind == Kind::kBipolar ? chance_.of({-1, 1})
                             : chance_.one_in(8)                  ? chance_.of({low, high})
                                                                  : chance_.between(low, high);
      c.weights.edit().push_back(static_cast<std::int16_t>(w));
    }
    if (chance_.one_in(2)) {
      for (std::uint32_t o = 0; o < c.out_channels; ++o)
        c.bias.push_back(static_cast<std::int32_t>(chance_.between(-3000, 3000)));
    }
    const auto extremes = [&] {  // the range of partial sums over all channels
      Bounds all;
      for (std::uint32_t o = 0; o < c.out_channels; ++o) {
        Bounds b;
        if (!c.bias.empty()) (c.bias[o] < 0 ? b.lowest : b.highest) += c.bias[o];
        for (std::size_t i = 0; i < taps; ++i) {
          const std::int64_t w = c.weights[o * taps + i], x = w * in.type.lowest(), y = w * in.type.highest();
          b.lowest += std::min({x, y, std::int64_t{0}});
          b.highest += std::max({x, y, std::int64_t{0}});
        }
        all.lowest = std::min(all.lowest, b.lowest);
        all.highest = std::max(all.highest, b.highest);
      }
      return all;
    };
    Bounds b = extremes();
    while (signed_bits(b) > 32) {
      for (std::int16_t& w : c.weights.edit())
        w = static_cast<std::int16_t>(c.weight_type.kind == Kind::kBipolar ? w : w / 4);
      if (c.weight_type.kind == Kind::kBipolar) return at;
      b = extremes();
    }
    const auto exact = signed_bits(b);
    c.accumulator = {Kind::kSigned, static_cast<std::uint8_t>(chance_.one_in(3) ? 32 : exact)};
    ElementType out = c.accumulator;
    if (!chance_.one_in(10)) {
      out = any_type(chance_.one_in(4) ? 16 : 8);
      c.requantise = requantise({c.accumulator.lowest(), c.accumulator.highest()}, out, c.out_channels);
      if (chance_.one_in(2)) c.requantise = requantise(b, out, c.out_channels);
    }
    const std::uint32_t count = c.out_channels;
    const Window w = c.window;
    return add_block(std::move(c), {at}, out, windowed(w, at, count));
  }

  TensorIndex max_pool(TensorIndex at) {
    const Tensor in = tensor(at);
    MaxPool p;
    p.window = window(in, false, 3);
    if (chance_.one_in(2) && in.shape[0] >= 2 && in.shape[1] >= 2) {
      p.window = {};
      p.window.kernel_h = p.window.stride_h = extent(2);
      p.window.kernel_w = p.window.stride_w = extent(2);
    } else if (p.window.dilation_h == 1 && p.window.dilation_w == 1 && chance_.one_in(2)) {
      p.window.pad_top = p.window.kernel_h - 1;
      p.window.pad_right = p.window.kernel_w - 1;
    }
    return add_block(p, {at}, in.type, windowed(p.window, at, in.shape[2]));
  }

  TensorIndex sum_pool(TensorIndex at) {
    const Tensor in = tensor(at);
    SumPool p;
    p.window = window(in, true, 4);
    if (chance_.one_in(3)) {
      p.window = {};
      p.window.kernel_h = in.shape[0];
      p.window.kernel_w = in.shape[1];
    }
    const std::int64_t taps = std::int64_t{p.window.kernel_h} * p.window.kernel_w;
    const Bounds b{std::min<std::int64_t>(0, taps * in.type.lowest()),
                   std::max<std::int64_t>(0, taps * in.type.highest())};
    if (signed_bits(b) > 32) return at;
    p.accumulator = {Kind::kSigned, signed_bits(b)};
    const ElementType out = any_type(8);
    p.requantise = requantise(b, out, in.shape[2]);
    const Window w = p.window;
    return add_block(std::move(p), {at}, out, windowed(w, at, in.shape[2]));
  }

  TensorIndex rescale(TensorIndex at) {
    const Tensor in = tensor(at);
    const ElementType out = any_type(16);
    return add_block(Rescale{requantise({in.type.lowest(), in.type.highest()}, out, in.shape.back())}, {at},
                     out, in.shape);
  }

  std::int16_t any_value(ElementType t) {
    if (t.kind == Kind::kBipolar) return chance_.of<std::int16_t>({-1, 1});
    return static_cast<std::int16_t>(
        chance_.between(t.lowest(), std::min<std::int64_t>(t.highest(), INT16_MAX)));
  }

  static bool can_index(ElementType t) { return t.kind != Kind::kBipolar && t.bits <= 8; }

  TensorIndex lookup(TensorIndex at) {
    const Tensor in = tensor(at);
    if (!can_index(in.type)) return rescale(at);
    const ElementType out = any_type(16);
    Lookup l;
    for (int i = 0; i < 1 << in.type.bits; ++i) l.table.push_back(any_value(out));
    return add_block(std::move(l), {at}, out, in.shape);
  }

  TensorIndex add(TensorIndex at) {
    const TensorIndex other = chance_.one_in(4) ? at : rescale(at);
    const Tensor a = tensor(at), b = tensor(other);
    Add op;
    ElementType out = any_type(8);
    if (can_index(a.type) && can_index(b.type) && (chance_.one_in(2) || out.kind == Kind::kBipolar)) {
      for (int i = 0; i < 1 << (a.type.bits + b.type.bits); ++i) op.table.push_back(any_value(out));
    } else {
      if (out.kind == Kind::kBipolar) out = {Kind::kSigned, 8};
      op.multiplier_a = static_cast<std::int32_t>(chance_.between(-100000, 100000));
      op.multiplier_b = static_cast<std::int32_t>(chance_.between(-100000, 100000));
      op.offset = chance_.between(-100000, 100000);
      op.shift = static_cast<std::uint8_t>(chance_.between(0, 20));
      op.lowest = static_cast<std::int32_t>(out.lowest());
      op.highest = static_cast<std::int32_t>(out.highest());
    }
    return add_block(std::move(op), {at, other}, out, a.shape);
  }

  TensorIndex concat(TensorIndex at) {
    std::vector<std::uint32_t> shape = tensor(at).shape;
    if (shape.back() > 100) return at;
    shape.back() *= 2;
    return add_block(Concat{}, {at, at}, type(at), shape);
  }

  /// Adds a Rearrange that transposes the axes and may also reverse, cut or repeat them.
  TensorIndex rearrange(TensorIndex at) {
    const Tensor in = tensor(at);
    const auto any = [this](std::int64_t lowest, std::int64_t highest) {
      return chance_.between(lowest, highest);
    };
    if (chance_.one_in(4))
      return add_block(Rearrange{}, {at}, in.type, {1, 1, static_cast<std::uint32_t>(in.elements())});
    std::vector<std::uint32_t> perm(in.shape.size());
    for (std::uint32_t i = 0; i < perm.size(); ++i) perm[i] = i;
    for (std::size_t i = perm.size() - 1; i > 0; --i)
      std::swap(perm[i], perm[static_cast<std::size_t>(any(0, static_cast<std::int64_t>(i)))]);
    Rearrange r = transposition(in.shape, perm);
    std::int64_t offset = 0;
    for (std::size_t k = 0; k < r.extents.size(); ++k) {
      const std::int64_t extent = r.extents[k];
      if (chance_.one_in(4)) {
        const std::int64_t kept = any(1, extent);
        offset += any(0, extent - kept) * r.strides[k];
        r.extents[k] = static_cast<std::uint32_t>(kept);
      } else if (chance_.one_in(4)) {
        offset += (extent - 1) * r.strides[k];
        r.strides[k] = -r.strides[k];
      }
    }
    r.offset = static_cast<std::uint64_t>(offset);
    std::vector<std::uint32_t> shape = r.extents;
    if (in.elements() < 1000 && chance_.one_in(3)) {
      const auto place = static_cast<std::ptrdiff_t>(any(0, static_cast<std::int64_t>(shape.size())));
      r.extents.insert(r.extents.begin() + place, 2);
      r.strides.insert(r.strides.begin() + place, 0);
      shape[static_cast<std::size_t>(std::min<std::ptrdiff_t>(place, 2))] *= 2;
    }
    return add_block(r, {at}, in.type, shape);
  }

  TensorIndex quantise(TensorIndex at) {
    const Tensor in = tensor(at);
    ElementType out = any_type(16);
    if (out.kind == Kind::kBipolar) out = {Kind::kUnsigned, 8};
    Quantise q;
    for (std::uint32_t c = one_or(in.shape.back()); c > 0; --c)
      q.scale.push_back(static_cast<float>(chance_.between(1, 1000)) / 512.0F);
    q.zero_point = static_cast<std::int32_t>(chance_.between(out.lowest(), out.highest()));
    return add_block(std::move(q), {at}, out, in.shape);
  }

  TensorIndex float_tail(TensorIndex at) {
    const Tensor in = tensor(at);
    Dequantise d;
    for (std::uint32_t c = one_or(in.shape.back()); c > 0; --c)
      d.scale.push_back(static_cast<float>(chance_.between(1, 1000)) / 7777.0F);
    d.zero_point = static_cast<std::int32_t>(chance_.between(-200, 200));
    const TensorIndex floats = add_block(std::move(d), {at}, {Kind::kFloat32, 32}, in.shape);
    const TensorIndex likely =
        chance_.one_in(2) ? floats : add_block(Softmax{}, {floats}, {Kind::kFloat32, 32}, in.shape);
    return quantise(likely);
  }

  TensorIndex any_block(TensorIndex at) {
    if (tensor(at).elements() > 20000) return sum_pool(at);
    switch (chance_.between(1, 16)) {
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
        return convolution(at);
      case 6: {
        const TensorIndex next = convolution(at);
        return next == at ? at : max_pool(next);
      }
      case 7:
        return max_pool(at);
      case 8:
      case 9:
        return sum_pool(at);
      case 10:
        return rescale(at);
      case 11:
        return lookup(at);
      case 12:
      case 13:
        return add(at);
      case 14:
        return concat(at);
      case 15:
        return rearrange(at);
      default:
        return float_tail(at);
    }
  }

  Chance& chance_;
  Program program_;
};

}  // namespace

Program random_program(Chance& chance, int blocks) {
  return Builder(chance, blocks).take();
}

std::vector<reference::Buffer> random_inputs(Chance& chance, const Program& program) {
  std::vector<reference::Buffer> buffers;
  for (const TensorIndex index : program.inputs) {
    const Tensor& tensor = program.tensors[index];
    reference::Buffer buffer(tensor.storage_bytes());
    const std::size_t width = tensor.type.storage_bytes();
    const bool extreme = chance.one_in(6);
    for (std::size_t i = 0; i < tensor.elements(); ++i) {
      if (!tensor.type.is_integer()) {
        float value = static_cast<float>(chance.between(-300000, 300000)) / 1024.0F;
        if (chance.one_in(200)) value = chance.of({1e30F, -1e30F, 0.0F / 0.0F, 1.0F / 0.0F, -1.0F / 0.0F});
        std::memcpy(buffer.data() + i * width, &value, width);
        continue;
      }
      const std::int64_t lowest = tensor.type.lowest(), highest = tensor.type.highest();
      const bool either = extreme || tensor.type.kind == Kind::kBipolar;
      const std::int64_t value = either ? chance.of({lowest, highest}) : chance.between(lowest, highest);
      std::memcpy(buffer.data() + i * width, &value, width);
    }
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

std::vector<std::uint64_t> seeds(std::uint64_t count) {
  const char* const given = std::getenv("MILLRACE_SEED");
  const bool random = given != nullptr && std::string_view(given) == "random";
  if (given != nullptr && !random) return {std::strtoull(given, nullptr, 10)};
  const std::uint64_t first = random ? std::random_device()() : 1000;
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = 0; i < count; ++i) all.push_back(first + i);
  return all;
}

std::string outline(const Program& program) {
  const auto show = [&](TensorIndex index) {
    const Tensor& tensor = program.tensors[index];
    std::string text = to_string(tensor.type) + "[";
    for (const std::uint32_t axis : tensor.shape)
      text += std::to_string(axis) + (&axis == &tensor.shape.back() ? "]" : ",");
    return text;
  };
  std::string text;
  for (const Block& block : program.blocks) {
    text += block.name + " " + operation_name(block.operation) + "(";
    for (const TensorIndex input : block.inputs)
      text += program.tensors[input].name + " " + show(input) + " ";
    text += ") -> " + program.tensors[block.outputs[0]].name + " " + show(block.outputs[0]);
    if (const auto* c = std::get_if<Convolution>(&block.operation)) {
      text += " k" + std::to_string(c->window.kernel_h) + "x" + std::to_string(c->window.kernel_w) +
              " groups " + std::to_string(c->groups) + " w " + to_string(c->weight_type) + " acc " +
              to_string(c->accumulator);
    }
    text += "\n";
  }
  return text;
}

}  // namespace millrace::tests
