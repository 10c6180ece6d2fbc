// The pin of a model: the file PIN in the model's folder of a repository. It holds the number of one version,
// and while it is there no other version of the model is loaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "runtime/base/result.hpp"

namespace millrace::server::models {

struct Pin {
  std::uint64_t version = 0;  // 0: there is no pin, or it is unreadable
  std::string unreadable;     // why PIN names no version, and the remedy; empty where it names one
  bool is_set() const { return version != 0 || !unreadable.empty(); }
  bool operator==(const Pin&) const = default;
};

/// What the folder's PIN says. Reads a regular file of at most 64 bytes, and follows no link. White space
/// around the number is skipped.
Pin read_pin(const std::filesystem::path& model_folder);

/// Writes the file whole: the old pin or the new one is there, never a part. What lies at its place and is no
/// folder is replaced, a link itself and not what it leads to. Errors name the remedy: kInvalidInput where
/// PIN is a folder, kEnvironment, kResourceExhausted (disk full).
Status write_pin(const std::filesystem::path& model_folder, std::uint64_t version);

/// What would make write_pin() fail that can be known beforehand.
Status check_pin_place(const std::filesystem::path& model_folder);

/// Removes the file, whatever it holds. kNotFound where the model is not pinned; else as write_pin().
Status remove_pin(const std::filesystem::path& model_folder);

/// "to unpin the model, …": what an operator does about a pin that stands in the way.
std::string how_to_unpin(const std::filesystem::path& model_folder);

}  // namespace millrace::server::models
