#include "tools/cli/serve_settings.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <map>
#include <ostream>
#include <utility>

#include "runtime/base/log.hpp"
#include "server/config/load.hpp"

namespace millrace::cli {

namespace config = server::config;
namespace json = boost::json;

namespace {

struct JsonOf {
  json::value operator()(std::monostate) const { return nullptr; }
  json::value operator()(const auto& one) const { return json::value_from(one); }
};

std::filesystem::path settings_file(const ServeCommand& command,
                                    const std::map<std::string, std::string>& environment) {
  const auto named = environment.find("MILLRACE_CONFIG");
  return command.config.empty() && named != environment.end() ? std::filesystem::path(named->second)
                                                              : std::filesystem::path(command.config);
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

}  // namespace

Result<config::Loaded> LiveSettings::read(const ServeCommand& command) {
  config::Sources sources;
  sources.environment = config::process_environment();
  sources.flags = command.flags;
  sources.file = settings_file(command, sources.environment);
  return config::load(sources);
}

std::string LiveSettings::sources() const {
  const auto file = settings_file(command_, config::process_environment());
  return file.empty() ? "no file" : file.string();
}

void LiveSettings::set_log_level() const {
  auto level = log::Level::kInfo;
  log::parse_level(settings().log_level, level);
  if (command_.common.quiet && loaded_.origin("log.level") == "default") level = log::Level::kWarning;
  log::set_level(level);
}

Result<LiveSettings> LiveSettings::load(const ServeCommand& command) {
  MILLRACE_ASSIGN(auto loaded, read(command));
  LiveSettings live(command, std::move(loaded));
  log::configure(log::Level::kInfo, live.settings().log_format == "json");
  live.set_log_level();
  for (const auto& warning : live.loaded_.warnings) log::warning("serve", warning);
  return live;
}

Status LiveSettings::reload() {
  Status done = try_reload();
  state_->successful = done.ok();
  if (done.ok())
    state_->succeeded = std::chrono::system_clock::now();
  else
    log::error("serve", "reload refused: " + done.error().message() +
                            "; all settings and loaded files stay unchanged");
  return done;
}

Status LiveSettings::try_reload() {
  MILLRACE_ASSIGN(auto fresh, read(command_));
  const LiveSettings now(command_, fresh);
  for (const auto& check : checks_) MILLRACE_TRY(check(now));
  auto next = settings();
  std::vector<std::string> changed, waiting;
  for (const auto* setting : config::differing(settings(), fresh.settings)) {
    const bool live = setting->live && !waiting_.contains(setting->key);
    (live ? changed : waiting).emplace_back(setting->key);
    if (live) config::assign(*setting, fresh.settings, next);
  }
  std::vector<Prepared> files;
  for (const auto& prepare : files_) {
    MILLRACE_ASSIGN(auto file, prepare(next));
    files.push_back(std::move(file));
  }
  std::vector<std::string> in_force;
  for (const auto& file : files) {
    const bool differs = file.apply();
    if (!file.in_force.empty()) in_force.push_back(file.in_force);
    if (differs && std::find(changed.begin(), changed.end(), file.key) == changed.end())
      changed.push_back("contents of " + std::string(file.key));
  }
  fresh.settings = std::move(next);
  loaded_ = std::move(fresh);
  set_log_level();
  state_->wait_for_restart = waiting.size();
  log::info("serve", "settings read again; changed: " + (changed.empty() ? "none" : joined(changed)) +
                         (in_force.empty() ? "" : "; in force: " + joined(in_force)));
  if (!waiting.empty()) log::warning("serve", "reload: only a restart changes " + joined(waiting));
  return {};
}

void LiveSettings::print(std::ostream& out) const {
  if (command_.common.json) {
    json::object all;
    for (const auto& setting : config::settings())
      all[std::string(setting.key)] =
          json::object{{"value", std::visit(JsonOf(), config::value_of(setting, settings()))},
                       {"origin", loaded_.origin(setting.key)},
                       {"environment", config::environment_name(setting.key)},
                       {"live", setting.live}};
    out << json::serialize(json::object{{"schema", 1}, {"settings", std::move(all)}}) << '\n';
    return;
  }
  out << config::document(loaded_);
}

}  // namespace millrace::cli
