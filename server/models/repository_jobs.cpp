// The jobs that load, unload and unpin models. They run on the worker thread.
#include <malloc.h>

#include <algorithm>
#include <new>
#include <thread>
#include <utility>

#include "runtime/base/log.hpp"
#include "server/models/repository.hpp"
#include "server/models/signature.hpp"

namespace millrace::server::models {

namespace {

constexpr std::chrono::milliseconds kLongestPause{30'000};
constexpr std::chrono::milliseconds kReleasePause{200};

/// Runs `work` in a thread of its own, waits for it, and returns free memory to the system. A version's deployment and
/// FPGA images occupy thousands of small blocks. The allocator caches freed blocks per thread, and a memory page with
/// a cached block cannot be returned. These caches are released when their thread ends.
template <class Work>
void run_in_own_thread(const Work& work) {
  std::thread(work).join();
  ::malloc_trim(0);
}

/// Whether the same version may load later, when other models have released their cards.
bool may_retry(const Error& error) {
  return error.code() == ErrorCode::kResourceExhausted || error.code() == ErrorCode::kDoesNotFit;
}

}  // namespace

void Repository::Recovery::failed_again() {
  pause = std::min(2 * pause, kLongestPause);
  next_try = Clock::now() + pause;
}

void Repository::run(const JobPointer& job) {
  Status status;
  if (job->cancel.stop_requested()) {
    status = cancelled(*job);
  } else if (job->compilation_failed()) {
    const Error& error = job->compiled->error();
    metrics_.reloaded(job->model, metrics::Metrics::Reload::kFailure, std::chrono::nanoseconds(0));
    status = load_failed(*job, error, error.code() == ErrorCode::kResourceExhausted);
  } else {
    run_in_own_thread([&] {
      status = run_kind(*job);
      release_retired();
    });
  }
  // Some clients do not wait for their job to end, so the log always says why a job failed.
  if (!status.ok()) log::warning("models", status.error().message());
  if (!retired_.empty()) next_release_ = Clock::now() + kReleasePause;
  if (status.ok() && job->needs_compiler()) {
    const std::lock_guard lock(mutex_);
    job->stage = Job::Stage::kToCompile;
    changed_.notify_all();
  } else if (!fall_back(job, status)) {
    finish(job, status);
  }
}

Error Repository::cancelled(const Job& job) {
  if (job.version != 0)
    set_not_loaded(job, job.source.empty() ? "its load was cancelled" : "its compilation was cancelled");
  metrics_.reloaded(job.model, metrics::Metrics::Reload::kCancelled, std::chrono::nanoseconds(0));
  return Error(ErrorCode::kCancelled, "the load was cancelled: the model was unloaded");
}

/// Records for index and metrics why the version did not load. If `may_retry` is true, the next poll tries it again.
Error Repository::load_failed(const Job& job, const Error& error, bool may_retry) {
  if (may_retry)
    tried_[job.model].erase(job.version);
  else
    tried_[job.model][job.version].failed = true;
  set_not_loaded(job, error.message());
  pass_over(job, error);
  return error.within(named(job.model, job.version));
}

/// Records in the index why the version was not loaded. A version that still serves with its old files stays READY, and
/// its reason says why the changed files were not loaded.
void Repository::set_not_loaded(const Job& job, const std::string& why) {
  if (serving_version(job.model) != job.version)
    set_state(job.model, job.version, ModelState::kUnavailable, why);
  else if (!is_lost(job.model))
    set_state(job.model, job.version, ModelState::kReady,
              "its change was not loaded: " + why +
                  (recovering_.contains(job.model)
                       ? "; some of its replicas are not running, and the server keeps trying to start them"
                       : ""));
}

/// Determines the version of a job that names none (a start, a poll or a load without a number). Refuses to load
/// another version than the pinned one, unless the job moves the pin.
Status Repository::choose_version(Job& job, const ModelDirectory& directory) {
  const Pin& pin = directory.pin;
  // A version that was compiled for this job remains the job's version, even if the model was pinned to another version
  // meanwhile.
  if (job.version == 0 || (job.own && pin.is_set() && !job.compiled)) {
    MILLRACE_ASSIGN(const auto version, version_to_serve(job.model, directory));
    if (pin.is_set()) log::info("models", named(job.model, pin.version) + " is pinned");
    for (auto empty = std::next(version); !pin.is_set() && empty != directory.versions.end(); ++empty)
      log::warning("models", named(job.model, empty->first) + " is skipped: " + empty->second.path.string() +
                                 " " + kHoldsNothing + "; complete the copy or remove the directory");
    const std::lock_guard lock(mutex_);  // load() and loading() read the jobs from other threads
    job.version = version->first;
    return {};
  }
  if (job.pin || !pin.is_set() || pin.version == job.version) return {};
  if (pin.version == 0) return Error(ErrorCode::kDoesNotFit, pin.unreadable);
  return Error(ErrorCode::kDoesNotFit,
               "model '" + job.model + "' is pinned to version '" + std::to_string(pin.version) +
                   "', so version '" + std::to_string(job.version) +
                   "' is not loaded; "
                   "load this version with 'pin' (--pin) to pin the model to it instead, or " +
                   how_to_unpin(directory.path));
}

Status Repository::find_version(Job& job, VersionDirectory& found) {
  MILLRACE_ASSIGN(const Directory all, list());
  const auto model = all.find(job.model);
  if (model == all.end())
    return Error(ErrorCode::kNotFound, "the repository has no model '" + job.model.substr(0, 200) + "'");
  MILLRACE_TRY(choose_version(job, model->second));
  const Versions& versions = model->second.versions;
  const auto version = versions.find(job.version);
  if (version == versions.end())
    return Error(ErrorCode::kNotFound, "model '" + job.model + "' has no version '" +
                                           std::to_string(job.version) + "' in the repository; it has " +
                                           known_versions(versions));
  found = version->second;
  {
    // Forget versions whose folders are gone, except the one that still serves.
    const std::uint64_t serves = serving_version(job.model);
    const std::lock_guard lock(mutex_);
    std::erase_if(states_[job.model],
                  [&](const auto& one) { return one.first != serves && !versions.contains(one.first); });
    forget_passed_over(job.model, versions);
  }
  if (found.kind != VersionDirectory::Kind::kNothing) return {};
  return Error(ErrorCode::kNotFound, found.path.string() + " " + kHoldsNothing);
}

/// A restart of the server does not compare the inputs and outputs of versions. If a restart would serve the version
/// that this job refused, returns a text that says so and how to prevent it.
std::string Repository::after_restart(const Job& job, const std::string& serves) const {
  const auto found = list();
  if (!found.ok()) return "";
  const auto model = found->find(job.model);
  if (model == found->end()) return "";
  const auto starts = version_to_serve(job.model, model->second);
  if (!starts.ok() || (*starts)->first != job.version) return "";
  const std::string restart =
      ". A restart would serve version '" + std::to_string(job.version) + "' all the same";
  if (!model->second.versions.contains(parse_version(serves))) return restart;
  return restart + "; to keep version '" + serves + "', pin it: millrace reload --model " + job.model +
         " --version " + serves + " --pin";
}

/// Checks that the next version accepts the requests that the serving version accepts. A forced load skips this check.
Status Repository::check_signature(const Job& job, const Model& serves,
                                   const runtime::plan::ModelInfo& next) const {
  const std::string difference = signature_difference(serves.deployment().model, next);
  if (difference.empty()) return {};
  const std::string what =
      "its inputs and outputs differ from those of version '" + serves.version() + "', " +
      (is_lost(job.model) ? "which is being brought up again: " : "which serves: ") + difference;
  if (job.force) {
    log::warning("models", named(job.model, job.version) + ": " + what + "; the load is forced");
    return {};
  }
  return Error(ErrorCode::kDoesNotFit, what +
                                           "; requests of current clients would fail. "
                                           "Serve this version under another model name, "
                                           "or load it with 'force': "
                                           "millrace reload --model " +
                                           job.model + " --version " + std::to_string(job.version) +
                                           " --force" + after_restart(job, serves.version()));
}

Status Repository::run_kind(Job& job) {
  if (job.kind == Job::Kind::kUnload) return run_unload(job);
  if (job.kind == Job::Kind::kUnpin) return run_unpin(job);
  return job.pin ? run_load_and_pin(job) : run_load(job);
}

/// Loads a version and pins the model to it. Before any card is touched, checks that the file PIN can be written.
/// Writes the file once the version serves.
Status Repository::run_load_and_pin(Job& job) {
  MILLRACE_ASSIGN(const auto folder, folder_of(job.model));
  MILLRACE_TRY(check_pin_place(folder));
  MILLRACE_TRY(run_load(job));
  if (job.needs_compiler()) return {};
  if (const Status written = write_pin(folder, job.version); !written.ok())
    return written.error().within(named(job.model, job.version) + " serves, and is not pinned");
  log::info("models", named(job.model, job.version) + " is pinned");
  return {};
}

Status Repository::run_unpin(const Job& job) {
  MILLRACE_ASSIGN(const auto folder, folder_of(job.model));
  const Pin before = read_pin(folder);
  MILLRACE_TRY(remove_pin(folder));
  polled_[job.model].pin = before;  // so the next poll notices that the pin is gone
  log::info("models", "model '" + job.model + "' is pinned no more");
  return {};
}

Status Repository::run_load(Job& job) {
  using Reload = metrics::Metrics::Reload;
  VersionDirectory found;
  MILLRACE_TRY(find_version(job, found));
  mark_wanted(job.model);
  const auto begin = Clock::now();
  const auto old = serving(job.model);
  tried_[job.model][job.version] = {found.fingerprint, false};
  if (found.kind == VersionDirectory::Kind::kSource && !job.compiled && options_.compiler && options_.cache) {
    job.source = found.path;
    return {};  // run() passes the job to a compiler thread
  }
  set_progress(job, "reading its deployment");
  auto next = prepare(job, found, old);
  if (!next.ok()) {
    metrics_.reloaded(job.model, Reload::kFailure, Clock::now() - begin);
    return load_failed(job, next.error(), next.error().code() == ErrorCode::kResourceExhausted);
  }
  if (!next->has_value()) {
    set_state(job.model, job.version, ModelState::kReady, "");
    check_replicas(job.model, std::nullopt);
    return {};
  }
  const SwapResult result = swap_to(job, old, **next);
  metrics_.reloaded(job.model,
                    result.status.ok()   ? Reload::kSuccess
                    : result.rolled_back ? Reload::kRollback
                                         : Reload::kFailure,
                    Clock::now() - begin);
  if (!result.status.ok())
    return load_failed(job, result.status.error(), !result.attempted && may_retry(result.status.error()));
  log::info("models", named(job.model, job.version) + " serves" +
                          (old == nullptr ? ""
                                          : " in place of version '" + old->version() + "' (" +
                                                std::string(to_string(result.used)) + ")") +
                          "; " + std::to_string(result.programmed) + " card(s) programmed, " +
                          std::to_string(milliseconds_since(begin)) + " ms");
  return {};
}

/// Reads the version's deployment. Returns nothing if the version already serves and has not changed. Touches no card:
/// if memory is exhausted, only the load fails (kResourceExhausted), and the serving models are not affected.
Result<std::optional<NextVersion>> Repository::prepare(const Job& job, const VersionDirectory& found,
                                                       const std::shared_ptr<Model>& old) try {
  if (found.kind == VersionDirectory::Kind::kSource && !job.compiled)
    return Error(ErrorCode::kUnsupported,
                 "contains an ONNX model, but no cluster file to compile it for was given (--cluster)");
  MILLRACE_ASSIGN(auto loaded, runtime::plan::load_deployment(job.compiled ? **job.compiled : found.path));
  if (serving_version(job.model) == job.version && old->deployment().digest == loaded.plan.digest &&
      !is_lost(job.model))
    return std::optional<NextVersion>();
  if (old != nullptr) MILLRACE_TRY(check_signature(job, *old, loaded.plan.model));
  MILLRACE_ASSIGN(auto stored, read_stored_frames(found.path / "verify", loaded.plan.model));
  return std::optional(NextVersion{job.model, std::to_string(job.version),
                                   std::make_shared<const runtime::plan::LoadedDeployment>(std::move(loaded)),
                                   std::move(stored)});
} catch (const std::bad_alloc&) {
  return Error(ErrorCode::kResourceExhausted, "out of memory");
}

/// Swaps the old version for the next one and records the outcome in the index.
SwapResult Repository::swap_to(const Job& job, const std::shared_ptr<Model>& old, const NextVersion& next) {
  const std::uint64_t before = serving_version(job.model);
  set_progress(job, "coming up on its cards");
  SwapResult result = swapper_.swap(old, next, job.policy.value_or(options_.policy));
  retire(old);
  if (result.status.ok()) {
    recovering_.erase(job.model);
    if (before != 0 && before != job.version)
      set_state(job.model, before, ModelState::kUnavailable, "replaced by version " + next.version);
    set_state(job.model, job.version, ModelState::kReady, "");
  } else if (result.lost) {
    (recovering_[job.model] = Recovery()).lost = true;
    set_state(job.model, before, ModelState::kUnavailable,
              "the version was stopped to make room for another version and did not restart; "
              "the server keeps retrying");
  } else if (result.rolled_back && is_lost(job.model)) {
    recovering_.erase(job.model);
    set_state(job.model, before, ModelState::kReady, "");
  } else if (result.status.error().code() == ErrorCode::kDoesNotFit && !result.attempted) {
    const std::string holders = card_holders(job.model);
    if (!holders.empty())
      result.status =
          Error(ErrorCode::kDoesNotFit, result.status.error().message() + "; of the models served, " +
                                            holders + "; unload one, or give a larger cluster");
  }
  check_replicas(job.model, result.missing);
  return result;
}

/// Lists the cards of all models except one, for messages: "a has card0, card1; b has card2".
std::string Repository::card_holders(const std::string& except) const {
  std::string holders;
  for (const auto& model : registry_.snapshot()->all()) {
    if (model->name() == except) continue;
    std::string cards;
    for (const auto& card : model->pipeline().status().cards)
      cards += (cards.empty() ? "" : ", ") + card.card;
    if (!cards.empty()) holders += (holders.empty() ? "" : "; ") + model->name() + " has " + cards;
  }
  return holders;
}

Status Repository::run_unload(Job& job) {
  const auto begin = Clock::now();
  const auto model = serving(job.model);
  const std::uint64_t version = serving_version(job.model);
  if (model == nullptr) mark_wanted(job.model, false);
  if (model == nullptr || (job.version != 0 && job.version != version)) {
    if (job.cancelled_others) return {};
    const std::string name = job.model.substr(0, 200);
    return Error(ErrorCode::kNotFound,
                 (job.version == 0 ? "model '" + name + "'" : named(name, job.version)) + " is not loaded");
  }
  set_state(job.model, version, ModelState::kUnloading, "what it accepted is being completed");
  swapper_.unload(model);
  recovering_.erase(job.model);
  mark_wanted(job.model, false);
  retire(model);
  set_state(job.model, version, ModelState::kUnavailable, "unloaded");
  metrics_.reloaded(job.model, metrics::Metrics::Reload::kUnload, Clock::now() - begin);
  log::info("models", named(job.model, version) + " is unloaded");
  return {};
}

/// Returns the time at which run_due() next has something to do, at the latest in one hour, so that callers
/// can wait for it.
Repository::Clock::time_point Repository::next_event() const {
  auto next = std::min({next_poll_, next_release_, Clock::now() + std::chrono::hours(1)});
  for (const auto& [model, recovery] : recovering_) next = std::min(next, recovery.next_try);
  return next;
}

void Repository::run_due() {
  std::vector<std::string> due;
  for (const auto& [model, recovery] : recovering_)
    if (Clock::now() >= recovery.next_try) due.push_back(model);
  for (const auto& model : due) recover(model);
  if (Clock::now() >= next_poll_) poll();
  if (Clock::now() < next_release_) return;
  const auto unused = [](const auto& model) { return model.use_count() == 1; };
  if (std::any_of(retired_.begin(), retired_.end(), unused)) run_in_own_thread([this] { release_retired(); });
  next_release_ = retired_.empty() ? Clock::time_point::max() : Clock::now() + kReleasePause;
}

bool Repository::is_lost(const std::string& model) const {
  const auto recovery = recovering_.find(model);
  return recovery != recovering_.end() && recovery->second.lost;
}

/// Restarts a lost model, or the replicas that a model lacks.
void Repository::recover(const std::string& name) {
  const auto model = serving(name);
  Recovery& recovery = recovering_.at(name);
  const std::string what = named(name, serving_version(name));
  std::optional<Error> missing;
  const Status up = recovery.lost ? swapper_.bring_back(model, missing) : swapper_.complete(model);
  retire(model);
  if (!up.ok()) {
    log::warning("models",
                 what + (recovery.lost ? " does not start: " : " lacks replicas: ") + up.error().message());
    recovery.failed_again();
    return check_replicas(name, up.error());
  }
  log::info("models", what + (recovery.lost ? " is up again" : " has all its replicas again"));
  recovering_.erase(name);
  set_state(name, parse_version(model->version()), ModelState::kReady, "");
  check_replicas(name, missing);
}

/// If the model has fewer replicas than it should have, schedules retries and says so in the index.
void Repository::check_replicas(const std::string& name, const std::optional<Error>& why) {
  if (is_lost(name)) return;
  const auto model = serving(name);
  const Swapper::ReplicaCount now = Swapper::replica_count(model);
  if (model == nullptr || now.there >= now.wanted) {
    recovering_.erase(name);
    return;
  }
  Recovery& recovery = recovering_[name];
  if (why) recovery.why = why;
  set_state(name, parse_version(model->version()), ModelState::kReady,
            std::to_string(now.there) + " of " + std::to_string(now.wanted) +
                " replicas are running; the server keeps retrying the others" +
                (recovery.why ? ": " + recovery.why->message() : ""));
}

/// Keeps a replaced model until no request holds it. Otherwise the thread of the last request would destroy the model,
/// and that thread's allocator cache would keep the freed memory.
void Repository::retire(const std::shared_ptr<Model>& model) {
  if (model == nullptr || serving(model->name()) == model) return;
  if (std::find(retired_.begin(), retired_.end(), model) == retired_.end()) retired_.push_back(model);
  next_release_ = Clock::now() + kReleasePause;
}

void Repository::release_retired() {
  std::erase_if(retired_, [](const auto& model) { return model.use_count() == 1; });
}

}  // namespace millrace::server::models
