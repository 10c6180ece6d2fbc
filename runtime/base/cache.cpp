#include "runtime/base/cache.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "runtime/base/file.hpp"
#include "runtime/base/text.hpp"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr char kSums[] = "SHA256SUMS";
constexpr char kLocks[] = "locks";
constexpr char kElsewhere[] = " (MILLRACE_CACHE puts the cache elsewhere)";
constexpr std::uint64_t kFullBelow = 4U << 20U;
constexpr std::chrono::milliseconds kLockPoll{20};

Error failed(const fs::path& path, const std::string& what, int code) {
  const bool full = code == ENOSPC || code == EDQUOT;
  return Error(full ? ErrorCode::kResourceExhausted : ErrorCode::kEnvironment,
               path.string() + ": cannot " + what + ": " + std::strerror(code) +
                   (full ? "; free space there or set MILLRACE_CACHE to another folder"
                         : "; set MILLRACE_CACHE to a folder that you own"));
}

/// Locks a file. Closing the descriptor releases the lock; so does the kernel if the process dies.
Result<Descriptor> take_lock(const fs::path& path, const std::function<void()>& waiting = {},
                             const std::stop_token& stop = {}) {
  Descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (lock.get() < 0) return failed(path, "make a lock", errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK && waiting) waiting();
  // A blocking flock() cannot be stopped, so poll if the caller may ask to stop.
  const bool polls = stop.stop_possible();
  while (::flock(lock.get(), polls ? LOCK_EX | LOCK_NB : LOCK_EX) != 0) {
    if (errno != EINTR && errno != EWOULDBLOCK) return failed(path, "lock", errno);
    if (stop.stop_requested())
      return Error(ErrorCode::kCancelled,
                   path.string() + ": another process holds the lock; waiting for the lock was cancelled");
    if (polls) std::this_thread::sleep_for(kLockPoll);
  }
  return lock;
}

Status make_folder(const fs::path& path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code) return failed(path, "make the folder", code.value());
  return {};
}

/// Refuses a folder that holds other files, because the cache creates, deletes and locks folders below its root.
Status check_own(const fs::path& root) {
  std::error_code code;
  const auto other = [](const fs::directory_entry& entry) { return entry.path().filename() != "lost+found"; };
  if (std::none_of(fs::directory_iterator(root, code), {}, other)) return {};
  // `locks` is checked last: if another process makes the folder a cache meanwhile, that process creates `locks` before
  // any other file.
  if (fs::is_directory(root / kLocks, code)) return {};
  return Error(ErrorCode::kEnvironment, root.string() +
                                            ": contains other files and is not a cache of Millrace; "
                                            "give a separate folder, which is created if it does not exist");
}

}  // namespace

Result<Cache> Cache::open() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const auto given = variable("MILLRACE_CACHE"); !given.empty()) return open(fs::path(given));
  if (const auto xdg = variable("XDG_CACHE_HOME"); xdg.starts_with('/'))
    return open(fs::path(xdg) / "millrace");
  if (const auto home = variable("HOME"); home.starts_with('/'))
    return open(fs::path(home) / ".cache" / "millrace");
  return Error(ErrorCode::kEnvironment,
               "no folder for the cache: none of MILLRACE_CACHE, XDG_CACHE_HOME and HOME is set");
}

Result<Cache> Cache::open(const fs::path& given) {
  std::error_code code;
  fs::path root = fs::absolute(given, code).lexically_normal();
  if (code) return failed(given, "tell where it is", code.value());
  if (!root.has_filename() && root != root.root_path()) root = root.parent_path();  // "x/" -> "x"
  if (root == root.root_path())
    return Error(ErrorCode::kEnvironment,
                 root.string() + " cannot be a cache; give a folder that is only for the cache");
  MILLRACE_TRY(make_folder(root.parent_path()));
  // Create the folder with mode 0700, so that no other user can write to it even for a moment.
  if (::mkdir(root.c_str(), 0700) != 0 && errno != EEXIST) return failed(root, "make the folder", errno);
  struct stat info {};
  if (::stat(root.c_str(), &info) != 0) return failed(root, "look at the cache", errno);
  if (info.st_uid != ::geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return Error(ErrorCode::kEnvironment,
                 root.string() +
                     ": other users can change this cache, but Millrace runs programs from it; "
                     "make yourself its owner and only writer (chmod 700), or set MILLRACE_CACHE");
  MILLRACE_TRY(check_own(root));
  // kLocks must be created first, because check_own() recognises a cache by this folder.
  for (const char* folder : {kLocks, "tmp"}) MILLRACE_TRY(make_folder(root / folder));
  const fs::path scratch = root / "tmp";
  if (::access(scratch.c_str(), W_OK | X_OK) != 0) return failed(root, "write", errno);
  return Cache(root);
}

std::optional<fs::path> Cache::find(const std::string& kind, const std::string& key) const {
  const fs::path entry = root_ / kind / key;
  const auto sums = read_text_file(entry / kSums), found = sha256_sums(entry, kSums);
  if (!sums.ok() || !found.ok() || *sums != *found) return std::nullopt;
  return entry;
}

Result<fs::path> Cache::get(const std::string& kind, const std::string& key, const Make& make,
                            const std::function<void()>& waiting, const std::stop_token& stop) const {
  if (!is_name(kind) || !is_name(key))
    return Error(ErrorCode::kInternal, "'" + kind + "/" + key + "' is no name for a cache entry");
  if (auto found = find(kind, key)) return *std::move(found);
  MILLRACE_ASSIGN(const Descriptor lock, take_lock(root_ / kLocks / key, waiting, stop));
  if (auto found = find(kind, key)) return *std::move(found);

  MILLRACE_ASSIGN(const ClaimedDirectory scratch, folder("scratch"));
  MILLRACE_TRY(make_folder(scratch.path() / "work"));
  MILLRACE_TRY(make_folder(root_ / kind));
  // Make the entry in tmp/, so that a process that dies leaves nothing next to the finished entries.
  const fs::path fresh = scratch.path() / "entry", target = root_ / kind / key;
  const Status made = write_directory_atomically(fresh, [&](const fs::path& entry) -> Status {
    MILLRACE_TRY(make(entry, scratch.path() / "work"));
    const auto sums = sha256_sums(entry);
    if (!sums.ok())
      return Error(is_disk_full(root_) ? ErrorCode::kResourceExhausted : ErrorCode::kEnvironment,
                   sums.error().message());
    return write_new_file(entry / kSums, *sums);
  });
  if (made.ok()) {
    std::error_code ignored;
    fs::remove_all(target, ignored);  // removes a damaged entry
    if (::rename(fresh.c_str(), target.c_str()) != 0) return failed(target, "put the entry in place", errno);
    return target;
  }
  const bool full = made.error().code() == ErrorCode::kResourceExhausted;
  return Error(made.error().code(), made.error().message() + (full ? kElsewhere : ""));
}

Result<ClaimedDirectory> Cache::folder(const std::string& use) const {
  if (!is_name(use) || use.find('.') != std::string::npos)
    return Error(ErrorCode::kInternal, "'" + use + "' is no name for folders in a cache");
  auto claimed = claim_directory(root_ / "tmp", use);
  if (claimed.ok()) return claimed;
  const bool full = claimed.error().code() == ErrorCode::kResourceExhausted;
  return Error(full ? ErrorCode::kResourceExhausted : ErrorCode::kEnvironment,
               claimed.error().message() + kElsewhere);
}

bool is_disk_full(const fs::path& path) {
  std::error_code code;
  const auto space = fs::space(path, code);
  return !code && space.available < kFullBelow;
}

}  // namespace millrace
