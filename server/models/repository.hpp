// The versions that a server can serve, and the jobs that load and unload them. README.md describes the layout of a
// repository, its modes and its states.
//
// Threads: one worker thread polls and runs the jobs, each job in a thread of its own. Compiler threads
// (RepositoryOptions::compilations many) compile models. Any thread may call any function. A function waits for a job
// only if its comment says so.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "runtime/base/result.hpp"
#include "server/metrics/metrics.hpp"
#include "server/models/compilation.hpp"
#include "server/models/directory.hpp"
#include "server/models/registry.hpp"
#include "server/models/swap.hpp"

namespace millrace::server::models {

enum class RepositoryMode { kNone, kExplicit, kPoll };

/// Parses "none", "explicit" or "poll". Returns kInvalidInput for any other text.
Result<RepositoryMode> parse_mode(std::string_view text);

struct RepositoryOptions {
  std::filesystem::path root;  // empty: only serve_deployment() adds models
  RepositoryMode mode = RepositoryMode::kNone;
  std::vector<std::string> load;  // models that mode explicit loads when the server starts; "*": every model
  std::chrono::milliseconds poll{15'000};
  SwapPolicy policy = SwapPolicy::kAuto;  // policy of loads that name none
  std::optional<Compiler> compiler;       // without one, a model without a deployment cannot be loaded
  std::optional<Cache> cache;             // set if `compiler` is set
  std::size_t compilations = 1;           // how many compilations may run at once
  bool strict = false;                    // start() fails unless every model serves the right version
};

struct LoadOrder {
  std::string model;
  std::string version;  // empty: the newest version
  std::optional<SwapPolicy> policy;
  bool pin = false;    // pin the model to `version`, which must be given, once it serves
  bool force = false;  // load the version even if its inputs or outputs differ from those that serve
};

struct IndexEntry {
  std::string name, version;
  ModelState state = ModelState::kUnknown;
  std::string reason;
  bool pinned = false;  // PIN names this version
};

class Repository {
 public:
  /// Called once when the job has ended, either on a repository thread or on the thread that stops the repository.
  /// Must not block or throw.
  using Done = std::function<void(const Status&)>;

  /// The referenced objects must outlive the repository. From start() on, only the repository may use `swapper`.
  Repository(Registry& registry, metrics::Metrics& metrics, Swapper& swapper, RepositoryOptions options);
  ~Repository();  // calls stop()
  Repository(const Repository&) = delete;
  Repository& operator=(const Repository&) = delete;

  /// Serves a deployment from outside the root as version 1 of its model. To be called before start(). Waits for
  /// cards.
  Status serve_deployment(PipelineSource::Deployment deployment);

  /// Loads the models that the mode requires, and starts to poll. If a version does not load and no other version of
  /// its model serves, loads the next older version. Waits for every load that needs no compilation. Returns kNotFound
  /// or kEnvironment if the root cannot be listed.
  ///
  /// With RepositoryOptions::strict, start() also waits for compilations, and fails if a model serves no version or
  /// the wrong version. The error names each such model and has the error code of the first.
  Status start();

  /// Queues a job that loads a version. If load() returns an error, no job was queued and `done` will not be called.
  /// The errors are kUnsupported (mode none), kInvalidInput (bad version, or a pin without a version),
  /// kResourceExhausted (64 jobs wait) and kUnavailable (stopping). The job itself passes to `done`: kNotFound (no
  /// such model or version), kCancelled (unloaded meanwhile), kDoesNotFit (pinned to another version, or other inputs
  /// and outputs), kEnvironment (the pin cannot be written), or the reason why the version does not load.
  Status load(const LoadOrder& order, Done done);

  /// Queues a job that unloads the version, or whichever version serves if `version` is empty. The job also cancels
  /// loads of the version that have not begun to swap. Returns the same errors as load(). The job passes kNotFound to
  /// `done` if it unloaded and cancelled nothing.
  Status unload(const std::string& model, const std::string& version, Done done);

