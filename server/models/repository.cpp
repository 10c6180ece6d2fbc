// The queue of jobs. repository_jobs.cpp implements the jobs themselves.
#include "server/models/repository.hpp"

#include <algorithm>
#include <iterator>
#include <latch>
#include <utility>

#include "runtime/base/log.hpp"

namespace millrace::server::models {

namespace {

constexpr std::size_t kMostJobs = 64;

Error stopping_error() {
  return Error(ErrorCode::kUnavailable, "the server is stopping");
}

/// Parses a version number; returns 0 if `text` is empty.
Result<std::uint64_t> version_of(const std::string& text) {
  const std::uint64_t version = parse_version(text);
  if (text.empty() || version != 0) return version;
  return Error(ErrorCode::kInvalidInput, "version '" + text.substr(0, 64) + "' is not a positive number");
}

}  // namespace

Result<RepositoryMode> parse_mode(std::string_view text) {
  if (text == "none") return RepositoryMode::kNone;
  if (text == "explicit") return RepositoryMode::kExplicit;
  if (text == "poll") return RepositoryMode::kPoll;
  return Error(ErrorCode::kInvalidInput,
               "repository mode '" + std::string(text) + "' is none of none, explicit, poll");
}

Repository::Repository(Registry& registry, metrics::Metrics& metrics, Swapper& swapper,
                       RepositoryOptions options)
    : registry_(registry), metrics_(metrics), swapper_(swapper), options_(std::move(options)) {}

Repository::~Repository() {
  stop();
}

Status Repository::serve_deployment(PipelineSource::Deployment deployment) {
  const std::string name = deployment->plan.model.name;
  deployments_[name].versions[1] = {deployment->directory, VersionDirectory::Kind::kDeployment, ""};
  SwapResult result = swapper_.swap(nullptr, {name, "1", std::move(deployment), {}}, SwapPolicy::kAuto);
  if (result.status.ok()) {
    set_state(name, 1, ModelState::kReady, "");
    mark_wanted(name);
  }
  return result.status;
}

Status Repository::start() {
  std::vector<std::pair<std::string, bool>> first;  // the models to load, and whether start() waits for each
  if (!options_.root.empty()) {
    MILLRACE_ASSIGN(const Directory found, list());
    for (const auto& [model, directory] : found) {
      const auto named = [&own = model](const std::string& name) { return name == "*" || name == own; };
      if (deployments_.contains(model)) continue;
      if (options_.mode == RepositoryMode::kExplicit &&
          std::none_of(options_.load.begin(), options_.load.end(), named))
        continue;
      const auto version = version_to_serve(model, directory);
      first.emplace_back(model, !version.ok() || (*version)->second.kind != VersionDirectory::Kind::kSource ||
                                    options_.strict);
    }
    if (options_.mode == RepositoryMode::kExplicit)
      for (const auto& wanted : options_.load)
        if (wanted != "*" && !found.contains(wanted)) first.emplace_back(wanted, true);
    if (options_.mode == RepositoryMode::kPoll) next_poll_ = Clock::now() + options_.poll;
  }
  worker_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  for (std::size_t i = 0; i < options_.compilations; ++i)
    compilers_.emplace_back([this](const std::stop_token& stop) { compile_all(stop); });
  // Only the loads that start() waits for decrement the latch, because other loads may end after this call.
  const auto waited = std::count_if(first.begin(), first.end(), [](const auto& one) { return one.second; });
  const auto done = std::make_shared<std::latch>(waited);
  for (const auto& [model, wait] : first) {
    auto job = std::make_shared<Job>(Job{.model = model, .own = true});
    mark_wanted(model);
    const auto count = [done, counts = wait](const Status&) {
      if (counts) done->count_down();
    };
    if (const Status queued = enqueue(std::move(job), count); !queued.ok()) count(queued);
  }
  done->wait();
  if (!options_.strict || options_.root.empty()) return {};
  std::vector<std::string> models;
  for (const auto& [model, wait] : first) models.push_back(model);
  return check_all_serve(models);
}

Status Repository::check_all_serve(const std::vector<std::string>& models) const {
  if (models.empty() && options_.mode != RepositoryMode::kExplicit)
    return Error(ErrorCode::kNotFound,
                 "repository.strict: " + options_.root.string() + " contains no model to serve");
  std::optional<ErrorCode> first;
  std::string all;
  const auto add = [&](const Error& error) {
    if (!first) first = error.code();
    all += (all.empty() ? "" : "; ") + error.message();
  };
  const std::lock_guard lock(mutex_);
  for (const auto& model : models) {
    const auto wanted = wanted_.find(model);
    if (wanted == wanted_.end()) continue;  // unloaded, or the server stops
    if (wanted->second.passed_over != 0)
      add(wanted->second.why_passed_over->within(named(model, wanted->second.passed_over)));
    else if (wanted->second.failed)
      add(*wanted->second.failed);
  }
  if (!first) return {};
  return Error(*first, "repository.strict: some models that should be served are not: " + all);
}

Status Repository::check_mode() const {
  if (options_.mode != RepositoryMode::kNone) return {};
  return Error(ErrorCode::kUnsupported,
               "this server's models are fixed at start; "
               "loading and unloading needs 'serve --repository-mode explicit' or 'poll'");
}

Status Repository::load(const LoadOrder& order, Done done) {
  MILLRACE_TRY(check_mode());
  MILLRACE_ASSIGN(const std::uint64_t version, version_of(order.version));
  if (order.pin && version == 0)
    return Error(ErrorCode::kInvalidInput, "pinning a model needs a version, but none is given");
  return enqueue(std::make_shared<Job>(Job{.model = order.model,
                                           .version = version,
                                           .policy = order.policy,
                                           .pin = order.pin,
                                           .force = order.force}),
                 std::move(done));
}

Status Repository::unload(const std::string& model, const std::string& version, Done done) {
  MILLRACE_TRY(check_mode());
  MILLRACE_ASSIGN(const std::uint64_t number, version_of(version));
  auto job = std::make_shared<Job>(Job{.kind = Job::Kind::kUnload, .model = model, .version = number});
  {
    const std::lock_guard lock(mutex_);
    for (const auto& other : jobs_) {
      const bool same = other->model == model && (number == 0 || other->version == number);
      if (!same || other->kind != Job::Kind::kLoad || other->stage == Job::Stage::kRunning) continue;
      other->cancel.request_stop();
      job->cancelled_others = true;
    }
  }
  return enqueue(std::move(job), std::move(done));
}

Status Repository::unpin(const std::string& model, Done done) {
  MILLRACE_TRY(check_mode());
  return enqueue(std::make_shared<Job>(Job{.kind = Job::Kind::kUnpin, .model = model}), std::move(done));
}

/// Adds the job to the queue. A load instead joins an equal load that waits or compiles, if there is one.
Status Repository::enqueue(JobPointer job, Done done) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return stopping_error();
  for (const auto& other : jobs_)
    if (job->kind == Job::Kind::kLoad && other->does_the_same(*job) && other->stage != Job::Stage::kRunning &&
        !other->compilation_failed() && !other->cancel.stop_requested()) {
      other->done.push_back(std::move(done));
      return {};
    }
  if (jobs_.size() >= kMostJobs)
    return Error(ErrorCode::kResourceExhausted,
                 std::to_string(kMostJobs) + " loads and unloads are waiting already");
  job->done.push_back(std::move(done));
  jobs_.push_back(std::move(job));
  changed_.notify_all();
  return {};
}

