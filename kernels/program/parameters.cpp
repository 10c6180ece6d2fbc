#include "kernels/program/parameters.hpp"

#include <algorithm>

namespace millrace::kernels {
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

}  // namespace millrace::kernels
