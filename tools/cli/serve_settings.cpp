#include "tools/cli/serve_settings.hpp"

#include <boost/json.hpp>
#include <ostream>

#include "runtime/base/log.hpp"
#include "server/config/document.hpp"

namespace millrace::cli {

namespace config = server::config;
namespace json = boost::json;

namespace {

struct JsonOf {
  json::value operator()(std::monostate) const { return nullptr; }
  json::value operator()(const auto& one) const { return json::value_from(one); }
};

}  // namespace

Result<config::Loaded> LiveSettings::read(const ServeCommand& command) {
  config::Sources sources;
  sources.environment = config::process_environment();
  sources.flags = command.flags;
  sources.file = command.config;
  if (const auto named = sources.environment.find("MILLRACE_CONFIG");
      sources.file.empty() && named != sources.environment.end())
    sources.file = named->second;
  return config::load(sources);
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
  for (const auto& doubt : live.loaded_.doubts) log::warning("serve", doubt);
  return live;
}

bool LiveSettings::reload() {
  const auto refused = [](const Error& error) {
    log::error("serve", "reload: " + error.message() + "; the settings stay as they are");
    return false;
  };
  auto fresh = read(command_);
  if (!fresh) return refused(fresh.error());
  const LiveSettings now(command_, *fresh);
  for (const auto& check : checks_)
    if (const Status good = check(now); !good.ok()) return refused(good.error());
  std::string changed, waiting;
  for (const auto* setting : config::differing(settings(), fresh->settings)) {
    std::string& list = setting->live && !waiting_.contains(setting->key) ? changed : waiting;
    list += (list.empty() ? "" : ", ") + std::string(setting->key);
  }
  loaded_ = std::move(fresh).value();
  set_log_level();
  std::string files;
  for (const auto& apply : appliers_) {
    const auto applied = apply(settings());
    if (!applied.ok())
      log::error("serve", "reload: " + applied.error().message() + "; what was loaded before stays");
    else if (!applied->empty())
      files += (files.empty() ? "; in force: " : ", ") + *applied;
  }
  log::info("serve", "settings read again; changed: " + (changed.empty() ? "none" : changed) + files);
  if (!waiting.empty()) log::warning("serve", "reload: only a restart changes " + waiting);
  return true;
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