/// Returns the first job that is at this stage and whose model has no earlier job in the queue, or null if
/// there is none.
Repository::JobPointer Repository::next(Job::Stage stage) const {
  if (stopping_) return nullptr;  // begin_stop() ends the waiting jobs
  for (auto it = jobs_.begin(); it != jobs_.end(); ++it) {
    const auto same_model = [&](const JobPointer& other) { return other->model == (*it)->model; };
    if ((*it)->stage == stage && std::none_of(jobs_.begin(), it, same_model)) return *it;
  }
  return nullptr;
}

/// Restarts the job with the next older version that is not empty and has not failed before. Does so only if the job
/// was made by a start or a poll, its version did not load, and no version of the model serves. Returns false if there
/// is no such version, or the model is pinned.
bool Repository::fall_back(const JobPointer& job, const Status& status) {
  if (status.ok() || !job->own || job->version == 0) return false;
  const auto found = list();
  if (!found.ok() || serving(job->model) != nullptr) return false;
  const auto model = found->find(job->model);
  if (model == found->end()) return false;
  const Versions& versions = model->second.versions;
  if (model->second.pin.is_set()) {
    log::warning("models", "model '" + job->model +
                               "' is pinned, "
                               "so no other version is loaded in place of '" +
                               std::to_string(job->version) + "'; repair that version, or " +
                               how_to_unpin(model->second.path));
    return false;
  }
  auto older = versions.lower_bound(job->version);
  const auto failed_before = [&](const Versions::value_type& version) {
    const Tried& tried = tried_[job->model][version.first];
    return tried.failed && tried.fingerprint == version.second.fingerprint;
  };
  do {
    if (older == versions.begin()) return false;
    --older;
  } while (older->second.kind == VersionDirectory::Kind::kNothing || failed_before(*older));

  log::warning("models", "model '" + job->model + "': version '" + std::to_string(job->version) +
                             "' did not load, so version '" + std::to_string(older->first) +
                             "' is loaded in its place");
  std::vector<Done> done;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || job->cancel.stop_requested()) return false;
    job->version = older->first;
    job->source.clear();
    job->compiled.reset();
    job->stage = Job::Stage::kReady;
    // Unless options_.strict is set, Repository::start() waits for no compilation, so it need not wait for
    // this job.
    if (older->second.kind == VersionDirectory::Kind::kSource && !options_.strict) done.swap(job->done);
    changed_.notify_all();
  }
  for (const auto& one : done)
    if (one) one(status);
  return true;
}

