// The executable form of a model or of one partition of it: integer tensors, and the blocks between them.
//
// This is what kernels/reference and kernels/fast run, what emulated cards load, what generated hardware
// implements, and what host stages execute. Plain data, the standard library only; its serialised form is
// program.proto in runtime/plan. The arithmetic is exact and is defined here, block by block;
// kernels/reference is the same text as code.
//
// Shapes. One frame, no batch axis. Inside the dataflow a tensor is [height, width, channels] (NHWC, channels
// innermost); a vector is [1, 1, channels]. Tensors that only host blocks touch (float32, or integers at the
// model's edge in the model's own layout) may have any rank >= 1. Elements are row-major.
//
// Storage of an element in memory, in buffers and on ports: bits <= 8 one byte, <= 16 two, <= 32 four,
// float32 four; little-endian, two's complement, sign- or zero-extended. (Sub-byte elements are packed on
// links only: packing.hpp.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kernels/program/shared_vector.hpp"

namespace millrace::kernels {

struct ElementType {
  enum class Kind : std::uint8_t { kSigned, kUnsigned, kBipolar, kFloat32 };
  Kind kind = Kind::kSigned;
  std::uint8_t bits = 8;  // 1..32; 1 for bipolar (stored as the value -1 or +1 in a byte), 32 for float32

  bool is_integer() const { return kind != Kind::kFloat32; }
  std::int64_t lowest() const;   // smallest value of an integer type; 0 for float32
  std::int64_t highest() const;  // largest
  std::size_t storage_bytes() const;
  bool operator==(const ElementType&) const = default;
};

/// "int8", "uint4", "bipolar", "float32".
std::string to_string(ElementType type);

struct Tensor {
  std::string name;  // unique in its program; the ONNX value's name where there is one
  ElementType type;
  std::vector<std::uint32_t> shape;
  // What an integer stands for: (q - zero_point) * scale. For reports and comparisons; no kernel reads them.
  std::vector<float> scale;  // empty, one, or one a channel
  std::int32_t zero_point = 0;

