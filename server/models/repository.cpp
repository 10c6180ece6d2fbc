// The queue of jobs; what they do is in repository_jobs.cpp.
#include "server/models/repository.hpp"

#include <algorithm>
#include <iterator>
#include <latch>
#include <utility>

#include "runtime/base/log.hpp"
#include "server/models/guarded.hpp"

namespace millrace::server::models {

namespace {

constexpr std::size_t kMostJobs = 64;

Error stopping_error() {
  return Error(ErrorCode::kUnavailable, "the server is stopping");
}

/// A load that a stop ends before it touched a card: who asked for it may be gone, and the log is what stays.
void say_given_up(const std::string& model, std::uint64_t version, bool compiles) {
  log::warning(
      "models",
      "model '" + model + "'" + (version == 0 ? "" : " version '" + std::to_string(version) + "'") +
          (compiles ? ": its compilation is given up: the server stops; the next load begins it again"
                    : ": its load is given up: the server stops"));
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
    want(name);
  }
  return result.status;
}

Status Repository::start() {
  std::vector<std::pair<std::string, bool>> first;  // and whether it is waited for
  if (!options_.root.empty()) {
    MILLRACE_ASSIGN(const Directory found, look());
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
  // Counted by themselves: whoever is not waited for may outlive this call.
  const auto waited = std::count_if(first.begin(), first.end(), [](const auto& one) { return one.second; });
  const auto done = std::make_shared<std::latch>(waited);
  for (const auto& [model, wait] : first) {
    auto job = std::make_shared<Job>();
    job->model = model;
    job->own = true;
    want(model);
    if (wait) job->done.push_back([done](const Status&) { done->count_down(); });
    if (const Status queued = enqueue(job); !queued.ok() && wait) done->count_down();
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
                 "repository.strict: " + options_.root.string() + " holds no model to serve");
  std::optional<ErrorCode> first;
  std::string all;
  const auto add = [&](const Error& error) {
    if (!first) first = error.code();
    all += (all.empty() ? "" : "; ") + error.message();
  };
  const std::lock_guard lock(mutex_);
  for (const auto& model : models) {
    const auto wanted = wanted_.find(model);
    if (wanted == wanted_.end()) continue;  // unloaded, or stopping
    if (wanted->second.passed_over != 0)
      add(wanted->second.why_passed_over->within("model '" + model + "' version '" +
                                                 std::to_string(wanted->second.passed_over) + "'"));
    else if (wanted->second.failed)
      add(*wanted->second.failed);
  }
  if (!first) return {};
  return Error(*first, "repository.strict: not everything that should be served is: " + all);
}

bool Repository::allowed(Status& refusal) const {
  if (options_.mode == RepositoryMode::kNone)
    refusal = Error(ErrorCode::kUnsupported,
                    "models are fixed at start here; loading and unloading needs 'serve --repository-mode "
                    "explicit' or 'poll'");
  return refusal.ok();
}

Status Repository::load(const LoadOrder& order, Done done) {
  Status refusal;
  if (!allowed(refusal)) return refusal;
  auto job = std::make_shared<Job>();
  job->model = order.model;
  job->policy = order.policy;
  job->version = parse_version(order.version);
  if (!order.version.empty() && job->version == 0)
    return Error(ErrorCode::kInvalidInput,
                 "version '" + order.version.substr(0, 64) + "' is not a positive number");
  job->pin = order.pin;
  job->force = order.force;
  if (order.pin && order.version.empty())
    return Error(ErrorCode::kInvalidInput, "a model is pinned to a version, and none is given");
  return join_or_enqueue(std::move(job), std::move(done));
}

/// A load of the same, in the same way, that waits or compiles is joined.
Status Repository::join_or_enqueue(JobPointer job, Done done) {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& waiting : jobs_) {
      if (waiting->kind != Job::Kind::kLoad || waiting->model != job->model ||
          waiting->version != job->version || waiting->policy != job->policy || waiting->pin != job->pin ||
          waiting->force != job->force || waiting->stage == Job::Stage::kRunning || waiting->not_compiled ||
          waiting->cancel.stop_requested() || stopping_)
        continue;
      waiting->done.push_back(std::move(done));
      return {};
    }
  }
  job->done.push_back(std::move(done));
  return enqueue(std::move(job));
}

Status Repository::unload(const std::string& model, const std::string& version, Done done) {
  Status refusal;
  if (!allowed(refusal)) return refusal;
  auto job = std::make_shared<Job>();
  job->kind = Job::Kind::kUnload;
  job->model = model;
  job->version = parse_version(version);
  if (!version.empty() && job->version == 0)
    return Error(ErrorCode::kInvalidInput,
                 "version '" + version.substr(0, 64) + "' is not a positive number");
  job->done.push_back(std::move(done));
  {
    const std::lock_guard lock(mutex_);
    for (const auto& waiting : jobs_) {
      const bool same = waiting->model == model && (job->version == 0 || waiting->version == job->version);
      if (!same || waiting->kind != Job::Kind::kLoad || waiting->stage == Job::Stage::kRunning) continue;
      waiting->cancel.request_stop();
      job->cancelled_others = true;
    }
  }
  return enqueue(std::move(job));
}

