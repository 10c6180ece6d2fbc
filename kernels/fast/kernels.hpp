// The inner loops of the fast kernels and their arguments. Each instruction-set level has its own copy of the loops, so
// arguments are plain structures without library types.
//
// Each level's file is compiled for its own instructions, so this header must not contain inline functions
// with external linkage: the linker could keep another level's copy.
//
// Forms. Inside the executor, a tensor that a convolution reads is stored as the multiplying instruction needs
// it, with its padding around it:
//   bytes   unsigned bytes: value + offset, offset 0 or 128 (VNNI: four unsigned-by-signed products at once)
//   words   signed 16-bit words: value + offset, offset 0 or -32768 (two signed products at once)
// The bias is reduced beforehand by `offset` times the sum of the weights. 32-bit sums may wrap on the way; the
// last sum is exact because the accumulator's type holds it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::kernels::fast {

/// The constants that turn a vector of accumulators into elements. Arrays have one entry per lane, padded to whole
/// vectors, which are called "blocks".
struct Finish {
  enum class Mode : std::uint8_t {
    kNone,        // the result is the accumulator
    kMultiply,    // multiply-shift in 64 bits, rounded down or half to even
    kRound,       // thresholds equal to clamp(round_half_even(float32(acc) * scale)) + add
    kGuess,       // count of thresholds: clamp(round_half_even(float32(acc) * scale + bias)), or one more
    kThresholds,  // count of thresholds reached
  };
  Mode mode = Mode::kNone;
  std::uint8_t out_bytes = 1;   // size of an element: 1, 2 or 4
  std::int32_t out_offset = 0;  // the offset of the output's form, added to the result
  std::int32_t lowest = 0, highest = 0;
  // kMultiply: result = (sum + half + ((sum >> shift) & odd)) >> shift, where sum = acc * multiplier + offset.
  // `half` and `odd` are 0 where the result is rounded down.
  const std::int64_t* multiplier = nullptr;
  const std::int64_t* offset = nullptr;
  const std::int64_t* half = nullptr;
  const std::int64_t* odd = nullptr;
  const std::int64_t* shift = nullptr;
  std::int32_t zero_point = 0;   // added to the result, before the clamp
  const float* scale = nullptr;  // kRound, kGuess: all in float32
  const float* bias = nullptr;   // used by kGuess only
  const float* least = nullptr;  // bounds of the clamp: whole numbers
  const float* most = nullptr;
  const std::int32_t* add = nullptr;  // used by kRound only
  // kRound: whether lowest and highest are the bounds of int8 or of uint8 and no product leaves the 32-bit range. If so,
  // and the output has bytes, or words without an offset, instructions that convert with saturation replace the clamp.
  bool saturates = false;
  // The thresholds that kGuess and kThresholds compare with, as [block][row][lane]. There are 2 * `search` rows. Rows
  // after the last step hold the highest 32-bit number. `reachable` says how many steps a 32-bit accumulator can reach.
  const std::int32_t* thresholds = nullptr;
  const std::int32_t* reachable = nullptr;
  std::uint32_t steps = 0;
  std::uint32_t search = 0;  // the largest power of two that is at most `steps`; 1 if there are no steps
};

/// A convolution in which every output channel reads every input channel. A "word" is the part of the input that the
/// instructions reduce in one step: four bytes or two 16-bit elements.
struct DenseArgs {
  const std::uint8_t* in = nullptr;             // the input in its form, with padding around it
  const std::int32_t* pixel_offsets = nullptr;  // [pixels] in bytes: first tap of each output position
  const std::int32_t* tap_offsets = nullptr;    // [taps] in bytes, from the first tap to each word
  std::uint32_t taps = 0;
  std::uint32_t pixels = 0;
  std::uint32_t pool = 1;                   // 1, 2 or 4 neighbouring positions whose largest result is kept
  const std::int8_t* weights8 = nullptr;    // [block][taps][lane][4], form bytes
  const std::int16_t* weights16 = nullptr;  // [block][taps][lane][2], form words
  const std::int32_t* bias = nullptr;       // [block][lane]
  std::uint32_t channels = 0;
  std::uint8_t* out = nullptr;
  const std::int32_t* out_offsets = nullptr;  // [pixels / pool] in bytes: where each result is written
  Finish finish;
};

