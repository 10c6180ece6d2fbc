#include "tools/clients/samples.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

#include "runtime/base/file.hpp"
#include "tools/clients/npz.hpp"
#include "tools/clients/picture.hpp"

namespace millrace::clients {
namespace {

constexpr std::uint64_t kFileLimit = 4ULL << 30U;
constexpr std::uint64_t kMaxElements = 1ULL << 32U;

Error bad_samples(const std::filesystem::path& file, const std::string& what) {
  return Error(ErrorCode::kInvalidInput, file.string() + ": " + what);
}

template <class Dims>
std::string shape_text(const Dims& shape) {
  std::string out = "[";
  for (const auto dim : shape) out += (out.size() > 1 ? "," : "") + std::to_string(dim);
  return out + "]";
}

std::uint64_t bytes_of_element(const std::string& datatype) {
  const std::string descr = descr_of(datatype);
  return descr.empty() ? 0 : static_cast<std::uint64_t>(descr.back() - '0');
}

struct PictureShape {
  std::uint32_t height = 0, width = 0, channels = 0;
};

/// Returns the input's picture shape, or nothing if the input is not a picture.
std::optional<PictureShape> picture_shape(const InputDescription& input) {
  if (input.layout.empty() || input.shape.size() != 4) return std::nullopt;
  const bool channels_first = input.layout == "NCHW";
  if (!channels_first && input.layout != "NHWC") return std::nullopt;
  const auto dim = [&](std::size_t axis) { return static_cast<std::uint32_t>(input.shape[axis]); };
  return channels_first ? PictureShape{dim(2), dim(3), dim(1)} : PictureShape{dim(1), dim(2), dim(3)};
}

float per_channel(const std::vector<float>& values, std::size_t channel, float none) {
  if (values.empty()) return none;
  return values.size() == 1 ? values.front() : values[channel];
}

template <class T>
void store(std::vector<std::byte>& out, std::size_t index, float value) {
  T element{};
  if constexpr (std::is_floating_point_v<T>) {
    element = static_cast<T>(value);
  } else {
    const double rounded = std::nearbyint(static_cast<double>(value));
    element = static_cast<T>(std::clamp(rounded, static_cast<double>(std::numeric_limits<T>::lowest()),
                                        static_cast<double>(std::numeric_limits<T>::max())));
  }
  std::memcpy(out.data() + index * sizeof(T), &element, sizeof(T));
}

Result<Samples> read_raw(const std::filesystem::path& file, const InputDescription& input) {
  const std::uint64_t frame = input.elements() * bytes_of_element(input.datatype);
  MILLRACE_ASSIGN(const auto bytes, read_file(file, kFileLimit));
  if (bytes.empty() || bytes.size() % frame != 0)
    return bad_samples(file, "raw input of " + std::to_string(bytes.size()) +
                                 " bytes is not a whole number of frames; "
                                 "one frame is " +
                                 input.datatype + " " + shape_text(input.shape) + ", " +
                                 std::to_string(frame) + " bytes");
  Samples out;
  for (std::size_t at = 0; at < bytes.size(); at += frame)
    out.frames.emplace_back(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                            bytes.begin() + static_cast<std::ptrdiff_t>(at + frame));
  return out;
}

Result<Samples> read_picture(const std::filesystem::path& file, const InputDescription& input) {
  const auto wanted = picture_shape(input);
  if (!wanted || (wanted->channels != 1 && wanted->channels != 3 && wanted->channels != 4))
    return bad_samples(file,
                       "input '" + input.name + "' " + shape_text(input.shape) +
                           " is not described as a picture; give .npy or raw bytes, "
                           "or write 'layout: NCHW' or 'layout: NHWC' into millrace.yaml beside the model");
  MILLRACE_ASSIGN(const auto bytes, read_file(file, kFileLimit));
  auto decoded = decode_picture(bytes, wanted->channels);
  if (!decoded) return decoded.error().within(file.string());
  Samples out;
  if (decoded->width != wanted->width || decoded->height != wanted->height) {
    out.note = "resized from " + std::to_string(decoded->width) + "x" + std::to_string(decoded->height) +
               " to " + std::to_string(wanted->width) + "x" + std::to_string(wanted->height);
    decoded = resize(*decoded, wanted->width, wanted->height);
    if (!decoded) return decoded.error().within(file.string());
  }
  MILLRACE_ASSIGN(auto frame, preprocess(decoded->samples, input));
  out.frames.push_back(std::move(frame));
  return out;
}

/// Whether `shape` is [n, tail…], so that the array holds n frames of shape `tail`.
bool frames_of(const std::vector<std::uint64_t>& shape, std::vector<std::uint64_t> tail) {
  return shape.size() == tail.size() + 1 && std::equal(tail.begin(), tail.end(), shape.begin() + 1);
}

/// Splits an array into frames. `file` is for messages.
Result<Samples> split_array(const NpyArray& array, const std::filesystem::path& file,
                            const InputDescription& input) {
  const std::vector<std::uint64_t> whole(input.shape.begin(), input.shape.end());
  const std::vector<std::uint64_t> tail(whole.empty() ? whole.end() : whole.begin() + 1, whole.end());
  const std::uint64_t elements = input.elements();
  const bool own_type = array.descr == descr_of(input.datatype);
  const auto picture = picture_shape(input);

  bool fits = own_type && (array.shape == whole || array.shape == tail || frames_of(array.shape, tail) ||
                           frames_of(array.shape, whole));
  bool raw_samples = false;
  if (!fits && array.descr == "|u1") {
    raw_samples = fits =
        picture
            ? frames_of(array.shape, {picture->height, picture->width, picture->channels}) ||
                  (picture->channels == 1 && frames_of(array.shape, {picture->height, picture->width}))
            : array.shape.size() >= 2 && array.shape[0] != 0 && array.elements() == array.shape[0] * elements;
  }
  if (!fits || array.elements() == 0)
    return bad_samples(
        file, "an array of '" + array.descr + "' " + shape_text(array.shape) + " does not fit input '" +
                  input.name + "': give " + input.datatype + " " + shape_text(input.shape) +
                  " with frames along the first axis, or uint8 samples [n, height, width, channels]" +
                  (own_type || array.descr == "|u1"
                       ? ""
                       : "; convert it with NumPy's astype('" + descr_of(input.datatype) + "')"));

  Samples out;
  if (raw_samples && input.datatype == "FP32" && input.scale.empty() && input.mean.empty())
    out.note =
        "uint8 samples become the numbers 0 to 255; a millrace.yaml beside the model can give scale and mean";
  const std::size_t frame = elements * (raw_samples ? 1 : bytes_of_element(input.datatype));
  for (std::size_t at = 0; at < array.data.size(); at += frame) {
    const std::byte* begin = array.data.data() + at;
    if (!raw_samples) {
      out.frames.emplace_back(begin, begin + frame);
      continue;
    }
    const auto* samples = reinterpret_cast<const std::uint8_t*>(begin);
    MILLRACE_ASSIGN(auto made, preprocess(std::vector<std::uint8_t>(samples, samples + frame), input));
    out.frames.push_back(std::move(made));
  }
  return out;
}

Result<Samples> read_array(const std::filesystem::path& file, const InputDescription& input) {
  MILLRACE_ASSIGN(const NpyArray array, read_npy(file));
  return split_array(array, file, input);
}

bool is_picture_file(const std::string& extension) {
  static constexpr std::array kPictures = {".png", ".jpg", ".jpeg", ".bmp", ".pgm", ".ppm", ".tga", ".gif"};
  return std::find(kPictures.begin(), kPictures.end(), extension) != kPictures.end();
}

}  // namespace

std::uint64_t InputDescription::elements() const {
  std::uint64_t count = 1;
  for (const std::int64_t dim : shape) count *= static_cast<std::uint64_t>(dim);
  return count;
}

Result<std::vector<std::byte>> preprocess(const std::vector<std::uint8_t>& samples,
                                          const InputDescription& input) {
  const auto picture = picture_shape(input);
  const std::size_t channels = picture ? picture->channels : 1;
  for (const auto* values : {&input.scale, &input.mean})
    if (values->size() > 1 && values->size() != channels)
      return Error(ErrorCode::kInvalidInput, "input '" + input.name + "' has " + std::to_string(channels) +
                                                 " channels; its preprocessing gives " +
                                                 std::to_string(values->size()) + " values");
  if (samples.size() != input.elements() || (picture && channels == 0))
    return Error(ErrorCode::kInvalidInput, "input '" + input.name + "' takes " +
                                               std::to_string(input.elements()) + " samples, not " +
                                               std::to_string(samples.size()));
  std::vector<std::byte> out(samples.size() * bytes_of_element(input.datatype));
  const std::size_t pixels = samples.size() / channels;
  const bool planar = input.layout == "NCHW";
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::size_t channel = i % channels;
    const std::size_t to = planar ? channel * pixels + i / channels : i;
    const float value = (static_cast<float>(samples[i]) - per_channel(input.mean, channel, 0)) *
                        per_channel(input.scale, channel, 1);
    if (input.datatype == "FP32")
      store<float>(out, to, value);
    else if (input.datatype == "FP64")
      store<double>(out, to, value);
    else if (input.datatype == "UINT8")
      store<std::uint8_t>(out, to, value);
    else if (input.datatype == "INT8")
      store<std::int8_t>(out, to, value);
    else if (input.datatype == "INT32")
      store<std::int32_t>(out, to, value);
    else
      return Error(ErrorCode::kUnsupported, "input '" + input.name + "': samples are not converted to " +
                                                input.datatype + "; give .npy or raw bytes");
  }
  return out;
}

