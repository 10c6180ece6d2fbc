#include "server/models/swap.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/base/log.hpp"

namespace millrace::server::models {

namespace {

constexpr std::array<std::pair<std::string_view, SwapPolicy>, 4> kPolicies = {{
    {"auto", SwapPolicy::kAuto},
    {"overlap", SwapPolicy::kOverlap},
    {"rolling", SwapPolicy::kRolling},
    {"drain", SwapPolicy::kDrain},
}};

// If programming a card fails, a second attempt usually succeeds.
constexpr int kTries = 2;

std::vector<std::string> cards_of(runtime::pipeline::Pipeline& pipeline) {
  std::vector<std::string> cards;
  for (const auto& card : pipeline.status().cards) cards.push_back(card.card);
  return cards;
}

std::uint64_t programmed_by(runtime::pipeline::Pipeline& pipeline) {
  std::uint64_t cards = 0;
  for (const auto& card : pipeline.status().cards) cards += card.programmed;
  return cards;
}

}  // namespace

std::string_view to_string(SwapPolicy policy) {
  for (const auto& [name, known] : kPolicies)
    if (known == policy) return name;
  return "auto";
}

Result<SwapPolicy> parse_policy(std::string_view text) {
  for (const auto& [name, known] : kPolicies)
    if (name == text) return known;
  return Error(ErrorCode::kInvalidInput,
               "policy '" + std::string(text.substr(0, 64)) + "' is none of auto, overlap, rolling, drain");
}

Swapper::Swapper(Registry& registry, metrics::Metrics& metrics, PipelineSource source, SwapOptions options)
    : registry_(registry), metrics_(metrics), source_(std::move(source)), options_(options) {}

std::shared_ptr<Model> Swapper::make(const std::string& name, const std::string& version,
                                     const Pipelines& replicas, std::uint32_t wanted) {
  auto model = std::make_shared<Model>(name, version, replicas.front(), metrics_.model(name, version),
                                       options_.waiting);
  model->pipeline().want(wanted);
  for (std::size_t i = 1; i < replicas.size(); ++i) model->pipeline().add(replicas[i]);
  return model;
}

void Swapper::set_swapping(std::shared_ptr<Model> model) {
  const std::lock_guard lock(mutex_);
  swapping_.swap(model);  // the caller destroys the previous model after the lock is released
}

void Swapper::abandon(const Error& error) {
  std::shared_ptr<Model> model;
  {
    const std::lock_guard lock(mutex_);
    model = swapping_;
  }
  if (model == nullptr) return;
  model->pipeline().refuse(error);
  model->pipeline().finish(std::chrono::milliseconds(0));
}

SwapResult Swapper::swap(const std::shared_ptr<Model>& old, const NextVersion& next, SwapPolicy policy) {
  set_swapping(old);
  const std::shared_ptr<void> at_end(nullptr, [this](void*) { set_swapping(nullptr); });
  SwapResult result;
  const auto chosen = choose(old, next, policy);
  if (!chosen.ok()) {
    result.status = chosen.error();
    return result;
  }
  result.used = *chosen;
  result.attempted = true;
  if (old == nullptr || *chosen == SwapPolicy::kOverlap)
    result.status = overlap(old, next, result);
  else if (*chosen == SwapPolicy::kRolling)
    result.status = roll(old, next, result);
  else
    result.status = drain(old, next, result);
  return result;
}

/// Returns `policy`, or for kAuto the first policy that is possible. Touches no card.
Result<SwapPolicy> Swapper::choose(const std::shared_ptr<Model>& old, const NextVersion& next,
                                   SwapPolicy policy) {
  const std::uint32_t wanted = replicas_for(next.deployment->plan);
  if (old == nullptr) {
    MILLRACE_TRY(source_.check(next.deployment, {}, wanted));
    return policy;
  }
  // A lost version has no running pipeline, so there is nothing to wait for.
  const bool lost = old->state() == ModelState::kUnavailable;
  const auto [there, before] = replica_count(old);
  if (policy == SwapPolicy::kRolling && before == 1)
    return Error(ErrorCode::kInvalidInput,
                 "policy rolling needs a model with several replicas; give --replicas to compile or serve");
  if (policy == SwapPolicy::kRolling && before != wanted)
    return Error(ErrorCode::kInvalidInput,
                 "policy rolling needs equal numbers of replicas of both versions, but the new version has " +
                     std::to_string(wanted) + " and the serving version has " + std::to_string(before));
  const bool all_there = there == before;
  if (policy == SwapPolicy::kRolling && !lost && !all_there)
    return Error(ErrorCode::kDoesNotFit,
                 "policy rolling needs all replicas of the serving version, but only " +
                     std::to_string(there) + " of " + std::to_string(before) + " are up");
  const bool can_roll = all_there && before > 1 && before == wanted && !lost;
  Status fits = Error(ErrorCode::kDoesNotFit, "it is lost");
  if ((policy == SwapPolicy::kAuto && !lost) || policy == SwapPolicy::kOverlap)
    fits = source_.check(next.deployment, {}, wanted);
  if (fits.ok()) return SwapPolicy::kOverlap;
  if (policy == SwapPolicy::kOverlap) return fits.error().within("policy overlap");
  MILLRACE_TRY(source_.check(next.deployment, cards_of(old->pipeline()), wanted));
  if (can_roll && policy != SwapPolicy::kDrain) return SwapPolicy::kRolling;
  return SwapPolicy::kDrain;
}

std::uint32_t Swapper::replicas_for(const runtime::plan::Deployment& deployment) const {
  return options_.replicas != 0 ? options_.replicas : deployment.replicas;
}

Result<std::shared_ptr<runtime::pipeline::Pipeline>> Swapper::open_verified(const NextVersion& next,
                                                                            std::uint32_t copies,
                                                                            SwapResult& result) {
  MILLRACE_ASSIGN(std::shared_ptr<Pipeline> pipeline, source_.open(next.deployment, copies));
  result.programmed += programmed_by(*pipeline);
  if (const Status verified = verify(*pipeline, next.stored, options_.verify); !verified.ok()) {
    pipeline->stop(std::chrono::milliseconds(0));
    return verified.error();
  }
  return pipeline;
}

/// Opens and verifies all replicas of the next version, or none.
Result<std::shared_ptr<Model>> Swapper::open_replicas(const NextVersion& next, SwapResult& result) {
  const std::uint32_t wanted = replicas_for(next.deployment->plan);
  Pipelines replicas;
  while (replicas.size() < wanted) {
    auto more = open_verified(next, wanted - static_cast<std::uint32_t>(replicas.size()), result);
    if (more.ok()) {
      replicas.push_back(std::move(*more));
      continue;
    }
    if (replicas.empty()) return more.error();
    const std::size_t number = replicas.size() + 1;
    return more.error().within("replica " + std::to_string(number) + " of " + std::to_string(wanted));
  }
  return make(next.name, next.version, replicas, wanted);
}

/// Redirects requests from the old version to the next version.
Status Swapper::take_over(const std::shared_ptr<Model>& old, std::shared_ptr<Model> next) {
  old->pipeline().hand_over(std::make_shared<SwapGate>(*old, next));
  return registry_.publish(std::move(next));
}

Status Swapper::overlap(const std::shared_ptr<Model>& old, const NextVersion& next, SwapResult& result) {
  MILLRACE_ASSIGN(auto model, open_replicas(next, result));
  if (old == nullptr) return registry_.publish(std::move(model));
  MILLRACE_TRY(take_over(old, std::move(model)));
  old->pipeline().finish(options_.drain);
  return {};
}

Status Swapper::drain(const std::shared_ptr<Model>& old, const NextVersion& next, SwapResult& result) {
  old->pipeline().hold();
  old->pipeline().finish(options_.drain);
  const auto come_up = [&]() -> Status {
    MILLRACE_ASSIGN(auto model, open_replicas(next, result));
    return take_over(old, std::move(model));
  };
  Status up = come_up();
  for (int tries = 1; !up.ok() && tries < kTries; ++tries) {
    if (up.error().code() == ErrorCode::kDoesNotFit) break;  // the outputs would differ again
    log::warning("models", "model '" + next.name + "' version '" + next.version +
                               "': " + up.error().message() + "; trying again");
    up = come_up();
  }
  if (up.ok()) return up;
  const Status back = bring_back(old, result.missing);
  result.rolled_back = back.ok();
  result.lost = !back.ok();
  if (back.ok()) return up;
  old->set_state(ModelState::kUnavailable);
  return Error(up.error().code(), up.error().message() + "; and version '" + old->version() +
                                      "' did not restart: " + back.error().message());
}

/// Opens `count` more replicas. If `stored` is not null, each replica is verified before it is passed to `take`.
/// Returns the first error; other replicas may still have been passed to `take`.
Status Swapper::open_again(const Pipeline& like, std::size_t count, const StoredFrames* stored,
                           const std::function<void(std::shared_ptr<Pipeline>)>& take) {
  std::vector<std::shared_ptr<Pipeline>> refused;  // these keep their cards, so later replicas get others
  Status all;
  for (std::size_t i = 0; i < count; ++i) {
    auto opened = like.open_again();
    if (!opened.ok()) {
      if (all.ok()) all = opened.error();
      break;
    }
    std::shared_ptr<Pipeline> one = std::move(*opened);
    const Status came = stored == nullptr ? Status() : verify(*one, *stored, options_.verify);
    if (came.ok())
      take(std::move(one));
    else
      refused.push_back(std::move(one));
    if (all.ok()) all = came;
  }
  for (const auto& one : refused) one->stop(std::chrono::milliseconds(0));
  return all;
}

Status Swapper::bring_back(const std::shared_ptr<Model>& old, std::optional<Error>& missing) {
  const std::uint32_t wanted = old->pipeline().wanted();
  const auto come_up = [&]() -> Status {
    Pipelines replicas;
    const auto take = [&](std::shared_ptr<Pipeline> one) { replicas.push_back(std::move(one)); };
    const Status all = open_again(old->pipeline(), wanted, old->pending_verification().get(), take);
    if (replicas.empty()) return all;
    auto again = make(old->name(), old->version(), replicas, wanted);
    if (!all.ok()) {
      missing = all.error();
      log::warning("models", "model '" + old->name() + "': " + std::to_string(again->pipeline().size()) +
                                 " of " + std::to_string(wanted) +
                                 " replicas came up again: " + missing->message());
      again->set_pending_verification(old->pending_verification());
    }
    return take_over(old, std::move(again));
  };
  Status up = come_up();
  for (int tries = 1; !up.ok() && tries < kTries; ++tries) up = come_up();
  return up;
}

Swapper::ReplicaCount Swapper::replica_count(const std::shared_ptr<Model>& serving) {
  if (serving == nullptr) return {};
  return {static_cast<std::uint32_t>(serving->pipeline().size()), serving->pipeline().wanted()};
}

Status Swapper::complete(const std::shared_ptr<Model>& serving) {
  const auto [there, wanted] = replica_count(serving);
  if (there >= wanted) return {};
  const auto pending = serving->pending_verification();
  const StoredFrames nothing;  // without stored frames, the replica still computes warm-up frames
  MILLRACE_TRY(open_again(serving->pipeline(), wanted - there, pending != nullptr ? pending.get() : &nothing,
                          [&](std::shared_ptr<Pipeline> more) { serving->pipeline().add(std::move(more)); }));
  serving->set_pending_verification(nullptr);
  return {};
}

Status Swapper::roll(const std::shared_ptr<Model>& old, const NextVersion& next, SwapResult& result) {
  auto& before = old->pipeline();
  const std::size_t wanted = before.size();
  Pipelines first;               // replicas of the new version, while fewer than half of them are up
  std::shared_ptr<Model> after;  // the new version, once half of its replicas are up
  const auto open_one = [&]() -> Status {
    MILLRACE_ASSIGN(auto opened, open_verified(next, 1, result));
    if (after != nullptr) {
      after->pipeline().add(std::move(opened));
      return {};
    }
    first.push_back(std::move(opened));
    if (2 * first.size() < wanted) return {};
    auto model = make(next.name, next.version, first, replicas_for(next.deployment->plan));
    MILLRACE_TRY(take_over(old, model));
    first.clear();
    after = std::move(model);
    return {};
  };
  for (std::size_t left = wanted; left > 0; --left) {
    if (const auto retired = before.retire())
      retired->stop(options_.drain);
    else
      before.finish(options_.drain);  // stops the last replica, after take_over()
    const Status opened = open_one();
    if (opened.ok()) continue;
    if (after == nullptr) {
      first.clear();
      roll_back(old, wanted, result);
      return opened;
    }
    // The new version serves and was verified. Serving with fewer replicas of it is better than rolling back.
    after->set_pending_verification(std::make_shared<const StoredFrames>(next.stored));
    result.missing = opened.error();
    log::warning("models", "model '" + next.name + "' version '" + next.version +
                               "': " + std::to_string(after->pipeline().size()) + " of " +
                               std::to_string(wanted) + " replicas are up: " + result.missing->message());
  }
  return {};
}

/// Restarts as many replicas of the old version as were retired.
void Swapper::roll_back(const std::shared_ptr<Model>& old, std::size_t wanted, SwapResult& result) {
  auto& before = old->pipeline();
  result.rolled_back = true;
  const Status all = open_again(before, wanted - before.size(), nullptr,
                                [&](std::shared_ptr<Pipeline> one) { before.add(std::move(one)); });
  if (all.ok()) return;
  result.missing = all.error();
  log::warning("models", "model '" + old->name() +
                             "': a replica of the old version did not restart: " + result.missing->message());
}

void Swapper::unload(const std::shared_ptr<Model>& old) {
  set_swapping(old);
  const std::shared_ptr<void> at_end(nullptr, [this](void*) { set_swapping(nullptr); });
  old->set_state(ModelState::kUnloading);
  registry_.withdraw(*old);
  old->pipeline().refuse(
      Error(ErrorCode::kNotFound, "model '" + old->name() + "' was unloaded; it is not served any more"));
  old->pipeline().finish(options_.drain);
}

}  // namespace millrace::server::models
