#include "tools/cli/serve_repository_check.hpp"

#include <algorithm>
#include <iterator>
#include <string>

#include "runtime/base/log.hpp"
#include "server/models/directory.hpp"
#include "server/models/verification.hpp"
#include "tools/cli/serve_models.hpp"

namespace millrace::cli {
namespace {

namespace models = server::models;
using server::config::Settings;
using Kind = models::VersionDirectory::Kind;

/// Checks a version in the same way as a load of it does, but without using cards.
Status check_version(const Settings& settings, const runtime::plan::Cluster& cluster,
                     const models::VersionDirectory& version) {
  if (version.kind == Kind::kSource) return {};
  MILLRACE_ASSIGN(const auto loaded, runtime::plan::load_deployment(version.path));
  const auto stored = models::read_stored_frames(version.path / "verify", loaded.plan.model);
  if (!stored.ok()) return stored.error();
  return check_cards(settings, cluster, loaded, replicas_of(loaded, settings));
}

std::string named(const std::string& model, std::uint64_t version) {
  return "model '" + model + "' version '" + std::to_string(version) + "'";
}

/// Checks that the version that the server should serve can be loaded; otherwise returns the first error. If
/// the model is pinned, checks only the pinned version.
Status check_model(const Settings& settings, const runtime::plan::Cluster& cluster, const std::string& model,
                   const models::ModelDirectory& directory) {
  const models::Versions& versions = directory.versions;
  const bool pinned = directory.pin.is_set();
  MILLRACE_ASSIGN(const auto should, models::version_to_serve(model, directory));
  if (pinned) log::info("serve", named(model, should->first) + " is pinned");
  for (auto empty = std::next(should); !pinned && empty != versions.end(); ++empty)
    log::warning("serve", named(model, empty->first) + " would be skipped: " + empty->second.path.string() +
                              ' ' + models::kHoldsNothing + "; complete the copy or remove the directory");
  Status first;
  for (auto version = std::next(should); version != versions.begin();) {
    --version;
    if (pinned && version != should) break;
    if (version->second.kind == Kind::kNothing) continue;
    const Status loads = check_version(settings, cluster, version->second);
    if (loads.ok()) {
      log::info("serve", "model '" + model + "': version '" + std::to_string(version->first) + "' would be " +
                             (version->second.kind == Kind::kSource ? "compiled and served" : "served"));
      return first;
    }
    log::warning("serve", named(model, version->first) + " would not load: " + loads.error().message());
    if (first.ok()) first = loads.error().within(named(model, version->first));
  }
  log::warning("serve", "model '" + model + "': no version would be served" +
                            (pinned ? "; " + models::how_to_unpin(directory.path) : ""));
  return first;
}

}  // namespace

Status check_repository(const LiveSettings& live, const Deployments& deployments,
                        const runtime::plan::Cluster& cluster) {
  const Settings& settings = live.settings();
  MILLRACE_ASSIGN(const auto options, repository_options_from(settings));
  MILLRACE_ASSIGN(const auto found, models::scan(options.root));
  for (const auto& wanted : options.load)
    if (wanted != "*" && !found.contains(wanted))
      return Error(ErrorCode::kInvalidInput, live.named("repository.load") + ": " + options.root.string() +
                                                 " holds no model '" + wanted + "'");
  Status first;
  std::size_t failed = 0;
  for (const auto& [model, directory] : found) {
    const auto replaces = [&own = model](const auto& deployment) {
      return deployment->plan.model.name == own;
    };
    if (std::any_of(deployments.begin(), deployments.end(), replaces)) continue;
    const auto names = [&own = model](const std::string& wanted) { return wanted == "*" || wanted == own; };
    if (options.mode == models::RepositoryMode::kExplicit &&
        std::none_of(options.load.begin(), options.load.end(), names))
      continue;
    const Status good = check_model(settings, cluster, model, directory);
    if (good.ok()) continue;
    ++failed;
    if (first.ok()) first = good;
  }
  if (first.ok()) return first;
  return Error(
      first.error().code(),
      std::to_string(failed) +
          (failed == 1 ? " model version that the server should serve from the repository does not load: "
                       : " model versions that the server should serve from the repository do not load; "
                         "the first: ") +
          first.error().message());
}

}  // namespace millrace::cli
