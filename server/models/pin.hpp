// The pin of a model: the file PIN in the model's folder of a repository. The file holds the number of one
// version. While it exists, no other version of the model is loaded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "runtime/base/result.hpp"

namespace millrace::server::models {

struct Pin {
  std::uint64_t version = 0;  // 0: no pin, or an unreadable one
  std::string unreadable;     // why PIN names no version, and the remedy
  bool is_set() const { return version != 0 || !unreadable.empty(); }
  bool operator==(const Pin&) const = default;
};

/// Reads the folder's PIN: a regular file of at most 64 bytes, not a link. Skips white space around the
/// number.
Pin read_pin(const std::filesystem::path& model_folder);

/// Writes the file atomically. Replaces whatever PIN is, unless it is a folder; replaces a link and not its
/// target. Errors name the remedy: kInvalidInput (PIN is a folder), kEnvironment, kResourceExhausted (disk
/// full).
Status write_pin(const std::filesystem::path& model_folder, std::uint64_t version);

/// The errors of write_pin() that can be known beforehand.
Status check_pin_place(const std::filesystem::path& model_folder);

/// Removes the file, whatever it holds. kNotFound if the model is not pinned; otherwise errors as
/// write_pin().
Status remove_pin(const std::filesystem::path& model_folder);

/// "to unpin the model, …": instructions for an operator.
std::string how_to_unpin(const std::filesystem::path& model_folder);

}  // namespace millrace::server::models
