#include "runtime/base/cache.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/digest.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/text.hpp"

namespace millrace {

namespace {

namespace fs = std::filesystem;

constexpr char kSums[] = "SHA256SUMS";
constexpr char kLocks[] = "locks";
constexpr char kOwner[] = "lock";  // of a folder: locked while its owner lives
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{2} << 30U;
constexpr char kElsewhere[] = " (MILLRACE_CACHE puts the cache elsewhere)";
constexpr std::uint64_t kFullBelow = 4U << 20U;
constexpr std::chrono::milliseconds kLockPoll{20};

Error failed(const fs::path& path, const std::string& what, int code) {
  const bool full = code == ENOSPC || code == EDQUOT;
  return Error(full ? ErrorCode::kResourceExhausted : ErrorCode::kEnvironment,
               path.string() + ": cannot " + what + ": " + std::strerror(code) +
                   (full ? "; free space there or set MILLRACE_CACHE to another folder"
                         : "; set MILLRACE_CACHE to a folder of yours"));
}

/// A lock on a file. The destructor releases it; if the process dies, the kernel does.
class Lock {
 public:
  Lock() = default;
  Lock(Lock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  ~Lock() {
    if (file_ >= 0) ::close(file_);
  }
  static Result<Lock> take(const fs::path& path, const std::function<void()>& waiting = {},
                           const std::stop_token& stop = {}) {
    Lock lock;
    lock.file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock.file_ < 0) return failed(path, "make a lock", errno);
    if (::flock(lock.file_, LOCK_EX | LOCK_NB) == 0) return lock;
    if (errno == EWOULDBLOCK && waiting) waiting();
    // A blocking flock() cannot be stopped, so poll if the caller may ask to stop.
    const bool polls = stop.stop_possible();
    while (::flock(lock.file_, polls ? LOCK_EX | LOCK_NB : LOCK_EX) != 0) {
      if (errno != EINTR && errno != EWOULDBLOCK) return failed(path, "lock", errno);
      if (stop.stop_requested())
        return Error(ErrorCode::kCancelled,
                     path.string() + ": another process holds it; waiting for it was cancelled");
      if (polls) std::this_thread::sleep_for(kLockPoll);
    }
    return lock;
  }
  /// Whether nobody holds the lock; also if the file does not exist.
  static bool free(const fs::path& path) {
    Lock lock;
    lock.file_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    return lock.file_ < 0 || ::flock(lock.file_, LOCK_EX | LOCK_NB) == 0;
  }
  int release() { return std::exchange(file_, -1); }

