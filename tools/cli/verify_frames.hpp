// The frames `verify` runs, and what comparing them with kernels/reference found: the same at every fidelity.
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

using FrameData = std::vector<Buffer>;  // by the model's inputs or outputs

struct VerifyFrames {
  std::vector<FrameData> inputs;
  std::vector<Buffer> expected;  // of the first output, where --expect was given
};

/// As --inputs, --expect and --frames say; without --inputs random ones by --seed, `random_frames` of them
/// unless --frames is given. kInvalidInput and kNotFound name file and tensor.
Result<VerifyFrames> make_frames(const VerifyCommand& command, const runtime::plan::ModelInfo& model,
                                 std::uint32_t random_frames);

struct Findings {
  std::uint64_t frames = 0, mismatches = 0, mismatched_frames = 0;
  std::uint64_t first_frame = 0, first_element = 0;  // where mismatches > 0
  std::string first_output;
  std::optional<Difference> difference;
  bool expected = false;
  std::uint64_t expect_compared = 0, expect_mismatches = 0;
  double expect_largest = 0;
};

std::uint64_t differing_bytes(const Buffer& a, const Buffer& b);

/// One frame's outputs, in the order of the model's.
void compare_frame(const ReferenceModel& reference, const runtime::plan::ModelInfo& model,
                   const VerifyCommand& command, const VerifyFrames& frames, std::uint64_t index,
                   const FrameData& outputs, const FrameData& wanted, Findings& findings);

/// kDoesNotFit where something differs, naming it.
Status verdict(const Findings& findings);

}  // namespace millrace::cli
