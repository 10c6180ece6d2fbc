#include "compiler/planning/split_channels.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/planning/names.hpp"

namespace millrace::compiler {
namespace {

using kernels::Block;
using kernels::Convolution;
using kernels::Program;

/// Returns the entries of `count` channels, beginning with channel `from`. `all` must have entries for each channel,
/// one entry for all channels, or no entry.
template <class T>
std::vector<T> slice(const std::vector<T>& all, std::uint32_t channels, std::uint32_t from,
                     std::uint32_t count) {
  if (all.size() < channels || channels == 0 || all.size() % channels != 0 ||
      (all.size() == 1 && channels != 1))
    return all;
  const auto each = static_cast<std::ptrdiff_t>(all.size() / channels);  // entries per channel
  return {all.begin() + each * from, all.begin() + each * (from + count)};
}

Convolution part_of(const Convolution& whole, std::uint32_t from, std::uint32_t count) {
  Convolution part = whole;
  const std::uint32_t channels = whole.out_channels;
  part.out_channels = count;
  part.weights = slice(whole.weights.get(), channels, from, count);
  part.bias = slice(whole.bias, channels, from, count);
  if (part.requantise) {
    auto& r = *part.requantise;
    const auto& w = *whole.requantise;
    r.multiplier = slice(w.multiplier, channels, from, count);
    r.offset = slice(w.offset, channels, from, count);
    r.shift = slice(w.shift, channels, from, count);
    // If all channels share their thresholds, there are at most as many thresholds as one channel has steps.
    const auto steps = static_cast<std::size_t>(std::int64_t{w.highest} - w.lowest);
    if (w.thresholds.size() > steps) r.thresholds = slice(w.thresholds, channels, from, count);
  }
  return part;
}

}  // namespace

std::uint32_t find_block(const Program& program, const std::string& name) {
  std::uint32_t block = 0;
  while (block < program.blocks.size() && program.blocks[block].name != name) ++block;
  return block;
}

bool can_split(const Program& program, std::uint32_t block, std::uint32_t parts) {
  if (block >= program.blocks.size() || parts < 2) return false;
  const auto* layer = std::get_if<Convolution>(&program.blocks[block].operation);
  return layer != nullptr && layer->groups == 1 && layer->out_channels % parts == 0;
}

Program split_channels(const Program& program, std::uint32_t block, std::uint32_t parts) {
  Program out = program;
  TakenNames taken(program);
  const Block& whole = program.blocks[block];
  const auto& layer = std::get<Convolution>(whole.operation);
  const std::uint32_t count = layer.out_channels / parts;
  const kernels::Tensor& result = program.tensors[whole.outputs[0]];

  const auto add_tensor = [&](const std::string& name, std::uint32_t from, std::uint32_t channels) {
    kernels::Tensor tensor = result;
    tensor.name = new_name(name, taken.tensors);
    tensor.shape.back() = channels;
    tensor.scale = slice(result.scale, layer.out_channels, from, channels);
    out.tensors.push_back(std::move(tensor));
    return static_cast<std::uint32_t>(out.tensors.size() - 1);
  };

  std::vector<Block> made;
  std::vector<std::uint32_t> pieces;
  for (std::uint32_t p = 0; p < parts; ++p) {
    const std::string suffix = "_part" + std::to_string(p);
    Block part = whole;
    part.name = new_name(whole.name + suffix, taken.blocks);
    part.outputs = {add_tensor(result.name + suffix, p * count, count)};
    part.operation = part_of(layer, p * count, count);
    pieces.push_back(part.outputs[0]);
    made.push_back(std::move(part));
  }
  // The hardware for concatenation has only two inputs, so make a chain of joins.
  std::uint32_t joined = pieces[0];
  for (std::uint32_t p = 1; p < parts; ++p) {
    const bool last = p + 1 == parts;
    const std::string suffix = "_join" + (last ? std::string() : std::to_string(p));
    Block join;
    join.name = new_name(whole.name + suffix, taken.blocks);
    join.inputs = {joined, pieces[p]};
    joined = last ? whole.outputs[0] : add_tensor(result.name + suffix, 0, count * (p + 1));
    join.outputs = {joined};
    join.operation = kernels::Concat{};
    made.push_back(std::move(join));
  }
  out.blocks.erase(out.blocks.begin() + block);
  out.blocks.insert(out.blocks.begin() + block, std::make_move_iterator(made.begin()),
                    std::make_move_iterator(made.end()));
  return out;
}

}  // namespace millrace::compiler
