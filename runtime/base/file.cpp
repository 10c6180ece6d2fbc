#include "runtime/base/file.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <optional>
#include <system_error>

#include "runtime/base/digest.hpp"
#include "runtime/base/interruption.hpp"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostSummedBytes = std::uint64_t{2} << 30U;

Error os_error(const fs::path& path, const char* doing, int code) {
  ErrorCode kind = ErrorCode::kEnvironment;
  std::string remedy;
  if (code == ENOENT || code == ENOTDIR) kind = ErrorCode::kNotFound;
  if (code == ENOSPC || code == EDQUOT || code == EFBIG) {
    kind = ErrorCode::kResourceExhausted;
    remedy = "; free space there or write elsewhere";
  }
  return Error(kind,
               path.string() + ": cannot " + doing + ": " + std::generic_category().message(code) + remedy);
}

int sync_directory(const fs::path& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return errno;
  return ::fsync(fd.get()) == 0 ? 0 : errno;
}

/// Returns the folder of `path`, and the prefix of the names of temporary files that are written there.
std::pair<fs::path, std::string> temporaries_beside(const fs::path& path) {
  fs::path absolute = fs::absolute(path).lexically_normal();
  if (!absolute.has_filename()) absolute = absolute.parent_path();
  return {absolute.parent_path(), "." + absolute.filename().string() + ".tmp"};
}

/// Returns a name that no other thread or process uses.
std::string unique_name(const std::string& prefix) {
  static std::atomic<unsigned> counter{0};
  return prefix + "." + std::to_string(::getpid()) + "." + std::to_string(counter++);
}