namespace {

/// Checks an input's description, which may come over the network.
Status check_input(const std::filesystem::path& file, const InputDescription& input) {
  std::uint64_t elements = 1;
  for (const std::int64_t dim : input.shape) {
    if (dim <= 0 || static_cast<std::uint64_t>(dim) > kMaxElements / elements)
      return bad_samples(file, "input '" + input.name + "' has shape " + shape_text(input.shape) +
                                   ", whose size is not fixed or is too large");
    elements *= static_cast<std::uint64_t>(dim);
  }
  if (bytes_of_element(input.datatype) == 0)
    return Error(ErrorCode::kUnsupported,
                 "input '" + input.name + "' of type " + input.datatype + " is not supported");
  return {};
}

std::string extension_of(const std::filesystem::path& file) {
  std::string extension = file.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

/// Reads all pictures and arrays of a folder, in the order of their names.
Result<Samples> read_folder(const std::filesystem::path& folder, const InputDescription& input) {
  std::vector<std::filesystem::path> files;
  std::error_code code;
  for (auto it = std::filesystem::directory_iterator(folder, code);
       !code && it != std::filesystem::directory_iterator(); it.increment(code))
    if (const std::string extension = extension_of(it->path());
        is_picture_file(extension) || extension == ".npy")
      files.push_back(it->path());
  if (code) return bad_samples(folder, "cannot be read: " + code.message());
  if (files.empty())
    return bad_samples(folder, "the folder holds no pictures and no .npy files; name a folder of samples");
  std::sort(files.begin(), files.end());
  Samples all;
  std::size_t adapted = 0;
  for (const auto& file : files) {
    MILLRACE_ASSIGN(Samples one, read_samples(file, input));
    adapted += one.note.empty() ? 0 : 1;
    if (all.note.empty() && !one.note.empty()) all.note = file.filename().string() + " " + one.note;
    for (auto& frame : one.frames) all.frames.push_back(std::move(frame));
  }
  if (adapted > 1) all.note += ", and " + std::to_string(adapted - 1) + " more";
  return all;
}

/// "'a', 'b'"
std::string quoted_names(const std::vector<InputDescription>& inputs) {
  std::string names;
  for (const InputDescription& input : inputs) names += (names.empty() ? "'" : ", '") + input.name + "'";
  return names;
}

/// Refuses the argument NAME=FILE if the model has no input called NAME and no file is called "NAME=FILE".
Status check_input_name(const std::string& given, const std::vector<InputDescription>& inputs) {
  const std::size_t equals = given.find('=');
  std::error_code ignored;
  if (equals == std::string::npos || std::filesystem::exists(given, ignored)) return {};
  const std::string name = given.substr(0, equals);
  if (std::any_of(inputs.begin(), inputs.end(), [&](const auto& input) { return input.name == name; }))
    return {};
  return Error(ErrorCode::kInvalidInput,
               given + ": the model has no input '" + name + "'; its inputs are " + quoted_names(inputs));
}

/// The samples of each input, in the order of the inputs.
Result<std::vector<Samples>> read_each(const std::vector<std::string>& files,
                                       const std::vector<InputDescription>& inputs) {
  std::vector<Samples> each;
  const std::filesystem::path first =
      files.empty() ? std::filesystem::path() : std::filesystem::path(files[0]);
  if (files.size() == 1 && extension_of(first) == ".npz") {
    MILLRACE_ASSIGN(const auto arrays, read_npz(first));
    for (const InputDescription& input : inputs) {
      MILLRACE_TRY(check_input(first, input));
      auto found = arrays.find(input.name);
      // A file with one array fits a model with one input, whatever the array is called.
      if (found == arrays.end() && arrays.size() == 1 && inputs.size() == 1) found = arrays.begin();
      if (found == arrays.end()) {
        std::string names;
        for (const auto& [name, array] : arrays) names += (names.empty() ? "" : ", ") + name;
        return bad_samples(
            first, "holds no array named '" + input.name + "', which the model takes; it holds " + names);
      }
      MILLRACE_ASSIGN(Samples one, split_array(found->second, first, input));
      each.push_back(std::move(one));
    }
    return each;
  }
  if (files.size() != inputs.size())
    return Error(ErrorCode::kInvalidInput,
                 "the model takes " + std::to_string(inputs.size()) + " inputs (" + quoted_names(inputs) +
                     "), and " + std::to_string(files.size()) +
                     " files are given; "
                     "give one .npz with an array for each input, or a file for each input (NAME=FILE)");
  for (const std::string& given : files) MILLRACE_TRY(check_input_name(given, inputs));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string prefix = inputs[i].name + "=";
    std::string file = files[i];
    for (const std::string& one : files)
      if (one.starts_with(prefix)) file = one.substr(prefix.size());
    std::error_code ignored;
    MILLRACE_ASSIGN(Samples one, std::filesystem::is_directory(file, ignored)
                                     ? read_folder(file, inputs[i])
                                     : read_samples(file, inputs[i]));
    each.push_back(std::move(one));
  }
  return each;
}

}  // namespace

