// Turns convolutions and sums over windows into arguments of the dense and depthwise kernels.
#include <algorithm>
#include <array>
#include <iterator>

#include "kernels/fast/plan.hpp"

namespace millrace::kernels::fast {
namespace {

// One input element of a window: the element's offset from the window's first tap, and the weight that multiplies it.
struct Tap {
  std::size_t offset_bytes = 0;
  std::size_t weight = 0;  // index in the weights of an output channel
};

// A group of up to four bytes or two 16-bit elements, which one step of the kernels multiplies and adds up.
struct Word {
  std::size_t offset_bytes = 0;
  std::uint32_t count = 0;
  std::array<std::size_t, 4> weights{};
};

std::vector<Tap> taps_of(const Window& w, const Form& form, std::size_t first_channel, std::size_t channels) {
  std::vector<Tap> taps;
  taps.reserve(std::size_t{w.kernel_h} * w.kernel_w * channels);
  for (std::uint32_t ky = 0; ky < w.kernel_h; ++ky) {
    for (std::uint32_t kx = 0; kx < w.kernel_w; ++kx) {
      const std::size_t pixel = std::size_t{ky} * w.dilation_h * form.pitch_bytes +
                                std::size_t{kx} * w.dilation_w * form.pixel_bytes;
      for (std::size_t i = 0; i < channels; ++i)
        taps.push_back({pixel + (first_channel + i) * form.element_bytes(), taps.size()});
    }
  }
  return taps;
}

// Groups taps that are neighbours in memory into words: along a kernel row, and across rows if the window is
// as wide as the tensor. A word may extend past the last element needed; the weights there are zero.
std::vector<Word> words_of(const std::vector<Tap>& taps, std::size_t element_bytes) {
  const std::uint32_t most = element_bytes == 1 ? 4 : 2;
  std::vector<Word> words;
  for (const Tap& tap : taps) {
    const bool joins = !words.empty() && words.back().count < most &&
                       words.back().offset_bytes + words.back().count * element_bytes == tap.offset_bytes;
    if (!joins) words.push_back({tap.offset_bytes, 0, {}});
    words.back().weights[words.back().count++] = tap.weight;
  }
  return words;
}

// Splits a 9-bit weight into a sum of two bytes. Returns the byte that is nearest to the weight or, if `rest`, the
// remaining part.
std::int8_t weight_byte(std::int16_t weight, bool rest) {
  const auto nearest = std::clamp<std::int16_t>(weight, -128, 127);
  return static_cast<std::int8_t>(rest ? weight - nearest : nearest);
}

// Weights with a zero point have up to 9 bits, so some of them do not fit in a byte. Returns the words that contain
// such weights. These words are multiplied twice: by the nearest bytes, and by the remaining parts of the weights.
// `weights` belong to `channels` output channels.
std::vector<Word> rests_of(const std::vector<Word>& words, const std::int16_t* weights,
                           std::uint32_t channels, std::size_t per_channel) {
  const auto needs_rest = [&](const Word& word) {
    for (std::uint32_t o = 0; o < channels; ++o)
      for (std::uint32_t i = 0; i < word.count; ++i)
        if (weight_byte(weights[o * per_channel + word.weights[i]], true) != 0) return true;
    return false;
  };
  std::vector<Word> rests;
  std::copy_if(words.begin(), words.end(), std::back_inserter(rests), needs_rest);
  return rests;
}

// Returns the offsets of the output positions in the order of computation: row by row or, with a fused pooling, one
// pooling window after the other.
std::int32_t* pixel_offsets(Arena& arena, const Window& w, const Form& form, std::uint32_t out_h,
                            std::uint32_t out_w, const MaxPool* pool) {
  const std::uint32_t group_h = pool != nullptr ? pool->window.kernel_h : 1,
                      group_w = pool != nullptr ? pool->window.kernel_w : 1;
  auto* offsets = arena.make<std::int32_t>(std::size_t{out_h} * out_w * group_h * group_w);
  std::size_t at = 0;
  for (std::uint32_t y = 0; y < out_h; ++y) {
    for (std::uint32_t x = 0; x < out_w; ++x) {
      for (std::uint32_t gy = 0; gy < group_h; ++gy) {
        for (std::uint32_t gx = 0; gx < group_w; ++gx) {
          const std::size_t row = std::size_t{y * group_h + gy} * w.stride_h,
                            column = std::size_t{x * group_w + gx} * w.stride_w;
          offsets[at++] = static_cast<std::int32_t>(row * form.pitch_bytes + column * form.pixel_bytes);
        }
      }
    }
  }
  return offsets;
}

std::int32_t* out_offsets(Arena& arena, const Tensor& result, const Form* form) {
  const std::uint32_t height = result.shape[0], width = result.shape[1];
  const std::size_t pixel_bytes =
      form != nullptr ? form->pixel_bytes : result.shape[2] * result.type.storage_bytes();
  const std::size_t pitch_bytes = form != nullptr ? form->pitch_bytes : pixel_bytes * width;
  auto* offsets = arena.make<std::int32_t>(std::size_t{height} * width);
  for (std::uint32_t y = 0; y < height; ++y) {
    for (std::uint32_t x = 0; x < width; ++x)
      offsets[std::size_t{y} * width + x] = static_cast<std::int32_t>(y * pitch_bytes + x * pixel_bytes);
  }
  return offsets;
}

AccumulatorRange range_of(const Convolution& c, ElementType input, std::size_t channel) {
  const std::size_t taps = c.weights.size() / c.out_channels;
  AccumulatorRange range;
  if (!c.bias.empty()) range.lowest = range.highest = c.bias[channel];
  const std::int16_t* const weights = c.weights.data() + channel * taps;
  for (std::size_t i = 0; i < taps; ++i) {
    const std::int64_t weight = weights[i];
    const auto [low, high] = std::minmax({weight * input.lowest(), weight * input.highest()});
    range.lowest += low;
    range.highest += high;
  }
  return range;
}

// Returns a channel's bias minus what the offset of the input's stored elements adds to the sum. Wraps at 32 bits, as
// the sum does.
std::int32_t bias_for(const Convolution& c, const Form& form, std::size_t channel) {
  const std::size_t taps = c.weights.size() / c.out_channels;
  std::uint32_t bias = c.bias.empty() ? 0 : static_cast<std::uint32_t>(c.bias[channel]);
  for (std::size_t i = 0; i < taps; ++i)
    bias -= static_cast<std::uint32_t>(form.offset * c.weights[channel * taps + i]);
  return static_cast<std::int32_t>(bias);
}

// A step that computes a convolution or a sum over windows. If its input is in plain storage, first copies the input
// into the form that the kernels read.
struct WindowedStep {
  void operator()(const std::byte* const* values) {
    const auto* natural = reinterpret_cast<const std::uint8_t*>(values[source]);
    if (staging) {
      stage.in = natural;
      kernels->stage(stage);
    }
    for (DenseArgs& args : dense) {
      if (reads_natural) args.in = natural;
      kernels->dense(args);
    }
    for (DepthwiseArgs& args : depthwise) {
      if (reads_natural) args.in = natural;
      kernels->depthwise(args);
    }
  }

