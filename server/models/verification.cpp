#include "server/models/verification.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "runtime/base/digest.hpp"
#include "runtime/base/npy.hpp"

namespace millrace::server::models {

namespace fs = std::filesystem;
using runtime::pipeline::Frame;
using runtime::plan::ModelInfo;
using runtime::plan::TensorSignature;

namespace {

constexpr std::chrono::microseconds kSlotPoll{100};

/// Returns NumPy's type string of a datatype, or an empty text if NumPy has no such type.
std::string descr_of(const std::string& datatype) {
  const std::uint64_t bytes = runtime::plan::datatype_bytes(datatype);
  const std::string order = bytes == 1 ? "|" : "<";
  if (datatype == "BOOL") return "|b1";
  if (datatype.starts_with("UINT")) return order + "u" + std::to_string(bytes);
  if (datatype.starts_with("INT")) return order + "i" + std::to_string(bytes);
  if (datatype.starts_with("FP")) return order + "f" + std::to_string(bytes);
  return "";
}

Result<NpyArray> read_frames(const fs::path& file, const TensorSignature& signature, std::uint64_t& frames) {
  MILLRACE_ASSIGN(NpyArray array, read_npy(file));
  const auto bad = [&](const std::string& why) {
    return Error(ErrorCode::kInvalidInput, file.string() + ": " + why);
  };
  const std::string wanted = descr_of(signature.datatype);
  if (array.descr != wanted)
    return bad("has type '" + array.descr + "', tensor '" + signature.name + "' needs '" + wanted + "'");
  const bool axes =
      array.shape.size() == signature.shape.size() && !array.shape.empty() &&
      std::equal(array.shape.begin() + 1, array.shape.end(), signature.shape.begin() + 1,
                 [](std::uint64_t a, std::int64_t b) { return a == static_cast<std::uint64_t>(b); });
  if (!axes || array.shape.front() == 0)
    return bad("needs the shape of tensor '" + signature.name +
               "', "
               "with the number of frames as first axis");
  if (frames != 0 && array.shape.front() != frames)
    return bad("has " + std::to_string(array.shape.front()) + " frames, but another file has " +
               std::to_string(frames));
  frames = array.shape.front();
  return array;
}

/// The inputs and outputs of one frame, in the model's own datatypes.
struct Buffers {
  std::vector<std::vector<std::byte>> inputs, outputs;

  explicit Buffers(const ModelInfo& model) {
    for (const auto& signature : model.inputs) inputs.emplace_back(signature.bytes());
    for (const auto& signature : model.outputs) outputs.emplace_back(signature.bytes());
  }
  Status run(runtime::pipeline::Pipeline& pipeline, std::chrono::milliseconds timeout) {
    Frame frame;
    for (const auto& input : inputs) frame.inputs.emplace_back(input);
    for (auto& output : outputs) frame.outputs.emplace_back(output);
    frame.deadline = runtime::pipeline::Clock::now() + timeout;
    Status ran = pipeline.infer(frame);
    // Submit again if no frame slot is free: a replica has no queue, and its frame slot becomes free only a moment
    // after the previous frame completes.
    while (!ran.ok() && ran.error().code() == ErrorCode::kResourceExhausted) {
      std::this_thread::sleep_for(kSlotPoll);
      ran = pipeline.infer(frame);
    }
    return ran;
  }
};

Status compare(const TensorSignature& signature, std::uint64_t frame, std::span<const std::byte> got,
               std::span<const std::byte> wanted) {
  const auto differs = std::mismatch(got.begin(), got.end(), wanted.begin()).first;
  if (differs == got.end()) return {};
  const std::uint64_t bytes = runtime::plan::datatype_bytes(signature.datatype);
  const std::uint64_t element = static_cast<std::uint64_t>(differs - got.begin()) / bytes;
  return Error(ErrorCode::kDoesNotFit, "verification: frame " + std::to_string(frame) + ", output '" +
                                           signature.name + "', element " + std::to_string(element) + " is " +
                                           to_hex(got.subspan(element * bytes, bytes)) +
                                           " (bytes), stored is " +
                                           to_hex(wanted.subspan(element * bytes, bytes)));
}

}  // namespace

Result<StoredFrames> read_stored_frames(const fs::path& directory, const ModelInfo& model) {
  StoredFrames stored;
  std::error_code ignored;
  if (!fs::exists(directory, ignored)) return stored;
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    const fs::path file = directory / ("in" + std::to_string(i) + ".npy");
    MILLRACE_ASSIGN(NpyArray array, read_frames(file, model.inputs[i], stored.frames));
    stored.inputs.push_back(std::move(array.data));
  }
  stored.outputs.resize(model.outputs.size());
  bool any = false;
  for (std::size_t i = 0; i < model.outputs.size(); ++i) {
    const fs::path file = directory / ("out" + std::to_string(i) + ".npy");
    if (!fs::exists(file, ignored)) continue;
    MILLRACE_ASSIGN(NpyArray array, read_frames(file, model.outputs[i], stored.frames));
    stored.outputs[i] = std::move(array.data);
    any = true;
  }
  if (!any)
    return Error(ErrorCode::kInvalidInput,
                 directory.string() + ": contains no expected output; add out0.npy, or remove the directory");
  return stored;
}

Status verify(runtime::pipeline::Pipeline& pipeline, const StoredFrames& stored,
              const VerifyOptions& options) {
  const ModelInfo& model = pipeline.deployment().model;
  Buffers buffers(model);
  for (std::uint32_t i = 0; i < options.warmup_frames; ++i)
    if (const Status ran = buffers.run(pipeline, options.frame_timeout); !ran.ok())
      return ran.error().within("warm-up frame");
  for (std::uint64_t frame = 0; frame < stored.frames; ++frame) {
    for (std::size_t i = 0; i < stored.inputs.size(); ++i) {
      const std::size_t bytes = buffers.inputs[i].size();
      std::copy_n(stored.inputs[i].begin() + static_cast<std::ptrdiff_t>(frame * bytes), bytes,
                  buffers.inputs[i].begin());
    }
    if (const Status ran = buffers.run(pipeline, options.frame_timeout); !ran.ok())
      return ran.error().within("verification: frame " + std::to_string(frame));
    for (std::size_t i = 0; i < stored.outputs.size(); ++i) {
      if (!stored.outputs[i]) continue;
      const std::size_t bytes = buffers.outputs[i].size();
      MILLRACE_TRY(compare(model.outputs[i], frame, buffers.outputs[i],
                           std::span(*stored.outputs[i]).subspan(frame * bytes, bytes)));
    }
  }
  return {};
}

}  // namespace millrace::server::models
