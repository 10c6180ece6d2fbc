#include "runtime/pipeline/pipeline.hpp"

#include <algorithm>

#include "runtime/pipeline/engine.hpp"

namespace millrace::runtime::pipeline {

namespace {

Status check_options(const PipelineOptions& options) {
  constexpr std::uint32_t kMostSlots = 1024;
  constexpr std::uint32_t kLongestQueue = 1U << 20U;
  constexpr std::chrono::milliseconds kLongestStuck = std::chrono::hours(24);
  const auto refuse = [](const char* option, auto value, const char* range) {
    return Error(ErrorCode::kInvalidInput,
                 std::string(option) + ": " + std::to_string(value) + " is not in " + range);
  };
  if (options.slots == 0 || options.slots > kMostSlots) return refuse("slots", options.slots, "1..1024");
  if (options.queue_capacity > kLongestQueue)
    return refuse("queue_capacity", options.queue_capacity, "0..1048576");
  if (options.restart_backoff_initial < std::chrono::milliseconds(1))
    return refuse("restart_backoff_initial", options.restart_backoff_initial.count(), "1 ms and more");
  if (options.restart_backoff_maximum < options.restart_backoff_initial)
    return refuse("restart_backoff_maximum", options.restart_backoff_maximum.count(),
                  "restart_backoff_initial and more");
  for (const auto& [name, bound] : {std::pair("stuck_after", options.stuck_after),
                                    std::pair("stuck_after_deadline", options.stuck_after_deadline)})
    if (bound < std::chrono::milliseconds(1) || bound > kLongestStuck)
      return refuse(name, bound.count(), "1 ms to one day");
  return {};
}

Result<Binding> bind(const plan::LoadedDeployment& deployment, const plan::Cluster& cluster,
                     const CardSource& source, const std::vector<std::string>& also_free,
                     std::uint32_t copies) {
  const auto index_of = [&](const plan::ClusterCard& card) {
    return static_cast<std::uint32_t>(&card - cluster.cards.data());
  };
  return bind_endpoints(
      deployment.plan, deployment.records, cluster,
      [&](const plan::ClusterCard& card) {
        return source.is_free(card, index_of(card)) ||
               std::find(also_free.begin(), also_free.end(), card.name) != also_free.end();
      },
      [&](const plan::ClusterCard& card, const plan::Image& image) {
        return source.image_uuid(card, index_of(card)) == image.uuid;
      },
      copies);
}

}  // namespace

Result<std::unique_ptr<Pipeline>> Pipeline::open(std::shared_ptr<const plan::LoadedDeployment> deployment,
                                                 const plan::Cluster& cluster, const PipelineOptions& options,
                                                 std::uint32_t copies, const CardSource& source) {
  MILLRACE_TRY(check_options(options));
  MILLRACE_ASSIGN(Schedule schedule, derive_schedule(deployment->plan, deployment->records));
  // Two pipelines that open at the same time must not choose the same card.
  static std::mutex opening;
  const std::lock_guard lock(opening);
  MILLRACE_ASSIGN(Binding binding, bind(*deployment, cluster, source, {}, copies));
  auto engine = std::make_unique<Engine>(std::move(deployment), cluster, options, std::move(schedule),
                                         std::move(binding));
  MILLRACE_TRY(engine->start(source));
  return std::unique_ptr<Pipeline>(std::move(engine));
}

Status Pipeline::check(const plan::LoadedDeployment& deployment, const plan::Cluster& cluster,
                       const PipelineOptions& options, const std::vector<std::string>& also_free,
                       std::uint32_t copies, const CardSource& source) {
  MILLRACE_TRY(check_options(options));
  MILLRACE_ASSIGN(const Schedule schedule, derive_schedule(deployment.plan, deployment.records));
  MILLRACE_ASSIGN(const Binding binding, bind(deployment, cluster, source, also_free, copies));
  return {};
}

Status Pipeline::infer(Frame& frame) {
  // The completing thread may call notify_one() after this function has returned. A thread_local
  // variable still exists then; a local variable would not.
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
