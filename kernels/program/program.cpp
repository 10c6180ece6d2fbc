#include "kernels/program/program.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>
#include <set>

#include "kernels/host/multiplications.hpp"
#include "kernels/program/packing.hpp"
#include "kernels/program/parameters.hpp"

namespace millrace::kernels {
namespace {

std::uint32_t windowed(std::uint32_t extent, std::uint32_t pad_before, std::uint32_t pad_after,
                       std::uint32_t kernel, std::uint32_t dilation, std::uint32_t stride) {
  if (kernel == 0 || dilation == 0 || stride == 0) return 0;
  // A window spans at most (2^32 - 2)(2^32 - 1) + 1 elements, a number that fits into 64 bits.
  const std::uint64_t span = (std::uint64_t{kernel} - 1) * dilation + 1;
  const std::uint64_t padded = std::uint64_t{extent} + pad_before + pad_after;
  if (padded < span) return 0;
  const std::uint64_t positions = (padded - span) / stride + 1;
  return positions > std::numeric_limits<std::uint32_t>::max() ? 0 : static_cast<std::uint32_t>(positions);
}

std::uint64_t saturating_product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::uint64_t>::max() : product;
}

}  // namespace

std::int64_t ElementType::lowest() const {
  switch (kind) {
    case Kind::kSigned:
      return bits >= 64 ? std::numeric_limits<std::int64_t>::min() : -(std::int64_t{1} << (bits - 1));
    case Kind::kBipolar:
      return -1;
    case Kind::kUnsigned:
    case Kind::kFloat32:
      break;
  }
  return 0;
}

std::int64_t ElementType::highest() const {
  switch (kind) {
    case Kind::kSigned:
      return bits >= 64 ? std::numeric_limits<std::int64_t>::max() : (std::int64_t{1} << (bits - 1)) - 1;
    case Kind::kUnsigned:
      return (std::int64_t{1} << bits) - 1;
    case Kind::kBipolar:
      return 1;
    case Kind::kFloat32:
      break;
  }
  return 0;
}

std::size_t ElementType::storage_bytes() const {
  if (bits > 32) return 8;
  if (kind == Kind::kFloat32 || bits > 16) return 4;
  return bits > 8 ? 2 : 1;
}

std::string to_string(ElementType type) {
  switch (type.kind) {
    case ElementType::Kind::kSigned:
      return "int" + std::to_string(type.bits);
    case ElementType::Kind::kUnsigned:
      return "uint" + std::to_string(type.bits);
    case ElementType::Kind::kBipolar:
      return "bipolar";
    case ElementType::Kind::kFloat32:
      return "float32";
  }
  return "unknown";
}

std::uint64_t Tensor::elements() const {
  std::uint64_t count = 1;
  for (const std::uint32_t extent : shape) count = saturating_product(count, extent);
  return count;
}

const char* operation_name(const Operation& operation) {
  static constexpr const char* kNames[] = {
      "convolution", "max_pool", "sum_pool",       "rescale",   "lookup",         "add", "concat", "quantise",
      "dequantise",  "softmax",  "float_operator", "rearrange", "plugin_operator"};
  static_assert(std::size(kNames) == std::variant_size_v<Operation>);
  return kNames[operation.index()];
}

bool is_host_only(const Program& program, const Block& block) {
  const auto on_host = [&](TensorIndex index) {
    const ElementType type = program.tensors[index].type;
    return !type.is_integer() || type.bits > 32;
  };
  return std::any_of(block.inputs.begin(), block.inputs.end(), on_host) ||
         std::any_of(block.outputs.begin(), block.outputs.end(), on_host);
}

std::uint64_t multiply_accumulates(const Program& program, const Block& block) {
  if (const auto* op = std::get_if<FloatOperator>(&block.operation)) return host::multiply_accumulates(*op);
  const auto* convolution = std::get_if<Convolution>(&block.operation);
  if (convolution == nullptr || convolution->out_channels == 0) return 0;
  const std::uint64_t per_result = convolution->weights.size() / convolution->out_channels;
  return saturating_product(program.tensors[block.outputs[0]].elements(), per_result);
}

