// Verifies a pipeline before it serves requests: warm-up frames must pass through it, and stored frames must
// give their stored outputs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/pipeline/pipeline.hpp"

namespace millrace::server::models {

/// Stored inputs and outputs, in the order of the model's tensors. Each buffer holds one tensor of all frames, one
/// frame after the other.
struct StoredFrames {
  std::uint64_t frames = 0;
  std::vector<std::vector<std::byte>> inputs;
  std::vector<std::optional<std::vector<std::byte>>> outputs;  // nullopt: the output is not stored
};

/// Reads in0.npy, in1.npy, …, out0.npy, … from `directory`. Returns no frames if the directory does not exist. Each
/// array has its tensor's shape, with the number of frames as batch axis. Returns kInvalidInput, naming the file, for a
/// missing input, if all outputs are missing, and for a wrong type, shape or number of frames.
Result<StoredFrames> read_stored_frames(const std::filesystem::path& directory,
                                        const runtime::plan::ModelInfo& model);

struct VerifyOptions {
  std::uint32_t warmup_frames = 2;  // frames of zeros, computed before the stored frames
  std::chrono::milliseconds frame_timeout{30'000};
};

/// Computes the stored frames one after the other and compares the outputs. Returns kDoesNotFit, naming frame, output
/// and element, if an output differs from the stored output, and the pipeline's error if a frame fails.
Status verify(runtime::pipeline::Pipeline& pipeline, const StoredFrames& stored,
              const VerifyOptions& options);

}  // namespace millrace::server::models