  /// Queues a job that removes the model's pin, whatever the PIN file holds. The serving version keeps serving.
  /// Returns the same errors as load(). The job passes to `done`: kNotFound (no such model, or no pin), kInvalidInput
  /// or kEnvironment (PIN cannot be removed).
  Status unpin(const std::string& model, Done done);

  /// Lists every version with its state, ordered by model and number, including a pinned version that is missing.
  /// Reads the root directory, so it must not run on an I/O thread.
  std::vector<IndexEntry> index() const;

  /// Returns how far a waiting or running load of the model is. If `version` is not empty, considers only loads of that
  /// version. Reads no file.
  std::optional<std::string> loading(std::string_view model, std::string_view version) const;

  /// Reports metrics when they are scraped: which model versions should be served, and how many models do not serve
  /// because their load failed. A model should be served from the moment a start, a poll or a client asks for it,
  /// until it is unloaded or (mode poll) leaves the root. Reads the pins, so it must not run on an I/O thread.
  void sample(metrics::Samples& samples) const;

  RepositoryMode mode() const { return options_.mode; }

  /// Stops accepting jobs, and ends those that wait or compile with kUnavailable. Models keep serving. Idempotent.
  void begin_stop();
  /// Calls begin_stop(), then waits for the running job, which may have to wait for cards.
  void stop();

  /// Returns true if no job or poll runs. After begin_stop(), stop() then only waits for compilers to be killed.
  bool idle() const;

  /// For a process that exits without calling stop(); must follow begin_stop(). Answers the clients of the running
  /// job, and the requests that the job keeps waiting, with kUnavailable. The job itself continues.
  void abandon();

 private:
  using Clock = std::chrono::steady_clock;
  static std::int64_t milliseconds_since(Clock::time_point begin) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
  }
  struct Job {
    enum class Kind { kLoad, kUnload, kUnpin } kind = Kind::kLoad;
    enum class Stage { kReady, kToCompile, kCompiling, kRunning } stage = Stage::kReady;
    std::string model;
    std::uint64_t version = 0;  // 0: the newest version (load), or the serving version (unload)
    std::optional<SwapPolicy> policy = {};
    bool pin = false;    // load jobs only: see LoadOrder
    bool force = false;  // load jobs only: see LoadOrder
    std::vector<Done> done = {};
    std::filesystem::path source = {};                           // folder of a model that must be compiled
    std::optional<Result<std::filesystem::path>> compiled = {};  // the deployment, or why compiling failed
    std::stop_source cancel = {};
    bool cancelled_others = false;  // unload jobs only: the job cancelled a load
    bool own = false;               // a start or a poll made the job, so it may fall back to an older version

    bool needs_compiler() const { return !source.empty() && !compiled; }
    bool compilation_failed() const { return compiled && !compiled->ok(); }
    bool does_the_same(const Job& other) const {
      return std::tie(kind, model, version, policy, pin, force) ==
             std::tie(other.kind, other.model, other.version, other.policy, other.pin, other.force);
    }
  };
  using JobPointer = std::shared_ptr<Job>;
  struct State {
    ModelState state = ModelState::kUnknown;
    std::string reason;
  };
  /// The load state of a model that should be served.
  struct Wanted {
    std::optional<Error> failed;    // why its last load failed
    std::uint64_t passed_over = 0;  // the version that should serve but did not load; 0: none
    std::optional<Error> why_passed_over;
  };
  /// What the polls found out about a model.
  struct Polled {
    Versions versions;       // the versions that the last poll found
    Pin pin;                 // the last pin that was obeyed
    std::string trouble;     // why the pin prevents any load; already logged
    std::uint64_t gone = 0;  // the serving version whose folder is gone; 0: none
  };
  struct Tried {
    std::string fingerprint;
    bool failed = false;
  };
  /// Recovers a model that did not come up again after a swap, or that lacks replicas. The worker thread retries the
  /// recovery after pauses that double each time.
  struct Recovery {
    bool lost = false;         // no replica of the model serves
    std::optional<Error> why;  // the latest error of a retry
    std::chrono::milliseconds pause{500};
    Clock::time_point next_try = Clock::now() + pause;
    void failed_again();
  };