std::uint32_t windowed_height(const Window& w, std::uint32_t height) {
  return windowed(height, w.pad_top, w.pad_bottom, w.kernel_h, w.dilation_h, w.stride_h);
}

std::uint32_t windowed_width(const Window& w, std::uint32_t width) {
  return windowed(width, w.pad_left, w.pad_right, w.kernel_w, w.dilation_w, w.stride_w);
}

Program extract(const Program& program, const std::vector<std::uint32_t>& blocks, std::string name) {
  const std::set<std::uint32_t> chosen(blocks.begin(), blocks.end());
  std::set<TensorIndex> produced;
  std::set<TensorIndex> read_outside(program.outputs.begin(), program.outputs.end());
  for (std::uint32_t index = 0; index < program.blocks.size(); ++index) {
    const Block& block = program.blocks[index];
    if (chosen.count(index) != 0) {
      produced.insert(block.outputs.begin(), block.outputs.end());
    } else {
      read_outside.insert(block.inputs.begin(), block.inputs.end());
    }
  }

  // Until the end of this function, the blocks of `part` have the whole program's tensor indices.
  Program part;
  part.name = std::move(name);
  std::set<TensorIndex> used;
  for (const std::uint32_t index : blocks) {
    const Block& block = program.blocks[index];
    for (const TensorIndex input : block.inputs) {
      if (used.insert(input).second && produced.count(input) == 0) part.inputs.push_back(input);
    }
    for (const TensorIndex output : block.outputs) {
      used.insert(output);
      if (read_outside.count(output) != 0) part.outputs.push_back(output);
    }
    part.blocks.push_back(block);
  }

  std::vector<TensorIndex> renumbered(program.tensors.size());
  for (const TensorIndex index : used) {
    renumbered[index] = static_cast<TensorIndex>(part.tensors.size());
    part.tensors.push_back(program.tensors[index]);
  }
  const auto renumber = [&](std::vector<TensorIndex>& indices) {
    for (TensorIndex& index : indices) index = renumbered[index];
  };
  renumber(part.inputs);
  renumber(part.outputs);
  for (Block& block : part.blocks) {
    renumber(block.inputs);
    renumber(block.outputs);
  }
  return part;
}

namespace {

void clear(Requantise& step) {
  std::fill(step.multiplier.begin(), step.multiplier.end(), 0);
  std::fill(step.offset.begin(), step.offset.end(), 0);
  std::fill(step.shift.begin(), step.shift.end(), std::uint8_t{0});
  std::fill(step.thresholds.begin(), step.thresholds.end(), 0);
}

void clear(Convolution& layer) {
  const bool bipolar = layer.weight_type.kind == ElementType::Kind::kBipolar;
  layer.weights =
      std::vector<std::int16_t>(layer.weights.size(), bipolar ? std::int16_t{-1} : std::int16_t{0});
  std::fill(layer.bias.begin(), layer.bias.end(), 0);
  if (layer.requantise) clear(*layer.requantise);
}

}  // namespace

bool has_parameters(const Operation& operation) {
  return std::holds_alternative<Convolution>(operation) || std::holds_alternative<SumPool>(operation) ||
         std::holds_alternative<Rescale>(operation) || std::holds_alternative<Lookup>(operation);
}

bool has_parameters(const Program& program) {
  return std::any_of(program.blocks.begin(), program.blocks.end(),
                     [](const Block& block) { return block.placement != Placement::kBaked; });
}

Program topology_of(const Program& program) {
  Program out = program;
  if (!has_parameters(program)) return out;
  for (Tensor& tensor : out.tensors) {
    tensor.scale.clear();
    tensor.zero_point = 0;
  }
  for (Block& block : out.blocks) {
    if (block.placement == Placement::kBaked) continue;
    if (auto* layer = std::get_if<Convolution>(&block.operation)) clear(*layer);
    if (auto* pool = std::get_if<SumPool>(&block.operation)) clear(pool->requantise);
    if (auto* rescale = std::get_if<Rescale>(&block.operation)) clear(rescale->requantise);
    if (auto* lookup = std::get_if<Lookup>(&block.operation)) {
      const auto lowest = static_cast<std::int16_t>(out.tensors[block.outputs[0]].type.lowest());
      std::fill(lookup->table.begin(), lookup->table.end(), lowest);
    }
  }
  return out;
}

