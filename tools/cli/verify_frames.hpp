// Makes the frames that `verify` runs and compares their outputs with those of kernels/reference, at every fidelity.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/plan/deployment.hpp"
#include "tools/cli/commands.hpp"
#include "tools/cli/verify_model.hpp"

namespace millrace::cli {

using FrameData = std::vector<Buffer>;  // one buffer for each input or output of the model

struct VerifyFrames {
  std::vector<FrameData> inputs;
  std::vector<Buffer> expected;  // the first output of each frame; empty without --expect
};

/// Reads at most --frames frames from the files --inputs and --expect. Without --inputs, draws --frames (by default
/// `random_frames`) random frames from --seed. The errors kInvalidInput and kNotFound name the file and the tensor.
Result<VerifyFrames> make_frames(const VerifyCommand& command, const runtime::plan::ModelInfo& model,
                                 std::uint32_t random_frames);

struct Findings {
  std::uint64_t frames = 0, mismatches = 0, mismatched_frames = 0;
  std::uint64_t first_frame = 0, first_element = 0;  // valid if mismatches > 0
  std::string first_output;
  std::optional<Difference> difference;
  bool expected = false;
  std::uint64_t expect_compared = 0, expect_mismatches = 0;
  double expect_largest = 0;
};

std::uint64_t differing_bytes(const Buffer& a, const Buffer& b);

/// Compares the outputs of frame `index`, in the model's order, with `wanted` and adds the result to `findings`.
void compare_frame(const ReferenceModel& reference, const runtime::plan::ModelInfo& model,
                   const VerifyCommand& command, const VerifyFrames& frames, std::uint64_t index,
                   const FrameData& outputs, const FrameData& wanted, Findings& findings);

/// Returns kDoesNotFit if any output differs; the message names the first difference.
Status verdict(const Findings& findings);

}  // namespace millrace::cli
