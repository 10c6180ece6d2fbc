#include "runtime/pipeline/pipeline.hpp"

#include "runtime/pipeline/engine.hpp"

namespace millrace::runtime::pipeline {

Result<std::unique_ptr<Pipeline>> open_pipeline(std::shared_ptr<const plan::LoadedDeployment> deployment,
                                                const plan::Cluster& cluster, const PipelineOptions& options,
                                                const CardSource& source) {
  constexpr std::uint32_t kMostSlots = 1024;
  if (options.slots == 0 || options.slots > kMostSlots) {
    return Error(ErrorCode::kInvalidInput, "slots: " + std::to_string(options.slots) + " is not in 1.." +
                                               std::to_string(kMostSlots));
  }
  MILLRACE_ASSIGN(Images images, read_images(*deployment));
  MILLRACE_ASSIGN(Schedule schedule, derive_schedule(deployment->plan, images.records));
  // Two pipelines that open at once must not be given the same card.
  static std::mutex opening;
  const std::lock_guard lock(opening);
  const auto is_free = [&](const plan::ClusterCard& card) {
    return source.is_free(card, static_cast<std::uint32_t>(&card - cluster.cards.data()));
  };
  MILLRACE_ASSIGN(Binding binding, bind_endpoints(deployment->plan, images.records, cluster, is_free));
  auto engine = std::make_unique<Engine>(std::move(deployment), cluster, options, std::move(images), std::move(schedule),
                                         std::move(binding));
  MILLRACE_TRY(engine->start(source));
  return std::unique_ptr<Pipeline>(std::move(engine));
}

Result<std::unique_ptr<Pipeline>> Pipeline::open(std::shared_ptr<const plan::LoadedDeployment> deployment,
                                                 const plan::Cluster& cluster, const PipelineOptions& options) {
  return open_pipeline(std::move(deployment), cluster, options, xrt_cards());
}

Status Pipeline::infer(Frame& frame) {
  // The thread's own, so that it outlives the notification of a completed frame.
  thread_local std::atomic<std::uint32_t> done;
  done.store(0);
  frame.context = &done;
  frame.on_complete = [](Frame&, void* context) {
    auto& flag = *static_cast<std::atomic<std::uint32_t>*>(context);
    flag.store(1, std::memory_order_release);
    flag.notify_one();
  };
  MILLRACE_TRY(submit(frame));
  done.wait(0, std::memory_order_acquire);
  return frame.status;
}

}  // namespace millrace::runtime::pipeline
