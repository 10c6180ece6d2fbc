#include "tools/calibrate/host.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <fstream>
#include <vector>

#include "kernels/fast/executor.hpp"
#include "kernels/program/rearrange.hpp"

namespace millrace::tools::calibrate {
namespace {

using namespace kernels;
using compiler::generators::HostTime;

constexpr ElementType kInt8{ElementType::Kind::kSigned, 8};
constexpr ElementType kFloat{ElementType::Kind::kFloat32, 32};
constexpr std::uint32_t kChannels = 16;

Requantise step() {
  Requantise made;
  made.multiplier = {1000};
  made.offset = {0};
  made.shift = {15};
  made.lowest = -128;
  made.highest = 127;
  return made;
}

Window two_by_two() {
  Window made;
  made.kernel_h = made.kernel_w = made.stride_h = made.stride_w = 2;
  return made;
}

/// Returns an operator of the host on pictures of `side` x `side` elements with 16 channels.
FloatOperator float_operator(const char* type, std::int64_t side) {
  const std::vector<std::int64_t> shape = {1, kChannels, side, side};
  FloatOperator op;
  op.type = type;
  op.shape = shape;
  op.operands = {{FloatOperand::Kind::kTensor, shape, {}, {}}};
  if (op.type != "Conv") return op;
  op.attributes = {{"pads", {1, 1, 1, 1}, {}, {}}};
  std::vector<float> weights(std::size_t{kChannels} * kChannels * 9, 0.5F);
  op.operands.push_back({FloatOperand::Kind::kFloats, {kChannels, kChannels, 3, 3}, std::move(weights), {}});
  return op;
}

struct Subject {
  Operation operation;
  ElementType in = kInt8, out = kInt8;
  std::uint32_t inputs = 1, shrink = 1, grow = 1;  // shrink divides both sides, grow multiplies channels
};

/// Returns a program that runs a tensor of height `side`, width `side` and 16 channels through one block.
Program program_of(const Subject& subject, std::uint32_t side) {
  Program program;
  program.name = "host";
  Block block;
  block.name = "block";
  block.operation = subject.operation;
  for (std::uint32_t i = 0; i < subject.inputs; ++i) {
    program.tensors.push_back({"in" + std::to_string(i), subject.in, {side, side, kChannels}, {}, 0});
    program.inputs.push_back(i);
    block.inputs.push_back(i);
  }
  const std::uint32_t made = side / subject.shrink;
  program.tensors.push_back({"out", subject.out, {made, made, kChannels * subject.grow}, {}, 0});
  program.outputs = {subject.inputs};
  block.outputs = {subject.inputs};
  if (std::holds_alternative<Rearrange>(block.operation))
    block.operation = transposition({side, side, kChannels}, {2, 0, 1});
  if (auto* op = std::get_if<FloatOperator>(&block.operation)) *op = float_operator(op->type.c_str(), side);
  program.blocks = {block};
  return program;
}

std::vector<Subject> subjects() {
  Convolution convolution;
  convolution.window.kernel_h = convolution.window.kernel_w = 3;
  convolution.window.pad_top = convolution.window.pad_left = convolution.window.pad_bottom =
      convolution.window.pad_right = 1;
  convolution.out_channels = kChannels;
  convolution.weight_type = kInt8;
  for (std::uint32_t i = 0; i < kChannels * 9 * kChannels; ++i)
    convolution.weights.edit().push_back(static_cast<std::int16_t>(static_cast<int>(i * 37 % 255) - 127));
  convolution.accumulator = {ElementType::Kind::kSigned, 24};
  convolution.requantise = step();
  Lookup lookup;
  for (int i = 0; i < 256; ++i) lookup.table.push_back(static_cast<std::int16_t>(127 - i));
  Add add;
  add.lowest = -128;
  add.highest = 127;
  return {{convolution},
          {MaxPool{two_by_two()}, kInt8, kInt8, 1, 2},
          {SumPool{two_by_two(), {ElementType::Kind::kSigned, 24}, step()}, kInt8, kInt8, 1, 2},
          {Rescale{step()}},
          {lookup},
          {add, kInt8, kInt8, 2},
          {Concat{}, kInt8, kInt8, 2, 1, 2},
          {Rearrange{}},
          {Quantise{{0.05F}, 0}, kFloat, kInt8},
          {Dequantise{{0.05F}, 0}, kInt8, kFloat},
          {Softmax{}, kFloat, kFloat},
          {float_operator("Sigmoid", 1), kFloat, kFloat},
          {float_operator("Conv", 1), kFloat, kFloat}};
}

double shortest_ns(const Program& program) {
  std::vector<std::vector<std::byte>> in, out;
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  for (const auto t : program.inputs) {
    in.emplace_back(program.tensors[t].storage_bytes());
    if (program.tensors[t].type == kInt8)
      for (std::size_t i = 0; i < in.back().size(); ++i) in.back()[i] = static_cast<std::byte>(i * 41);
    from.push_back(in.back().data());
  }
  for (const auto t : program.outputs) {
    out.emplace_back(program.tensors[t].storage_bytes());
    to.push_back(out.back().data());
  }
  fast::Executor executor(program);
  using Clock = std::chrono::steady_clock;
  double shortest = INFINITY;
  const auto end = Clock::now() + std::chrono::milliseconds(400);
  while (Clock::now() < end) {
    const auto begin = Clock::now();
    executor.run(from, to);
    shortest = std::min(shortest, std::chrono::duration<double, std::nano>(Clock::now() - begin).count());
  }
  return shortest;
}

double units_of(const Program& program) {
  const std::uint64_t products = multiply_accumulates(program, program.blocks[0]);
  if (products != 0) return static_cast<double>(products);
  std::uint64_t in = 0, out = 0;
  for (const auto t : program.inputs) in += program.tensors[t].elements();
  for (const auto t : program.outputs) out += program.tensors[t].elements();
  return static_cast<double>(std::max(in, out));
}

/// Returns the name under which the catalogue has the time of the program's block (compiler/generators/cost.cpp).
std::string name_of(const Program& program) {
  const Operation& operation = program.blocks[0].operation;
  const bool product = multiply_accumulates(program, program.blocks[0]) != 0;
  if (product && std::holds_alternative<FloatOperator>(operation)) return "float_product";
  return operation_name(operation);
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) {
      std::string name = line.substr(std::min(line.size(), line.find(':') + 2));
      name.erase(std::remove(name.begin(), name.end(), '"'), name.end());
      return name;
    }
  return "unknown processor";
}

}  // namespace

HostTimes measure_host() {
  HostTimes times;
  times.machine = processor() + ", " + std::string(fast::to_string(fast::best_level()));
  for (const Subject& subject : subjects()) {
    const Program small = program_of(subject, 4), large = program_of(subject, 64);
    assert(validate(small).empty() && validate(large).empty());
    const double a = shortest_ns(small), b = shortest_ns(large);
    HostTime time;
    time.unit_ns = std::max(0.0, (b - a) / (units_of(large) - units_of(small)));
    time.block_ns = std::max(0.0, a - time.unit_ns * units_of(small));
    times.operations.emplace(name_of(large), time);
  }
  return times;
}

}  // namespace millrace::tools::calibrate
