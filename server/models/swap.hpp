// Replaces one version of a model by the next. README.md explains what each policy does and what requests experience.
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
/// Parses a policy's name. Returns kInvalidInput, listing the valid names, for any other text.
Result<SwapPolicy> parse_policy(std::string_view text);

/// Opens pipelines with Pipeline::open() and Pipeline::check() on a cluster, or with a fake in tests.
struct PipelineSource {
  using Deployment = std::shared_ptr<const runtime::plan::LoadedDeployment>;
  /// Opens the first of `copies` pipelines and leaves enough cards free for the other copies.
  std::function<Result<std::shared_ptr<runtime::pipeline::Pipeline>>(const Deployment&, std::uint32_t copies)>
      open;
  /// Checks whether `copies` pipelines could be opened if the cards in `also_free` were free too.
  std::function<Status(const Deployment&, const std::vector<std::string>& also_free, std::uint32_t copies)>
      check;
};

struct SwapOptions {
  std::uint32_t replicas = 0;               // 0: the number that the deployment was compiled for
  std::uint32_t waiting = 64;               // frames that may wait for a slot, or for the next version
  std::chrono::milliseconds drain{60'000};  // how long an old version may take to complete accepted frames
  VerifyOptions verify;
};

/// The version that will serve after the swap.
struct NextVersion {
  std::string name, version;
  PipelineSource::Deployment deployment;
  StoredFrames stored;
};

struct SwapResult {
  Status status;
  bool attempted = false;    // the swap touched cards
  bool rolled_back = false;  // the old version was stopped and serves again
  bool lost = false;         // the old version was stopped and failed to restart; its frames wait
  SwapPolicy used = SwapPolicy::kDrain;
  std::uint64_t programmed = 0;  // number of cards that were programmed
  std::optional<Error> missing;  // why the serving version lacks replicas
};

/// Swaps one version at a time, on one thread. All functions except replica_count() and abandon() wait for cards.
class Swapper {
 public:
  /// The referenced objects must outlive the swapper.
  Swapper(Registry& registry, metrics::Metrics& metrics, PipelineSource source, SwapOptions options);

  /// Serves `next` in place of `old`; `old` is null if no version serves. If the swap fails, `old` keeps serving,
  /// unless SwapResult::lost is set.
  SwapResult swap(const std::shared_ptr<Model>& old, const NextVersion& next, SwapPolicy policy);

  /// Tries again to start a version that was lost. If the version has a pending verification, each replica is verified
  /// first. Succeeds if at least one replica starts; `missing` then says why the other replicas did not.
  Status bring_back(const std::shared_ptr<Model>& old, std::optional<Error>& missing);

  /// The number of replicas that a model has, and the number that it should have. Any thread may call replica_count().
  struct ReplicaCount {
    std::uint32_t there = 1, wanted = 1;
  };
  static ReplicaCount replica_count(const std::shared_ptr<Model>& serving);

  /// Tries again to start the missing replicas while the others keep serving. Each replica is verified before it gets
  /// frames. Returns the error of the first replica that does not start.
  Status complete(const std::shared_ptr<Model>& serving);

  /// Completes the frames that the model has accepted. Later requests for the model are answered with HTTP status 404.
  void unload(const std::shared_ptr<Model>& old);

  /// For a process that exits without waiting for the swap. Fails the requests that wait at a SwapGate or in the old
  /// version. The swap itself continues. Any thread may call it.
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
  std::shared_ptr<Model> swapping_;  // old version during a swap or unload; protected by mutex_
};

}  // namespace millrace::server::models