Status Repository::unpin(const std::string& model, Done done) {
  Status refusal;
  if (!allowed(refusal)) return refusal;
  auto job = std::make_shared<Job>();
  job->kind = Job::Kind::kUnpin;
  job->model = model;
  job->done.push_back(std::move(done));
  return enqueue(std::move(job));
}

Status Repository::enqueue(JobPointer job) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return stopping_error();
  if (jobs_.size() >= kMostJobs)
    return Error(ErrorCode::kResourceExhausted,
                 std::to_string(kMostJobs) + " loads and unloads are waiting already");
  jobs_.push_back(std::move(job));
  changed_.notify_all();
  return {};
}

Repository::JobPointer Repository::take(Job::Stage stage, Job::Stage becomes) {
  if (stopping_) return nullptr;  // begin_stop() ends what waits
  for (auto it = jobs_.begin(); it != jobs_.end(); ++it) {
    const auto same_model = [&](const JobPointer& other) { return other->model == (*it)->model; };
    if ((*it)->stage != stage || std::any_of(jobs_.begin(), it, same_model)) continue;
    (*it)->stage = becomes;
    return *it;
  }
  return nullptr;
}

/// Where a start or a poll could not load a version, and nothing of the model serves: has the job begin again
/// with the next older version that holds something and has not failed before as it is. False: there is none,
/// or the model is pinned.
bool Repository::falls_back(const JobPointer& job, const Status& status) noexcept {
  bool begins_again = false;
  if (!status.ok() && job->own && job->version != 0)
    static_cast<void>(guarded([&] { begins_again = fall_back(job, status); }));
  return begins_again;
}

bool Repository::fall_back(const JobPointer& job, const Status& status) {
  const auto found = look();
  if (!found.ok() || serving(job->model) != nullptr) return false;
  const auto model = found->find(job->model);
  if (model == found->end()) return false;
  const Versions& versions = model->second.versions;
  if (model->second.pin.is_set()) {
    log::warning("models", "model '" + job->model +
                               "' is pinned, so no other version is loaded in place of '" +
                               std::to_string(job->version) + "'; repair that version, or " +
                               how_to_unpin(model->second.path));
    return false;
  }
  auto older = versions.lower_bound(job->version);
  const auto failed_before = [&](const Versions::value_type& version) {
    const auto tried = tried_[job->model].find(version.first);
    return tried != tried_[job->model].end() && tried->second.failed &&
           tried->second.fingerprint == version.second.fingerprint;
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
    job->compiled.clear();
    job->not_compiled.reset();
    job->logged = false;
    job->stage = Job::Stage::kReady;
    // A start does not wait for compilations.
    if (older->second.kind == VersionDirectory::Kind::kSource && !options_.strict) done.swap(job->done);
    changed_.notify_all();
  }
  for (const auto& one : done)
    if (one) one(status);
  return true;
}

/// What came of a load, for those who ask which models do not serve as they should. mutex_ is held.
void Repository::book_ending(Wanted& wanted, const Job& job, const Status& status) noexcept {
  if (!status.ok()) {
    wanted.failed = guarded_error([&] { return status.error(); });
    return;
  }
  wanted.failed.reset();
  // What a client asked for is what should serve; an older version that a start fell back to is not.
  if (!job.own || job.version >= wanted.passed_over) wanted.passed_over = 0;
}

void Repository::finish(const JobPointer& job, const Status& status) {
  std::vector<Done> done;
  {
    const std::lock_guard lock(mutex_);
    jobs_.remove(job);
    done.swap(job->done);
    if (const auto wanted = wanted_.find(job->model);
        wanted != wanted_.end() && job->kind == Job::Kind::kLoad && !job->cancel.stop_requested())
      book_ending(wanted->second, *job, status);
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
    if (const JobPointer job = take(Job::Stage::kReady, Job::Stage::kRunning)) {
      working_ = true;
      lock.unlock();
      if (job->not_compiled)
        end_not_compiled(job);
      else
        run(job);
      lock.lock();
      working_ = false;
      continue;
    }
    const auto next = next_event();
    JobPointer job;
    const auto ready = [&] {
      return std::any_of(jobs_.begin(), jobs_.end(),
                         [](const JobPointer& one) { return one->stage == Job::Stage::kReady; });
    };
    // A job behind another of its model is ready and not to be taken: looked at again when that one is done,
    // which is noticed in at most this time.
    constexpr std::chrono::milliseconds kLook{20};
    if (next == Clock::time_point::max() && !ready())
      changed_.wait(lock, stop, ready);
    else if (!ready())
      changed_.wait_until(lock, stop, next, ready);
    else
      changed_.wait_for(lock, stop, kLook, [] { return false; });
    if (stop.stop_requested() || Clock::now() < next) continue;
    working_ = true;
    lock.unlock();
    if (!guarded([this] { try_lost(); }).ok() || !guarded([this] { try_missing(); }).ok()) try_again_later();
    if (Clock::now() >= next_poll_) static_cast<void>(guarded([this] { poll(); }));
    if (Clock::now() >= next_burial_) bury_apart();
    lock.lock();
    working_ = false;
  }
}