 private:
  int file_ = -1;
};

/// The content of SHA256SUMS for an entry: lines "<sha256>  <name>", sorted. Empty if a file cannot be read.
std::string sums_of(const fs::path& entry) {
  std::vector<std::string> names;
  std::error_code code;
  for (auto it = fs::recursive_directory_iterator(entry, code);
       !code && it != fs::recursive_directory_iterator(); it.increment(code)) {
    const std::string name = it->path().lexically_relative(entry).generic_string();
    if (name != kSums && !it->is_directory(code)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) {
    const auto bytes = read_file(entry / name, kMaxFileBytes);
    if (!bytes.ok()) return {};
    text += sha256_hex(*bytes) + "  " + name + "\n";
  }
  return code ? std::string() : text;
}

Status make_folder(const fs::path& path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code) return failed(path, "make the folder", code.value());
  return {};
}

/// Refuses a folder that holds other files, because the cache creates, clears and locks folders below its
/// root.
Status check_own(const fs::path& root) {
  std::error_code code;
  const auto other = [](const fs::directory_entry& entry) { return entry.path().filename() != "lost+found"; };
  if (std::none_of(fs::directory_iterator(root, code), {}, other)) return {};
  // Checked last: if another process turns the folder into a cache meanwhile, `locks` is the first file it
  // creates.
  if (fs::is_directory(root / kLocks, code)) return {};
  return Error(ErrorCode::kEnvironment,
               root.string() +
                   ": holds other files and is no cache of Millrace's; give a folder "
                   "of its own, which is made where it is missing");
}

/// A name that no other call in any process uses.
std::string temporary_name(const std::string& begin) {
  static std::atomic<unsigned> counter{0};
  return begin + "." + std::to_string(::getpid()) + "." + std::to_string(counter++);
}

}  // namespace

CacheFolder::CacheFolder(CacheFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::exchange(other.lock_, -1)) {}

CacheFolder::~CacheFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

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
  if (!root.has_filename() && root != root.root_path()) root = root.parent_path();  // "folder/"
  if (root == root.root_path())
    return Error(ErrorCode::kEnvironment, root.string() + " cannot be a cache; give a folder of its own");
  MILLRACE_TRY(make_folder(root.parent_path()));
  // Mode 0700 from the start, whatever the umask, so that no other user gets in meanwhile.
  if (::mkdir(root.c_str(), 0700) != 0 && errno != EEXIST) return failed(root, "make the folder", errno);
  struct stat info {};
  if (::stat(root.c_str(), &info) != 0) return failed(root, "look at the cache", errno);
  if (info.st_uid != ::geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return Error(ErrorCode::kEnvironment,
                 root.string() +
                     ": other users can change this cache, and what is in it gets run; make it "
                     "yours and writable by you alone (chmod 700), or set MILLRACE_CACHE");
  MILLRACE_TRY(check_own(root));
  // kLocks first: see check_own().
  for (const char* folder : {kLocks, "tmp"}) MILLRACE_TRY(make_folder(root / folder));
  if (::access((root / "tmp").c_str(), W_OK | X_OK) != 0) return failed(root, "write", errno);
  return Cache(root);
}

std::optional<fs::path> Cache::find(const std::string& kind, const std::string& key) const {
  const fs::path entry = root_ / kind / key;
  const auto sums = read_text_file(entry / kSums);
  if (!sums.ok() || sums->empty() || sums_of(entry) != *sums) return std::nullopt;
  return entry;
}

Result<fs::path> Cache::get(const std::string& kind, const std::string& key, const Make& make,
                            const std::function<void()>& waiting, const std::stop_token& stop) const {
  if (!is_name(kind) || !is_name(key))
    return Error(ErrorCode::kInternal, "'" + kind + "/" + key + "' is no name for a cache entry");
  if (auto found = find(kind, key)) return *std::move(found);
  MILLRACE_ASSIGN(const Lock lock, Lock::take(root_ / kLocks / key, waiting, stop));
  if (auto found = find(kind, key)) return *std::move(found);
  return make_entry(kind, key, make);
}

/// The caller holds the key's lock, so anything in tmp/ for this key was left by a process that died.
Result<fs::path> Cache::make_entry(const std::string& kind, const std::string& key, const Make& make) const {
  std::error_code ignored;
  for (const auto& left : fs::directory_iterator(root_ / "tmp", ignored))
    if (left.path().filename().string().starts_with(key + ".")) fs::remove_all(left.path(), ignored);

  const fs::path work = root_ / "tmp" / temporary_name(key);
  struct Removed {
    const fs::path& path;
    ~Removed() {
      std::error_code error;
      fs::remove_all(path, error);
    }
  } const removed{work};
  MILLRACE_TRY(make_folder(work / "scratch"));
  const fs::path fresh = work / "entry", target = root_ / kind / key;
  MILLRACE_TRY(make_folder(root_ / kind));
  const auto fill = [&](const fs::path& entry) -> Status {
    MILLRACE_TRY(make(entry, work / "scratch"));
    const std::string sums = sums_of(entry);
    if (sums.empty())
      return Error(is_disk_full(root_) ? ErrorCode::kResourceExhausted : ErrorCode::kEnvironment,
                   entry.string() + ": what was just written there cannot be read");
    return write_new_file(entry / kSums, sums);
  };
  if (const Status made = write_directory_atomically(fresh, fill); !made.ok()) {
    const bool full = made.error().code() == ErrorCode::kResourceExhausted;
    return Error(made.error().code(), made.error().message() + (full ? kElsewhere : ""));
  }
  fs::remove_all(target, ignored);  // a damaged one
  if (::rename(fresh.c_str(), target.c_str()) != 0) return failed(target, "put the entry in place", errno);
  return target;
}

Result<CacheFolder> Cache::folder(const std::string& use) const {
  if (!is_name(use) || use.find('.') != std::string::npos)
    return Error(ErrorCode::kInternal, "'" + use + "' is no name for folders in a cache");
  // Hold this lock until the new folder's own lock is taken. Before that, the folder looks as if its owner
  // had died.
  MILLRACE_ASSIGN(const Lock lock, Lock::take(root_ / kLocks / use));
  std::error_code ignored;
  for (const auto& left : fs::directory_iterator(root_ / "tmp", ignored))
    if (left.path().filename().string().starts_with(use + ".") && Lock::free(left.path() / kOwner))
      fs::remove_all(left.path(), ignored);
  CacheFolder folder(root_ / "tmp" / temporary_name(use), -1);
  MILLRACE_TRY(make_folder(folder.path()));
  MILLRACE_ASSIGN(Lock owner, Lock::take(folder.path() / kOwner));
  folder.lock_ = owner.release();
  return folder;
}

bool is_disk_full(const fs::path& path) {
  std::error_code code;
  const auto space = fs::space(path, code);
  return !code && space.available < kFullBelow;
}

}  // namespace millrace
