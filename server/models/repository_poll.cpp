// Mode `poll`, on the worker's thread.
#include <set>
#include <utility>

#include "runtime/base/log.hpp"
#include "server/models/repository.hpp"

namespace millrace::server::models {

namespace {

/// The version that a poll loads if the version is new or has changed: the pinned one, or without a pin the
/// newest whose files can be read. end() if there is none.
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

Status Repository::load_in_background(const std::string& model, std::uint64_t version) {
  auto job = std::make_shared<Job>();
  job->model = model;
  job->version = version;
  job->own = true;
  mark_wanted(model);
  return enqueue_load(std::move(job), nullptr);
}

void Repository::poll() {
  next_poll_ = Clock::now() + options_.poll;
  const auto found = scan(options_.root);
  if (!found.ok()) return log::warning("models", found.error().message());  // unloads nothing
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
  seen_.clear();
  for (const auto& [model, directory] : *found)
    for (const auto& [version, files] : directory.versions) seen_[model][version] = files.fingerprint;
  const auto gone = [&](const auto& entry) { return !found->contains(entry.first); };
  std::erase_if(tried_, gone);
  std::erase_if(polled_, gone);
  const std::lock_guard lock(mutex_);
  for (const auto& [model, directory] : *found) forget_passed_over(model, directory.versions);
  std::erase_if(wanted_, [&](const auto& wanted) {
    return !found->contains(wanted.first) && !deployments_.contains(wanted.first);
  });
}

/// Logs once for each newer version that the pin keeps from being loaded.
void Repository::log_held_back(const std::string& model, const ModelDirectory& directory) {
  const auto newest = newest_of(directory.versions);
  if (!directory.pin.is_set() || newest == directory.versions.end() || newest->first <= directory.pin.version)
    return;
  if (seen_[model].contains(newest->first)) return;
  log::info("models", "model '" + model + "' version '" + std::to_string(newest->first) +
                          "' is held back: the model is pinned to " + "version '" +
                          std::to_string(directory.pin.version) + "'");
}

/// False if the model has a pin that cannot be obeyed. Logs the reason once.
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

/// Loads the version that should serve if it is new or has changed, and if it is the same as at the last
/// poll. If the pin moved or the folder of the serving version is gone, loads a version that failed once
/// more, so that the log says again why it does not load. If the pin cannot be obeyed, changes nothing.
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
  if (seen_[model][version] != files.fingerprint) return;  // the files may still be being written
  const Tried& tried = tried_[model][version];
  const std::uint64_t serves = serving_version(model);
  const std::uint64_t gone = directory.versions.contains(serves) ? 0 : serves;
  Polled& polled = polled_[model];
  const bool is_news = polled.pin != directory.pin || (gone != 0 && polled.gone != gone);
  const bool gives_way = serves != 0 && serves != version && (is_news || (gone != 0 && !tried.failed));
  if ((tried.fingerprint != files.fingerprint || gives_way) && !load_in_background(model, version).ok())
    return;  // the queue is full: the next poll asks again
  polled.pin = directory.pin;
  polled.gone = gone;
}

}  // namespace millrace::server::models
