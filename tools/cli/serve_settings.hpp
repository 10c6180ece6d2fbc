// The settings of `millrace serve`, from all their sources, and how they change while it runs.
#pragma once

#include <functional>
#include <iosfwd>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"
#include "server/config/load.hpp"
#include "tools/cli/commands.hpp"

namespace millrace::cli {

/// Used by one thread.
class LiveSettings {
 public:
  /// Reads and checks the sources, and sets the log up as they say. Before other threads exist.
  static Result<LiveSettings> load(const ServeCommand& command);

  const server::config::Settings& settings() const { return loaded_.settings; }

  /// What opens a message about a setting (Loaded::named).
  std::string named(std::string_view key) const { return loaded_.named(key); }

  /// Called at every reload with the new settings, all checked. Returns what it read again, in words for the
  /// log ("2 tokens"; empty: nothing); what it refuses is logged, and the rest of the reload goes on.
  using Apply = std::function<Result<std::string>(const server::config::Settings&)>;
  void on_reload(Apply apply) { appliers_.push_back(std::move(apply)); }

  /// Asked at every reload what is to be said against settings that hold each for itself: `now` is what would
  /// be. An error keeps all as it is.
  using Check = std::function<Status(const LiveSettings& now)>;
  void check_on_reload(Check check) { checks_.push_back(std::move(check)); }

  /// A live setting that nothing here uses, so that a change of it waits for a restart.
  void wait_for_restart(std::string key) { waiting_.insert(std::move(key)); }

  /// Reads the sources again. What does not hold changes nothing and is logged; so is what only a restart
  /// changes. Whether anything was taken.
  bool reload();

  /// Every setting with its value and origin, as text or JSON.
  void print(std::ostream& out) const;

 private:
  LiveSettings(ServeCommand command, server::config::Loaded loaded)
      : command_(std::move(command)), loaded_(std::move(loaded)) {}
  static Result<server::config::Loaded> read(const ServeCommand& command);
  void set_log_level() const;

  ServeCommand command_;
  server::config::Loaded loaded_;
  std::vector<Apply> appliers_;
  std::vector<Check> checks_;
  std::set<std::string, std::less<>> waiting_;
};

}  // namespace millrace::cli
