// Files and directories: whole reads with a bound, writes that are complete or absent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace {

/// The whole file. Fails with kNotFound, kEnvironment (permission, I/O), or kInvalidInput where it is no
/// regular file (a directory, a pipe, a device) or longer than `limit_bytes`; neither blocks nor takes the
/// memory first.
Result<std::vector<std::byte>> read_file(const std::filesystem::path& path, std::uint64_t limit_bytes);
Result<std::string> read_text_file(const std::filesystem::path& path, std::uint64_t limit_bytes = 64U << 20U);

/// Its bytes from `offset` on; `bytes` of them. Errors as above, and kInvalidInput where it ends before.
Result<std::string> read_file_part(const std::filesystem::path& path, std::uint64_t offset,
                                   std::uint64_t bytes);

/// Writes a temporary neighbour, syncs it and renames it over `path`: afterwards the old or the new content
/// is there, never a part. A link stays, and what it leads to is written; a pipe or device is written into as
/// it is. kInvalidInput where it is a directory, kResourceExhausted where the disk is full.
Status write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
Status write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// A file that must not be there yet, for what write_directory_atomically() fills: it syncs the whole at its
/// end, and this does not. Errors as above.
Status write_new_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
Status write_new_file(const std::filesystem::path& path, std::string_view text);
/// For the same: a directory with its parents, where they are missing; a copy that must not be there yet.
Status make_folders(const std::filesystem::path& path);
Status copy_new_file(const std::filesystem::path& from, const std::filesystem::path& to);

/// For what a tool reads at once and nobody afterwards: neither synced nor atomic. kNotFound without its
/// folder, kEnvironment, kResourceExhausted where the disk is full.
Status write_scratch_file(const std::filesystem::path& path, std::string_view text);

/// What would make the write fail that can be known now; for what is written after minutes of work.
Status check_file_place(const std::filesystem::path& path);

/// Fills a temporary directory beside `target` through `fill`, syncs its file system and renames it to
/// `target`: after a crash or a loss of power the old directory or the new one is there, never a part. Where
/// `target` exists it is exchanged and the old one removed. On failure (of `fill`, or a full disk) nothing is
/// left behind and `target` is as it was. What processes left that were killed on the way is removed by the
/// next call for the same target. `fill` changes the directory through write_new_file(), make_folders() and
/// copy_new_file() (or a child process that it waits for), so that an interruption (interruption.hpp) can
/// remove it.
Status write_directory_atomically(const std::filesystem::path& target,
                                  const std::function<Status(const std::filesystem::path& temporary)>& fill);

/// A new empty directory below the system's temporary one, removed with everything in it when the object
/// goes.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(std::string_view prefix);  // throws std::filesystem::filesystem_error
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace millrace