  const Kernels* kernels = nullptr;
  TensorIndex source = 0;
  bool staging = false;
  bool reads_natural = false;
  StageArgs stage;
  std::vector<DenseArgs> dense;          // one for each group
  std::vector<DepthwiseArgs> depthwise;  // one element, or none
};

void plan_stage(WindowedStep& step, const Tensor& in, const Form& form, std::uint8_t* buffer) {
  step.staging = true;
  step.stage.out = buffer + form.origin_bytes;
  step.stage.rows = form.height;
  step.stage.row_elements = std::size_t{form.width} * form.channels;
  step.stage.out_pitch_bytes = form.pitch_bytes;
  step.stage.in_bytes = static_cast<std::uint8_t>(in.type.storage_bytes());
  step.stage.in_signed = in.type.kind != ElementType::Kind::kUnsigned;
  step.stage.words = form.words;
  step.stage.offset = form.offset;
}

struct Shapes {
  const Tensor& in;
  const Tensor& result;
  const Form& form;
  const MaxPool* pool;
  Target target;
};

// Sets the bias, finish and destination of `count` output channels from `first` on.
template <class Args>
void set_channels(const Planning& planning, const Convolution& c, std::uint32_t first, std::uint32_t count,
                  const Shapes& s, Args& args) {
  const std::uint32_t lanes = planning.kernels.lanes;
  auto* bias = planning.arena.make<std::int32_t>(std::size_t{count + lanes - 1} / lanes * lanes);
  std::vector<AccumulatorRange> ranges;
  for (std::uint32_t o = 0; o < count; ++o) {
    ranges.push_back(range_of(c, s.in.type, first + o));
    bias[o] = bias_for(c, s.form, first + o);
  }
  const Form* form = s.target.form;
  args.channels = count;
  args.bias = bias;
  args.finish = make_finish(planning.arena, c.requantise ? &*c.requantise : nullptr, first, ranges, lanes);
  args.finish.out_bytes =
      static_cast<std::uint8_t>(form != nullptr ? form->element_bytes() : s.result.type.storage_bytes());
  args.finish.out_offset = form != nullptr ? form->offset : 0;
  args.out = s.target.memory + std::size_t{first} * args.finish.out_bytes;
}

template <class Args, class Taps>
void set_taps(Arena& arena, const Taps& taps, Args& args) {
  auto* offsets = arena.make<std::int32_t>(taps.size());
  for (std::size_t t = 0; t < taps.size(); ++t) offsets[t] = static_cast<std::int32_t>(taps[t].offset_bytes);
  args.taps = static_cast<std::uint32_t>(taps.size());
  args.tap_offsets = offsets;
}

DenseArgs plan_group(const Planning& planning, const Convolution& c, std::uint32_t group, const Shapes& s) {
  Arena& arena = planning.arena;
  const std::uint32_t lanes = planning.kernels.lanes;
  const std::uint32_t count = c.out_channels / c.groups, first = group * count;
  const std::size_t group_in = s.in.shape[2] / c.groups;
  const std::size_t per_channel = c.weights.size() / c.out_channels;
  std::vector<Word> words =
      words_of(taps_of(c.window, s.form, group * group_in, group_in), s.form.element_bytes());
  const std::size_t whole = words.size();
  if (!s.form.words) {
    const std::vector<Word> rests =
        rests_of(words, c.weights.data() + first * per_channel, count, per_channel);
    words.insert(words.end(), rests.begin(), rests.end());
  }

  DenseArgs args;
  set_channels(planning, c, first, count, s, args);
  set_taps(arena, words, args);
  const std::size_t a_word = s.form.words ? 2 : 4;
  const std::size_t size = (count + lanes - 1) / lanes * words.size() * lanes * a_word;
  auto* weights8 = s.form.words ? nullptr : arena.make<std::int8_t>(size);
  auto* weights16 = s.form.words ? arena.make<std::int16_t>(size) : nullptr;
  for (std::uint32_t o = 0; o < count; ++o) {
    for (std::size_t t = 0; t < words.size(); ++t) {
      const std::size_t at = ((o / lanes * words.size() + t) * lanes + o % lanes) * a_word;
      for (std::uint32_t i = 0; i < words[t].count; ++i) {
        const std::int16_t weight = c.weights[(first + o) * per_channel + words[t].weights[i]];
        if (s.form.words) {
          weights16[at + i] = weight;
        } else {
          weights8[at + i] = weight_byte(weight, t >= whole);
        }
      }
    }
  }
  args.weights8 = weights8;
  args.weights16 = weights16;
  return args;
}

void plan_dense(const Planning& planning, const Convolution& c, const Shapes& s, std::uint8_t* buffer,
                WindowedStep& step) {
  const std::uint32_t out_h = s.result.shape[0], out_w = s.result.shape[1];
  const std::int32_t* pixels = pixel_offsets(planning.arena, c.window, s.form, out_h, out_w, s.pool);
  const std::int32_t* outs = out_offsets(planning.arena, s.result, s.target.form);
  const std::uint32_t pool = s.pool != nullptr ? s.pool->window.kernel_h * s.pool->window.kernel_w : 1;
  for (std::uint32_t group = 0; group < c.groups; ++group) {
    DenseArgs args = plan_group(planning, c, group, s);
    args.in = buffer;
    args.pixel_offsets = pixels;
    args.out_offsets = outs;
    args.pool = pool;
    args.pixels = out_h * out_w * pool;
    step.dense.push_back(args);
  }
}

// Returns a sum over windows as a depthwise convolution whose weights are 1.
Convolution as_convolution(const SumPool& pool, std::uint32_t channels) {
  Convolution c;
  c.window = pool.window;
  c.out_channels = c.groups = channels;
  c.weights =
      std::vector<std::int16_t>(std::size_t{pool.window.kernel_h} * pool.window.kernel_w * channels, 1);
  c.accumulator = pool.accumulator;
  c.requantise = pool.requantise;
  return c;
}

void plan_depthwise(const Planning& planning, const Convolution& c, const Shapes& s, std::uint8_t* buffer,
                    WindowedStep& step) {
  Arena& arena = planning.arena;
  const std::uint32_t lanes = planning.kernels.lanes;
  const std::size_t padded = std::size_t{c.out_channels + lanes - 1} / lanes * lanes;
  const std::vector<Tap> taps = taps_of(c.window, s.form, 0, 1);

  DepthwiseArgs args;
  set_channels(planning, c, 0, c.out_channels, s, args);
  set_taps(arena, taps, args);
  args.in = buffer;
  args.words = s.form.words;
  args.pixels = s.result.shape[0] * s.result.shape[1];
  args.pixel_offsets = pixel_offsets(arena, c.window, s.form, s.result.shape[0], s.result.shape[1], nullptr);
  args.out_offsets = out_offsets(arena, s.result, s.target.form);
  auto* weights = arena.make<std::int32_t>(taps.size() * padded);
  for (std::size_t t = 0; t < taps.size(); ++t)
    for (std::size_t o = 0; o < c.out_channels; ++o)
      weights[t * padded + o] = static_cast<std::uint16_t>(c.weights[o * taps.size() + t]);
  args.weights = weights;
  step.depthwise.push_back(args);
}

}  // namespace

Method method_of(const Planning& planning, const Block& block) {
  const Tensor& in = planning.program.tensors[block.inputs[0]];
  const Tensor& out = planning.program.tensors[block.outputs[0]];
  // The kernels count positions in 32 bits and address results by signed 32-bit offsets.
  if (out.elements() * 4 > 0x7fffffff) return Method::kPlain;
  if (const auto* c = std::get_if<Convolution>(&block.operation)) {
    const bool fits = can_finish(c->requantise ? &*c->requantise : nullptr, c->out_channels);
    if (!fits || !form_for(in, c->window, false)) return Method::kPlain;
    if (c->groups > 1 && c->groups == c->out_channels && c->groups == in.shape[2]) return Method::kDepthwise;
    // Each group's weights are padded to whole vectors, so a great many small groups would take too much memory.
    return c->groups > 64 && c->weights.size() > (std::size_t{1} << 20U) && c->out_channels / c->groups < 4
               ? Method::kPlain
               : Method::kDense;
  }
  if (const auto* p = std::get_if<SumPool>(&block.operation)) {
    const std::uint64_t taps = std::uint64_t{p->window.kernel_h} * p->window.kernel_w;
    const bool fits =
        can_finish(&p->requantise, out.shape[2]) && taps <= 4 * (in.elements() / in.shape[2]) + 1024;
    return fits && form_for(in, p->window, false) ? Method::kDepthwise : Method::kPlain;
  }
  return Method::kPlain;
}

Step plan_windowed(const Planning& planning, const Block& block, const MaxPool* pool, const Form& form,
                   std::uint8_t* source, const Tensor& result, const Target& target) {
  const Tensor& in = planning.program.tensors[block.inputs[0]];
  const Shapes shapes{in, result, form, pool, target};
  WindowedStep step;
  step.kernels = &planning.kernels;
  step.source = block.inputs[0];
  const bool is_input = std::find(planning.program.inputs.begin(), planning.program.inputs.end(),
                                  block.inputs[0]) != planning.program.inputs.end();
  std::uint8_t* buffer = source;
  if (source == nullptr && form.is_natural(in.type) &&
      !is_input) {  // a caller's memory has no spare bytes after it
    step.reads_natural = true;
  } else if (source == nullptr) {
    buffer = make_buffer(planning.arena, form);
    plan_stage(step, in, form, buffer);
  }
  if (const auto* sum = std::get_if<SumPool>(&block.operation)) {
    plan_depthwise(planning, as_convolution(*sum, result.shape[2]), shapes, buffer, step);
  } else if (method_of(planning, block) == Method::kDepthwise) {
    plan_depthwise(planning, std::get<Convolution>(block.operation), shapes, buffer, step);
  } else {
    plan_dense(planning, std::get<Convolution>(block.operation), shapes, buffer, step);
  }
  return step;
}

}  // namespace millrace::kernels::fast
