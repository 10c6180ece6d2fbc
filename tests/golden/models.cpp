#include "tests/golden/models.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <span>

#include "kernels/fast/executor.hpp"
#include "kernels/reference/reference.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/npy.hpp"
#include "tests/paths/paths.hpp"

namespace millrace::golden {
namespace {

/// How bytes of a net's input file become samples: byte / divisor + offset. Pictures are transposed from HWC to CHW.
struct Preparation {
  const char* net;
  const char* inputs;  // the net whose input_u8.npy is read
  double divisor;
  double offset;
};

constexpr Preparation kPreparations[] = {
    {"lenet5_mnist", "lenet5_mnist", 255, 0},        {"tfc_mnist", "lenet5_mnist", 255, 0},
    {"pttdnn_cifar10", "pttdnn_cifar10", 127.5, -1}, {"mpcnn_gestures", "mpcnn_gestures", 255, 0},
    {"resnet8_cifar10", "resnet8_cifar10", 1, 0},    {"vww_mobilenetv1_025", "vww_mobilenetv1_025", 255, 0},
};

Frames prepare(const NpyArray& array, const Preparation& p) {
  Frames f;
  f.count = array.shape[0];
  f.elements = array.elements() / f.count;
  f.data.resize(f.count * f.elements);
  const std::size_t channels = array.shape.size() == 4 ? array.shape[3] : 1;
  const std::size_t area = f.elements / channels;
  for (std::size_t i = 0; i < f.count; ++i)
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t k = 0; k < area; ++k) {
        const auto sample = std::to_integer<unsigned>(array.data[i * f.elements + k * channels + c]);
        f.data[i * f.elements + c * area + k] =
            static_cast<float>(sample) / static_cast<float>(p.divisor) + static_cast<float>(p.offset);
      }
  return f;
}

std::filesystem::path node_directory() {
  return std::filesystem::path(tests::source_dir()) / "tests/node";
}

}  // namespace

std::filesystem::path models_directory() {
  const char* path = std::getenv("MILLRACE_MODELS");
  if (path == nullptr || !std::filesystem::is_directory(path)) return {};
  return path;
}

Result<Frames> load_npy(const std::filesystem::path& path) {
  MILLRACE_ASSIGN(const NpyArray array, read_npy(path));
  if (array.descr != "<f4" || array.shape.empty() || array.shape[0] == 0)
    return Error(ErrorCode::kInvalidInput, path.string() + ": float32 frames are needed");
  Frames f;
  f.count = array.shape[0];
  f.elements = array.elements() / f.count;
  f.data.resize(array.elements());
  std::memcpy(f.data.data(), array.data.data(), array.data.size());
  return f;
}

Status save_npy(const Frames& frames, const std::vector<std::uint64_t>& frame_shape,
                const std::filesystem::path& path) {
  NpyArray array;
  array.descr = "<f4";
  array.shape = frame_shape;
  array.shape.insert(array.shape.begin(), frames.count);
  array.data.resize(frames.data.size() * sizeof(float));
  std::memcpy(array.data.data(), frames.data.data(), array.data.size());
  return write_npy(path, array);
}

Result<Frames> load_frames(const std::string& net) {
  const std::filesystem::path root = models_directory();
  for (const Preparation& p : kPreparations)
    if (net == p.net) return load_frames(net, root / p.inputs / "input_u8.npy");
  return load_npy(root / net / "input_f32.npy");
}

Result<Frames> load_frames(const std::string& net, const std::filesystem::path& pictures) {
  for (const Preparation& p : kPreparations) {
    if (net != p.net) continue;
    MILLRACE_ASSIGN(const NpyArray array, read_npy(pictures));
    return prepare(array, p);
  }
  return Error(ErrorCode::kInvalidInput, net + " takes no pictures");
}

Result<compiler::Model> compile_model(const std::filesystem::path& onnx) {
  compiler::ModelOptions options;
  options.model = onnx;
  std::vector<compiler::StepTime> times;
  compiler::Steps steps(times);
  return compiler::read_model(options, steps);
}

Frames run_reference(const kernels::Program& program, const Frames& inputs, std::size_t count) {
  Frames out;
  out.count = std::min(count, inputs.count);
  for (std::size_t i = 0; i < out.count; ++i) {
    kernels::reference::Buffer in(inputs.elements * sizeof(float));
    std::memcpy(in.data(), inputs.frame(i), in.size());
    const std::vector<kernels::reference::Buffer> results = kernels::reference::run(program, {in});
    out.elements = results[0].size() / sizeof(float);
    const std::size_t at = out.data.size();
    out.data.resize(at + out.elements);
    std::memcpy(out.data.data() + at, results[0].data(), results[0].size());
  }
  return out;
}

Frames run_fast(const kernels::Program& program, const Frames& inputs, std::size_t count) {
  kernels::fast::Executor executor(program);
  Frames out;
  out.count = std::min(count, inputs.count);
  out.elements = program.tensors[program.outputs[0]].elements();
  out.data.resize(out.count * out.elements);
  for (std::size_t i = 0; i < out.count; ++i) {
    const auto* in = reinterpret_cast<const std::byte*>(inputs.frame(i));
    auto* result = reinterpret_cast<std::byte*>(out.data.data() + i * out.elements);
    executor.run(std::span(&in, 1), std::span(&result, 1));
  }
  return out;
}

Status onnxruntime_is_installed() {
  if (std::filesystem::exists(node_directory() / "node_modules/onnxruntime-node") &&
      std::system("command -v node >/dev/null") == 0)
    return {};
  return Error(ErrorCode::kEnvironment, "ONNX Runtime is not installed: run tools/setup test");
}

Result<Frames> run_onnxruntime(const std::filesystem::path& onnx, const Frames& inputs,
                               const std::vector<std::int64_t>& shape) {
  MILLRACE_TRY(onnxruntime_is_installed());
  const TemporaryDirectory directory("millrace-golden");
  const std::filesystem::path in = directory.path() / "in.npy", out = directory.path() / "out.npy";
  MILLRACE_TRY(save_npy(inputs, {shape.begin() + 1, shape.end()}, in));
  const std::string command = "node '" + (node_directory() / "run_model.js").string() + "' '" +
                              onnx.string() + "' '" + in.string() + "' '" + out.string() + "'";
  if (std::system(command.c_str()) != 0) return Error(ErrorCode::kInternal, "failed: " + command);
  return load_npy(out);
}

double output_step(const kernels::Program& program) {
  for (const kernels::Block& b : program.blocks) {
    const auto* d = std::get_if<kernels::Dequantise>(&b.operation);
    if (d != nullptr && b.outputs[0] == program.outputs[0]) return static_cast<double>(d->scale[0]);
  }
  return 0;
}

Agreement compare(const Frames& got, const Frames& wanted, std::size_t frames, double step) {
  Agreement a;
  a.outputs = frames * got.elements;
  for (std::size_t i = a.outputs; i-- > 0;) {
    const double difference =
        std::abs(static_cast<double>(got.data[i]) - static_cast<double>(wanted.data[i]));
    const double steps = step > 0 ? difference / step : difference;
    if (difference == 0)
      ++a.equal;
    else
      a.first_difference = i;
    if (steps < 1.5) ++a.within_one;
    a.worst_steps = std::max(a.worst_steps, steps);
  }
  return a;
}

}  // namespace millrace::golden
