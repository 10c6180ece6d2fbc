// Determines which versions exist and which should serve, for the index, the metrics and mode `poll`.
#include <set>
#include <system_error>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/base/text.hpp"
#include "server/models/repository.hpp"

namespace millrace::server::models {

namespace {

/// Returns the version that a poll loads if the version is new or has changed: the pinned version, or without a pin
/// the newest version whose files can be read. Returns end() if there is none.
Versions::const_iterator pollable(const ModelDirectory& directory) {
  const auto readable = [&](Versions::const_iterator version) {
    return version->second.kind != VersionDirectory::Kind::kNothing && !version->second.fingerprint.empty();
  };
  const Versions& versions = directory.versions;
  if (directory.pin.is_set()) {
    const auto pinned = versions.find(directory.pin.version);
    return pinned != versions.end() && readable(pinned) ? pinned : versions.end();
  }
  for (auto version = versions.end(); version != versions.begin();)
    if (readable(--version)) return version;
  return versions.end();
}

}  // namespace

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

/// Shows a load's progress in the index. A version that already serves stays READY while its changed files are loaded.
void Repository::set_progress(const Job& job, const std::string& text) {
  const auto now = serving(job.model);
  if (now == nullptr || parse_version(now->version()) != job.version)
    set_state(job.model, job.version, ModelState::kLoading, text);
  else if (now->state() == ModelState::kReady)
    set_state(job.model, job.version, ModelState::kReady, "its change is being loaded: " + text);
}

void Repository::mark_wanted(const std::string& model, bool wanted) {
  const std::lock_guard lock(mutex_);
  if (wanted)
    wanted_.try_emplace(model);
  else
    wanted_.erase(model);
}

/// Records that the job's version should serve but did not load.
void Repository::pass_over(const Job& job, const Error& why) {
  const std::lock_guard lock(mutex_);
  const auto wanted = wanted_.find(job.model);
  if (wanted == wanted_.end() || job.version < wanted->second.passed_over) return;
  wanted->second.passed_over = job.version;
  wanted->second.why_passed_over = why;
}

/// If the folder of the version that did not load is gone, forgets that this version should serve.
void Repository::forget_passed_over(const std::string& model, const Versions& versions) {
  const auto wanted = wanted_.find(model);
  if (wanted != wanted_.end() && !versions.contains(wanted->second.passed_over))
    wanted->second.passed_over = 0;
}

/// Returns true if the version that should serve is not the one that serves now.
bool Repository::is_outdated(const std::string& model, const Pin& pin, std::uint64_t serves,
                             std::uint64_t passed_over) const {
  if (serves == 0) return false;
  if (pin.is_set()) return serves != pin.version || passed_over == pin.version;
  if (passed_over < serves) return false;
  // Modes none and explicit list the root only when a load runs, so the folder may be gone by now.
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
    samples.gauge("millrace_model_wanted", "Constant 1 for every model that should be served.",
                  {{"model", model}}, 1);
    if (pin.is_set())
      samples.gauge("millrace_model_pinned",
                    "Constant 1 for every model that should be served and is pinned; "
                    "the version is empty if PIN is unreadable.",
                    {{"model", model}, {"version", pin.version == 0 ? "" : std::to_string(pin.version)}}, 1);
    samples.gauge(
        "millrace_model_outdated",
        "1 if another version serves, because the newest or pinned version is not loaded.",
        {{"model", model}},
        is_outdated(model, pin, serves == nullptr ? 0 : parse_version(serves->version()), passed) ? 1 : 0);
  }
  samples.gauge("millrace_repository_models_unavailable",
                "Models that should be served, but do not serve because no version could be loaded.", {},
                static_cast<double>(unavailable));
}

/// Lists the models below the root. A deployment that serve_deployment() serves hides a model of the same name.
Result<Directory> Repository::list() const {
  Directory all;
  if (!options_.root.empty()) {
    MILLRACE_ASSIGN(all, scan(options_.root));
  }
  for (const auto& [model, directory] : deployments_) all[model] = directory;
  return all;
}

/// Returns a model's folder in the root. Fails with kNotFound, or with kInvalidInput if a deployment hides the model.
Result<std::filesystem::path> Repository::folder_of(const std::string& model) const {
  if (deployments_.contains(model))
    return Error(
        ErrorCode::kInvalidInput,
        "model '" + model +
            "' was loaded with --deployment; only models of the repository can be pinned to a version");
  std::error_code ignored;
  auto folder = options_.root / model;
  if (!options_.root.empty() && is_name(model) && std::filesystem::is_directory(folder, ignored))
    return folder;
  return Error(ErrorCode::kNotFound, "the repository has no model '" + model.substr(0, 200) + "'");
}

