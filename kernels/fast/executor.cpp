#include "kernels/fast/executor.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/fast/plan.hpp"

namespace millrace::kernels::fast {
namespace {

constexpr std::size_t kNoBlock = static_cast<std::size_t>(-1);

// Counts who reads a tensor, for decisions that require a single reader.
struct Readers {
  std::size_t count = 0;  // program outputs included
  std::size_t block = kNoBlock;
};

std::vector<Readers> readers_of(const Program& program) {
  std::vector<Readers> readers(program.tensors.size());
  for (std::size_t i = 0; i < program.blocks.size(); ++i) {
    for (const TensorIndex input : program.blocks[i].inputs) {
      ++readers[input].count;
      readers[input].block = i;
    }
  }
  for (const TensorIndex output : program.outputs) readers[output].count += 1;
  for (Readers& r : readers) {
    if (r.count != 1) r.block = kNoBlock;
  }
  return readers;
}

const Window& window_of(const Block& block) {
  if (const auto* c = std::get_if<Convolution>(&block.operation)) return c->window;
  return std::get<SumPool>(block.operation).window;
}

// Whether the windows tile the input. Pooling can then run on accumulators, before the step function, because
// a step function never decreases.
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
    const std::uint8_t* in_form = nullptr;  // null: natural storage, in `values`
  };

  Impl(const Program& program, SimdLevel level)
      : kernels(kernels_of(level)),
        values(program.tensors.size()),
        types(program.tensors.size()),
        sizes(program.tensors.size()) {
    for (std::size_t i = 0; i < program.tensors.size(); ++i) {
      types[i] = program.tensors[i].type;
      sizes[i] = program.tensors[i].storage_bytes();
    }
    for (const TensorIndex input : program.inputs)
      inputs.push_back({input, program.tensors[input].storage_bytes()});
    for (const TensorIndex output : program.outputs)
      outputs.push_back({output, program.tensors[output].storage_bytes()});
    plan(program);
  }

  void plan(const Program& program) {
    const Planning planning{program, kernels, arena};
    const std::vector<Readers> readers = readers_of(program);
    std::vector<std::uint8_t*> staged(program.blocks.size(), nullptr);  // form buffers that producers fill
    std::vector<bool> done(program.blocks.size(), false);
    for (std::size_t i = 0; i < program.blocks.size(); ++i) {
      if (done[i]) continue;
      const Block& block = program.blocks[i];
      const Method method = method_of(planning, block);
      TensorIndex result = block.outputs[0];
      const MaxPool* pool = nullptr;
      if (method == Method::kDense && readers[result].block != kNoBlock) {
        const Block& next = program.blocks[readers[result].block];
        const auto* candidate = std::get_if<MaxPool>(&next.operation);
        if (candidate != nullptr && tiles(*candidate)) {
          pool = candidate;
          done[readers[result].block] = true;
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
      const std::size_t reader = readers[result].block;
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

  // The form in which a block of Method kDense or kDepthwise reads its input.
  static Form wanted_form(const Planning& planning, const Block& block) {
    const Tensor& in = planning.program.tensors[block.inputs[0]];
    bool bytes = true;
    if (method_of(planning, block) == Method::kDense) {
      const auto& weights = std::get<Convolution>(block.operation).weights;
      const auto [low, high] = std::minmax_element(weights.begin(), weights.end());
      bytes = planning.kernels.bytes && *low >= -128 && *high <= 127;
    }
    return *form_for(in, window_of(block), bytes);
  }

  // Converts a result from its form to natural storage, for observers.
  std::vector<std::byte> natural(const Result& result) const {
    const Form& form = result.form;
    const std::size_t width = types[result.tensor].storage_bytes();
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

  struct Port {
    TensorIndex tensor;
    std::size_t bytes;
  };

  const Kernels& kernels;
  Arena arena;
  std::vector<const std::byte*> values;  // natural storage by tensor; null where there is none
  std::vector<ElementType> types;
  std::vector<std::size_t> sizes;
  std::vector<Port> inputs, outputs;
  std::vector<Step> steps;
  std::vector<Result> results;  // of each step
};

Executor::Executor(const Program& program, SimdLevel level) : impl_(std::make_unique<Impl>(program, level)) {}
Executor::~Executor() = default;
Executor::Executor(Executor&&) noexcept = default;
Executor& Executor::operator=(Executor&&) noexcept = default;

void Executor::run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs) noexcept {
  Impl& impl = *impl_;
  for (std::size_t i = 0; i < impl.inputs.size(); ++i) impl.values[impl.inputs[i].tensor] = inputs[i];
  for (const auto& step : impl.steps) step(impl.values.data());
  for (std::size_t i = 0; i < impl.outputs.size(); ++i)
    std::memcpy(outputs[i], impl.values[impl.outputs[i].tensor], impl.outputs[i].bytes);
}

void Executor::run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
                   const std::function<void(TensorIndex, std::span<const std::byte>)>& observe) {
  Impl& impl = *impl_;
  run(inputs, outputs);
  // Every tensor has memory of its own, so all tensors are still there after the run.
  for (const Impl::Port& input : impl.inputs) observe(input.tensor, {impl.values[input.tensor], input.bytes});
  for (const Impl::Result& result : impl.results) {
    if (result.in_form != nullptr) {
      observe(result.tensor, impl.natural(result));
    } else {
      observe(result.tensor, {impl.values[result.tensor], impl.sizes[result.tensor]});
    }
  }
}

}  // namespace millrace::kernels::fast
