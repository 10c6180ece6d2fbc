// The executable form of a model or of a model's partition: integer tensors, and the blocks between them.
//
// kernels/reference, kernels/fast and host stages run programs, emulated cards load them, and generated hardware
// implements them. A program is plain data. runtime/plan serialises it
// (program.proto). The arithmetic is exact. This header defines it block by block, and kernels/reference states the
// same as code. If the two differ, this header is right.
//
// Shapes. A program computes one frame, so there is no batch axis. Inside the dataflow a tensor is [height,
// width, channels] (NHWC, channels innermost); a vector is [1, 1, channels]. Tensors that only host blocks touch
// (float32, 64-bit integers, or other integers in the model's own layout) may have any rank from 1. Elements are
// row-major.
//
// Storage of an element in memory, in buffers and on ports: one byte up to 8 bits, two bytes up to 16, four bytes up to
// 32 and for float32, eight bytes for 64. Storage is little-endian, two's complement, sign- or zero-extended. (Sub-byte
// elements are packed on links only: packing.hpp.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "kernels/host/float_operator.hpp"
#include "kernels/program/shared_vector.hpp"

namespace millrace::kernels {

struct ElementType {
  enum class Kind : std::uint8_t { kSigned, kUnsigned, kBipolar, kFloat32 };
  Kind kind = Kind::kSigned;
  // Integers have 1..32 bits; signed ones may have 64 in tensors that only the host touches (ONNX's indices). Bipolar
  // elements have 1 bit and are stored as the value -1 or +1 in a byte. float32 has 32 bits.
  std::uint8_t bits = 8;

  bool is_integer() const { return kind != Kind::kFloat32; }
  std::int64_t lowest() const;   // smallest value of an integer type; 0 for float32
  std::int64_t highest() const;  // largest value
  std::size_t storage_bytes() const;
  bool operator==(const ElementType&) const = default;
};

/// Returns the name of a type: "int8", "uint4", "bipolar", "float32".
std::string to_string(ElementType type);

struct Tensor {
  std::string name;  // unique in its program; the ONNX value's name where there is one
  ElementType type;
  std::vector<std::uint32_t> shape;
  // An integer q represents the real value (q - zero_point) * scale. Reports and comparisons use scale and zero point;
  // kernels do not.
  std::vector<float> scale;  // empty, one for all channels, or one for each
  std::int32_t zero_point = 0;

