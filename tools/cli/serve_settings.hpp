// The settings of `millrace serve`, from all their sources, and how they change while it runs.
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

/// What became of the last reload, for the metrics. Any thread.
struct ReloadState {
  std::atomic<bool> successful{true};
  /// Of the last reload that was taken, or of the start.
  std::atomic<std::chrono::system_clock::time_point> succeeded{std::chrono::system_clock::now()};
  /// Settings whose value in the sources is not what the server runs with.
  std::atomic<std::size_t> wait_for_restart{0};
};

/// Used by one thread.
class LiveSettings {
 public:
  /// Reads and checks the sources, and sets the log up as they say. Before other threads exist.
  static Result<LiveSettings> load(const ServeCommand& command);

  /// What the server runs with: as the sources said at the start, the live ones as at the last reload.
  const server::config::Settings& settings() const { return loaded_.settings; }

  /// Where settings can come from, in words for the log: the file's name, or that there is none.
  std::string sources() const;

  /// What opens a message about a setting (Loaded::named).
  std::string named(std::string_view key) const { return loaded_.named(key); }

  /// A file that was read again, and holds what it should.
  struct Prepared {
    std::string_view key;         // of the setting that names the file
    std::string in_force;         // what it holds, in words for the log: "2 tokens"; empty: there is no file
    std::function<bool()> apply;  // puts it in force; false where it holds what was in force before
  };
  /// Called at every reload with the settings to come, all checked. The reload is refused as a whole where
  /// one returns an error; else all are applied.
  using Prepare = std::function<Result<Prepared>(const server::config::Settings&)>;
  void on_reload(Prepare prepare) { files_.push_back(std::move(prepare)); }

  /// Asked at every reload what is to be said against settings that hold each for itself: `now` is what would
  /// be. An error keeps all as it is.
  using Check = std::function<Status(const LiveSettings& now)>;
  void check_on_reload(Check check) { checks_.push_back(std::move(check)); }

  /// A live setting that nothing here uses, so that a change of it waits for a restart.
  void wait_for_restart(std::string key) { waiting_.insert(std::move(key)); }

  /// Reads the sources again, and compares them with what runs. What does not hold changes nothing and is
  /// logged. What only a restart changes is logged at every reload until it is restarted or taken back. An
  /// error where the reload was refused.
  Status reload();

  std::shared_ptr<const ReloadState> reload_state() const { return state_; }

  /// Every setting with its value and origin, as text or JSON.
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
