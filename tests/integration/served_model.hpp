// A model's file compiled, verified and served by the programs, with every byte held to what the reference
// makes of the model itself.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/program/program.hpp"
#include "tests/support/process.hpp"

namespace millrace::tests {

/// The whole model as the importer and the passes make it, before anything is planned. Throws
/// std::runtime_error.
kernels::Program program_of(const std::filesystem::path& onnx);

/// Writes a cluster of one emulated card of the kind, as `folder`/clusters/one-<device>.yaml; gives the file.
std::filesystem::path write_one_card(const std::filesystem::path& folder, const std::string& device);

/// `millrace compile` under the name 'net'. Replaces what is there.
Outcome compile_model(const std::filesystem::path& onnx, const std::filesystem::path& cluster,
                      const std::filesystem::path& deployment);

/// Fails the present test where `verify` finds a difference, or does not run two frames. `more` are further
/// arguments, as {"--cluster", file}.
void expect_verified(const std::filesystem::path& deployment, const std::vector<std::string>& more = {});

/// Serves the deployment over HTTP, sends two frames, and fails the present test where any byte of an answer
/// is not the reference's.
void expect_served(const std::filesystem::path& deployment, const kernels::Program& model,
                   const std::vector<std::string>& more = {});

}  // namespace millrace::tests
