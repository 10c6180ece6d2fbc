// The versions that a server can serve, and the jobs that load and unload them. README.md describes the
// layout of a repository, its modes and its states.
//
// Threads: one worker does the jobs, each in a thread of its own, and polls; others (one, unless the options
// ask for more) compile. Any thread may call any function. A function waits for a job only if its comment
// says so.
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

/// "none", "explicit", "poll"; kInvalidInput for anything else.
Result<RepositoryMode> parse_mode(std::string_view text);

struct RepositoryOptions {
  std::filesystem::path root;  // empty: the server has only the deployments that it is given
  RepositoryMode mode = RepositoryMode::kNone;
  std::vector<std::string> load;  // models that mode explicit loads at the start; "*": every model
  std::chrono::milliseconds poll{15'000};
  SwapPolicy policy = SwapPolicy::kAuto;  // of loads that name none
  std::optional<Compiler> compiler;       // without one, a model without a deployment cannot be loaded
  std::optional<Cache> cache;             // set where `compiler` is
  std::size_t compilations = 1;           // how many may run at once
  bool strict = false;                    // start() fails unless every model serves as it should
};

struct LoadOrder {
  std::string model;
  std::string version;  // empty: the newest
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
  /// Called once, when the job has ended, on a thread of the repository or on the one that stops it. Must not
  /// block or throw.
  using Done = std::function<void(const Status&)>;

  /// References must outlive the repository. From start() on, nobody else uses `swapper`.
  Repository(Registry& registry, metrics::Metrics& metrics, Swapper& swapper, RepositoryOptions options);
  ~Repository();  // stop()
  Repository(const Repository&) = delete;
  Repository& operator=(const Repository&) = delete;

  /// Serves a deployment outside the root as version 1 of its model. Call before start(). Waits for cards.
  Status serve_deployment(PipelineSource::Deployment deployment);

  /// Loads what the mode names and begins to poll. If a version does not load and no other of its model
  /// serves, the next older version is loaded. Waits for every load that needs no compilation. kNotFound or
  /// kEnvironment if the root cannot be listed.
  ///
  /// With `strict`, waits for compilations too, and fails if a model serves no version or the wrong one. The
  /// error names each such model and has the code of the first.
  Status start();

  /// An error means that no job was made and `done` will not be called: kUnsupported in mode none,
  /// kInvalidInput (bad version, or a pin without one), kResourceExhausted (64 jobs wait), kUnavailable
  /// (stopping). The job's own status: kNotFound (no such model or version), kCancelled (unloaded meanwhile),
  /// kDoesNotFit (pinned to another version, or other inputs and outputs), kEnvironment (the pin cannot be
  /// written), or the reason why the version does not load.
  Status load(const LoadOrder& order, Done done);

  /// Unloads the version of the model, or whichever serves if `version` is empty, and cancels loads of it
  /// that have not begun to swap. Errors as load(); the job's status: kNotFound if nothing was unloaded or
  /// cancelled.
  Status unload(const std::string& model, const std::string& version, Done done);

  /// Removes the model's pin, whatever the file holds; the version that serves goes on. Errors as load(); the
  /// job's status: kNotFound (no such model, or no pin), kInvalidInput, kEnvironment (PIN cannot be removed).
  Status unpin(const std::string& model, Done done);

  /// Every version with its state, ordered by model and number, including a pinned version that is missing.
  /// Lists the root, so it must not run on an I/O thread.
  std::vector<IndexEntry> index() const;

  /// The progress of a load of the model (and version, unless empty) that waits or runs. Reads no file.
  std::optional<std::string> loading(std::string_view model, std::string_view version) const;

  /// Reports at a scrape which models should be served, in which version, and how many of them do not serve
  /// because their load failed. Reads the pins, so it must not run on an I/O thread. A model should be served
  /// from the moment a start, a poll or a client asks for it until it is unloaded or (mode poll) leaves the
  /// root.
  void sample(metrics::Samples& samples) const;

  RepositoryMode mode() const { return options_.mode; }

  /// Accepts no more jobs and ends those that wait or compile with kUnavailable. Models go on serving.
  /// Idempotent.
  void begin_stop();
  /// begin_stop(), and waits for the running job, which takes as long as its cards do.
  void stop();

  /// True if no job or poll runs. After begin_stop(), stop() then waits only for compilers being killed.
  bool idle() const;