/// Opens `file` for writing, with `flags` added to the open flags, and writes the bytes. Error messages name `path`.
Status write_bytes(const fs::path& file, const fs::path& path, std::span<const std::byte> bytes, int flags,
                   bool sync = false) {
  Descriptor fd(::open(file.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | flags, 0644));
  if (fd.get() < 0) return os_error(path, (flags & O_CREAT) != 0 ? "create the file" : "open", errno);
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error(path, "write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  if (sync && ::fsync(fd.get()) != 0) return os_error(path, "write", errno);
  if (const int code = fd.close(); code != 0) return os_error(path, "write", code);
  return {};
}

Error directory_error(const fs::path& path) {
  return Error(ErrorCode::kInvalidInput, path.string() + ": is a directory, a file is needed");
}

bool is_at(const Descriptor& fd, const fs::path& path) {
  struct stat opened {
  }, named{};
  return ::fstat(fd.get(), &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/// Removes directories that killed processes claimed. A living process holds a lock on each directory that it
/// claimed, so the process ids in the names do not matter.
void remove_unclaimed(const fs::path& parent, const std::string& prefix) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(parent, code)) {
    if (!entry.path().filename().string().starts_with(prefix + ".")) continue;
    const Descriptor fd(::open(entry.path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd.get() >= 0 && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) fs::remove_all(entry.path(), code);
  }
}

/// Opens a regular file into `fd` and sets `size` to its length.
Status open_regular(const fs::path& path, Descriptor& fd, std::uint64_t& size) {
  // O_NONBLOCK, because opening or reading a FIFO without a writer would block.
  fd.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return os_error(path, "open", errno);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return os_error(path, "read", errno);
  if (S_ISDIR(info.st_mode)) return directory_error(path);
  if (!S_ISREG(info.st_mode))
    return Error(ErrorCode::kInvalidInput,
                 path.string() + ": is a pipe, device or socket; give a file on disk");
  size = static_cast<std::uint64_t>(info.st_size);
  return {};
}

}  // namespace

Result<std::vector<std::byte>> read_file(const fs::path& path, std::uint64_t limit_bytes) {
  Descriptor fd(-1);
  std::uint64_t size = 0;
  MILLRACE_TRY(open_regular(path, fd, size));
  const auto too_long = [&] {
    return Error(ErrorCode::kInvalidInput,
                 path.string() + ": longer than the " + std::to_string(limit_bytes) + " bytes allowed here");
  };
  if (size > limit_bytes) return too_long();

  // Reads one byte more than the file should have, to detect that the file ends there.
  std::vector<std::byte> bytes(static_cast<std::size_t>(size) + 1);
  std::size_t filled = 0;
  while (true) {
    if (filled > limit_bytes) return too_long();
    if (filled == bytes.size()) bytes.resize(filled + 65536);
    const ssize_t n = ::read(fd.get(), bytes.data() + filled, bytes.size() - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error(path, "read", errno);
    if (n == 0) break;
    filled += static_cast<std::size_t>(n);
  }
  bytes.resize(filled);
  return bytes;
}

Result<std::string> read_text_file(const fs::path& path, std::uint64_t limit_bytes) {
  MILLRACE_ASSIGN(const auto bytes, read_file(path, limit_bytes));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<std::string> read_file_part(const fs::path& path, std::uint64_t offset, std::uint64_t bytes) {
  Descriptor fd(-1);
  std::uint64_t size = 0;
  MILLRACE_TRY(open_regular(path, fd, size));
  const auto too_short = [&] {
    return Error(ErrorCode::kInvalidInput, path.string() + ": ends at byte " + std::to_string(size) + ", " +
                                               std::to_string(bytes) + " are wanted from byte " +
                                               std::to_string(offset) + " on");
  };
  if (offset > size || bytes > size - offset) return too_short();
  std::string data(static_cast<std::size_t>(bytes), '\0');
  for (std::size_t filled = 0; filled < data.size();) {
    const ssize_t n =
        ::pread(fd.get(), data.data() + filled, data.size() - filled, static_cast<off_t>(offset + filled));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error(path, "read", errno);
    if (n == 0) return too_short();
    filled += static_cast<std::size_t>(n);
  }
  return data;
}

Status write_file_atomically(const fs::path& path, std::span<const std::byte> bytes) {
  fs::path target = path;
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return directory_error(path);
    // Write directly: renaming a file over a device or pipe would replace the device for all its users.
    if (!S_ISREG(info.st_mode)) return write_bytes(path, path, bytes, 0);
    std::error_code code;
    target = fs::canonical(path, code);
    if (code) return os_error(path, "follow the link", code.value());
  }
  const auto [folder, prefix] = temporaries_beside(target);
  const fs::path temporary = folder / unique_name(prefix);
  Unfinished unfinished(temporary);
  Status written = [&]() -> Status {
    const auto held = hold_off_interruption();
    return write_bytes(temporary, path, bytes, O_CREAT | O_EXCL, true);
  }();
  if (written.ok()) {
    const int code = unfinished.put_in_place(
        path, [&] { return ::rename(temporary.c_str(), target.c_str()) == 0 ? 0 : errno; });
    if (code != 0) written = os_error(path, "put the file in place", code);
  }
  if (!written.ok()) {
    ::unlink(temporary.c_str());
    return written.error();
  }
  sync_directory(folder);
  return {};
}

Status write_file_atomically(const fs::path& path, std::string_view text) {
  return write_file_atomically(path, std::as_bytes(std::span(text.data(), text.size())));
}

Status write_new_file(const fs::path& path, std::span<const std::byte> bytes) {
  const auto held = hold_off_interruption();
  return write_bytes(path, path, bytes, O_CREAT | O_EXCL);
}

Status write_new_file(const fs::path& path, std::string_view text) {
  return write_new_file(path, std::as_bytes(std::span(text.data(), text.size())));
}

Status make_folders(const fs::path& path) {
  const auto held = hold_off_interruption();
  std::error_code code;
  fs::create_directories(path, code);
  if (code) return os_error(path, "create the directory", code.value());
  return {};
}

Status copy_new_file(const fs::path& from, const fs::path& to) {
  const auto held = hold_off_interruption();
  std::error_code code;
  fs::copy_file(from, to, code);
  if (code) return os_error(from, "copy the file", code.value());
  return {};
}

Status write_scratch_file(const fs::path& path, std::string_view text) {
  return write_bytes(path, path, std::as_bytes(std::span(text.data(), text.size())), O_CREAT | O_TRUNC);
}

bool is_stale_socket(const fs::path& path, int type) {
  sockaddr_un address{};
  struct stat status {};
  const std::string& text = path.native();
  if (text.size() >= sizeof address.sun_path || ::lstat(path.c_str(), &status) != 0 ||
      !S_ISSOCK(status.st_mode))
    return false;
  address.sun_family = AF_UNIX;
  text.copy(address.sun_path, text.size());
  const Descriptor probe(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return probe.get() >= 0 &&
         ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
         errno == ECONNREFUSED;
}

Status check_file_place(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return directory_error(path);
    if (!S_ISREG(info.st_mode)) return {};
  }
  const fs::path folder = temporaries_beside(path).first;
  if (::stat(folder.c_str(), &info) != 0) return os_error(path, "create the file", errno);
  if (!S_ISDIR(info.st_mode)) return os_error(path, "create the file", ENOTDIR);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return os_error(path, "create the file", errno);
  return {};
}

ClaimedDirectory::~ClaimedDirectory() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

Result<ClaimedDirectory> claim_directory(const fs::path& parent, const std::string& prefix) {
  std::error_code code;
  fs::create_directories(parent, code);
  if (code) return os_error(parent, "create a directory in it", code.value());
  remove_unclaimed(parent, prefix);
  while (true) {
    const fs::path path = parent / unique_name(prefix);
    if (::mkdir(path.c_str(), 0777) != 0) {
      if (errno == EEXIST) continue;  // a dead process with the same id left this directory
      return os_error(parent, "create a directory in it", errno);
    }
    Descriptor lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (lock.get() < 0 && errno != ENOENT) return os_error(path, "open", errno);
    if (lock.get() < 0) continue;
    // On a file system without locks no process removes directories, because removal needs the same lock. If
    // another process removed this directory before it was locked, the next name is tried.
    const bool locked = ::flock(lock.get(), LOCK_EX) == 0;
    if (!locked || is_at(lock, path)) return ClaimedDirectory(path, std::move(lock));
  }
}

Status write_directory_atomically(const fs::path& target,
                                  const std::function<Status(const fs::path&)>& fill) {
  std::error_code ignored;
  if (fs::exists(target, ignored) && !fs::is_directory(target, ignored))
    return Error(ErrorCode::kInvalidInput, target.string() + ": exists and is not a directory");
  const auto [folder, prefix] = temporaries_beside(target);
  std::optional<Unfinished> unfinished;
  const auto claimed = [&, parent = folder, beginning = prefix]() -> Result<ClaimedDirectory> {
    const auto held = hold_off_interruption();
    auto made = claim_directory(parent, beginning);
    if (made.ok()) unfinished.emplace(made->path());
    return made;
  }();
  if (!claimed.ok()) return claimed.error();
  const fs::path& temporary = claimed->path();
  MILLRACE_TRY(fill(temporary));
  // One syncfs() covers all files: an fsync() for each of hundreds of files takes seconds on a busy disk.
  if (::syncfs(claimed->descriptor()) != 0) return os_error(temporary, "sync", errno);
  const auto rename_with = [&](unsigned flags) {
    return ::syscall(SYS_renameat2, AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), flags) == 0
               ? 0
               : errno;
  };
  const int code = unfinished->put_in_place(target, [&] {
    const int done = rename_with(RENAME_NOREPLACE);
    return done == EEXIST ? rename_with(RENAME_EXCHANGE) : done;  // `temporary` is then the old directory
  });
  if (code != 0) return os_error(target, "put the directory in place", code);
  sync_directory(folder);
  return {};
}

Result<std::string> sha256_sums(const fs::path& directory, std::string_view except) {
  std::map<std::string, std::string> sums;
  std::error_code code;
  for (auto it = fs::recursive_directory_iterator(directory, code);
       !code && it != fs::recursive_directory_iterator(); it.increment(code)) {
    const std::string name = it->path().lexically_relative(directory).generic_string();
    if (name == except || it->is_directory(code)) continue;
    MILLRACE_ASSIGN(const auto bytes, read_file(it->path(), kMostSummedBytes));
    sums[name] = sha256_hex(bytes);
  }
  if (code) return os_error(directory, "list the directory", code.value());
  std::string text;
  for (const auto& [name, sum] : sums) text += sum + "  " + name + "\n";
  return text;
}

TemporaryDirectory::TemporaryDirectory(std::string_view prefix) {
  std::string pattern = (fs::temp_directory_path() / (std::string(prefix) + ".XXXXXX")).string();
  if (::mkdtemp(pattern.data()) == nullptr)
    throw fs::filesystem_error("cannot create a temporary directory", pattern,
                               std::error_code(errno, std::generic_category()));
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace millrace