void Repository::compile_all(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const JobPointer job = take(Job::Stage::kToCompile, Job::Stage::kCompiling);
    if (job == nullptr) {
      changed_.wait(lock, stop, [this] {
        return std::any_of(jobs_.begin(), jobs_.end(),
                           [](const JobPointer& one) { return one->stage == Job::Stage::kToCompile; });
      });
      continue;
    }
    lock.unlock();
    auto compiled = guarded([&] { return compile(*job); });
    lock.lock();
    // Back to the worker, who keeps the books.
    if (compiled.ok())
      job->compiled = *std::move(compiled);
    else
      job->not_compiled = guarded_error([&] { return compiled.error(); });
    job->stage = Job::Stage::kReady;
    changed_.notify_all();
  }
}

/// The deployment of the job's version. The log has two lines of it, and at debug one for each step.
Result<std::filesystem::path> Repository::compile(const Job& job) {
  using std::chrono::duration_cast, std::chrono::milliseconds;
  const std::string version = "model '" + job.model + "' version '" + std::to_string(job.version) + "': ";
  std::optional<Clock::time_point> began;
  const CompileProgress progress{[&] {
                                   began = Clock::now();
                                   log::info("models", version + "compiling");
                                   say_how_far(job, "compiling");
                                 },
                                 [&](const std::string& step) {
                                   log::debug("models", version + "compiled as far as " + step);
                                   say_how_far(job, "compiling: " + step + " is done");
                                 }};
  say_how_far(job, "looking for it among what is compiled");
  auto made = compile_version(*options_.compiler, *options_.cache, job.model, job.source,
                              job.cancel.get_token(), progress);
  if (made.ok() && began)
    log::info("models", version + "compiled in " +
                            std::to_string(duration_cast<milliseconds>(Clock::now() - *began).count()) +
                            " ms");
  else if (made.ok())
    log::info("models", version + "compiled before, taken from " + options_.cache->root().string());
  return made;
}

/// Where the version serves it stays READY while its change is compiled.
void Repository::say_how_far(const Job& job, const std::string& text) {
  const auto now = serving(job.model);
  if (now == nullptr || now->version() != std::to_string(job.version))
    set_state(job.model, job.version, ModelState::kLoading, text);
  else if (now->state() == ModelState::kReady)
    set_state(job.model, job.version, ModelState::kReady, "its change is being loaded: " + text);
}

/// Where the version it would have replaced serves on, under the same number, that is what the index says.
void Repository::say_not_loaded(const Job& job, bool in_place, const std::string& why) {
  const bool lost = lost_.contains(job.model);
  if (in_place && serving(job.model) != nullptr && !lost)
    set_state(job.model, job.version, ModelState::kReady,
              "its change was not loaded: " + why +
                  (missing_.contains(job.model) ? "; and it lacks replicas, which are tried again" : ""));
  else if (!lost || !in_place)
    set_state(job.model, job.version, ModelState::kUnavailable, why);
}

/// As where a load fails before it touches a card.
void Repository::end_not_compiled(const JobPointer& job) {
  if (const Status booked = guarded([&] { book_not_compiled(*job); }); !booked.ok())
    settle(job->model, job->version, booked.error());
  const Status failed = *std::move(job->not_compiled);
  if (!falls_back(job, failed)) finish(job, failed);
}

void Repository::book_not_compiled(const Job& job) {
  using Reload = metrics::Metrics::Reload;
  const std::string& model = job.model;
  const std::string version = std::to_string(job.version);
  const Error& error = *job.not_compiled;
  const bool cancelled = job.cancel.stop_requested();
  const std::string why = cancelled ? "its compilation was cancelled" : error.message();
  if (!cancelled && error.code() == ErrorCode::kResourceExhausted)
    tried_[model].erase(job.version);
  else if (!cancelled)
    tried_[model][job.version].failed = true;
  const auto now = serving(model);
  const bool in_place = now != nullptr && now->version() == version;
  say_not_loaded(job, in_place, why);
  if (!cancelled) pass_over(job, error);
  log::warning("models", "model '" + model + "' version '" + version + "': " + error.message());
  metrics_.reloaded(model, cancelled ? Reload::kCancelled : Reload::kFailure, std::chrono::nanoseconds(0));
}

void Repository::begin_stop() {
  std::vector<JobPointer> waiting;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const auto& job : jobs_) {
      job->cancel.request_stop();
      if (job->stage == Job::Stage::kRunning) continue;
      if (job->kind == Job::Kind::kLoad)
        say_given_up(job->model, job->version, job->stage == Job::Stage::kCompiling);
      waiting.push_back(job);
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
  begin_stop();  // what was handed from one to the other meanwhile
}

}  // namespace millrace::server::models