  /// For a process that ends without stop(). Call after begin_stop(): clients of the running job, and
  /// requests that it keeps waiting, get kUnavailable. The job goes on.
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
    std::uint64_t version = 0;  // 0: the newest (load), or whichever serves (unload)
    std::optional<SwapPolicy> policy = {};
    bool pin = false;    // of a load: see LoadOrder
    bool force = false;  // of a load: see LoadOrder
    std::vector<Done> done = {};
    std::filesystem::path source = {};                           // of a model that must be compiled
    std::optional<Result<std::filesystem::path>> compiled = {};  // its deployment, or why there is none
    std::stop_source cancel = {};
    bool cancelled_others = false;  // of an unload: it cancelled a load
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
  /// A model that should be served.
  struct Wanted {
    std::optional<Error> failed;    // why its last load failed
    std::uint64_t passed_over = 0;  // the version that should serve and did not load; 0: none
    std::optional<Error> why_passed_over;
  };
  /// What polls found of a model.
  struct Polled {
    Versions versions;       // those of the last poll
    Pin pin;                 // the last one that was obeyed
    std::string trouble;     // why no version can be loaded under the pin; already logged
    std::uint64_t gone = 0;  // the version that served although its folder was gone; 0: none
  };
  struct Tried {
    std::string fingerprint;
    bool failed = false;
  };
  /// A model that did not come up again after a swap, or that lacks replicas. The worker retries it after
  /// pauses that double.
  struct Recovery {
    bool lost = false;         // no replica serves
    std::optional<Error> why;  // the latest error
    std::chrono::milliseconds pause{500};
    Clock::time_point next_try = Clock::now() + pause;
    void failed_again();
  };

  // repository.cpp: the queue.
  Status check_mode() const;
  Status enqueue(JobPointer job, Done done);
  JobPointer next(Job::Stage stage) const;  // mutex_ is held
  bool fall_back(const JobPointer& job, const Status& status);
  void finish(const JobPointer& job, const Status& status);
  void work(const std::stop_token& stop);
  void compile_all(const std::stop_token& stop);
  Result<std::filesystem::path> compile(const Job& job);
  Status check_all_serve(const std::vector<std::string>& models) const;

  // repository_jobs.cpp: the jobs themselves, on the worker's thread or while the worker waits.
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

  // repository_scan.cpp: mode poll, on the worker's thread.
  void poll();
  void poll_model(const std::string& model, const ModelDirectory& directory);
  bool can_obey_pin(const std::string& model, const ModelDirectory& directory);
  void log_held_back(const std::string& model, const ModelDirectory& directory);

  // repository_scan.cpp: states and what should serve; on any thread.
  std::shared_ptr<Model> serving(const std::string& model) const;
  std::uint64_t serving_version(const std::string& model) const;  // 0: none
  void set_state(const std::string& model, std::uint64_t version, ModelState state, std::string reason);
  void set_progress(const Job& job, const std::string& text);
  void mark_wanted(const std::string& model, bool wanted = true);
  void pass_over(const Job& job, const Error& why);
  void forget_passed_over(const std::string& model, const Versions& versions);  // mutex_ is held
  Result<Directory> list() const;
  Result<std::filesystem::path> folder_of(const std::string& model) const;
  bool is_outdated(const std::string& model, const Pin& pin, std::uint64_t serves,
                   std::uint64_t passed_over) const;

  Registry& registry_;
  metrics::Metrics& metrics_;
  Swapper& swapper_;
  const RepositoryOptions options_;
  Directory deployments_;  // those of serve_deployment(); constant after start()

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  // Protected by mutex_:
  std::list<JobPointer> jobs_;  // in the order they came; of one model, only the first is worked on
  std::map<std::string, std::map<std::uint64_t, State>> states_;
  std::map<std::string, Wanted> wanted_;
  bool stopping_ = false;
  bool working_ = false;  // a job or a poll runs

  // Of the worker's thread:
  std::map<std::string, std::map<std::uint64_t, Tried>> tried_;  // versions that were loaded, or failed
  std::map<std::string, Polled> polled_;
  std::map<std::string, Recovery> recovering_;
  std::vector<std::shared_ptr<Model>> retired_;  // replaced or unloaded; requests may still hold them
  Clock::time_point next_poll_ = Clock::time_point::max(), next_release_ = Clock::time_point::max();

  std::jthread worker_;
  std::vector<std::jthread> compilers_;
};

}  // namespace millrace::server::models