  std::uint64_t elements() const;
  std::uint64_t storage_bytes() const { return elements() * type.storage_bytes(); }
  bool operator==(const Tensor&) const = default;
};

/// A step function from an exact integer to the output type. Each channel (position on the last axis) can have its own
/// function. The function never decreases, so no multiplier is negative.
///
///   kMultiplyShift:  q = clamp((acc * multiplier[c] + offset[c]) >> shift[c], lowest, highest)
///     64-bit arithmetic; validate() checks that it cannot overflow for the block's accumulator type. >> is
///     arithmetic (rounds towards minus infinity). The offset contains the output's zero point.
///
///   kMultiplyShiftHalfEven:
///     q = clamp(round_half_even((acc * multiplier[c] + offset[c]) / 2^shift[c]) + zero_point, lowest, highest)
///     With sum = acc * multiplier + offset and shift > 0, the rounded quotient is
///     (sum + 2^(shift-1) - 1 + ((sum >> shift) & 1)) >> shift; with shift 0 it is sum. No step of this 64-bit
///     arithmetic overflows (validate() checks). The zero point is a field of its own, added after rounding: if an
///     odd zero point were part of the offset, every tie would round in the other direction.
///
///   kThresholds:     q = lowest + number of i with acc >= thresholds[c * steps + i]
///     where steps = highest - lowest. Thresholds ascend within a channel.
///
/// A bipolar output uses kThresholds and gives each threshold twice: from its lowest value -1 to its highest value 1,
/// there are two steps.
/// Vectors have one entry for all channels, or one per channel.
struct Requantise {
  enum class Form : std::uint8_t { kMultiplyShift, kThresholds, kMultiplyShiftHalfEven };
  Form form = Form::kMultiplyShift;
  std::vector<std::int32_t> multiplier;
  std::vector<std::int64_t> offset;
  std::vector<std::uint8_t> shift;       // 0..62
  std::vector<std::int64_t> thresholds;  // (highest - lowest) entries for each channel, or the same for all
  std::int32_t zero_point = 0;           // of kMultiplyShiftHalfEven, inside the output type's range; else 0
  std::int32_t lowest = 0;               // inside the output type's range
  std::int32_t highest = 0;
  bool operator==(const Requantise&) const = default;
};

/// A window that slides over an input of shape [h, w, c]. A tap outside the input reads `pad_value`, a value of the
/// input's type. Max pooling leaves such taps out instead, so every window of a max pooling must touch the input. No
/// field is above 65535.
struct Window {
  std::uint32_t kernel_h = 1, kernel_w = 1;
  std::uint32_t stride_h = 1, stride_w = 1;
  std::uint32_t dilation_h = 1, dilation_w = 1;
  std::uint32_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  std::int32_t pad_value = 0;
  bool operator==(const Window&) const = default;
};

/// A convolution: acc[y][x][o] = bias[o] + sum over ky, kx, i of in[...][g*ic + i] * weights[o][ky][kx][i]
/// where ic = in_channels / groups and g = o / (out_channels / groups). The zero points of input and weights are
/// already folded into weights, bias and pad_value. A fully connected layer is a Convolution whose window is its whole
/// input. The result is requantise(acc). Without a requantise the result is acc, and the output tensor has the
/// accumulator's type.
struct Convolution {
  Window window;
  std::uint32_t out_channels = 0;
  std::uint32_t groups = 1;
  ElementType weight_type;             // 1..16 bits; the type that hardware must store
  SharedVector<std::int16_t> weights;  // [out_channels][kernel_h][kernel_w][in_channels / groups]
  std::vector<std::int32_t> bias;      // [out_channels], or empty for zeros
  ElementType accumulator;  // signed; holds every reachable sum (partial sums in any order included)
  std::optional<Requantise> requantise;
  bool operator==(const Convolution&) const = default;
};

/// Max pooling: the largest element of each window, channel by channel. Input and output have the same type.
struct MaxPool {
  Window window;
  bool operator==(const MaxPool&) const = default;
};

/// Sum pooling: requantise(sum of the window's elements), channel by channel. A pad_value counts like an element.
struct SumPool {
  Window window;
  ElementType accumulator;
  Requantise requantise;
  bool operator==(const SumPool&) const = default;
};

/// A change of scale, or a Relu or Clip that could not be fused: q = requantise(in), element by element.
struct Rescale {
  Requantise requantise;
  bool operator==(const Rescale&) const = default;
};

/// Any function of one element of at most 8 bits, as a table: q = table[in - lowest of the input's type]. The input may
/// not be bipolar.
struct Lookup {
  std::vector<std::int16_t> table;  // 2^bits entries, within the output's type
  bool operator==(const Lookup&) const = default;
};

/// Adds two tensors of the same shape, or computes any function of the two if `table` is not empty.
///   without a table:  q = clamp((a * multiplier_a + b * multiplier_b + offset) >> shift, lowest, highest)
///   with a table:     q = table[(a - lowest of a's type) * 2^(bits of b) + (b - lowest of b's type)]
struct Add {
  std::int32_t multiplier_a = 1, multiplier_b = 1;
  std::int64_t offset = 0;
  std::uint8_t shift = 0;
  std::int32_t lowest = 0, highest = 0;
  std::vector<std::int16_t> table;
  bool operator==(const Add&) const = default;
};

/// Joins the inputs along the last axis. All inputs have the same type and the same other dimensions.
struct Concat {
  bool operator==(const Concat&) const = default;
};

/// ONNX QuantizeLinear: q = clamp(round_half_even(x / scale) + zero_point) in float32 arithmetic; NaN gives the zero
/// point. Host only. The input is float32. The output is a signed or unsigned integer of 1 to 16, 32 or 64 bits, and
/// clamp() keeps q within the range of this type. Before the zero point is added, the rounded quotient is clamped to
/// -10^9 .. 10^9, so types of 32 and 64 bits do not use their whole range. If there are several scales, the last axis
/// is the channel.
struct Quantise {
  std::vector<float> scale;
  std::int32_t zero_point = 0;
  bool operator==(const Quantise&) const = default;
};

/// ONNX DequantizeLinear: x = float32(q - zero_point) * scale. Host only. The output is float32. The zero point of a
/// 64-bit input is 0.
struct Dequantise {
  std::vector<float> scale;
  std::int32_t zero_point = 0;
  bool operator==(const Dequantise&) const = default;
};

/// Softmax: exp(x - max) / sum along the last axis, in float32. Host only.
struct Softmax {
  bool operator==(const Softmax&) const = default;
};

/// Moves, selects or repeats elements without changing them. Nested loops visit the output's elements in row-major
/// order, with the outermost loop first. The element that they visit with the indices i is the input's element
/// offset + sum over k of i[k] * strides[k]. Elements of both tensors are numbered in row-major order, whatever the
/// tensors' shapes are. There are at most 8 loops. Without loops, all elements keep their order.
struct Rearrange {
  std::uint64_t offset = 0;
  std::vector<std::uint32_t> extents;  // how often each loop runs, at least once
  std::vector<std::int64_t> strides;   // one for each loop; negative or 0 if need be
  bool operator==(const Rearrange&) const = default;
};

/// A plugin reports a failure. The text names the plugin and the block.
class PluginFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Computes what a PluginOperator means, with the code of its plugin. Any thread may call it.
class PluginModel {
 public:
  virtual ~PluginModel() = default;
  /// Computes one frame. The pointers are in the order of the block's inputs and outputs; each tensor is in its storage
  /// form. Throws a PluginFailure.
  virtual void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs) const = 0;
};

