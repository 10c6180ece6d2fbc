// Files a person has (pictures, arrays, raw bytes) turned into frames a model takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/npy.hpp"
#include "runtime/base/result.hpp"

namespace millrace::clients {

/// An input as the server describes it. x = (sample - mean[c]) * scale[c]; empty, one, or one a channel.
struct InputDescription {
  std::string name, datatype;
  std::vector<std::int64_t> shape;  // batch axis included
  std::string layout;               // "NCHW", "NHWC", or "" where the input is no picture
  std::vector<float> scale, mean;

  std::uint64_t elements() const;
};

struct Samples {
  std::vector<std::vector<std::byte>> frames;  // each exactly one input tensor
  std::string note;                            // what was done to fit, one line; empty where nothing was
};

/// By the file's ending:
///   .npy   the input's own type: one frame of its shape, or frames along the first axis; or uint8 samples
///   ([n, h, w] or
///          [n, h, w, channels], or as many elements a frame as the input has where it is no picture),
///          preprocessed
///   .png .jpg .jpeg .bmp .pgm .ppm .tga .gif   one picture, converted to the input's channels, resized to
///   its height
///          and width where it differs (the note says so), preprocessed
///   else   raw bytes of the input's type, a whole number of frames
/// kInvalidInput and the errors of reading, naming the file.
Result<Samples> read_samples(const std::filesystem::path& file, const InputDescription& input);

/// Raw samples of one picture, [height, width, channels], to one input tensor. `samples` has input.elements()
/// bytes.
Result<std::vector<std::byte>> preprocess(const std::vector<std::uint8_t>& samples,
                                          const InputDescription& input);

/// Indices of the `count` largest of the values, largest first, the lower index first among equals, NaN last.
std::vector<std::size_t> largest(const std::vector<double>& values, std::size_t count);

/// NumPy's type string of an Open Inference Protocol datatype, or empty: "FP32" -> "<f4".
std::string descr_of(const std::string& datatype);

}  // namespace millrace::clients
