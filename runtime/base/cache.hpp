// Results that are dear to compute and cheap to keep, by content: a local folder of entries, each a directory
// under the digest of everything it was made from. An entry is there whole and intact or not at all.
//
//   <root>/<kind>/<key>/        the entry's files and SHA256SUMS, written last
//   <root>/tmp/<key>.<pid>.<n>  an entry being made; a killed maker's goes with the next of that key
//   <root>/tmp/<use>.<pid>.<n>  a CacheFolder, its `lock` held; a killed owner's goes with the next one
//   <root>/locks/<key>          held by who makes that entry
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "runtime/base/result.hpp"

namespace millrace {

/// A folder in a cache's tmp/, gone with the object.
class CacheFolder {
 public:
  CacheFolder(CacheFolder&& other) noexcept;
  CacheFolder& operator=(CacheFolder&&) = delete;
  ~CacheFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  friend class Cache;
  CacheFolder(std::filesystem::path path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::filesystem::path path_;
  int lock_ = -1;  // of the file `lock` in it: free once the owner is gone, however it went
};

class Cache {
 public:
  /// $MILLRACE_CACHE, else $XDG_CACHE_HOME/millrace, else ~/.cache/millrace; made where it is missing.
  /// kEnvironment where it cannot be made or written, or where another user than this one could change it:
  /// what is in it gets run. Likewise where it is the root of all, or holds other files and is no cache.
  static Result<Cache> open();
  static Result<Cache> open(const std::filesystem::path& root);

  const std::filesystem::path& root() const { return root_; }

  /// The entry, after its checksums held; none where it is missing or damaged. `kind` and `key` are names
  /// (text.hpp).
  std::optional<std::filesystem::path> find(const std::string& kind, const std::string& key) const;

  /// Puts what the entry holds into `entry`, an empty directory; may leave anything else in `scratch`, which
  /// goes away afterwards.
  using Make =
      std::function<Status(const std::filesystem::path& entry, const std::filesystem::path& scratch)>;

  /// The entry, made where it is missing or damaged. Of several threads and processes that ask for one key,
  /// one makes it and the others wait for it: `waiting` is called before that, and once `stop` is asked for
  /// the wait ends with kCancelled (what `make` does is its own to end). On failure nothing is left behind;
  /// kResourceExhausted where the disk is full.
  Result<std::filesystem::path> get(const std::string& kind, const std::string& key, const Make& make,
                                    const std::function<void()>& waiting = {},
                                    const std::stop_token& stop = {}) const;

  /// A folder for work that several entries come of; first those of the same use go whose owner was killed.
  /// `use` is a name without a dot. kEnvironment where it cannot be made, kResourceExhausted where the disk
  /// is full.
  Result<CacheFolder> folder(const std::string& use) const;

 private:
  explicit Cache(std::filesystem::path root) : root_(std::move(root)) {}
  Result<std::filesystem::path> make_entry(const std::string& kind, const std::string& key,
                                           const Make& make) const;

  std::filesystem::path root_;
};

/// True where the file system that holds `path` has less than a few megabytes left: why a tool failed that
/// does not say.
bool is_disk_full(const std::filesystem::path& path);

}  // namespace millrace
