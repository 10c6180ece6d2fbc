// The versions there are, and the jobs that load and unload them. README.md describes the layout of a
// repository, its modes and its states.
//
// Threads: one does the jobs, each in a thread of the job's own, and polls; others (one, unless more are
// asked for) compile. Everything here may be called by any thread and waits for neither, unless it says so.
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
  std::filesystem::path root;  // empty: given deployments only
  RepositoryMode mode = RepositoryMode::kNone;
  std::vector<std::string> load;  // explicit mode, at the start; "*": every model
  std::chrono::milliseconds poll{15'000};
  SwapPolicy policy = SwapPolicy::kAuto;  // of loads that name none
  std::optional<Compiler> compiler;       // none: models without a deployment cannot be loaded
  std::optional<Cache> cache;             // there with `compiler`
  std::size_t compilations = 1;           // at once, at the most
  bool strict = false;                    // start() fails where it cannot serve what it should
};

struct LoadOrder {
  std::string model;
  std::string version;  // empty: the newest
  std::optional<SwapPolicy> policy;
  bool pin = false;    // to this version, once it serves; `version` is given
  bool force = false;  // also where its inputs or outputs are not those of the version that serves
};

struct IndexEntry {
  std::string name, version;
  ModelState state = ModelState::kUnknown;
  std::string reason;
  bool pinned = false;  // PIN names this version
};

class Repository {
 public:
  /// Called once, when the job has come to its end; on a thread of the repository, or of who stops it. Must
  /// not block or throw.
  using Done = std::function<void(const Status&)>;

  /// References must outlive it; `swapper` is used by nobody else from start() on.
  Repository(Registry& registry, metrics::Metrics& metrics, Swapper& swapper, RepositoryOptions options);
  ~Repository();  // stop()
  Repository(const Repository&) = delete;
  Repository& operator=(const Repository&) = delete;

  /// Serves a deployment outside the root as version 1 of its model. Before start(); waits for cards.
  Status serve_deployment(PipelineSource::Deployment deployment);

  /// Loads what the mode says, and begins to poll. Where a version does not load and nothing of its model
  /// serves, the next older one is loaded in its place. Waits until all is up or has failed that need not be
  /// compiled. kNotFound, kEnvironment where the root cannot be listed.
  ///
  /// With `strict` it waits for compilations as well, and fails where a model does not serve or serves
  /// another version than it should; the error names each, and has the code of the first.
  Status start();

  /// An error says that no job was made, and `done` will not be called: kUnsupported in mode none,
  /// kInvalidInput (version, or none where it is to be pinned), kResourceExhausted (64 jobs wait),
  /// kUnavailable (stopping). The job's status: kNotFound (no such model or version), kCancelled (unloaded
  /// meanwhile), kDoesNotFit (another version is pinned; other inputs or outputs), kEnvironment (the pin cannot be written), or why
  /// the version does not load.
  Status load(const LoadOrder& order, Done done);

  /// Unloads what is served of the model, or that version of it, and cancels loads of it that have not begun
  /// to swap. As load(); the job's status: kNotFound where there was nothing to unload or to cancel.
  Status unload(const std::string& model, const std::string& version, Done done);

  /// Removes the model's pin, whatever it holds; what serves goes on. As load(); the job's status: kNotFound
  /// (no such model, or it is not pinned), kInvalidInput, kEnvironment (the pin cannot be removed).
  Status unpin(const std::string& model, Done done);

  /// Every version there is, with its state, by name and number, and a pinned one that is not there. Lists
  /// the root: not for an I/O thread.
  std::vector<IndexEntry> index() const;

  /// How far it is, where a load of the model (of that version of it) waits or runs; looks at no file.
  std::optional<std::string> loading(std::string_view model, std::string_view version) const;

  /// What a scrape reports of the repository: which models should be served and in which version, and how
  /// many of them could not be loaded and do not serve. Reads the pins: not for an I/O thread. A model should
  /// be served from when a start, a poll or a client asks for it until it is unloaded or (mode poll) leaves
  /// the root.
  void sample(metrics::Samples& samples) const;

  RepositoryMode mode() const { return options_.mode; }

  /// No new jobs; those that wait or compile end with kUnavailable. stop() also waits for the one that runs,
  /// as long as cards take. What is served goes on. Idempotent.
  void begin_stop();
  void stop();

  /// Whether no job, poll or try runs: after begin_stop(), whether stop() would wait for nothing but
  /// compilers that are being killed.
  bool idle() const;

  /// After begin_stop(), for a process that ends without stop(): who asked for the job that runs, and
  /// requests it keeps waiting, get kUnavailable. The job goes on.
  void abandon();

