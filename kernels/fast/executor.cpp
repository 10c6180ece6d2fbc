#include "kernels/fast/executor.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "kernels/fast/plan.hpp"

namespace millrace::kernels::fast {

std::string_view to_string(SimdLevel level) {
  switch (level) {
    case SimdLevel::kBaseline:
      return "baseline";
    case SimdLevel::kAvx2:
      return "avx2";
    case SimdLevel::kAvx512Vnni:
      return "avx512vnni";
  }
  return "unknown";
}

bool is_available(SimdLevel level) {
  if (level == SimdLevel::kBaseline) return true;
#if defined(__x86_64__)
  // __builtin_cpu_supports() also checks that the operating system saves the registers that an instruction set uses.
  if (level == SimdLevel::kAvx2) return __builtin_cpu_supports("avx2") != 0;
  if (level == SimdLevel::kAvx512Vnni) {
    return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("avx512f") != 0 &&
           __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
           __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512vnni") != 0;
  }
#endif
  return false;
}

SimdLevel best_level() {
  SimdLevel best = SimdLevel::kBaseline;
  const char* wanted = std::getenv("MILLRACE_SIMD");
  for (const SimdLevel level : {SimdLevel::kAvx2, SimdLevel::kAvx512Vnni, SimdLevel::kBaseline}) {
    if (!is_available(level)) continue;
    if (wanted != nullptr && to_string(level) == wanted) return level;
    if (level > best) best = level;
  }
  return best;
}

const Kernels& kernels_of(SimdLevel level) {
#if defined(__x86_64__)
  if (level == SimdLevel::kAvx512Vnni && is_available(level)) return kAvx512VnniKernels;
  if (level == SimdLevel::kAvx2 && is_available(level)) return kAvx2Kernels;
#endif
  return kBaselineKernels;
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
  form.pixel_bytes = form.channels * form.element_bytes();
  const std::uint64_t rows = std::uint64_t{form.height} + window.pad_top + window.pad_bottom;
  const std::uint64_t columns = std::uint64_t{form.width} + window.pad_left + window.pad_right;
  // Kernels address a tensor's buffer by signed 32-bit offsets, so a larger buffer is refused. Rows and
  // columns are each fewer than 2^32, so their product fits into 64 bits. The product with the bytes per
  // pixel may overflow and is checked.
  std::uint64_t total = 0;
  if (__builtin_mul_overflow(rows * columns, form.pixel_bytes, &total) ||
      total > std::numeric_limits<std::int32_t>::max())
    return std::nullopt;
  if (total > 8 * tensor.elements() * form.element_bytes() + (std::size_t{1} << 20U)) return std::nullopt;
  form.pitch_bytes = columns * form.pixel_bytes;
  form.bytes = total;
  form.origin_bytes = window.pad_top * form.pitch_bytes + window.pad_left * form.pixel_bytes;
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

namespace {

constexpr std::size_t kNoBlock = static_cast<std::size_t>(-1);

// Returns for each tensor the only block that reads it. Outputs of the program, and tensors that do not have exactly
// one reader, get kNoBlock.
std::vector<std::size_t> only_readers_of(const Program& program) {
  std::vector<std::size_t> count(program.tensors.size()), reader(program.tensors.size(), kNoBlock);
  for (std::size_t i = 0; i < program.blocks.size(); ++i)
    for (const TensorIndex input : program.blocks[i].inputs)
      reader[input] = ++count[input] == 1 ? i : kNoBlock;
  for (const TensorIndex output : program.outputs) reader[output] = kNoBlock;
  return reader;
}

const Window& window_of(const Block& block) {
  if (const auto* c = std::get_if<Convolution>(&block.operation)) return c->window;
  return std::get<SumPool>(block.operation).window;
}

// Returns whether the windows tile the input. Max pooling can then run on accumulators, before the step function,
// because a step function never decreases.
bool tiles(const MaxPool& pool) {
  const Window& w = pool.window;
  const std::uint64_t size = std::uint64_t{w.kernel_h} * w.kernel_w;
  return (size == 1 || size == 2 || size == 4) && w.stride_h == w.kernel_h && w.stride_w == w.kernel_w &&
         w.dilation_h == 1 && w.dilation_w == 1 && w.pad_top == 0 && w.pad_left == 0 && w.pad_bottom == 0 &&
         w.pad_right == 0;
}

}  // namespace

struct Executor::Impl {
  struct Result {
    TensorIndex tensor = 0;
    Form form;
    const std::uint8_t* in_form = nullptr;  // null: plain storage, in `values`
  };

  Impl(const Program& program, SimdLevel level)
      : kernels(kernels_of(level)),
        tensors(program.tensors),
        inputs(program.inputs),
        outputs(program.outputs),
        values(program.tensors.size()) {
    plan(program);
  }

  void plan(const Program& program) {
    const Planning planning{program, kernels, arena};
    const std::vector<std::size_t> only_reader = only_readers_of(program);
    std::vector<std::uint8_t*> staged(program.blocks.size(), nullptr);  // form buffers that producers fill
    std::vector<bool> done(program.blocks.size(), false);
    for (std::size_t i = 0; i < program.blocks.size(); ++i) {
      if (done[i]) continue;
      const Block& block = program.blocks[i];
      if (const auto* op = std::get_if<PluginOperator>(&block.operation)) {
        plan_plugin(program, block, *op);
        continue;
      }
      const Method method = method_of(planning, block);
      TensorIndex result = block.outputs[0];
      const MaxPool* pool = nullptr;
      if (method == Method::kDense && only_reader[result] != kNoBlock) {
        const Block& next = program.blocks[only_reader[result]];
        const auto* candidate = std::get_if<MaxPool>(&next.operation);
        if (candidate != nullptr && tiles(*candidate)) {
          pool = candidate;
          done[only_reader[result]] = true;
          result = next.outputs[0];
        }
      }
      const Tensor& tensor = program.tensors[result];
      if (method == Method::kPlain) {
        std::byte* memory = arena.make<std::byte>(tensor.storage_bytes());
        values[result] = memory;
        steps.push_back(plan_plain(planning, block, memory));
        results.push_back({result, {}, nullptr});
        continue;
      }
      Result made{result, {}, nullptr};
      Target target;
      const std::size_t reader = only_reader[result];
      if (reader != kNoBlock && method_of(planning, program.blocks[reader]) != Method::kPlain) {
        made.form = wanted_form(planning, program.blocks[reader]);
        staged[reader] = make_buffer(arena, made.form);
        target = {staged[reader] + made.form.origin_bytes, &made.form};
        made.in_form = target.memory;
      } else {
        auto* memory = arena.make<std::uint8_t>(tensor.storage_bytes());
        values[result] = reinterpret_cast<const std::byte*>(memory);
        target.memory = memory;
      }
      steps.push_back(
          plan_windowed(planning, block, pool, wanted_form(planning, block), staged[i], tensor, target));
      results.push_back(made);
    }
  }

  // Plans a block that the plugin's code computes. It may have several outputs.
  void plan_plugin(const Program& program, const Block& block, const PluginOperator& op) {
    std::vector<std::byte*> made;
    for (const TensorIndex output : block.outputs) {
      made.push_back(arena.make<std::byte>(program.tensors[output].storage_bytes()));
      values[output] = made.back();
      results.push_back({output, {}, nullptr});
    }
    std::vector<const std::byte*> read(block.inputs.size());
    steps.push_back([name = op.plugin, sources = block.inputs, model = op.model, made = std::move(made),
                     read = std::move(read)](const std::byte* const* known) mutable {
      if (model == nullptr) throw PluginFailure("plugin '" + name + "' is not loaded");
      for (std::size_t i = 0; i < sources.size(); ++i) read[i] = known[sources[i]];
      model->run(read, made);
    });
  }

  // Returns the memory layout (Form) in which a block of Method kDense or kDepthwise reads its input.
  static Form wanted_form(const Planning& planning, const Block& block) {
    const Tensor& in = planning.program.tensors[block.inputs[0]];
    bool bytes = true;
    if (method_of(planning, block) == Method::kDense) {
      const auto& weights = std::get<Convolution>(block.operation).weights;
      const auto [low, high] = std::minmax_element(weights.begin(), weights.end());
      bytes = planning.kernels.bytes && *low >= 2 * -128 && *high <= 2 * 127;  // sums of two bytes
    }
    return *form_for(in, window_of(block), bytes);
  }

  // Converts a result from a kernel's memory layout (Form) to plain storage, for observers.
  std::vector<std::byte> natural(const Result& result) const {
    const Form& form = result.form;
    const std::size_t width = tensors[result.tensor].type.storage_bytes();
    std::vector<std::byte> bytes(std::size_t{form.height} * form.width * form.channels * width);
    std::size_t at = 0;
    for (std::uint32_t y = 0; y < form.height; ++y) {
      const std::uint8_t* row = result.in_form + y * form.pitch_bytes;
      for (std::size_t i = 0; i < std::size_t{form.width} * form.channels; ++i, at += width) {
        std::int32_t value = row[i];
        if (form.words) {
          std::int16_t word;
          std::memcpy(&word, row + i * 2, 2);
          value = word;
        }
        value -= form.offset;
        std::memcpy(bytes.data() + at, &value, width);
      }
    }
    return bytes;
  }

  const Kernels& kernels;
  Arena arena;
  std::vector<Tensor> tensors;
  std::vector<TensorIndex> inputs, outputs;
  std::vector<const std::byte*> values;  // plain storage by tensor; null for tensors without any
  std::vector<Step> steps;
  std::vector<Result> results;  // the result of each step
};

Executor::Executor(const Program& program, SimdLevel level) : impl_(std::make_unique<Impl>(program, level)) {}
Executor::~Executor() = default;
Executor::Executor(Executor&&) noexcept = default;
Executor& Executor::operator=(Executor&&) noexcept = default;

void Executor::run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs) {
  Impl& impl = *impl_;
  for (std::size_t i = 0; i < impl.inputs.size(); ++i) impl.values[impl.inputs[i]] = inputs[i];
  for (const auto& step : impl.steps) step(impl.values.data());
  for (std::size_t i = 0; i < impl.outputs.size(); ++i)
    std::memcpy(outputs[i], impl.values[impl.outputs[i]], impl.tensors[impl.outputs[i]].storage_bytes());
}

void Executor::run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
                   const std::function<void(TensorIndex, std::span<const std::byte>)>& observe) {
  Impl& impl = *impl_;
  run(inputs, outputs);
  // Every tensor has its own memory, so all tensors still exist after the run.
  const auto observe_natural = [&](TensorIndex tensor) {
    observe(tensor, {impl.values[tensor], impl.tensors[tensor].storage_bytes()});
  };
  for (const TensorIndex input : impl.inputs) observe_natural(input);
  for (const Impl::Result& result : impl.results) {
    if (result.in_form != nullptr) {
      observe(result.tensor, impl.natural(result));
    } else {
      observe_natural(result.tensor);
    }
  }
}

}  // namespace millrace::kernels::fast
