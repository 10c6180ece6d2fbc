// What jobs do, on the worker's thread.
#include <malloc.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "runtime/base/log.hpp"
#include "server/models/guarded.hpp"
#include "server/models/repository.hpp"
#include "server/models/signature.hpp"

namespace millrace::server::models {

namespace {

constexpr std::chrono::milliseconds kFirstPause{500};
constexpr std::chrono::milliseconds kLongestPause{30'000};
constexpr std::chrono::milliseconds kBurialPause{200};

/// Runs `work` in a thread of its own, waits for it, and gives free memory back to the system. A version's
/// plan and images are thousands of small blocks. Of those a thread frees the allocator keeps hundreds for
/// that thread, all over the heap, and no page that holds one is given back; they go when the thread ends.
/// Nothing it throws comes out.
template <class Work>
void apart(const Work& work) noexcept {
  const auto run = [&]() noexcept { static_cast<void>(guarded(work)); };
  try {
    std::thread(run).join();
  } catch (const std::exception&) {
    run();  // no more threads, or no memory for one, to be had
  }
  ::malloc_trim(0);
}

std::string named(const std::string& model, const std::string& version) {
  return "model '" + model + "' version '" + version + "'";
}

bool may_pass(const Error& error) {
  return error.code() == ErrorCode::kResourceExhausted || error.code() == ErrorCode::kDoesNotFit;
}

}  // namespace

void Repository::run(const JobPointer& job) {
  bool handed_on = false;
  Status status;
  if (job->cancel.stop_requested()) {
    status = guarded([&] { return cancelled(*job); });
  } else {
    apart([&] {
      try {
        status = run_kind(*job, handed_on);
      } catch (const std::exception&) {
        status = cut_short(*job, current_exception_as_error());
      }
      bury();
    });
    say_failed(*job, status);
  }
  if (!retired_.empty()) next_burial_ = Clock::now() + kBurialPause;
  if (!handed_on && falls_back(job, status)) return;
  if (!handed_on) return finish(job, status);
  const std::lock_guard lock(mutex_);
  job->stage = Job::Stage::kToCompile;
  changed_.notify_all();
}

/// Who asked for a job may not wait for its end, or be gone: the log always says why it failed.
void Repository::say_failed(const Job& job, const Status& status) noexcept {
  if (status.ok() || job.logged) return;
  static_cast<void>(guarded([&] { log::warning("models", status.error().message()); }));
}

Status Repository::cancelled(const Job& job) {
  if (job.version != 0) set_state(job.model, job.version, ModelState::kUnavailable, "its load was cancelled");
  metrics_.reloaded(job.model, metrics::Metrics::Reload::kCancelled, std::chrono::nanoseconds(0));
  return Error(ErrorCode::kCancelled, "the load was cancelled: the model was unloaded");
}

/// A load that threw: nothing was changed. Or an unload, before the model was withdrawn.
Error Repository::cut_short(Job& job, Error error) noexcept {
  job.logged = true;
  if (const auto tried = tried_.find(job.model); tried != tried_.end()) tried->second.erase(job.version);
  static_cast<void>(guarded([&] {
    metrics_.reloaded(job.model, metrics::Metrics::Reload::kFailure, std::chrono::nanoseconds(0));
    log::warning("models", named(job.model, std::to_string(job.version)) + ": " + error.message());
  }));
  settle(job.model, job.kind == Job::Kind::kLoad ? job.version : 0, error);
  return error;
}

/// Where the books of a model were not kept to the end: the index says what serves, and what came up in part,
/// or not again, is tried again. `tried`: the version that was to be loaded; 0: none.
void Repository::settle(const std::string& name, std::uint64_t tried, const Error& why) noexcept {
  static_cast<void>(guarded([&] {
    const auto model = serving(name);
    const bool lost = model != nullptr && model->state() == ModelState::kUnavailable;
    if (lost)
      lost_.try_emplace(name, Lost{kFirstPause, Clock::now() + kFirstPause});
    else
      lost_.erase(name);
    const std::uint64_t serves = model == nullptr || lost ? 0 : parse_version(model->version());
    {
      const std::lock_guard lock(mutex_);
      for (auto& [version, state] : states_[name]) {
        if (version == serves) {
          if (state.state != ModelState::kReady) state = {ModelState::kReady, ""};
        } else if (version == tried || state.state == ModelState::kReady ||
                   state.state == ModelState::kUnloading) {
          state = {ModelState::kUnavailable, ""};
          state.reason = version == tried ? why.message() : "does not serve";
        }
      }
    }
    look_for_missing(name, "");
  }));
}

/// Does what must not undo what was done already.
template <class Books>
void Repository::book(const std::string& name, const Books& books) noexcept {
  if (const Status booked = guarded(books); !booked.ok()) settle(name, 0, booked.error());
}

/// The version that a start, a poll or a load without a number means, where it is not known yet. A load that
/// names another version than the pinned one is refused, unless it moves the pin.
Status Repository::choose_version(Job& job, const ModelDirectory& directory) {
  const Pin& pin = directory.pin;
  // Once it is compiled it is this version or none.
  if (job.version == 0 || (job.own && pin.is_set() && job.compiled.empty())) {
    MILLRACE_ASSIGN(const auto version, version_to_serve(job.model, directory));
    if (pin.is_set()) log::info("models", named(job.model, std::to_string(pin.version)) + " is pinned");
    for (auto empty = std::next(version); !pin.is_set() && empty != directory.versions.end(); ++empty)
      log::warning("models", named(job.model, std::to_string(empty->first)) +
                                 " is skipped: " + empty->second.path.string() + " " + kHoldsNothing +
                                 "; complete the copy or remove the directory");
    const std::lock_guard lock(mutex_);  // load() and loading() look at the jobs from other threads
    job.version = version->first;
    return {};
  }
  if (job.pin || !pin.is_set() || pin.version == job.version) return {};
  if (pin.version == 0) return Error(ErrorCode::kDoesNotFit, pin.unreadable);
  return Error(ErrorCode::kDoesNotFit,
               "model '" + job.model + "' is pinned to version '" + std::to_string(pin.version) +
                   "', so version '" + std::to_string(job.version) +
                   "' is not loaded; load it with 'pin' (--pin) to pin it instead, or " +
                   how_to_unpin(directory.path));
}

Status Repository::find_version(Job& job, VersionDirectory& found) {
  MILLRACE_ASSIGN(const Directory all, look());
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
    // Versions that went leave nothing behind, but for the one that serves all the same.
    const auto now = serving(job.model);
    const std::uint64_t serves = now == nullptr ? 0 : parse_version(now->version());
    const std::lock_guard lock(mutex_);
    std::erase_if(states_[job.model],
                  [&](const auto& one) { return one.first != serves && !versions.contains(one.first); });
    forget_passed_over(job.model, versions);
  }
  if (found.kind != VersionDirectory::Kind::kNothing) return {};
  return Error(ErrorCode::kNotFound, found.path.string() + " " + kHoldsNothing);
}

/// What a restart would make of the refusal of the job's version: it compares nothing. Empty where it would
/// serve another version.
std::string Repository::on_restart(const Job& job, const std::string& serves) const {
  const auto found = look();
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

/// Clients of the version that serves must be clients of the next one, unless the load is forced.
Status Repository::check_signature(const Job& job, const Model& serves,
                                   const runtime::plan::ModelInfo& next) const {
  const std::string difference = signature_difference(serves.deployment().model, next);
  if (difference.empty()) return {};
  const std::string version = std::to_string(job.version);
  const std::string what =
      "its inputs and outputs are not those of version '" + serves.version() + "', " +
      (lost_.contains(job.model) ? "which is being brought up again: " : "which serves: ") + difference;
  if (job.force) {
    log::warning("models", named(job.model, version) + ": " + what + "; the load is forced");
    return {};
  }
  return Error(ErrorCode::kDoesNotFit,
               what +
                   "; requests of today's clients would fail. Serve it under another model's name, or load "
                   "it with 'force': millrace reload --model " +
                   job.model + " --version " + version + " --force" + on_restart(job, serves.version()));
}

Status Repository::run_kind(Job& job, bool& handed_on) {
  switch (job.kind) {
    case Job::Kind::kUnload:
      return run_unload(job);
    case Job::Kind::kUnpin:
      return run_unpin(job);
    case Job::Kind::kLoad:
      break;
  }
  return job.pin ? run_load_and_pin(job, handed_on) : run_load(job, handed_on);
}

/// Whether the pin can be written is asked before anything is touched; it is written once the version serves.
Status Repository::run_load_and_pin(Job& job, bool& handed_on) {
  MILLRACE_ASSIGN(const auto folder, folder_of(job.model));
  MILLRACE_TRY(check_pin_place(folder));
  MILLRACE_TRY(run_load(job, handed_on));
  if (handed_on) return {};
  if (const Status written = write_pin(folder, job.version); !written.ok())
    return written.error().within(named(job.model, std::to_string(job.version)) +
                                  " serves, and is not pinned");
  log::info("models", named(job.model, std::to_string(job.version)) + " is pinned");
  return {};
}

Status Repository::run_unpin(const Job& job) {
  MILLRACE_ASSIGN(const auto folder, folder_of(job.model));
  const Pin before = read_pin(folder);
  MILLRACE_TRY(remove_pin(folder));
  polled_[job.model].pin = before;  // the next poll sees that it went
  log::info("models", "model '" + job.model + "' is pinned no more");
  return {};
}

Status Repository::run_load(Job& job, bool& handed_on) {
  VersionDirectory found;
  MILLRACE_TRY(find_version(job, found));
  want(job.model);
  const std::string version = std::to_string(job.version);
  const auto begin = Clock::now();
  const auto old = serving(job.model);
  const bool in_place = old != nullptr && old->version() == version;
  tried_[job.model][job.version] = {found.fingerprint, false};
  const auto failed = [&](const Error& error, bool again) {
    const Error whole = error.within(named(job.model, version));
    if (again)
      tried_[job.model].erase(job.version);
    else
      tried_[job.model][job.version].failed = true;
    say_not_loaded(job, in_place, error.message());
    pass_over(job, error);
    log::warning("models", whole.message());
    job.logged = true;
    return whole;
  };
  const auto failed_early = [&](const Error& error) {
    metrics_.reloaded(job.model, metrics::Metrics::Reload::kFailure, Clock::now() - begin);
    return failed(error, error.code() == ErrorCode::kResourceExhausted);
  };

  if (found.kind == VersionDirectory::Kind::kSource && job.compiled.empty()) {
    if (!options_.compiler || !options_.cache)
      return failed_early(Error(ErrorCode::kUnsupported,
                                "holds a model, and there is no cluster file to compile it for (--cluster)"));
    job.source = found.path;
    handed_on = true;
    return {};
  }
  if (!in_place) set_state(job.model, job.version, ModelState::kLoading, "reading its deployment");
  auto loaded = guarded(
      [&] { return runtime::plan::load_deployment(job.compiled.empty() ? found.path : job.compiled); });
  if (!loaded.ok()) return failed_early(loaded.error());
  if (in_place && old->deployment().digest == loaded->plan.digest && !lost_.contains(job.model)) {
    set_state(job.model, job.version, ModelState::kReady, "");
    look_for_missing(job.model, "");
    return {};  // it is what serves
  }
  if (old != nullptr)
    if (const Status alike = check_signature(job, *old, loaded->plan.model); !alike.ok())
      return failed_early(alike.error());
  auto stored = guarded([&] { return read_stored_frames(found.path / "verify", loaded->plan.model); });
  if (!stored.ok()) return failed_early(stored.error());

  SwapResult result;
  swap_to(job,
          {job.model, version, std::make_shared<const runtime::plan::LoadedDeployment>(std::move(*loaded)),
           std::move(*stored)},
          result);
  using Reload = metrics::Metrics::Reload;
  book(job.model, [&] {
    metrics_.reloaded(job.model,
                      result.status.ok()   ? Reload::kSuccess
                      : result.rolled_back ? Reload::kRollback
                                           : Reload::kFailure,
                      Clock::now() - begin);
  });
  if (!result.status.ok())
    return failed(result.status.error(), !result.attempted && may_pass(result.status.error()));
  book(job.model, [&] {
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    log::info("models", named(job.model, version) + " serves" +
                            (old == nullptr ? ""
                                            : " in place of version '" + old->version() + "' (" +
                                                  std::string(to_string(result.used)) + ")") +
                            "; " + std::to_string(result.programmed) + " card(s) programmed, " +
                            std::to_string(took.count()) + " ms");
  });
  return {};
}

/// The swap, and what the index says while it runs and after it.
void Repository::swap_to(Job& job, const NextVersion& next, SwapResult& result) {
  const auto old = serving(job.model);
  const std::uint64_t before = old == nullptr ? 0 : parse_version(old->version());
  if (before != job.version)
    set_state(job.model, job.version, ModelState::kLoading, "coming up on its cards");
  result = swapper_.swap(old, next, job.policy.value_or(options_.policy));
  book(job.model, [&] { book_swap(job, next, old, result); });
}

void Repository::book_swap(const Job& job, const NextVersion& next, const std::shared_ptr<Model>& old,
                           SwapResult& result) {
  const std::uint64_t before = old == nullptr ? 0 : parse_version(old->version());
  retire(old);
  if (result.status.ok()) {
    lost_.erase(job.model);
    if (before != 0 && before != job.version)
      set_state(job.model, before, ModelState::kUnavailable, "replaced by version " + next.version);
    set_state(job.model, job.version, ModelState::kReady, "");
  } else if (result.lost) {
    lost_[job.model] = {kFirstPause, Clock::now() + kFirstPause};
    set_state(job.model, before, ModelState::kUnavailable,
              "it was stopped for another version, and did not come up again; it is tried again");
  } else if (result.status.error().code() == ErrorCode::kDoesNotFit && !result.attempted) {
    std::string users;
    for (const auto& model : registry_.snapshot()->all()) {
      if (model->name() == job.model) continue;
      std::string cards;
      for (const auto& card : model->pipeline().status().cards)
        cards += (cards.empty() ? "" : ", ") + card.card;
      if (!cards.empty()) users += (users.empty() ? "" : "; ") + model->name() + " has " + cards;
    }
    if (!users.empty())
      result.status =
          Error(ErrorCode::kDoesNotFit, result.status.error().message() + "; of the models served, " + users +
                                            "; unload one, or give a larger cluster");
  }
  if (result.status.ok()) missing_.erase(job.model);  // those of the old version
  look_for_missing(job.model, result.remark);
}

Status Repository::run_unload(Job& job) {
  const auto model = serving(job.model);
  if (model == nullptr) want_no_more(job.model);
  if (model == nullptr || (job.version != 0 && model->version() != std::to_string(job.version))) {
    if (job.cancelled_others) return {};
    return Error(ErrorCode::kNotFound,
                 "model '" + job.model.substr(0, 200) + "'" +
                     (job.version == 0 ? "" : " version '" + std::to_string(job.version) + "'") +
                     " is not loaded");
  }
  const std::uint64_t version = parse_version(model->version());
  const auto begin = Clock::now();
  set_state(job.model, version, ModelState::kUnloading, "what it accepted is being completed");
  if (const Status unloaded = swapper_.unload(model); !unloaded.ok()) {
    settle(job.model, 0, unloaded.error());
    return unloaded;
  }
  lost_.erase(job.model);
  missing_.erase(job.model);
  want_no_more(job.model);
  book(job.model, [&] {
    retire(model);
    set_state(job.model, version, ModelState::kUnavailable, "unloaded");
    metrics_.reloaded(job.model, metrics::Metrics::Reload::kUnload, Clock::now() - begin);
    log::info("models", named(job.model, model->version()) + " is unloaded");
  });
  return {};
}

Repository::Clock::time_point Repository::next_event() const {
  auto next = std::min(next_poll_, next_burial_);
  for (const auto& [model, lost] : lost_) next = std::min(next, lost.next_try);
  for (const auto& [model, missing] : missing_) next = std::min(next, missing.next_try);
  return next;
}

/// After a try that ended before its time.
void Repository::try_again_later() noexcept {
  const auto soon = Clock::now() + kFirstPause;
  for (auto& [name, lost] : lost_) lost.next_try = std::max(lost.next_try, soon);
  for (auto& [name, missing] : missing_) missing.next_try = std::max(missing.next_try, soon);
}

void Repository::try_lost() {
  for (auto it = lost_.begin(); it != lost_.end();) {
    const auto& name = it->first;
    Lost& lost = it->second;
    const auto model = serving(name);
    if (model != nullptr && model->state() != ModelState::kUnavailable) {  // it is up, and was not booked
      settle(std::string(name), 0, Error(ErrorCode::kInternal, ""));
      it = lost_.begin();
      continue;
    }
    if (model != nullptr && Clock::now() < lost.next_try) {
      ++it;
      continue;
    }
    std::string remark;
    const Status back = model == nullptr ? Status() : swapper_.bring_back(model, remark);
    retire(model);
    if (back.ok()) {
      const std::string up = name;
      it = lost_.erase(it);
      if (model == nullptr) continue;
      set_state(up, parse_version(model->version()), ModelState::kReady, "");
      log::info("models", named(up, model->version()) + " is up again");
      look_for_missing(up, remark);
      continue;
    }
    log::warning("models", named(name, model->version()) + " does not come up: " + back.error().message());
    lost.pause = std::min(2 * lost.pause, kLongestPause);
    lost.next_try = Clock::now() + lost.pause;
    ++it;
  }
}

/// Where what serves has fewer replicas than it should have, says so in the index and has them tried again.
void Repository::look_for_missing(const std::string& name, const std::string& why) {
  const auto model = serving(name);
  const Swapper::Strength now = Swapper::strength(model);
  if (model == nullptr || now.there >= now.wanted || lost_.contains(name)) {
    missing_.erase(name);
    return;
  }
  auto known = missing_.find(name);
  if (known == missing_.end())
    known = missing_.emplace(name, Missing{{kFirstPause, Clock::now() + kFirstPause}, {}}).first;
  Missing& missing = known->second;
  if (!why.empty()) missing.why = why;
  set_state(name, parse_version(model->version()), ModelState::kReady,
            std::to_string(now.there) + " of " + std::to_string(now.wanted) +
                " replicas are up; the rest is tried again" +
                (missing.why.empty() ? "" : ": " + missing.why));
}

void Repository::try_missing() {
  std::vector<std::string> due;
  for (const auto& [name, missing] : missing_)
    if (Clock::now() >= missing.next_try) due.push_back(name);
  for (const std::string& name : due) {
    const auto model = serving(name);
    Missing& missing = missing_.at(name);
    const Status up = swapper_.complete(model);
    if (model == nullptr || up.ok()) {
      missing_.erase(name);
      if (model == nullptr) continue;
      set_state(name, parse_version(model->version()), ModelState::kReady, "");
      log::info("models", named(name, model->version()) + " has all its replicas again");
      continue;
    }
    log::warning("models", named(name, model->version()) + " lacks replicas: " + up.error().message());
    missing.pause = std::min(2 * missing.pause, kLongestPause);
    missing.next_try = Clock::now() + missing.pause;
    look_for_missing(name, up.error().message());
  }
}

/// Keeps a model that serves no more until nobody answers with it: where the last request let it go, that
/// request's thread would take it to pieces, and keep what the allocator keeps of it.
void Repository::retire(const std::shared_ptr<Model>& model) {
  if (model == nullptr || serving(model->name()) == model) return;
  if (std::find(retired_.begin(), retired_.end(), model) == retired_.end()) retired_.push_back(model);
  next_burial_ = Clock::now() + kBurialPause;
}

void Repository::bury() {
  std::erase_if(retired_, [](const auto& model) { return model.use_count() == 1; });
}

void Repository::bury_apart() {
  const auto unused = [](const auto& model) { return model.use_count() == 1; };
  if (std::any_of(retired_.begin(), retired_.end(), unused)) apart([this] { bury(); });
  next_burial_ = retired_.empty() ? Clock::time_point::max() : Clock::now() + kBurialPause;
}

}  // namespace millrace::server::models