  // The functions below manage the queue of jobs. repository.cpp implements them.
  Status check_mode() const;
  Status enqueue(JobPointer job, Done done);
  JobPointer next(Job::Stage stage) const;  // called with mutex_ held
  bool fall_back(const JobPointer& job, const Status& status);
  void finish(const JobPointer& job, const Status& status);
  void work(const std::stop_token& stop);
  void compile_all(const std::stop_token& stop);
  Result<std::filesystem::path> compile(const Job& job);
  Status check_all_serve(const std::vector<std::string>& models) const;

  // The functions below are the jobs (repository_jobs.cpp). They run on the worker thread or on a job's own thread.
  void run(const JobPointer& job);
  Status run_kind(Job& job);
  Status run_load(Job& job);
  Status run_load_and_pin(Job& job);
  Status run_unload(Job& job);
  Status run_unpin(const Job& job);
  Status find_version(Job& job, VersionDirectory& found);
  Status choose_version(Job& job, const ModelDirectory& directory);
  Result<std::optional<NextVersion>> prepare(const Job& job, const VersionDirectory& found,
                                             const std::shared_ptr<Model>& old);
  Status check_signature(const Job& job, const Model& serves, const runtime::plan::ModelInfo& next) const;
  std::string after_restart(const Job& job, const std::string& serves) const;
  SwapResult swap_to(const Job& job, const std::shared_ptr<Model>& old, const NextVersion& next);
  std::string card_holders(const std::string& except) const;
  Error load_failed(const Job& job, const Error& error, bool may_retry);
  Error cancelled(const Job& job);
  void set_not_loaded(const Job& job, const std::string& why);
  bool is_lost(const std::string& model) const;
  void recover(const std::string& model);
  void check_replicas(const std::string& model, const std::optional<Error>& why);
  void retire(const std::shared_ptr<Model>& model);
  void release_retired();
  void run_due();
  Clock::time_point next_event() const;

  // The functions below implement mode poll, in repository_scan.cpp. They run on the worker thread.
  void poll();
  void poll_model(const std::string& model, const ModelDirectory& directory);
  bool can_obey_pin(const std::string& model, const ModelDirectory& directory);
  void log_held_back(const std::string& model, const ModelDirectory& directory);

  // The functions below keep the versions' states (repository_scan.cpp). Any thread may call them.
  std::shared_ptr<Model> serving(const std::string& model) const;
  std::uint64_t serving_version(const std::string& model) const;  // 0: no version serves
  void set_state(const std::string& model, std::uint64_t version, ModelState state, std::string reason);
  void set_progress(const Job& job, const std::string& text);
  void mark_wanted(const std::string& model, bool wanted = true);
  void pass_over(const Job& job, const Error& why);
  void forget_passed_over(const std::string& model, const Versions& versions);  // called with mutex_ held
  Result<Directory> list() const;
  Result<std::filesystem::path> folder_of(const std::string& model) const;
  bool is_outdated(const std::string& model, const Pin& pin, std::uint64_t serves,
                   std::uint64_t passed_over) const;

  Registry& registry_;
  metrics::Metrics& metrics_;
  Swapper& swapper_;
  const RepositoryOptions options_;
  Directory deployments_;  // from serve_deployment(); constant after start()

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  // mutex_ protects the members below.
  std::list<JobPointer> jobs_;  // in order of arrival; only a model's first job is worked on
  std::map<std::string, std::map<std::uint64_t, State>> states_;
  std::map<std::string, Wanted> wanted_;
  bool stopping_ = false;
  bool working_ = false;  // a job or a poll is running

  // The members below are used by the worker thread only.
  std::map<std::string, std::map<std::uint64_t, Tried>> tried_;  // versions that loaded or failed to load
  std::map<std::string, Polled> polled_;
  std::map<std::string, Recovery> recovering_;
  std::vector<std::shared_ptr<Model>> retired_;  // replaced or unloaded models that requests may still hold
  Clock::time_point next_poll_ = Clock::time_point::max(), next_release_ = Clock::time_point::max();

  std::jthread worker_;
  std::vector<std::jthread> compilers_;
};

}  // namespace millrace::server::models
