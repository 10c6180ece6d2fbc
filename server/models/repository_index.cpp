// Which versions exist, which should serve, and what index and metrics report of them.
#include <system_error>
#include <utility>

#include "runtime/base/text.hpp"
#include "server/models/repository.hpp"

namespace millrace::server::models {

std::shared_ptr<Model> Repository::serving(const std::string& model) const {
  return registry_.snapshot()->find(model, "");
}

std::uint64_t Repository::serving_version(const std::string& model) const {
  const auto now = serving(model);
  return now == nullptr ? 0 : parse_version(now->version());
}

void Repository::set_state(const std::string& model, std::uint64_t version, ModelState state,
                           std::string reason) {
  const std::lock_guard lock(mutex_);
  states_[model][version] = {state, std::move(reason)};
}

void Repository::mark_wanted(const std::string& model) {
  const std::lock_guard lock(mutex_);
  wanted_.try_emplace(model);
}

void Repository::mark_unwanted(const std::string& model) {
  const std::lock_guard lock(mutex_);
  wanted_.erase(model);
}

/// Records that the version should serve and did not load.
void Repository::pass_over(const Job& job, const Error& why) {
  const std::lock_guard lock(mutex_);
  const auto wanted = wanted_.find(job.model);
  if (wanted == wanted_.end() || job.version < wanted->second.passed_over) return;
  wanted->second.passed_over = job.version;
  wanted->second.why_passed_over = why;
}

/// A version whose folder is gone should not serve.
void Repository::forget_passed_over(const std::string& model, const Versions& versions) {
  const auto wanted = wanted_.find(model);
  if (wanted != wanted_.end() && !versions.contains(wanted->second.passed_over))
    wanted->second.passed_over = 0;
}

/// True if another version should serve than the one that does.
bool Repository::is_outdated(const std::string& model, const Pin& pin, std::uint64_t serves,
                             std::uint64_t passed_over) const {
  if (serves == 0) return false;
  if (pin.is_set()) return serves != pin.version || passed_over == pin.version;
  if (passed_over < serves) return false;
  // Modes none and explicit list the root only at a load, so the folder may be gone by now.
  return kind_of(options_.root / model / std::to_string(passed_over)) != VersionDirectory::Kind::kNothing;
}

void Repository::sample(metrics::Samples& samples) const {
  const auto snapshot = registry_.snapshot();
  std::size_t unavailable = 0;
  std::map<std::string, std::uint64_t> passed_over;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [model, wanted] : wanted_) {
      passed_over[model] = wanted.passed_over;
      if (wanted.failed && snapshot->find(model, "") == nullptr) ++unavailable;
    }
  }
  for (const auto& [model, passed] : passed_over) {
    const auto serves = snapshot->find(model, "");
    const auto folder = folder_of(model);
    const Pin pin = folder.ok() ? read_pin(*folder) : Pin();
    samples.gauge("millrace_model_wanted", "Constant 1, of every model that should be served.",
                  {{"model", model}}, 1);
    if (pin.is_set())
      samples.gauge("millrace_model_pinned",
                    "Constant 1, of every model that should be served and is pinned; without a version where "
                    "PIN is unreadable.",
                    {{"model", model}, {"version", pin.version == 0 ? "" : std::to_string(pin.version)}}, 1);
    samples.gauge(
        "millrace_model_outdated",
        "1 where the version that serves is not the one that should: that did not load, or another is "
        "pinned.",
        {{"model", model}},
        is_outdated(model, pin, serves == nullptr ? 0 : parse_version(serves->version()), passed) ? 1 : 0);
  }
  samples.gauge("millrace_repository_models_unavailable",
                "Models that should be served, could not be loaded, and do not serve.", {},
                static_cast<double>(unavailable));
}

/// The models of the root. A deployment of serve_deployment() hides a model of the same name.
Result<Directory> Repository::list() const {
  Directory all;
  if (!options_.root.empty()) {
    MILLRACE_ASSIGN(all, scan(options_.root));
  }
  for (const auto& [model, directory] : deployments_) all[model] = directory;
  return all;
}

/// The folder of a model in the root. kNotFound; kInvalidInput if a deployment hides the model.
Result<std::filesystem::path> Repository::folder_of(const std::string& model) const {
  if (deployments_.contains(model))
    return Error(ErrorCode::kInvalidInput, "model '" + model +
                                               "' is given as a deployment; only models of the repository "
                                               "have versions to pin");
  std::error_code ignored;
  auto folder = options_.root / model;
  if (!options_.root.empty() && is_name(model) && std::filesystem::is_directory(folder, ignored))
    return folder;
  return Error(ErrorCode::kNotFound, "the repository has no model '" + model.substr(0, 200) + "'");
}

std::vector<IndexEntry> Repository::index() const {
  auto found = list();
  Directory all = found.ok() ? *std::move(found) : deployments_;
  for (const auto& model : registry_.snapshot()->all())  // even if its folder is gone
    all[model->name()].versions.try_emplace(parse_version(model->version()));
  std::vector<IndexEntry> out;
  const std::lock_guard lock(mutex_);
  for (auto& [model, directory] : all) {
    const Pin& pin = directory.pin;
    const auto wanted = version_to_serve(model, directory);
    if (pin.version != 0) directory.versions.try_emplace(pin.version);  // even if its folder is missing
    for (const auto& [version, files] : directory.versions) {
      IndexEntry entry{model, std::to_string(version), ModelState::kUnknown, "not loaded",
                       version == pin.version};
      if (const auto states = states_.find(model); states != states_.end())
        if (const auto state = states->second.find(version); state != states->second.end()) {
          entry.state = state->second.state;
          entry.reason = state->second.reason;
        }
      if (entry.state == ModelState::kUnknown && !wanted.ok() && (entry.pinned || pin.version == 0)) {
        if (pin.is_set()) entry.state = ModelState::kUnavailable;
        entry.reason = pin.is_set() ? wanted.error().message() : kHoldsNothing;
      } else if (entry.state == ModelState::kUnknown && files.kind == VersionDirectory::Kind::kNothing) {
        entry.reason = kHoldsNothing;
      } else if (entry.state == ModelState::kUnknown && pin.is_set() && !entry.pinned) {
        entry.reason = "not loaded: the model is pinned to version " + std::to_string(pin.version);
      }
      out.push_back(std::move(entry));
    }
  }
  return out;
}

}  // namespace millrace::server::models
