// Reads whole files up to a size limit, and writes files and directories that are either complete or absent.
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

/// Reads the whole file. Returns kNotFound if it does not exist, and kEnvironment for a missing permission and for I/O
/// errors. Returns kInvalidInput for directories, for pipes and devices (without blocking), and for files longer than
/// `limit_bytes` (without allocating).
Result<std::vector<std::byte>> read_file(const std::filesystem::path& path, std::uint64_t limit_bytes);
Result<std::string> read_text_file(const std::filesystem::path& path, std::uint64_t limit_bytes = 64U << 20U);

/// Reads `bytes` bytes from `offset` on. Returns errors like read_file(), and kInvalidInput if the file ends earlier.
Result<std::string> read_file_part(const std::filesystem::path& path, std::uint64_t offset,
                                   std::uint64_t bytes);

/// Writes a temporary file next to `path`, syncs it and renames it to `path`. So `path` has the old or the new content
/// at any time, never a part. Follows symbolic links; writes directly into a pipe or device. Returns kInvalidInput for
/// a directory, and kResourceExhausted if the disk is full.
Status write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
Status write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Creates a file inside a directory that write_directory_atomically() fills. Does not sync, because
/// write_directory_atomically() syncs the whole directory. The file must not exist. Returns the errors of
/// write_file_atomically().
Status write_new_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
Status write_new_file(const std::filesystem::path& path, std::string_view text);
/// make_folders() creates a directory and its parents; copy_new_file() copies to a new path. Both are meant for use
/// inside write_directory_atomically().
Status make_folders(const std::filesystem::path& path);
Status copy_new_file(const std::filesystem::path& from, const std::filesystem::path& to);

/// Writes a file that another program reads immediately. The file is neither synced nor replaced atomically. Returns
/// kNotFound if the folder is missing, kResourceExhausted if the disk is full, and kEnvironment for other failures.
Status write_scratch_file(const std::filesystem::path& path, std::string_view text);

/// Checks, as far as possible, whether a file can be written at `path`. Called before long work that writes `path`.
Status check_file_place(const std::filesystem::path& path);

/// Whether `path` is a Unix socket of the given type (SOCK_STREAM, SOCK_SEQPACKET) on which no process listens, because
/// the process that created it was killed. Such a socket may be removed. False for anything that is not a socket.
bool is_stale_socket(const std::filesystem::path& path, int type);

/// A file descriptor that its owner closes.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}  // a negative `fd` means no descriptor
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  int get() const { return fd_; }
  /// Takes ownership of `fd`. This object must not own a descriptor already.
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

/// A directory to which only this process writes. The destructor removes the directory.
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
  Descriptor lock_;  // locks the directory; the kernel releases the lock if the process dies
};

/// Makes a new directory <parent>/<prefix>.<pid>.<n> and its parents. Removes directories with the same prefix that
/// killed processes left behind. Returns the errors of write_file_atomically().
Result<ClaimedDirectory> claim_directory(const std::filesystem::path& parent, const std::string& prefix);

/// Lets `fill` write a temporary folder next to `target`, syncs its file system and renames it to `target`.
/// After a crash or power loss, `target` is the whole old or the whole new directory. An existing `target` is
/// swapped out and then removed. A failure leaves `target` unchanged and nothing behind. If the process is
/// killed, the next call for the same target removes the temporary directory that was left behind.
///
/// `fill` must change the directory only by write_new_file(), make_folders(), copy_new_file() or a child
/// process that it waits for, so that an interruption (interruption.hpp) can remove the directory.
Status write_directory_atomically(const std::filesystem::path& target,
                                  const std::function<Status(const std::filesystem::path& temporary)>& fill);

/// Returns the checksums of all files below a directory in the format of `sha256sum`: one line for each file, sorted
/// by path. Leaves out the file `except`. Returns the errors of read_file(), and kInvalidInput for files over 2 GiB.
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
