// The pin of a model is the file PIN in the model's folder of a repository. The file holds a version number. While the
// file exists, no other version of the model is loaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "runtime/base/result.hpp"

namespace millrace::server::models {

struct Pin {
  std::uint64_t version = 0;  // 0: there is no pin, or PIN is unreadable
  std::string unreadable;     // why PIN names no version, and the remedy
  bool is_set() const { return version != 0 || !unreadable.empty(); }
  bool operator==(const Pin&) const = default;
};

/// Reads PIN in the model's folder. The file must be a regular file of at most 64 bytes, not a link. White space
/// around the number is skipped.
Pin read_pin(const std::filesystem::path& model_folder);

/// Writes PIN atomically. Replaces whatever PIN was, unless it is a folder. If PIN is a link, the link is replaced and
/// its target is left alone. Returns kInvalidInput if PIN is a folder, kResourceExhausted if the disk is full, and
/// kEnvironment for other failures. Errors name the remedy.
Status write_pin(const std::filesystem::path& model_folder, std::uint64_t version);

/// Returns those errors of write_pin() that can be detected without writing.
Status check_pin_place(const std::filesystem::path& model_folder);

/// Removes PIN, whatever the file holds. Returns kNotFound if the model is not pinned; otherwise fails like
/// write_pin().
Status remove_pin(const std::filesystem::path& model_folder);

/// Returns instructions for an operator that start with "to unpin the model, ".
std::string how_to_unpin(const std::filesystem::path& model_folder);

}  // namespace millrace::server::models