  std::uint64_t elements() const;
  std::uint64_t storage_bytes() const { return elements() * type.storage_bytes(); }
  bool operator==(const Tensor&) const = default;
};

/// A non-decreasing step function (no multiplier is negative) from an exact integer to the output type, a
/// channel (the last axis) at a time. A bipolar output takes kThresholds with each threshold given twice: the
/// step from -1 to +1.
///   kMultiplyShift:  q = clamp((acc * multiplier[c] + offset[c]) >> shift[c], lowest, highest)
///                    in 64-bit arithmetic that cannot overflow for the block's accumulator type (validate()
///                    checks);
///                    >> is arithmetic (rounds towards minus infinity). The output's zero point is inside
///                    offset.
///   kMultiplyShiftHalfEven:
///                    q = clamp(round_half_even((acc * multiplier[c] + offset[c]) / 2^shift[c]) + zero_point,
///                    lowest, highest) With sum = acc * multiplier + offset and shift > 0, the rounded
///                    quotient is (sum + 2^(shift-1) - 1 + ((sum >> shift) & 1)) >> shift; with shift 0 it is
///                    sum. 64-bit arithmetic, none of whose steps overflows (validate() checks). The zero
///                    point stands apart: it may change which quotients are even, and no offset does that.
///   kThresholds:     q = lowest + number of i with acc >= thresholds[c * steps + i],  steps = highest -
///   lowest
///                    thresholds ascend within a channel.
/// Vectors have one entry for all channels, or one a channel.
struct Requantise {
  enum class Form : std::uint8_t { kMultiplyShift, kThresholds, kMultiplyShiftHalfEven };
  Form form = Form::kMultiplyShift;
  std::vector<std::int32_t> multiplier;
  std::vector<std::int64_t> offset;
  std::vector<std::uint8_t> shift;       // 0..62
  std::vector<std::int64_t> thresholds;  // channels (or 1) * (highest - lowest)
  std::int32_t zero_point = 0;           // kMultiplyShiftHalfEven: inside the output type's range; else 0
  std::int32_t lowest = 0;               // inside the output type's range
  std::int32_t highest = 0;
  bool operator==(const Requantise&) const = default;
};

/// Sliding window over [h, w, c]; taps outside the input read `pad_value`, a value of the input's type (max
/// pooling: are left out; every window must then touch the input). No field is above 65535.
struct Window {
  std::uint32_t kernel_h = 1, kernel_w = 1;
  std::uint32_t stride_h = 1, stride_w = 1;
  std::uint32_t dilation_h = 1, dilation_w = 1;
  std::uint32_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  std::int32_t pad_value = 0;
  bool operator==(const Window&) const = default;
};

/// acc[y][x][o] = bias[o] + sum over ky, kx, i of in[...][g*ic + i] * weights[o][ky][kx][i],  ic =
/// in_channels / groups, g = o / (out_channels / groups). Zero points of input and weights are already folded
/// into weights, bias and pad_value. A fully connected layer is a Convolution whose window is its whole
/// input. The result is `requantise(acc)`, or acc itself (output tensor of the accumulator's type) where
/// there is none.
struct Convolution {
  Window window;
  std::uint32_t out_channels = 0;
  std::uint32_t groups = 1;
  ElementType weight_type;             // bits 1..16; what hardware must hold
  SharedVector<std::int16_t> weights;  // [out_channels][kernel_h][kernel_w][in_channels / groups]
  std::vector<std::int32_t> bias;      // [out_channels], or empty for zeros
  ElementType accumulator;  // signed; holds every reachable sum (partial sums in any order included)
  std::optional<Requantise> requantise;
  bool operator==(const Convolution&) const = default;
};

/// Largest element of each window, channel by channel. Type in = type out.
struct MaxPool {
  Window window;
  bool operator==(const MaxPool&) const = default;
};

/// requantise(sum of the window's elements), channel by channel; pad_value counts like an element.
struct SumPool {
  Window window;
  ElementType accumulator;
  Requantise requantise;
  bool operator==(const SumPool&) const = default;
};

/// q = requantise(in), element by element: a change of scale, a Relu, a Clip that could not be fused.
struct Rescale {
  Requantise requantise;
  bool operator==(const Rescale&) const = default;
};

/// q = table[in - lowest of the input's type]: any function of an element of at most 8 bits, not bipolar.
struct Lookup {
  std::vector<std::int16_t> table;  // 2^bits entries, within the output's type
  bool operator==(const Lookup&) const = default;
};

/// Two tensors of the same shape.
///   table empty:  q = clamp((a * multiplier_a + b * multiplier_b + offset) >> shift, lowest, highest)
///   else:         q = table[(a - lowest of a's type) * 2^(bits of b) + (b - lowest of b's type)]
struct Add {
  std::int32_t multiplier_a = 1, multiplier_b = 1;
  std::int64_t offset = 0;
  std::uint8_t shift = 0;
  std::int32_t lowest = 0, highest = 0;
  std::vector<std::int16_t> table;
  bool operator==(const Add&) const = default;
};

/// Inputs joined along the last axis; equal types and leading dimensions.
struct Concat {
  bool operator==(const Concat&) const = default;
};

/// Moves elements without changing them: the input's elements seen as `dims`, transposed so that output axis
/// i is input axis perm[i] (as ONNX Transpose), then read in the output tensor's shape. An empty perm is a
/// plain reshape.
struct Permute {
  std::vector<std::uint32_t> dims;
  std::vector<std::uint32_t> perm;
  bool operator==(const Permute&) const = default;
};

// Host only.
// --------------------------------------------------------------------------------------------------------

/// ONNX QuantizeLinear: q = clamp(round_half_even(x / scale) + zero_point), float32 arithmetic, NaN gives the
/// zero point. Input float32; the last axis is the channel where there are several scales.
struct Quantise {
  std::vector<float> scale;
  std::int32_t zero_point = 0;
  bool operator==(const Quantise&) const = default;
};

/// ONNX DequantizeLinear: x = float32(q - zero_point) * scale. Output float32.
struct Dequantise {
  std::vector<float> scale;
  std::int32_t zero_point = 0;
  bool operator==(const Dequantise&) const = default;
};

/// exp(x - max) / sum along the last axis, float32.
struct Softmax {
  bool operator==(const Softmax&) const = default;
};

using Operation = std::variant<Convolution, MaxPool, SumPool, Rescale, Lookup, Add, Concat, Permute, Quantise,
                               Dequantise, Softmax>;

using TensorIndex = std::uint32_t;

/// Where a block's parameters (parameters.hpp) are while it runs.
enum class Placement : std::uint8_t {
  kBaked,     // in the image
  kLoaded,    // in memories on the chip, written after programming
  kStreamed,  // weights in the card's memory, read every frame; everything else as kLoaded
};

struct Block {
  std::string name;                // unique in its program, stable between compilations; a valid file name:
                                   // 1 to 128 of A-Z a-z 0-9 _ - . and starting with none of - .
  std::vector<std::string> nodes;  // the ONNX nodes it stands for
  std::vector<TensorIndex> inputs;
  std::vector<TensorIndex> outputs;
  Operation operation;
  Placement placement = Placement::kBaked;  // another one only where the operation has parameters
  bool operator==(const Block&) const = default;
};

/// Blocks in an order in which every tensor is produced before it is read; a tensor has one producer (a
/// block, or the program's inputs) and any number of readers.
struct Program {
  std::string name;
  std::vector<Tensor> tensors;
  std::vector<TensorIndex> inputs;
  std::vector<TensorIndex> outputs;
  std::vector<Block> blocks;
  bool operator==(const Program&) const = default;
};

/// "convolution", "max_pool", …: stable, for reports and JSON.
const char* operation_name(const Operation& operation);

/// True for blocks that touch float32: they run on the host only.
bool is_host_only(const Program& program, const Block& block);

/// Multiplications one frame needs in this block (0 for what has none).
std::uint64_t multiply_accumulates(const Program& program, const Block& block);

/// [out_h, out_w] of a window over [h, w]; 0 where the window does not fit.
std::uint32_t windowed_height(const Window& window, std::uint32_t height);
std::uint32_t windowed_width(const Window& window, std::uint32_t width);

/// The first thing that is wrong with a program, as one sentence naming block and field; empty where nothing
/// is. Everything above is checked: indices, order, shapes, types, sizes of constants, ranges, accumulators
/// against the actual weights, overflow of the requantisation. A program that passes runs without any further
/// check, on any bytes: elements outside their type's range give meaningless results and nothing worse. Safe
/// on hostile input (bounded time and memory in the size of the program). Tensors have 1 to 8 axes, none of
/// length 0, and at most 2^31 - 1 elements.
std::string validate(const Program& program);

/// The sub-program made of `blocks` (indices into program.blocks, ascending): its inputs are what these
/// blocks read and do not produce, in order of first use; its outputs are what others (or program.outputs)
/// read of what they produce, in order of production.
Program extract(const Program& program, const std::vector<std::uint32_t>& blocks, std::string name);

}  // namespace millrace::kernels
