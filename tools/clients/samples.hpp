// Converts files (pictures, arrays, raw bytes) into frames for a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/npy.hpp"
#include "runtime/base/result.hpp"

namespace millrace::clients {

/// A model input as the server describes it. Preprocessing computes x = (sample - mean[c]) * scale[c] for channel c.
/// `mean` and `scale` are empty, or have one value, or one value per channel.
struct InputDescription {
  std::string name, datatype;
  std::vector<std::int64_t> shape;  // shape with batch axis
  std::string layout;               // "NCHW", "NHWC", or "" if the input is not a picture
  std::vector<float> scale, mean;

  std::uint64_t elements() const;
};

struct Samples {
  std::vector<std::vector<std::byte>> frames;  // each frame is exactly one input tensor
  std::string note;                            // one line on how a file was adapted; empty if none was
};

/// Reads the frames of a file. The file's extension decides how:
///   .npy of the input's type: one frame of the input's shape, or frames along the first axis.
///   .npy of uint8 samples, which are preprocessed: [n, h, w] or [n, h, w, channels]; if the input is not a
///     picture, n frames with as many elements as the input has.
///   .png .jpg .jpeg .bmp .pgm .ppm .tga .gif: one picture. It is converted to the input's channels, resized to
///     the input's height and width if necessary (`note` tells), and preprocessed.
///   Any other: raw bytes of the input's type, a whole number of frames.
/// Errors name the file: kInvalidInput, and the errors of reading.
Result<Samples> read_samples(const std::filesystem::path& file, const InputDescription& input);

/// Frames for all inputs of a model.
struct ModelSamples {
  std::vector<std::vector<std::vector<std::byte>>> frames;  // [frame][input], each exactly one input tensor
  std::string note;                                         // as Samples::note
};

/// Reads frames for a model. `files` is one of these:
///   one file, if the model has one input: as read_samples() takes it;
///   one folder, if the model has one input: each picture and array below it, in the order of their names;
///   one .npz, with an array of frames for each input, under the input's name;
///   a file for each input, in the order of the inputs, or with names: NAME=FILE.
/// All inputs must have equally many frames. Errors name the file: kInvalidInput, and the errors of reading.
Result<ModelSamples> read_model_samples(const std::vector<std::string>& files,
                                        const std::vector<InputDescription>& inputs);

/// Converts the samples of one picture, [height, width, channels], to an input tensor. `samples` must have
/// input.elements() bytes.
Result<std::vector<std::byte>> preprocess(const std::vector<std::uint8_t>& samples,
                                          const InputDescription& input);

/// Returns the indices of the `count` largest values, largest first. Of equal values the lower index comes first; NaN
/// values come last.
std::vector<std::size_t> largest(const std::vector<double>& values, std::size_t count);

/// Returns NumPy's type string of an Open Inference Protocol datatype ("FP32" -> "<f4"); empty if there is none.
std::string descr_of(const std::string& datatype);

}  // namespace millrace::clients
