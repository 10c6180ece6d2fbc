// The settings of `millrace serve`, read from all their sources, and their reload while the server runs.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"
#include "server/config/load.hpp"
#include "tools/cli/commands.hpp"

namespace millrace::cli {

/// The result of the last reload, which the metrics report. Any thread may read it.
struct ReloadState {
  std::atomic<bool> successful{true};
  /// The time of the last successful reload. Before the first reload, it is the time of the server's start.
  std::atomic<std::chrono::system_clock::time_point> succeeded{std::chrono::system_clock::now()};
  /// The number of settings whose new value takes effect only at a restart.
  std::atomic<std::size_t> wait_for_restart{0};
};

/// The settings of a running server. Not thread-safe.
class LiveSettings {
 public:
  /// Reads and checks all sources of settings, and configures the log. Must be called before other threads exist.
  static Result<LiveSettings> load(const ServeCommand& command);

  /// The settings in force: live settings as of the last reload, all others as of the start.
  const server::config::Settings& settings() const { return loaded_.settings; }

  /// Text for the log: the name of the settings file, or a statement that there is none.
  std::string sources() const;

  /// The setting's name and source, for the beginning of a message about the setting (see Loaded::named).
  std::string named(std::string_view key) const { return loaded_.named(key); }

  /// The content of a file that a reload has read and found valid, but not yet applied.
  struct Prepared {
    std::string_view key;         // the setting that names the file
    std::string in_force;         // the content for the log, such as "2 tokens"; empty if there is no file
    std::function<bool()> apply;  // puts the content in force; false if nothing changed
  };
  /// A reload calls each registered Prepare with the new, checked settings. If any returns an error, the
  /// reload changes nothing; otherwise every Prepared is applied.
  using Prepare = std::function<Result<Prepared>(const server::config::Settings&)>;
  void on_reload(Prepare prepare) { files_.push_back(std::move(prepare)); }

  /// A reload calls each registered Check with the new settings, `now`. A Check finds settings that are valid
  /// one by one but conflict with each other. If it returns an error, the reload changes nothing.
  using Check = std::function<Status(const LiveSettings& now)>;
  void check_on_reload(Check check) { checks_.push_back(std::move(check)); }

  /// From now on, a change of the setting `key` waits for a restart, because nothing in this process can apply it.
  void wait_for_restart(std::string key) { waiting_.insert(std::move(key)); }

  /// Reads the settings again and applies the changed ones. If anything is invalid, changes nothing, logs the
  /// reason and returns the error. Logs each changed setting that needs a restart, at every reload until the
  /// server restarts or the change is undone.
  Status reload();

  std::shared_ptr<const ReloadState> reload_state() const { return state_; }

  /// Prints every setting with its value and origin, as text or JSON.
  void print(std::ostream& out) const;

 private:
  LiveSettings(ServeCommand command, server::config::Loaded loaded)
      : command_(std::move(command)), loaded_(std::move(loaded)) {}
  static Result<server::config::Loaded> read(const ServeCommand& command);
  Status try_reload();
  void set_log_level() const;

  ServeCommand command_;
  server::config::Loaded loaded_;
  std::vector<Prepare> files_;
  std::vector<Check> checks_;
  std::set<std::string, std::less<>> waiting_;
  std::shared_ptr<ReloadState> state_ = std::make_shared<ReloadState>();
};

}  // namespace millrace::cli
