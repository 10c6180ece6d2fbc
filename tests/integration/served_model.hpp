// Compiles, verifies and serves a model file, and compares every byte with the reference of the whole model.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/program/program.hpp"
#include "tests/support/process.hpp"

namespace millrace::tests {

/// Reads an ONNX model and returns its whole program, as it is before planning. Throws std::runtime_error.
kernels::Program program_of(const std::filesystem::path& onnx);

/// Writes a cluster of one emulated card to `folder`/clusters/one-<device>.yaml and returns the file's path.
std::filesystem::path write_one_card(const std::filesystem::path& folder, const std::string& device);

/// Runs `millrace compile` and names the model 'net'. Replaces an older deployment in the same directory. `more`
/// contains further arguments.
Outcome compile_model(const std::filesystem::path& onnx, const std::filesystem::path& cluster,
                      const std::filesystem::path& deployment, const std::vector<std::string>& more = {});

/// Runs `millrace verify`. Fails the current test if it finds a difference or does not run two frames. `more`
/// contains further arguments, such as {"--cluster", file}.
void expect_verified(const std::filesystem::path& deployment, const std::vector<std::string>& more = {});

/// Serves the deployment over HTTP, sends two frames, and fails the current test if any byte of an answer
/// differs from the reference.
void expect_served(const std::filesystem::path& deployment, const kernels::Program& model,
                   const std::vector<std::string>& more = {});

}  // namespace millrace::tests