const char* to_string(Placement placement) {
  switch (placement) {
    case Placement::kBaked:
      return "baked";
    case Placement::kLoaded:
      return "loaded";
    case Placement::kStreamed:
      return "streamed";
  }
  return "?";
}

namespace {

// Elements that fill their storage are copied unchanged. Others, such as 17 to 24 bits in four bytes, are packed.
bool is_plain_copy(ElementType type) {
  return type.bits == type.storage_bytes() * 8U;
}

std::uint32_t load(const std::byte* from, std::size_t bytes) {
  std::uint32_t value = 0;
  std::memcpy(&value, from, bytes);
  return value;
}

void store(std::byte* to, std::uint32_t value, std::size_t bytes) {
  std::memcpy(to, &value, bytes);
}

std::uint32_t low_bits(std::uint32_t bits) {
  return bits == 32 ? ~0U : (1U << bits) - 1U;
}

std::uint32_t widen(ElementType type, std::uint32_t field) {
  if (type.kind == ElementType::Kind::kBipolar) return field != 0 ? 1U : ~0U;
  if (type.kind == ElementType::Kind::kSigned && (field >> (type.bits - 1U) & 1U) != 0)
    return field | ~low_bits(type.bits);
  return field;
}

}  // namespace

std::uint64_t packed_bytes(ElementType type, std::uint64_t elements) {
  // Computes elements * bits / 8, rounded up, without a product that could overflow.
  return elements / 8 * type.bits + (elements % 8 * type.bits + 7) / 8;
}

void pack(ElementType type, std::span<const std::byte> storage, std::span<std::byte> wire) {
  const std::size_t width = type.storage_bytes();
  const std::size_t elements = storage.size() / width;
  assert(wire.size() >= packed_bytes(type, elements));
  if (is_plain_copy(type)) {
    if (!storage.empty()) std::memcpy(wire.data(), storage.data(), storage.size());
    return;
  }
  std::uint64_t waiting = 0;
  std::uint32_t waiting_bits = 0;
  std::byte* out = wire.data();
  for (std::size_t i = 0; i < elements; ++i) {
    std::uint32_t field = load(storage.data() + i * width, width);
    if (type.kind == ElementType::Kind::kBipolar) field = field == 1U ? 1U : 0U;
    waiting |= std::uint64_t{field & low_bits(type.bits)} << waiting_bits;
    for (waiting_bits += type.bits; waiting_bits >= 8; waiting_bits -= 8, waiting >>= 8) {
      *out++ = static_cast<std::byte>(waiting);
    }
  }
  if (waiting_bits > 0) *out = static_cast<std::byte>(waiting);
}

void unpack(ElementType type, std::span<const std::byte> wire, std::span<std::byte> storage) {
  const std::size_t width = type.storage_bytes();
  const std::size_t elements = storage.size() / width;
  assert(wire.size() >= packed_bytes(type, elements));
  if (is_plain_copy(type)) {
    if (!storage.empty()) std::memcpy(storage.data(), wire.data(), storage.size());
    return;
  }
  std::uint64_t waiting = 0;
  std::uint32_t waiting_bits = 0;
  const std::byte* in = wire.data();
  for (std::size_t i = 0; i < elements; ++i) {
    for (; waiting_bits < type.bits; waiting_bits += 8) {
      waiting |= std::to_integer<std::uint64_t>(*in++) << waiting_bits;
    }
    const auto field = static_cast<std::uint32_t>(waiting) & low_bits(type.bits);
    store(storage.data() + i * width, widen(type, field), width);
    waiting >>= type.bits;
    waiting_bits -= type.bits;
  }
}

}  // namespace millrace::kernels
