#include "server/models/swap.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/base/log.hpp"
#include "runtime/pipeline/replicas.hpp"

namespace millrace::server::models {

namespace {

constexpr std::array<std::pair<std::string_view, SwapPolicy>, 4> kPolicies = {{
    {"auto", SwapPolicy::kAuto},
    {"overlap", SwapPolicy::kOverlap},
    {"rolling", SwapPolicy::kRolling},
    {"drain", SwapPolicy::kDrain},
}};

// A card that dies while it is programmed comes up at the second try.
constexpr int kTries = 2;

using runtime::pipeline::Replicas;

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

Replicas* replicas_of(const std::shared_ptr<Model>& model) {
  return model == nullptr ? nullptr : dynamic_cast<Replicas*>(&model->door().behind());
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
                                     std::shared_ptr<Pipeline> pipeline) {
  return std::make_shared<Model>(name, version, std::move(pipeline), metrics_.model(name, version),
                                 options_.waiting);
}

Swapper::Touched::Touched(Swapper& swapper, std::shared_ptr<Model> model) : swapper_(swapper) {
  const std::lock_guard lock(swapper_.mutex_);
  swapper_.touched_ = std::move(model);
}

Swapper::Touched::~Touched() {
  std::shared_ptr<Model> let_go;  // not under the lock
  const std::lock_guard lock(swapper_.mutex_);
  let_go.swap(swapper_.touched_);
}

void Swapper::abandon(const Error& error) {
  std::shared_ptr<Model> model;
  {
    const std::lock_guard lock(mutex_);
    model = touched_;
  }
  if (model == nullptr) return;
  model->door().fail_all(error);
  model->door().finish(std::chrono::milliseconds(0));
}

SwapResult Swapper::swap(const std::shared_ptr<Model>& old, const NextVersion& next, SwapPolicy policy) {
  const Touched touched(*this, old);
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

/// The first policy that is possible; touches no card.
Result<SwapPolicy> Swapper::choose(const std::shared_ptr<Model>& old, const NextVersion& next,
                                   SwapPolicy policy) {
  const std::uint32_t wanted = replicas_for(next.deployment->plan);
  if (old == nullptr) {
    MILLRACE_TRY(source_.check(next.deployment, {}, wanted));
    return policy;
  }
  // A version that is lost gives way; nothing of it serves meanwhile.
  const bool lost = old->state() == ModelState::kUnavailable;
  Replicas* const replicas = replicas_of(old);
  const std::uint32_t before = replicas == nullptr ? 1 : replicas->wanted();
  if (policy == SwapPolicy::kRolling && before == 1)
    return Error(ErrorCode::kInvalidInput,
                 "policy rolling needs a model with several replicas (compile or serve --replicas)");
  if (policy == SwapPolicy::kRolling && before != wanted)
    return Error(ErrorCode::kInvalidInput, "policy rolling needs as many replicas of the new version (" +
                                               std::to_string(wanted) + ") as of the one that serves (" +
                                               std::to_string(before) + ")");
  const bool all_there = replicas != nullptr && replicas->size() == before;
  if (policy == SwapPolicy::kRolling && !lost && !all_there)
    return Error(ErrorCode::kDoesNotFit,
                 "policy rolling needs all replicas of the version that serves, and " +
                     std::to_string(replicas->size()) + " of " + std::to_string(before) + " are up");
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

Result<std::shared_ptr<runtime::pipeline::Pipeline>> Swapper::open_proved(const NextVersion& next,
                                                                          std::uint32_t copies,
                                                                          SwapResult& result) {
  MILLRACE_ASSIGN(std::shared_ptr<Pipeline> pipeline, source_.open(next.deployment, copies));
  result.programmed += programmed_by(*pipeline);
  if (const Status proved = prove(*pipeline, next.stored, options_.proof); !proved.ok()) {
    pipeline->stop(std::chrono::milliseconds(0));
    return proved.error();
  }
  return pipeline;
}

/// All of them, or none.
Result<std::shared_ptr<runtime::pipeline::Pipeline>> Swapper::open_replicas(const NextVersion& next,
                                                                            SwapResult& result) {
  const std::uint32_t wanted = replicas_for(next.deployment->plan);
  MILLRACE_ASSIGN(std::shared_ptr<Pipeline> first, open_proved(next, wanted, result));
  if (wanted <= 1) return first;
  auto replicas = std::make_shared<Replicas>(first, options_.waiting);
  replicas->want(wanted);
  while (replicas->size() < wanted) {
    auto more = open_proved(next, wanted - static_cast<std::uint32_t>(replicas->size()), result);
    if (!more.ok()) {
      replicas->stop(std::chrono::milliseconds(0));
      return more.error().within("replica " + std::to_string(replicas->size() + 1) + " of " +
                                 std::to_string(wanted));
    }
    MILLRACE_TRY(replicas->add(std::move(*more)));
  }
  return std::shared_ptr<Pipeline>(std::move(replicas));
}

/// Traffic moves from the one door to the other.
Status Swapper::take_over(const std::shared_ptr<Model>& old, std::shared_ptr<Model> next) {
  old->door().lead_to(next);
  return registry_.replace(old.get(), std::move(next));
}

Status Swapper::overlap(const std::shared_ptr<Model>& old, const NextVersion& next, SwapResult& result) {
  MILLRACE_ASSIGN(auto pipeline, open_replicas(next, result));
  auto model = make(next.name, next.version, std::move(pipeline));
  if (old == nullptr) return registry_.publish(std::move(model));
  MILLRACE_TRY(take_over(old, std::move(model)));
  old->door().finish(options_.drain);
  return {};
}

Status Swapper::drain(const std::shared_ptr<Model>& old, const NextVersion& next, SwapResult& result) {
  old->door().close();
  old->door().finish(options_.drain);
  const auto come_up = [&]() -> Status {
    MILLRACE_ASSIGN(auto pipeline, open_replicas(next, result));
    return take_over(old, make(next.name, next.version, std::move(pipeline)));
  };
  Status up = come_up();
  for (int tries = 1; !up.ok() && tries < kTries; ++tries) {
    if (up.error().code() == ErrorCode::kDoesNotFit) break;  // it differs, and would again
    log::warning("models", "model '" + next.name + "' version '" + next.version +
                               "': " + up.error().message() + "; trying again");
    up = come_up();
  }
  if (up.ok()) return up;
  const Status back = bring_back(old, result.remark);
  result.rolled_back = back.ok();
  result.lost = !back.ok();
  if (back.ok()) return up;
  old->set_state(ModelState::kUnavailable);
  return Error(up.error().code(), up.error().message() + "; and version '" + old->version() +
                                      "' did not come up again: " + back.error().message());
}

/// So many more of a pipeline, each proved, where `stored` is given, before it is taken. The first error; the
/// others may have come up all the same.
Status Swapper::open_again(const Pipeline& like, std::size_t count, const StoredFrames* stored,
                           const std::function<Status(std::shared_ptr<Pipeline>)>& take) {
  std::vector<std::shared_ptr<Pipeline>> refused;  // keep their cards, so that the next ones get others
  Status all;
  for (std::size_t i = 0; i < count; ++i) {
    auto opened = like.open_again();
    if (!opened.ok()) {
      if (all.ok()) all = opened.error();
      break;
    }
    std::shared_ptr<Pipeline> one = std::move(*opened);
    Status came = stored == nullptr ? Status() : prove(*one, *stored, options_.proof);
    if (came.ok())
      came = take(std::move(one));
    else
      refused.push_back(std::move(one));
    if (all.ok()) all = came;
  }
  for (const auto& one : refused) one->stop(std::chrono::milliseconds(0));
  return all;
}

Status Swapper::bring_back(const std::shared_ptr<Model>& old, std::string& remark) {
  const Replicas* const several = replicas_of(old);
  const std::uint32_t wanted = several == nullptr ? 1 : several->wanted();
  std::shared_ptr<Pipeline> pipeline;
  std::shared_ptr<Replicas> replicas;
  const auto take = [&](std::shared_ptr<Pipeline> one) -> Status {
    if (replicas != nullptr) return replicas->add(std::move(one));
    pipeline = std::move(one);
    if (several == nullptr) return {};
    replicas = std::make_shared<Replicas>(std::move(pipeline), options_.waiting);
    replicas->want(wanted);
    pipeline = replicas;
    return {};
  };
  const auto come_up = [&]() -> Status {
    pipeline = nullptr;
    replicas = nullptr;
    const Status all = open_again(old->door().behind(), wanted, old->owed().get(), take);
    if (pipeline == nullptr) return all;
    auto again = make(old->name(), old->version(), pipeline);
    if (!all.ok()) {  // some are better than none
      remark = all.error().message();
      log::warning("models", "model '" + old->name() + "': " + std::to_string(replicas->size()) + " of " +
                                 std::to_string(wanted) + " replicas came up again: " + remark);
      again->set_owed(old->owed());
    }
    return take_over(old, std::move(again));
  };
  Status up = come_up();
  for (int tries = 1; !up.ok() && tries < kTries; ++tries) up = come_up();
  return up;
}

Swapper::Strength Swapper::strength(const std::shared_ptr<Model>& serving) {
  const Replicas* const replicas = replicas_of(serving);
  if (replicas == nullptr) return {};
  return {static_cast<std::uint32_t>(replicas->size()), replicas->wanted()};
}

Status Swapper::complete(const std::shared_ptr<Model>& serving) {
  Replicas* const replicas = replicas_of(serving);
  if (replicas == nullptr || replicas->size() >= replicas->wanted()) return {};
  const auto owed = serving->owed();
  const StoredFrames nothing;  // warmed up all the same
  MILLRACE_TRY(open_again(*replicas, replicas->wanted() - replicas->size(),
                          owed != nullptr ? owed.get() : &nothing,
                          [&](std::shared_ptr<Pipeline> more) { return replicas->add(std::move(more)); }));
  serving->set_owed(nullptr);
  return {};
}

Status Swapper::roll(const std::shared_ptr<Model>& old, const NextVersion& next, SwapResult& result) {
  Replicas& before = *replicas_of(old);
  const std::size_t wanted = before.size();
  std::shared_ptr<Replicas> after;
  std::shared_ptr<Model> moved;
  const auto open_one = [&]() -> Status {
    MILLRACE_ASSIGN(auto opened, open_proved(next, 1, result));
    if (after != nullptr) {
      MILLRACE_TRY(after->add(std::move(opened)));
    } else {
      after = std::make_shared<Replicas>(std::move(opened), options_.waiting);
      after->want(replicas_for(next.deployment->plan));
    }
    if (moved != nullptr || 2 * after->size() < wanted) return {};
    auto model = make(next.name, next.version, after);
    MILLRACE_TRY(take_over(old, model));
    moved = std::move(model);
    return {};
  };
  while (before.size() > 0) {
    before.retire(options_.drain)->stop(options_.drain);
    const Status opened = open_one();
    if (opened.ok()) continue;
    if (moved != nullptr) {
      // It serves, and was proved: fewer replicas of it are better than going back.
      moved->set_owed(std::make_shared<const StoredFrames>(next.stored));
      result.remark = opened.error().message();
      log::warning("models", "model '" + next.name + "' version '" + next.version +
                                 "': " + std::to_string(after->size()) + " of " + std::to_string(wanted) +
                                 " replicas are up: " + result.remark);
    } else {
      if (after != nullptr) after->stop(std::chrono::milliseconds(0));
      const std::size_t missing = wanted - before.size();
      for (std::size_t i = 0; i < missing; ++i) {
        auto again = before.open_again();
        if (!again.ok()) {
          result.remark = again.error().message();
          log::warning("models",
                       "model '" + old->name() +
                           "': a replica of the old version did not come up again: " + result.remark);
          continue;
        }
        MILLRACE_TRY(before.add(std::move(*again)));
      }
      result.rolled_back = true;
      return opened;
    }
  }
  old->door().finish(options_.drain);
  return {};
}

void Swapper::unload(const std::shared_ptr<Model>& old) {
  const Touched touched(*this, old);
  old->set_state(ModelState::kUnloading);
  static_cast<void>(registry_.withdraw(old->name(), old->version()));
  old->door().fail_all(
      Error(ErrorCode::kNotFound, "model '" + old->name() + "' was unloaded; it is not served any more"));
  old->door().finish(options_.drain);
}

}  // namespace millrace::server::models
