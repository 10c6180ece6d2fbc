// What a version must show before traffic comes: that frames go through it, and that stored ones give their
// stored outputs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/pipeline/pipeline.hpp"

namespace millrace::server::models {

/// Frames, each tensor's one behind the other, in the model's order.
struct StoredFrames {
  std::uint64_t frames = 0;
  std::vector<std::vector<std::byte>> inputs;                  // of every input
  std::vector<std::optional<std::vector<std::byte>>> outputs;  // of those outputs that are stored
};

/// Reads `directory`: in0.npy, in1.npy, …, out0.npy, …; no frames where there is no such directory.
/// kInvalidInput, naming the file: an input missing, no output at all, another type than the model's, not a
/// whole number of frames, files that disagree in it. A shape is as the model's, its batch axis the number of
/// frames.
Result<StoredFrames> read_stored_frames(const std::filesystem::path& directory,
                                        const runtime::plan::ModelInfo& model);

struct ProofOptions {
  std::uint32_t warmup_frames = 2;  // of zeros, before the stored ones
  std::chrono::milliseconds frame_timeout{30'000};
};

/// Sends the frames one after the other and waits. kDoesNotFit, naming frame, output and element, where a
/// stored output differs; else as the pipeline fails.
Status prove(runtime::pipeline::Pipeline& pipeline, const StoredFrames& stored, const ProofOptions& options);

}  // namespace millrace::server::models