std::vector<IndexEntry> Repository::index() const {
  auto found = list();
  Directory all = found.ok() ? *std::move(found) : deployments_;
  for (const auto& model : registry_.snapshot()->all())  // list it even if its folder is gone
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

void Repository::poll() {
  next_poll_ = Clock::now() + options_.poll;
  const auto found = scan(options_.root);
  if (!found.ok()) return log::warning("models", found.error().message());  // no model is unloaded
  std::set<std::string> models;
  for (const auto& [model, directory] : *found) models.insert(model);
  for (const auto& model : registry_.snapshot()->all()) models.insert(model->name());
  for (const auto& model : models) {
    if (deployments_.contains(model)) continue;
    const auto directory = found->find(model);
    if (directory != found->end()) {
      poll_model(model, directory->second);
    } else {
      static_cast<void>(unload(model, "", nullptr));
    }
  }
  for (const auto& [model, directory] : *found) polled_[model].versions = directory.versions;
  const auto gone = [&](const auto& entry) { return !found->contains(entry.first); };
  std::erase_if(tried_, gone);
  std::erase_if(polled_, gone);
  const std::lock_guard lock(mutex_);
  for (const auto& [model, directory] : *found) forget_passed_over(model, directory.versions);
  std::erase_if(wanted_, [&](const auto& wanted) {
    return !found->contains(wanted.first) && !deployments_.contains(wanted.first);
  });
}

/// Logs, once per version, each newer version that is not loaded because the model is pinned to an older version.
void Repository::log_held_back(const std::string& model, const ModelDirectory& directory) {
  const auto newest = newest_of(directory.versions);
  if (!directory.pin.is_set() || newest == directory.versions.end() || newest->first <= directory.pin.version)
    return;
  if (polled_[model].versions.contains(newest->first)) return;
  log::info("models", named(model, newest->first) + " is not loaded: the model is pinned to version '" +
                          std::to_string(directory.pin.version) + "'");
}

/// Returns false if the model is pinned to a version that the server cannot serve, and logs the reason once.
bool Repository::can_obey_pin(const std::string& model, const ModelDirectory& directory) {
  std::string& logged = polled_[model].trouble;
  std::string trouble;
  if (directory.pin.is_set())
    if (const auto wanted = version_to_serve(model, directory); !wanted.ok())
      trouble = wanted.error().message();
  if (!trouble.empty() && trouble != logged) log::warning("models", trouble);
  logged = std::move(trouble);
  return logged.empty();
}

/// Loads the version that should serve if that version is new or changed, and its files are the same as at the last
/// poll. If the pin moved or the serving version's folder is gone, also retries a version that failed, so that the log
/// repeats why it does not load. If the pin cannot be obeyed, changes nothing.
void Repository::poll_model(const std::string& model, const ModelDirectory& directory) {
  if (!can_obey_pin(model, directory)) return;
  log_held_back(model, directory);
  const auto now = serving(model);
  const auto chosen = pollable(directory);
  if (chosen == directory.versions.end()) {
    if (now != nullptr && !directory.pin.is_set()) static_cast<void>(unload(model, "", nullptr));
    return;
  }
  const auto& [version, files] = *chosen;
  Polled& polled = polled_[model];
  if (polled.versions[version].fingerprint != files.fingerprint) return;  // files may still be growing
  const Tried& tried = tried_[model][version];
  const std::uint64_t serves = serving_version(model);
  const std::uint64_t gone = directory.versions.contains(serves) ? 0 : serves;
  const bool is_news = polled.pin != directory.pin || (gone != 0 && polled.gone != gone);
  const bool gives_way = serves != 0 && serves != version && (is_news || (gone != 0 && !tried.failed));
  if (tried.fingerprint != files.fingerprint || gives_way) {
    mark_wanted(model);
    auto job = std::make_shared<Job>(Job{.model = model, .version = version, .own = true});
    if (!enqueue(std::move(job), nullptr).ok()) return;  // the queue is full; the next poll tries again
  }
  polled.pin = directory.pin;
  polled.gone = gone;
}

}  // namespace millrace::server::models