Result<ModelSamples> read_model_samples(const std::vector<std::string>& files,
                                        const std::vector<InputDescription>& inputs) {
  MILLRACE_ASSIGN(std::vector<Samples> each, read_each(files, inputs));
  ModelSamples samples;
  for (std::size_t i = 0; i < each.size(); ++i) {
    if (samples.note.empty()) samples.note = each[i].note;
    if (each[i].frames.size() != each[0].frames.size())
      return Error(ErrorCode::kInvalidInput,
                   "input '" + inputs[i].name + "' has " + std::to_string(each[i].frames.size()) +
                       " frames, and input '" + inputs[0].name + "' has " +
                       std::to_string(each[0].frames.size()) + "; give equally many");
  }
  for (std::size_t f = 0; !each.empty() && f < each[0].frames.size(); ++f) {
    samples.frames.emplace_back();
    for (Samples& one : each) samples.frames.back().push_back(std::move(one.frames[f]));
  }
  return samples;
}

Result<Samples> read_samples(const std::filesystem::path& file, const InputDescription& input) {
  MILLRACE_TRY(check_input(file, input));
  const std::string extension = extension_of(file);
  if (extension == ".npy") return read_array(file, input);
  if (is_picture_file(extension)) return read_picture(file, input);
  return read_raw(file, input);
}

std::vector<std::size_t> largest(const std::vector<double>& values, std::size_t count) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto rank = [&](std::size_t i) { return std::isnan(values[i]) ? -HUGE_VAL : values[i]; };
  count = std::min(count, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
      [&](std::size_t a, std::size_t b) { return rank(a) != rank(b) ? rank(a) > rank(b) : a < b; });
  order.resize(count);
  return order;
}

std::string descr_of(const std::string& datatype) {
  static constexpr std::array<std::pair<const char*, const char*>, 12> kTable = {{
      {"BOOL", "|b1"},
      {"UINT8", "|u1"},
      {"UINT16", "<u2"},
      {"UINT32", "<u4"},
      {"UINT64", "<u8"},
      {"INT8", "|i1"},
      {"INT16", "<i2"},
      {"INT32", "<i4"},
      {"INT64", "<i8"},
      {"FP16", "<f2"},
      {"FP32", "<f4"},
      {"FP64", "<f8"},
  }};
  for (const auto& [name, descr] : kTable)
    if (datatype == name) return descr;
  return {};
}

}  // namespace millrace::clients