/// A convolution in which every output channel reads only its own input channel: depthwise convolutions and
/// sums over windows.
struct DepthwiseArgs {
  const std::uint8_t* in = nullptr;
  bool words = false;                           // whether the input has the form `words`
  const std::int32_t* pixel_offsets = nullptr;  // [pixels] in bytes
  const std::int32_t* tap_offsets = nullptr;    // [taps] in bytes
  std::uint32_t taps = 0;
  std::uint32_t pixels = 0;
  const std::int32_t* weights =
      nullptr;                         // [taps][channels, padded to blocks]: 16 bits each, zeros above them
  const std::int32_t* bias = nullptr;  // [channels, padded to blocks]
  std::uint32_t channels = 0;
  std::uint8_t* out = nullptr;
  const std::int32_t* out_offsets = nullptr;
  Finish finish;
};

/// Max pooling for elements stored in 1, 2 or 4 bytes: the largest element of each window. Taps outside the input are
/// left out.
struct PoolArgs {
  const std::uint8_t* in = nullptr;
  std::uint8_t* out = nullptr;
  std::uint8_t bytes = 1;
  bool is_signed = false;
  std::uint32_t height = 0, width = 0, channels = 0;
  std::uint32_t out_height = 0, out_width = 0;
  std::uint32_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  std::uint32_t pad_top = 0, pad_left = 0;
};

/// Copies rows from plain storage (Tensor) into the form that a convolution reads.
struct StageArgs {
  const std::uint8_t* in = nullptr;
  std::uint8_t* out = nullptr;  // first element inside the padding
  std::uint32_t rows = 0;
  std::size_t row_elements = 0;
  std::size_t out_pitch_bytes = 0;
  std::uint8_t in_bytes = 1;
  bool in_signed = false;
  bool words = false;
  std::int32_t offset = 0;
};

/// Interleaves the bytes of 2 to 4 planes: the output has one byte of each plane in turn.
struct InterleaveArgs {
  const std::uint8_t* in = nullptr;
  std::uint8_t* out = nullptr;
  std::size_t elements = 0;     // of one plane
  std::size_t plane_bytes = 0;  // from one plane to the next
  std::uint32_t planes = 3;
};

/// Adds two tensors of bytes: out = clamp(((a ^ flip_a) * multiplier_a + (b ^ flip_b) * multiplier_b + offset) >> shift).
/// The bytes are read as unsigned numbers. A signed byte flipped by 128 is its value plus 128, and `offset` makes up for
/// the 128. The sum before the shift fits in 32 bits for all bytes; parts of it may wrap.
struct AddArgs {
  const std::uint8_t* a = nullptr;
  const std::uint8_t* b = nullptr;
  std::uint8_t* out = nullptr;
  std::size_t elements = 0;
  std::uint8_t flip_a = 0, flip_b = 0;  // 0 or 128
  std::int32_t multiplier_a = 1, multiplier_b = 1, offset = 0, shift = 0;
  std::int32_t lowest = 0, highest = 0;  // within int8, or within uint8 if is_unsigned
  bool is_unsigned = false;              // whether the results are uint8
};

struct QuantiseArgs {
  const float* in = nullptr;  // may be unaligned
  std::uint8_t* out = nullptr;
  std::size_t elements = 0;
  float scale = 1;  // one scale for all elements
  std::int32_t zero_point = 0, lowest = 0, highest = 0;
  std::uint8_t out_bytes = 1;
};

struct Kernels {
  std::uint32_t lanes;  // accumulators in a vector
  bool bytes;           // whether dense convolutions read the form `bytes` if the types allow it
  void (*dense)(const DenseArgs&);
  void (*depthwise)(const DepthwiseArgs&);
  void (*max_pool)(const PoolArgs&);
  void (*stage)(const StageArgs&);
  void (*interleave)(const InterleaveArgs&);
  void (*add)(const AddArgs&);
  void (*quantise)(const QuantiseArgs&);
};

extern const Kernels kBaselineKernels;
extern const Kernels kAvx2Kernels;        // x86-64 only
extern const Kernels kAvx512VnniKernels;  // x86-64 only

/// The number of bytes that kernels may read past the end of an input buffer.
constexpr std::size_t kFormSlackBytes = 64;

}  // namespace millrace::kernels::fast