void Repository::finish(const JobPointer& job, const Status& status) {
  std::vector<Done> done;
  {
    const std::lock_guard lock(mutex_);
    jobs_.remove(job);
    done.swap(job->done);
    const auto wanted = wanted_.find(job->model);
    if (wanted != wanted_.end() && job->kind == Job::Kind::kLoad && !job->cancel.stop_requested()) {
      wanted->second.failed = status.ok() ? std::nullopt : std::optional(status.error());
      // If a client's load succeeds, its version is the one that should serve. If the server itself falls back to an
      // older version, the newer version remains the one that should serve.
      if (status.ok() && (!job->own || job->version >= wanted->second.passed_over))
        wanted->second.passed_over = 0;
    }
    changed_.notify_all();
  }
  for (const auto& one : done)
    if (one) one(status);
}

std::optional<std::string> Repository::loading(std::string_view model, std::string_view version) const {
  const std::uint64_t wanted = parse_version(std::string(version.substr(0, 32)));
  const std::lock_guard lock(mutex_);
  for (const auto& job : jobs_) {
    if (job->kind != Job::Kind::kLoad || job->model != model || job->cancel.stop_requested()) continue;
    if (!version.empty() && (wanted == 0 || job->version != wanted)) continue;
    if (const auto states = states_.find(job->model); states != states_.end())
      if (const auto state = states->second.find(job->version);
          state != states->second.end() && state->second.state == ModelState::kLoading)
        return state->second.reason;
    return "its load waits for others";
  }
  return std::nullopt;
}

void Repository::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const auto event = next_event();
    changed_.wait_until(lock, stop, event, [this] { return next(Job::Stage::kReady) != nullptr; });
    if (stop.stop_requested()) return;
    const JobPointer job = next(Job::Stage::kReady);
    if (job == nullptr && Clock::now() < event) continue;
    if (job != nullptr) job->stage = Job::Stage::kRunning;
    working_ = true;
    lock.unlock();
    if (job != nullptr)
      run(job);
    else
      run_due();
    lock.lock();
    working_ = false;
  }
}

void Repository::compile_all(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return next(Job::Stage::kToCompile) != nullptr; })) {
    const JobPointer job = next(Job::Stage::kToCompile);
    job->stage = Job::Stage::kCompiling;
    lock.unlock();
    auto compiled = compile(*job);
    lock.lock();
    job->compiled = std::move(compiled);
    job->stage = Job::Stage::kReady;  // the worker thread continues the job
    changed_.notify_all();
  }
}

/// Compiles the version of the job and returns its deployment. Logs start and end, and every step at level debug.
Result<std::filesystem::path> Repository::compile(const Job& job) {
  const std::string version = named(job.model, job.version) + ": ";
  std::optional<Clock::time_point> began;
  const auto progress = [&](const std::string& step) {
    if (step.empty()) {
      began = Clock::now();
      log::info("models", version + "compiling");
    } else {
      log::debug("models", version + "compiled as far as " + step);
    }
    set_progress(job, step.empty() ? "compiling" : "compiling: " + step + " is done");
  };
  set_progress(job, "searching the compile cache");
  auto made = compile_version(*options_.compiler, *options_.cache, job.model, job.source,
                              job.cancel.get_token(), progress);
  if (!made.ok()) return made;
  log::info("models",
            version + (began ? "compiled in " + std::to_string(milliseconds_since(*began)) + " ms"
                             : "compiled before and reused from " + options_.cache->root().string()));
  return made;
}

void Repository::begin_stop() {
  std::vector<JobPointer> waiting;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const auto& job : jobs_) {
      job->cancel.request_stop();
      if (job->stage == Job::Stage::kRunning) continue;
      waiting.push_back(job);
      if (job->kind != Job::Kind::kLoad) continue;
      // The client that asked for the load may be gone, so the log says that the load touched no card.
      const std::string load =
          job->version == 0 ? "model '" + job->model + "'" : named(job->model, job->version);
      const bool compiles = job->stage == Job::Stage::kCompiling;
      log::warning(
          "models",
          load +
              (compiles
                   ? ": the compilation is cancelled because the server stops; the next load starts it again"
                   : ": the load is cancelled because the server stops"));
    }
  }
  worker_.request_stop();
  for (auto& compiler : compilers_) compiler.request_stop();
  for (const auto& job : waiting) finish(job, stopping_error());
}

bool Repository::idle() const {
  const std::lock_guard lock(mutex_);
  return !working_;
}

void Repository::abandon() {
  std::vector<Done> done;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& job : jobs_) {
      std::move(job->done.begin(), job->done.end(), std::back_inserter(done));
      job->done.clear();
    }
  }
  for (const auto& one : done)
    if (one) one(stopping_error());
  swapper_.abandon(stopping_error());
}

void Repository::stop() {
  begin_stop();
  if (worker_.joinable()) worker_.join();
  for (auto& compiler : compilers_)
    if (compiler.joinable()) compiler.join();
  begin_stop();  // ends jobs that moved between worker and compilers meanwhile
}

}  // namespace millrace::server::models
