#include "compiler/planning/weights.hpp"

#include <algorithm>
#include <cstdlib>

#include "kernels/program/parameters.hpp"

namespace millrace::compiler {
namespace {

using kernels::Convolution;
using kernels::ElementType;
using kernels::Requantise;

constexpr unsigned kWidestAccumulator = 32;

std::int64_t magnitude(ElementType type) {
  return std::max(std::abs(type.lowest()), std::abs(type.highest()));
}

unsigned bits_below(std::int64_t value) {
  unsigned bits = 0;
  while (bits < 62 && (std::int64_t{1} << bits) <= value) ++bits;
  return bits;
}

template <class T>
void one_a_channel(std::vector<T>& values, std::uint32_t channels) {
  if (values.size() == 1) values.resize(channels, values.front());
}

void one_a_channel(Requantise& step, std::uint32_t channels) {
  one_a_channel(step.multiplier, channels);
  one_a_channel(step.offset, channels);
  one_a_channel(step.shift, channels);
  const auto steps = static_cast<std::size_t>(std::int64_t{step.highest} - step.lowest);
  if (step.thresholds.size() != steps || channels == 1) return;
  const std::vector<std::int64_t> one = step.thresholds;
  for (std::uint32_t c = 1; c < channels; ++c)
    step.thresholds.insert(step.thresholds.end(), one.begin(), one.end());
}

/// Returns the width of an accumulator that holds the sum of any weights of the layer's type plus a bias as large as
/// the largest sum. For a larger bias, the width grows in steps of four bits, so that models of one topology rarely
/// differ in width.
unsigned accumulator_bits(const Convolution& layer, ElementType input) {
  const auto taps = static_cast<std::int64_t>(layer.weights.size() / layer.out_channels);
  const std::int64_t reach = taps * magnitude(layer.weight_type) * magnitude(input);
  std::int64_t bias = 0;
  for (const auto b : layer.bias) bias = std::max(bias, std::abs(std::int64_t{b}));
  const std::int64_t room = bias <= reach ? reach : (std::int64_t{1} << (bits_below(bias) + 3) / 4 * 4) - 1;
  return bits_below(reach + room) + 1;
}

/// Sets the type of a tensor that contains unscaled sums, and of all tensors that are only permutations of it.
void retype(kernels::Program& program, kernels::TensorIndex tensor, ElementType type) {
  program.tensors[tensor].type = type;
  for (const auto& block : program.blocks)
    if (std::holds_alternative<kernels::Rearrange>(block.operation) && block.inputs[0] == tensor)
      retype(program, block.outputs[0], type);
}

Status place(kernels::Program& program, kernels::Block& block, Convolution& layer) {
  const unsigned bits = accumulator_bits(layer, program.tensors[block.inputs[0]].type);
  if (bits > kWidestAccumulator)
    return Error(ErrorCode::kUnsupported, "block '" + block.name + "': with weights that are " +
                                              kernels::to_string(block.placement) + " its sums may need " +
                                              std::to_string(bits) +
                                              " bits, but an accumulator has at most 32; "
                                              "keep the block's weights in the image (baked)");
  layer.bias.resize(layer.out_channels, 0);
  if (bits > layer.accumulator.bits) {
    layer.accumulator.bits = static_cast<std::uint8_t>(bits);
    if (!layer.requantise) retype(program, block.outputs[0], layer.accumulator);
  }
  if (layer.requantise) one_a_channel(*layer.requantise, layer.out_channels);
  return {};
}

}  // namespace

Status place_parameters(kernels::Program& program, kernels::Placement placement) {
  if (placement == kernels::Placement::kBaked) return {};
  for (auto& block : program.blocks) {
    if (!kernels::has_parameters(block.operation)) continue;
    block.placement = placement;
    if (auto* layer = std::get_if<Convolution>(&block.operation)) MILLRACE_TRY(place(program, block, *layer));
  }
  if (const std::string wrong = kernels::validate(program); !wrong.empty())
    return Error(ErrorCode::kUnsupported, "weights cannot be " + std::string(kernels::to_string(placement)) +
                                              ": " + wrong + "; leave them in the image (baked)");
  return {};
}

Status place_parameters(kernels::Program& program, std::uint32_t block, kernels::Placement placement) {
  auto& chosen = program.blocks[block];
  if (placement == chosen.placement) return {};
  auto* layer = std::get_if<Convolution>(&chosen.operation);
  if (!kernels::has_parameters(chosen.operation) || (layer != nullptr && !layer->requantise) ||
      placement == kernels::Placement::kBaked)
    return Error(ErrorCode::kUnsupported,
                 "block '" + chosen.name + "': its weights are " + kernels::to_string(chosen.placement) +
                     " and cannot be " + kernels::to_string(placement) +
                     " for this block alone; "
                     "choose with --weights where the weights of the whole model are kept");
  chosen.placement = placement;
  return layer == nullptr ? Status() : place(program, chosen, *layer);
}

}  // namespace millrace::compiler