 private:
  using Clock = std::chrono::steady_clock;
  struct Job {
    enum class Kind { kLoad, kUnload, kUnpin } kind = Kind::kLoad;
    enum class Stage { kReady, kToCompile, kCompiling, kRunning } stage = Stage::kReady;
    std::string model;
    std::uint64_t version = 0;  // 0: the newest (load), whatever is served (unload)
    std::optional<SwapPolicy> policy;
    bool pin = false;    // load: to the version, once it serves
    bool force = false;  // load: also with other inputs or outputs
    std::vector<Done> done;
    std::filesystem::path source, compiled;
    std::optional<Error> not_compiled;  // why; protected by mutex_ until kRunning
    std::stop_source cancel;
    bool cancelled_others = false;  // unload: there was something to cancel
    bool logged = false;            // why it failed
    bool own = false;  // a start or a poll asked for it: nobody else is told how it ends, and it falls back
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
  /// What the last poll found of a model.
  struct Polled {
    Pin pin;
    std::string trouble;     // why nothing can be loaded under it; logged
    std::uint64_t gone = 0;  // the version that served though its folder was gone; 0: none
  };
  struct Tried {
    std::string fingerprint;
    bool failed = false;
  };
  /// What does not come up, and is tried again after longer and longer pauses.
  struct Lost {
    std::chrono::milliseconds pause;
    Clock::time_point next_try;
  };
  /// Replicas that did not come up beside others that serve.
  struct Missing : Lost {
    std::string why;  // the last time
  };

  // repository.cpp: the queue.
  Status join_or_enqueue(JobPointer job, Done done);
  Status enqueue(JobPointer job);
  bool allowed(Status& refusal) const;
  JobPointer take(Job::Stage stage, Job::Stage becomes);  // mutex_ is held
  bool falls_back(const JobPointer& job, const Status& status) noexcept;
  bool fall_back(const JobPointer& job, const Status& status);
  void book_ending(Wanted& wanted, const Job& job, const Status& status) noexcept;
  void finish(const JobPointer& job, const Status& status);
  void work(const std::stop_token& stop);
  void compile_all(const std::stop_token& stop);
  Result<std::filesystem::path> compile(const Job& job);
  void say_how_far(const Job& job, const std::string& text);
  void say_not_loaded(const Job& job, bool in_place, const std::string& why);
  void end_not_compiled(const JobPointer& job);
  void book_not_compiled(const Job& job);

  // repository_jobs.cpp: what the jobs do; on the worker's thread, or while it waits.
  void run(const JobPointer& job);
  Status run_kind(Job& job, bool& handed_on);
  Status run_load(Job& job, bool& handed_on);
  Status run_load_and_pin(Job& job, bool& handed_on);
  Status run_unload(Job& job);
  Status run_unpin(const Job& job);
  Status choose_version(Job& job, const ModelDirectory& directory);
  Status check_signature(const Job& job, const Model& serves, const runtime::plan::ModelInfo& next) const;
  std::string on_restart(const Job& job, const std::string& serves) const;
  Status find_version(Job& job, VersionDirectory& found);
  void swap_to(Job& job, const NextVersion& next, SwapResult& result);
  void book_swap(const Job& job, const NextVersion& next, const std::shared_ptr<Model>& old,
                 SwapResult& result);
  Status cancelled(const Job& job);
  Error cut_short(Job& job, Error error) noexcept;
  void say_failed(const Job& job, const Status& status) noexcept;
  void settle(const std::string& model, std::uint64_t tried, const Error& why) noexcept;
  template <class Books>
  void book(const std::string& model, const Books& books) noexcept;
  void try_again_later() noexcept;
  void try_lost();
  void try_missing();
  void look_for_missing(const std::string& model, const std::string& why);
  void retire(const std::shared_ptr<Model>& model);
  void bury();
  void bury_apart();
  Clock::time_point next_event() const;
  Status check_all_serve(const std::vector<std::string>& models) const;

  // repository_poll.cpp; on the worker's thread.
  void poll();
  void poll_model(const std::string& model, const ModelDirectory& directory);
  bool can_obey_pin(const std::string& model, const ModelDirectory& directory);
  void say_held_back(const std::string& model, const ModelDirectory& directory);
  Status load_quietly(const std::string& model, std::uint64_t version);

  // repository_index.cpp: the books; on any thread.
  std::shared_ptr<Model> serving(const std::string& model) const;
  void set_state(const std::string& model, std::uint64_t version, ModelState state, std::string reason);
  void want(const std::string& model);
  void want_no_more(const std::string& model);
  void pass_over(const Job& job, const Error& why);
  void forget_passed_over(const std::string& model, const Versions& versions);
  Result<Directory> look() const;
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
  bool working_ = false;  // the worker is at something

  // Of the worker's thread:
  std::map<std::string, std::map<std::uint64_t, std::string>> seen_;  // fingerprints at the last poll
  std::map<std::string, std::map<std::uint64_t, Tried>> tried_;       // what was loaded, or failed
  std::map<std::string, Polled> polled_;                              // what the last poll found
  std::map<std::string, Lost> lost_;                                  // models to be brought up again
  std::map<std::string, Missing> missing_;                            // models that lack replicas
  std::vector<std::shared_ptr<Model>> retired_;  // replaced or unloaded; others may still answer with them
  Clock::time_point next_poll_ = Clock::time_point::max(), next_burial_ = Clock::time_point::max();

  std::jthread worker_;
  std::vector<std::jthread> compilers_;
};

}  // namespace millrace::server::models