/// An operation that a plugin defines (runtime/plugins). It reads at least one tensor of integers and produces at least
/// one.
struct PluginOperator {
  std::string plugin;    // the plugin's name, for messages and reports
  std::string library;   // SHA-256 of the plugin's shared library, in 64 lower-case hexadecimal digits
  std::string runner;    // which function of the library computes the operation
  std::string settings;  // a text that the plugin has written for its own use
  /// The library's code, after the library was loaded; otherwise null. It is not a part of the stored program. An
  /// executor needs it.
  std::shared_ptr<const PluginModel> model;
  bool operator==(const PluginOperator& other) const {
    return plugin == other.plugin && library == other.library && runner == other.runner &&
           settings == other.settings;
  }
};

using Operation = std::variant<Convolution, MaxPool, SumPool, Rescale, Lookup, Add, Concat, Quantise,
                               Dequantise, Softmax, FloatOperator, Rearrange, PluginOperator>;

using TensorIndex = std::uint32_t;

/// Where a block's parameters (parameters.hpp) are stored while the block runs.
enum class Placement : std::uint8_t {
  kBaked,     // in the FPGA image
  kLoaded,    // in memories on the chip, written after programming
  kStreamed,  // weights in the card's memory, read for every frame; other parameters as kLoaded
};

struct Block {
  // The name is unique in its program and does not change between compilations. A name has 1 to 128 characters of A-Z
  // a-z 0-9 _ - . and begins with neither - nor a dot, so it is a valid file name.
  std::string name;
  std::vector<std::string> nodes;  // the names of the ONNX nodes that the block computes
  std::vector<TensorIndex> inputs;
  std::vector<TensorIndex> outputs;
  Operation operation;
  Placement placement = Placement::kBaked;  // must be kBaked if the operation has no parameters
  bool operator==(const Block&) const = default;
};

/// A model or partition as blocks in an order in which every tensor is produced before it is read. A tensor has one
/// producer (a block or the program's inputs) and any number of readers.
struct Program {
  std::string name;
  std::vector<Tensor> tensors;
  std::vector<TensorIndex> inputs;
  std::vector<TensorIndex> outputs;
  std::vector<Block> blocks;
  bool operator==(const Program&) const = default;
};

/// Returns an operation's name, which never changes, for reports and JSON: "convolution", "max_pool", ….
const char* operation_name(const Operation& operation);

/// Returns whether a block reads or writes float32 or 64-bit integers. Such blocks run on the host only.
bool is_host_only(const Program& program, const Block& block);

/// Returns the number of multiplications that a block needs for one frame; 0 if it multiplies nothing.
std::uint64_t multiply_accumulates(const Program& program, const Block& block);

/// Return the height and the width of the output of a window over an input, or 0 if the window does not fit.
std::uint32_t windowed_height(const Window& window, std::uint32_t height);
std::uint32_t windowed_width(const Window& window, std::uint32_t width);

/// Returns the first error in a program as one sentence that names block and field, or an empty string. Checks
/// everything that this header demands: indices, order, shapes, types, sizes of constants, ranges, accumulators with
/// the actual weights, and overflow of the requantisation. A tensor must have 1 to 8 axes, none of length 0, and at
/// most 2^31 - 1 elements.
///
/// A program that passes validate() can run on any input bytes without further checks. Elements outside their type's
/// range give meaningless results but do no other harm. validate() is safe on hostile input: its time and memory are
/// bounded by the size of the program.
std::string validate(const Program& program);

/// Returns the sub-program made of `blocks` (ascending indices into program.blocks). Its inputs are the tensors that
/// these blocks read but do not produce, in order of first use. Its outputs are the tensors that these blocks produce
/// and that other blocks or program.outputs read, in order of production.
Program extract(const Program& program, const std::vector<std::uint32_t>& blocks, std::string name);

}  // namespace millrace::kernels
