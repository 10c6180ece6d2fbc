// Replaces one version of a model by the next. README.md says what each policy does and what requests see.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/pipeline/pipeline.hpp"
#include "server/metrics/metrics.hpp"
#include "server/models/registry.hpp"
#include "server/models/verification.hpp"

namespace millrace::server::models {

enum class SwapPolicy { kAuto, kOverlap, kRolling, kDrain };

std::string_view to_string(SwapPolicy policy);
/// kInvalidInput names the policies there are.
Result<SwapPolicy> parse_policy(std::string_view text);

/// Opens pipelines: Pipeline::open() and check() on a cluster, or a test's fake.
struct PipelineSource {
  using Deployment = std::shared_ptr<const runtime::plan::LoadedDeployment>;
  /// Opens the first of `copies` pipelines and leaves cards for the others.
  std::function<Result<std::shared_ptr<runtime::pipeline::Pipeline>>(const Deployment&, std::uint32_t copies)>
      open;
  /// Whether `copies` pipelines would open if the named cards were free too.
  std::function<Status(const Deployment&, const std::vector<std::string>& also_free, std::uint32_t copies)>
      check;
};

struct SwapOptions {
  std::uint32_t replicas = 0;               // 0: as many as the deployment was compiled for
  std::uint32_t waiting = 64;               // frames that may wait for a slot, or for the next version
  std::chrono::milliseconds drain{60'000};  // for an old version to complete the frames it accepted
  VerifyOptions verify;
};

/// The version to serve.
struct NextVersion {
  std::string name, version;
  PipelineSource::Deployment deployment;
  StoredFrames stored;
};

struct SwapResult {
  Status status;
  bool attempted = false;    // the swap touched cards
  bool rolled_back = false;  // the old version was stopped and serves again
  bool lost = false;         // the old version was stopped and did not come up again; its frames are held
  SwapPolicy used = SwapPolicy::kDrain;
  std::uint64_t programmed = 0;  // cards
  std::optional<Error> missing;  // why the version that serves lacks replicas
};

/// One swap at a time, by one thread. All functions but replica_count() and abandon() wait for cards.
class Swapper {
 public:
  /// References must outlive it.
  Swapper(Registry& registry, metrics::Metrics& metrics, PipelineSource source, SwapOptions options);

  /// Serves `next` in place of `old` (null: nothing served). If the swap fails, `old` serves on, unless the
  /// result says `lost`.
  SwapResult swap(const std::shared_ptr<Model>& old, const NextVersion& next, SwapPolicy policy);

  /// Tries again to bring up a version that was lost. Replicas are verified first if the version has a
  /// pending verification. Succeeds if some replicas come up; `missing` then says why the others did not.
  Status bring_back(const std::shared_ptr<Model>& old, std::optional<Error>& missing);

  /// How many replicas the model has, and should have. Any thread.
  struct ReplicaCount {
    std::uint32_t there = 1, wanted = 1;
  };
  static ReplicaCount replica_count(const std::shared_ptr<Model>& serving);

  /// Tries again to bring up missing replicas, while the others serve. Each replica is verified before it
  /// gets frames. Returns the error of the first that does not come up.
  Status complete(const std::shared_ptr<Model>& serving);

  /// Completes the frames the model accepted; later requests get 404.
  void unload(const std::shared_ptr<Model>& old);

  /// For a process that ends without waiting for the swap: fails the requests that wait at a gate or in the
  /// old version. The swap goes on. Any thread.
  void abandon(const Error& error);

 private:
  using Pipeline = runtime::pipeline::Pipeline;
  using Pipelines = std::vector<std::shared_ptr<Pipeline>>;

  Result<SwapPolicy> choose(const std::shared_ptr<Model>& old, const NextVersion& next, SwapPolicy policy);
  Status overlap(const std::shared_ptr<Model>& old, const NextVersion& next, SwapResult& result);
  Status drain(const std::shared_ptr<Model>& old, const NextVersion& next, SwapResult& result);
  Status roll(const std::shared_ptr<Model>& old, const NextVersion& next, SwapResult& result);
  void roll_back(const std::shared_ptr<Model>& old, std::size_t wanted, SwapResult& result);

  std::uint32_t replicas_for(const runtime::plan::Deployment& deployment) const;
  Result<std::shared_ptr<Pipeline>> open_verified(const NextVersion& next, std::uint32_t copies,
                                                  SwapResult& result);
  Result<std::shared_ptr<Model>> open_replicas(const NextVersion& next, SwapResult& result);
  Status open_again(const Pipeline& like, std::size_t count, const StoredFrames* stored,
                    const std::function<void(std::shared_ptr<Pipeline>)>& take);
  std::shared_ptr<Model> make(const std::string& name, const std::string& version, const Pipelines& replicas,
                              std::uint32_t wanted);
  Status take_over(const std::shared_ptr<Model>& old, std::shared_ptr<Model> next);

  void set_swapping(std::shared_ptr<Model> model);

  Registry& registry_;
  metrics::Metrics& metrics_;
  const PipelineSource source_;
  const SwapOptions options_;

  std::mutex mutex_;
  std::shared_ptr<Model> swapping_;  // the old version during a swap or unload; protected by mutex_
};

}  // namespace millrace::server::models
