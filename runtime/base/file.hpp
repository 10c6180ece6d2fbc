// Files and directories: whole reads with a bound, writes that are complete or absent.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"

namespace millrace {

/// Reads the whole file. kNotFound; kEnvironment (permission, I/O); kInvalidInput for a directory, pipe or
/// device, on which it does not block, and for a file longer than `limit_bytes`, for which it allocates
/// nothing.
Result<std::vector<std::byte>> read_file(const std::filesystem::path& path, std::uint64_t limit_bytes);
Result<std::string> read_text_file(const std::filesystem::path& path, std::uint64_t limit_bytes = 64U << 20U);

/// Reads `bytes` bytes from `offset` on. Errors as above, and kInvalidInput if the file ends before.
Result<std::string> read_file_part(const std::filesystem::path& path, std::uint64_t offset,
                                   std::uint64_t bytes);

/// Writes a temporary file beside `path`, syncs it and renames it to `path`. So `path` has the old or the new
/// content at any time, never a part. Writes through links, and directly into a pipe or device. kInvalidInput
/// for a directory, kResourceExhausted if the disk is full.
Status write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
Status write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Creates a file inside a directory that write_directory_atomically() fills. Does not sync: that function
/// syncs the whole directory. The file must not exist. Errors as above.
Status write_new_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
Status write_new_file(const std::filesystem::path& path, std::string_view text);
/// For the same use: a directory with its parents; a copy, which must not exist yet.
Status make_folders(const std::filesystem::path& path);
Status copy_new_file(const std::filesystem::path& from, const std::filesystem::path& to);

/// Writes a file for a tool that reads it at once: neither synced nor atomic. kNotFound if its folder is
/// missing, kEnvironment, kResourceExhausted if the disk is full.
Status write_scratch_file(const std::filesystem::path& path, std::string_view text);

/// Whether a file can be written at `path`, as far as can be known. For output that comes after minutes of
/// work.
Status check_file_place(const std::filesystem::path& path);

/// A file descriptor that its owner closes.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}  // negative: none
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  int get() const { return fd_; }
  /// The object must not hold a descriptor.
  void reset(int fd) { fd_ = fd; }
  /// Closes the descriptor and returns 0 or errno. Some file systems report a full disk only here.
  int close() {
    const int result = ::close(fd_) == 0 ? 0 : errno;
    fd_ = -1;
    return result;
  }

 private:
  int fd_;
};

/// A directory that only this process writes to. The destructor removes it.
class ClaimedDirectory {
 public:
  ClaimedDirectory(ClaimedDirectory&& other) noexcept
      : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}
  ~ClaimedDirectory();
  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return lock_.get(); }

 private:
  friend Result<ClaimedDirectory> claim_directory(const std::filesystem::path&, const std::string&);
  ClaimedDirectory(std::filesystem::path path, Descriptor lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  std::filesystem::path path_;
  Descriptor lock_;  // on the directory; the kernel releases it if the process dies
};

/// Makes a new directory <parent>/<prefix>.<pid>.<n>, with its parents. Removes those of the same prefix that
/// killed processes left. Errors as of write_file_atomically().
Result<ClaimedDirectory> claim_directory(const std::filesystem::path& parent, const std::string& prefix);

/// Lets `fill` write a temporary directory beside `target`, syncs its file system and renames it to `target`.
/// After a crash or a loss of power the old or the new directory is there, never a part. An existing `target`
/// is exchanged and then removed. On failure `target` is unchanged and nothing is left behind. If a process
/// is killed in between, the next call for the same target removes what that process left.
///
/// `fill` must change the directory only by write_new_file(), make_folders(), copy_new_file() or a child
/// process that it waits for, so that an interruption (interruption.hpp) can remove the directory.
Status write_directory_atomically(const std::filesystem::path& target,
                                  const std::function<Status(const std::filesystem::path& temporary)>& fill);

/// The checksums of all files below a directory, as `sha256sum` prints them: a line each, sorted by their path.
/// Leaves out the file `except`. Errors as of read_file(), for files over 2 GiB too.
Result<std::string> sha256_sums(const std::filesystem::path& directory, std::string_view except = {});

/// A new empty directory below the system's temporary directory. The destructor removes it with its content.
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
