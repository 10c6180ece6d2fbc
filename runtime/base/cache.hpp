// A local cache of results that take long to compute. An entry is a directory whose name is the digest of all its
// inputs. An entry either exists completely and undamaged, or does not exist.
//
//   <root>/<kind>/<key>/        the entry's files and SHA256SUMS, which is written last
//   <root>/tmp/<use>.<pid>.<n>  a directory that folder() made
//   <root>/locks/<key>          locked by the process that makes the entry
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "runtime/base/file.hpp"
#include "runtime/base/result.hpp"

namespace millrace {

class Cache {
 public:
  /// Opens $MILLRACE_CACHE, else $XDG_CACHE_HOME/millrace, else ~/.cache/millrace, and creates the folder if it is
  /// missing. Returns kEnvironment for "/" and for a folder that cannot be created or written, that another user could
  /// change (programs in the cache are run), or that holds files other than a cache's.
  static Result<Cache> open();
  static Result<Cache> open(const std::filesystem::path& root);

  const std::filesystem::path& root() const { return root_; }

  /// Returns the directory of an entry whose checksums match, or nothing. `kind` and `key` must be valid names
  /// (text.hpp).
  std::optional<std::filesystem::path> find(const std::string& kind, const std::string& key) const;

  /// Writes the entry's files to the empty directory `entry`. `scratch`, for temporary files, is removed afterwards.
  using Make =
      std::function<Status(const std::filesystem::path& entry, const std::filesystem::path& scratch)>;

  /// Returns the entry's directory; calls `make` first if the entry is missing or damaged. If several threads or
  /// processes ask for the same key, one makes the entry and the others wait. `waiting` is called before such a wait.
  /// A request to `stop` ends the wait with kCancelled, but does not stop `make`. A failure leaves nothing behind.
  /// Returns kResourceExhausted if the disk is full.
  Result<std::filesystem::path> get(const std::string& kind, const std::string& key, const Make& make,
                                    const std::function<void()>& waiting = {},
                                    const std::stop_token& stop = {}) const;

  /// Makes a folder for work that produces several entries. First removes the folders of the same use that killed
  /// processes left behind. `use` is a name without a dot. Returns kEnvironment if the folder cannot be created, and
  /// kResourceExhausted if the disk is full.
  Result<ClaimedDirectory> folder(const std::string& use) const;

 private:
  explicit Cache(std::filesystem::path root) : root_(std::move(root)) {}
  std::filesystem::path root_;
};

/// Whether the file system of `path` has less than a few megabytes left. If a tool that writes there fails without an
/// explanation, a full disk is the likely reason.
bool is_disk_full(const std::filesystem::path& path);

}  // namespace millrace
