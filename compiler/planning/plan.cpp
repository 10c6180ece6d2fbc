#include "compiler/planning/plan.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "compiler/explore/replicas.hpp"
#include "compiler/explore/words.hpp"
#include "compiler/front/read_model.hpp"
#include "compiler/front/steps.hpp"
#include "compiler/generators/design.hpp"
#include "compiler/planning/bottleneck.hpp"
#include "compiler/planning/cabling.hpp"
#include "compiler/planning/extrapolations.hpp"
#include "compiler/planning/host_work.hpp"
#include "compiler/planning/plan_file.hpp"
#include "compiler/planning/predict.hpp"
#include "compiler/planning/split_channels.hpp"
#include "compiler/planning/tighten.hpp"
#include "compiler/planning/verify_plan.hpp"
#include "compiler/planning/weights.hpp"
#include "kernels/program/parameters.hpp"
#include "runtime/base/log.hpp"

namespace millrace::compiler {
namespace {

namespace gen = generators;

constexpr int kSplits = 4;               // layers split over cards, at most
constexpr std::uint32_t kMostParts = 4;  // of a layer that is split
constexpr int kAttempts = 6;             // with what the joints turned out to cost
constexpr double kProven = 1e-6;         // a gap below this is rounding

class Planner {
 public:
  Planner(const PlanOptions& options, Plan& plan) : options_(options), plan_(plan), steps_(plan.steps) {}

  Status run() {
    MILLRACE_ASSIGN(plan_.cluster, steps_.run("read_cluster",
                                              [&] { return runtime::plan::load_cluster(options_.cluster); }));
    MILLRACE_ASSIGN(Model model, read_model(options_, steps_));
    plan_.model = std::move(model.info);
    plan_.assumed = std::move(model.assumed);
    plan_.notes = std::move(model.notes);
    plan_.program = std::move(model.program);
    MILLRACE_TRY(place_parameters(plan_.program, options_.weights.value_or(kernels::Placement::kBaked)));
    if (!options_.generator_plugin.empty()) {
      MILLRACE_ASSIGN(plan_.plugin, gen::Plugin::open(options_.generator_plugin, options_.plugin_time));
    }
    MILLRACE_ASSIGN(catalog_, steps_.run("read_catalog", [] { return gen::load_catalog(); }));
    MILLRACE_TRY(options_.plan.empty() ? choose_over_cables() : follow());
    if (plan_.unpredicted.empty()) {
      MILLRACE_TRY(steps_.run("verify", [&] { return verify(plan_); }));
      MILLRACE_ASSIGN(plan_.extrapolated, extrapolations(catalog_, plan_));
    }
    plan_.prediction_ms = steps_.total("predict");
    plan_.exploration_ms = steps_.total() - plan_.prediction_ms;
    return {};
  }

 private:
  /// What a search finds.
  Status choose() {
    for (const auto& wanted : options_.splits) MILLRACE_TRY(split_as_asked(wanted));
    MILLRACE_TRY(state_problem());
    MILLRACE_TRY(move_to_host());
    MILLRACE_TRY(check_host(options_, plan_));
    MILLRACE_TRY(leave_work_to_cards());
    if (!explore::is_predictable(plan_.problem)) return without_prediction();
    if (options_.weights || !can_stream()) return look(explains_);
    const Plan start = plan_;
    const Status baked = look(false);
    if (!baked.ok() && baked.error().code() != ErrorCode::kDoesNotFit) return baked;
    // For a rate and no more, layers streamed may need fewer cards than layers split.
    const auto& targets = options_.targets;
    const bool enough = targets.objective == explore::Objective::kCards && targets.frames_per_second;
    const bool split = plan_.splits.size() > start.splits.size();
    if (baked.ok() && options_.baked_first && !(split && enough)) return baked;
    return weigh_streamed(start, baked);
  }

  /// What a search finds; where it finds nothing and some cards stand alone, whether more cables would do.
  Status choose_over_cables() {
    const std::size_t joined = most_joined(plan_.cluster);
    const bool told = options_.partitions.value_or(0) > joined;  // where that fails
    if (joined == plan_.cluster.cards.size() || told) return choose();
    const Plan start = plan_;
    const Status found = choose();
    if (found.ok() || found.error().code() != ErrorCode::kDoesNotFit) return found;
    restore(start);
    plan_.cluster = cabled(std::move(plan_.cluster));
    host_blocks_ = options_.host_blocks;
    streamed_ = false;
    explains_ = false;
    if (!choose().ok()) return found;
    return for_want_of_cables(start.cluster, plan_.solution.card.size(), found.error());
  }

  /// Searches, and where a layer is too large or too slow for a card, has several share it.
  Status look(bool explain) {
    const bool alone = plan_.cluster.cards.size() < 2;
    const Status found = search(alone && explain);
    if (!found.ok() && found.error().code() != ErrorCode::kDoesNotFit) return found;
    const bool lift = options_.targets.objective == explore::Objective::kThroughput && !host_limits();
    // Copies use all the cards there are as well as one pipeline over them could.
    if (alone || (found.ok() && (!lift || plan_.replicas() > 1))) return found;
    if (!found.ok() && fits_but_is_late()) return explain ? search(true) : found;
    const Status split = split_layers(found);
    if (split.ok() || split.error().code() != ErrorCode::kDoesNotFit || !explain) return split;
    return search(true);  // for the reason
  }

  /// Whether quicker cards bring nothing.
  bool host_limits() const {
    return plan_.frames_per_second() * explore::host_seconds(plan_.problem) > 1 - kProven;
  }

  /// Whether only the target's latency is missed: parts of a layer on several cards make no frame sooner.
  bool fits_but_is_late() {
    explore::Problem open = plan_.problem;
    if (!open.targets.max_latency_seconds) return false;
    open.targets.max_latency_seconds.reset();
    return steps_.run("partition", [&] { return solved(open, false); }).ok();
  }

  Status state_problem() {
    plan_.problem = explore::make_problem(plan_.program, plan_.cluster, options_.partitions, options_.shares,
                                          host_blocks_);
    plan_.host_blocks = host_blocks_;
    plan_.problem.targets = options_.targets;
    plan_.problem.replicas = options_.replicas;
    cards_ = plan_.problem.cards;
    plan_.loader = streamed_ || kernels::has_parameters(plan_.program);
    if (plan_.loader) MILLRACE_TRY(charge_loader());
    time_host(options_, catalog_, plan_);
    CandidateOptions how;
    how.plugin = plan_.plugin.get();
    how.unrolled = options_.assume.empty();
    how.streamed = streamed_;
    if (plan_.plugin)
      MILLRACE_TRY(steps_.run("ask_plugin", [&] { return plan_.plugin->prepare(plan_.program); }));
    MILLRACE_ASSIGN(plan_.ports, HostPorts::make(catalog_, plan_.program, plan_.problem, plan_.cluster));
    MILLRACE_ASSIGN(plan_.candidates, steps_.run("candidates", [&] {
      return add_candidates(catalog_, plan_.program, how, plan_.ports, plan_.problem);
    }));
    plan_.weights_given = given_weights();
    return {};
  }

  /// Where all weights are, without a choice: what is found is the best of plans with them there.
  std::optional<kernels::Placement> given_weights() const {
    const auto all = options_.weights.value_or(kernels::Placement::kBaked);
    const bool several =
        all == kernels::Placement::kBaked ? can_stream() : kernels::has_parameters(plan_.program);
    return several && !streamed_ ? std::optional(all) : std::nullopt;
  }

  /// What loads constants stands with the shell: it is taken from the first region of every card, for a card
  /// that holds nothing loaded beside one that does is the exception.
  Status charge_loader() {
    MILLRACE_ASSIGN(const gen::Cost loader, gen::largest_loader_cost(catalog_));
    explore::Amounts taken = explore::amounts(loader.resources());
    for (std::size_t k = 0; k < explore::kKinds; ++k)
      taken[k] = static_cast<std::uint64_t>(std::ceil(static_cast<double>(taken[k]) * options_.shares[k]));
    plan_.problem.cards = cards_;
    for (auto& card : plan_.problem.cards)
      if (!card.regions.empty())
        card.regions.front().available = explore::less(card.regions.front().available, taken);
    return {};
  }

  /// Whether a plan written by hand has constants that are loaded.
  bool loads(const explore::Choice& choice) const {
    for (std::uint32_t i = 0; i < plan_.problem.operations.size(); ++i) {
      const auto& operation = plan_.problem.operations[i];
      if (operation.host) continue;
      const auto& way = operation.implementations[choice.implementation[i]];
      if (plan_.candidates.of_block[i][way.candidate].folding.weights != gen::Placement::kBaked) return true;
    }
    return false;
  }

  /// Whether there is a memory, and a layer, for more than one place of weights.
  bool can_stream() const {
    const auto has_memory = [](const explore::Card& card) {
      return std::any_of(card.regions.begin(), card.regions.end(),
                         [](const auto& region) { return region.available[explore::kMemoryBytes] > 0; });
    };
    if (std::none_of(plan_.problem.cards.begin(), plan_.problem.cards.end(), has_memory)) return false;
    for (std::size_t i = 0; i < plan_.program.blocks.size(); ++i)
      if (!plan_.problem.operations[i].host && gen::can_stream(plan_.program.blocks[i])) return true;
    return false;
  }

  /// From here on layers may also be built with weights from memory.
  Status offer_streamed() {
    streamed_ = true;
    return state_problem();
  }

  /// Takes layers' weights out of the images where that is better by the objective than what was found with
  /// all in them. What is on the chip needs no bandwidth: it is not given up for less than a hundredth.
  Status weigh_streamed(const Plan& start, const Status& baked) {
    const Plan own = plan_;
    restore(start);
    MILLRACE_TRY(offer_streamed());
    const bool possible = !baked.ok() || steps_.run("streamed", [&] {
      return explore::may_be_better(plan_.problem, own.solution);
    });
    if (possible) {
      const Status found = look(!baked.ok() && explains_);
      const bool failed = !found.ok() && found.error().code() != ErrorCode::kDoesNotFit;
      if (!baked.ok() || failed || (found.ok() && better_than(own))) return found;
    }
    restore(own);
    return {};
  }

  bool better_than(const Plan& other) const {
    const bool quicker = plan_.frames_per_second() > other.frames_per_second() * 1.01;
    switch (options_.targets.objective) {
      case explore::Objective::kCards:
        return plan_.cards() < other.cards() || (plan_.cards() == other.cards() && quicker);
      case explore::Objective::kThroughput:
        return quicker;
      case explore::Objective::kLatency:
        return plan_.latency_seconds * 1.01 < other.latency_seconds;
    }
    return false;
  }

  /// Where targets, or an objective other than the default, ask for a prediction, what has no hardware goes
  /// to the host: a stage of its own.
  Status move_to_host() {
    const auto& targets = options_.targets;
    const bool wanted = targets.frames_per_second || targets.max_latency_seconds || !options_.plan.empty() ||
                        targets.objective != explore::Objective::kCards;
    if (plan_.candidates.without.empty() || !wanted || options_.no_host) return {};
    host_blocks_.insert(host_blocks_.end(), plan_.candidates.without.begin(), plan_.candidates.without.end());
    log::info("plan", "on the host, for want of hardware: " + joined(plan_.candidates.without));
    return state_problem();
  }

  /// That --host leaves something to the cards.
  Status leave_work_to_cards() const {
    const auto& all = plan_.problem.operations;
    if (options_.host_blocks.empty() ||
        std::any_of(all.begin(), all.end(), [](const auto& one) { return !one.host; }))
      return {};
    return Error(ErrorCode::kInvalidInput,
                 "model '" + plan_.problem.model +
                     "' has nothing left that a card computes: --host moves every layer "
                     "to the host; leave one of the --host out");
  }

  Status split_as_asked(const Split& wanted) {
    std::uint32_t block = 0;
    while (block < plan_.program.blocks.size() && plan_.program.blocks[block].name != wanted.block) ++block;
    if (!can_split(plan_.program, block, wanted.parts))
      return Error(
          ErrorCode::kInvalidInput,
          "--split " + wanted.block + "=" + std::to_string(wanted.parts) +
              ": that is no ungrouped convolution or fully connected block of the model whose output "
              "channels can be dealt out evenly");
    plan_.program = split_channels(plan_.program, block, wanted.parts);
    plan_.splits.push_back(wanted);
    return {};
  }

  enum class Progress : std::uint8_t {
    kNone,
    kOneLess,  // in the way: others still are, and nothing is gained yet
    kBetter
  };

  /// Splits the layer that is most in the way: such that the model fits, or is quicker than `rate` by a
  /// hundredth; else, such that this layer is in the way no longer.
  Result<Progress> split_worst(bool fits, double rate) {
    const auto block = most_in_the_way(plan_, fits, slowest_wanted());
    if (!block) return Progress::kNone;
    const Plan before = plan_;
    const std::string& name = before.program.blocks[*block].name;
    const bool too_large = !fits && least_load(before.problem, *block, slowest_wanted()) > 1;
    std::optional<Plan> next;
    const auto cards = static_cast<std::uint32_t>(plan_.cluster.cards.size());
    for (std::uint32_t parts = 2; parts <= std::min(cards, kMostParts); ++parts) {
      if (!can_split(before.program, *block, parts)) continue;
      restore(before);
      plan_.program = split_channels(before.program, *block, parts);
      plan_.splits.push_back({name, parts});
      MILLRACE_TRY(state_problem());
      if (!explore::is_predictable(plan_.problem)) continue;
      const Status now = search(false);
      if (!now.ok() && now.error().code() != ErrorCode::kDoesNotFit) return now.error();
      if (now.ok() && (!fits || rate < plan_.frames_per_second() * 0.99)) return Progress::kBetter;
      const bool less = fits ? now.ok() && !limits(name + "_part") : too_large && fit(*block, parts);
      if (!next && less) next = plan_;
    }
    restore(next ? *next : before);
    return next ? Progress::kOneLess : Progress::kNone;
  }

  /// Whether what limits the rate is a block whose name begins so.
  bool limits(const std::string& prefix) const {
    const auto block = most_in_the_way(plan_, true, slowest_wanted());
    return block && plan_.program.blocks[*block].name.starts_with(prefix);
  }

  /// Whether each of these blocks has a region that it fits into.
  bool fit(std::uint32_t first, std::uint32_t count) const {
    for (std::uint32_t block = first; block < first + count; ++block)
      if (least_load(plan_.problem, block, slowest_wanted()) > 1) return false;
    return true;
  }

  double slowest_wanted() const {
    return options_.targets.frames_per_second ? 1 / *options_.targets.frames_per_second : 1e6;
  }

  /// What the plan was, with the time that all since has taken.
  void restore(const Plan& before) {
    auto times = std::move(plan_.steps);
    plan_ = before;
    plan_.steps = std::move(times);
  }

  /// Splits one layer after another until the model fits, or as long as that makes it quicker. Of several
  /// that are in the way alike, only the last one's split brings that.
  Status split_layers(const Status& first) {
    Status found = first;
    Plan best = plan_;
    for (int round = 0; round < kSplits; ++round) {
      MILLRACE_ASSIGN(const Progress progress, split_worst(found.ok(), best.frames_per_second()));
      if (progress == Progress::kNone) break;
      if (progress == Progress::kOneLess) continue;
      found = {};
      if (options_.targets.objective != explore::Objective::kThroughput) return found;
      best = plan_;
    }
    restore(best);
    return found;
  }

  Status without_prediction() {
    plan_.unpredicted = why_unpredicted();
    const auto& targets = options_.targets;
    if (targets.frames_per_second || targets.max_latency_seconds || !options_.plan.empty() ||
        targets.objective != explore::Objective::kCards)
      return Error(ErrorCode::kUnsupported,
                   "nothing can be predicted of this model: " + plan_.unpredicted +
                       "; leave targets, --objective and --plan out to have it cut by its work");
    MILLRACE_ASSIGN(plan_.solution, steps_.run("partition", [&] { return solved(plan_.problem); }));
    return place_solution(plan_);
  }

  /// Which blocks have no hardware, why the first has none, and what gives the others theirs.
  std::string why_unpredicted() const {
    const auto& without = plan_.candidates.without;
    if (without.empty()) return plan_.candidates.unsupported;
    std::string why = plan_.candidates.unsupported;
    if (without.size() > 1)
      why += "; nor is there hardware for " + joined({without.begin() + 1, without.end()});
    const auto& all = plan_.problem.operations;
    const auto on_cards = std::count_if(all.begin(), all.end(), [](const auto& one) { return !one.host; });
    if (static_cast<std::size_t>(on_cards) == without.size()) return why;
    why += "; the other layers get hardware if the host computes " +
           std::string(without.size() == 1 ? "this one:" : "these:");
    for (const auto& block : without) why += " --host " + block;
    return why;
  }

  static Result<explore::Solution> solved(const explore::Problem& problem, bool explain = true) {
    MILLRACE_ASSIGN(explore::Solution solution, explore::solve_replicated(problem, explain));
    MILLRACE_TRY(hold(problem, solution));
    return solution;
  }

  /// That what was found is what it says it is.
  static Status hold(const explore::Problem& problem, const explore::Solution& solution) {
    const auto wrong = explore::verify(problem, solution);
    return wrong.empty() ? Status()
                         : Error(ErrorCode::kInternal, "the partition just found does not hold: " + wrong);
  }

  /// Solves, looks at what the partitions really come to, and solves again with that much less where it was
  /// too much.
  Status search(bool explain) {
    explore::Problem problem = plan_.problem;
    Nearest nearest;
    bool late = false;  // what was found is, as it is played
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      auto found = steps_.run("partition", [&] { return solved(problem, explain && attempt == 0); });
      if (!found.ok() && attempt > 0 && found.error().code() == ErrorCode::kDoesNotFit) break;
      MILLRACE_ASSIGN(plan_.solution, std::move(found));
      if (attempt == 0) plan_.bound = bound_by(plan_.solution);
      MILLRACE_TRY(predict());
      judge();
      if (!tighten(plan_, problem)) return by_latency() && plan_.played ? play_the_soonest(plan_) : Status();
      nearest.look_at(plan_);
      const auto& most = plan_.problem.targets.max_latency_seconds;
      late = late || (most && plan_.latency_seconds > *most);
    }
    return late && play_the_soonest({}).ok() ? Status() : nearest.error(plan_, problem, explain);
  }

  /// Latencies as they are played differ from the sums that a search compares: plays several that are short,
  /// and takes the best that keeps the targets.
  Status play_the_soonest(std::optional<Plan> best) {
    if (plan_.problem.replicas.value_or(1) > 1 || plan_.replicas() > 1) return best ? Status() : not_one();
    explore::Problem room = plan_.problem;
    bool full = true;
    for (int attempt = 0; full && attempt < kAttempts / 2; ++attempt) {
      full = false;
      explore::Problem untimed = room;  // they are not held to the latency yet
      untimed.targets.max_latency_seconds.reset();
      for (const auto& candidate : steps_.run("partition", [&] { return explore::solve_soon(room); })) {
        MILLRACE_TRY(hold(untimed, candidate));
        plan_.solution = candidate;
        MILLRACE_TRY(predict());
        judge();
        if (!plan_.played) continue;
        if (full || tighten_regions(plan_, room)) {
          full = true;
          continue;
        }
        if (missed(plan_).empty() && (!best || before(plan_, *best))) best = plan_;
      }
    }
    if (!best) return not_one();
    restore(*best);
    return {};
  }

  static Status not_one() { return Error(ErrorCode::kDoesNotFit, "no plan is as soon as that"); }

  /// By the objective, as they are played.
  bool before(const Plan& a, const Plan& b) const {
    const auto key = [&](const Plan& plan) {
      const double cards =
          options_.targets.objective == explore::Objective::kCards ? static_cast<double>(plan.cards()) : 0;
      return by_latency() ? std::tuple(plan.latency_seconds, cards, plan.interval_seconds)
                          : std::tuple(cards, plan.interval_seconds, plan.latency_seconds);
    };
    return key(a) < key(b);
  }

  bool by_latency() const { return options_.targets.objective == explore::Objective::kLatency; }

  /// Of what is compared: a time between frames is at least what the host takes for one.
  double no_less_than_host(double figure) const {
    return by_latency() ? figure : std::max(figure, explore::host_seconds(plan_.problem));
  }

  /// How good any plan can be, from the search's first answer.
  Bound bound_by(const explore::Solution& first) const {
    const auto replicas = static_cast<double>(first.replicas());
    const double figure = by_latency() ? first.latency_seconds : first.interval_seconds / replicas;
    const double cards = static_cast<double>(first.card.size()) * replicas;
    return {no_less_than_host(figure / (1 + first.gap)), std::ceil(cards / (1 + first.gap) - kProven),
            first.exact};
  }

  /// What the plan is worth by the figures it is played with, and by the problem as it was asked: a plan may
  /// be of a harder one, and a frame may take longer through blocks that wait for each other than the slowest
  /// of them does.
  void judge() {
    auto& now = plan_.solution;
    const double reached = by_latency()
                               ? plan_.latency_seconds
                               : no_less_than_host(played_interval_ / static_cast<double>(now.replicas()));
    now.gap = std::max(0.0, reached / plan_.bound.seconds - 1);
    if (options_.targets.objective == explore::Objective::kCards)
      now.gap = std::max(now.gap, static_cast<double>(plan_.cards()) / plan_.bound.cards - 1);
    const bool fewest = by_latency() || static_cast<double>(plan_.cards()) <= plan_.bound.cards;
    now.exact = plan_.played && plan_.bound.exact && now.gap < kProven && fewest;
    if (now.exact) now.gap = 0;
  }

  /// What a search finds in place of the file: told beside it, and nothing where it finds none.
  Result<std::optional<Unedited>> unedited() {
    const Plan before = plan_;
    const Status found = choose();
    std::optional<Unedited> out;
    if (found.ok())
      out = Unedited{plan_.cards(), plan_.frames_per_second(), plan_.latency_seconds};
    else if (found.error().code() != ErrorCode::kDoesNotFit &&
             found.error().code() != ErrorCode::kUnsupported && !names_parts(before.program))
      return found.error();
    restore(before);
    streamed_ = false;
    return out;
  }

  /// Whether options name what is a block only once layers are split.
  bool names_parts(const kernels::Program& unsplit) const {
    const auto is_part = [&](const std::string& name) {
      return std::none_of(unsplit.blocks.begin(), unsplit.blocks.end(),
                          [&](const auto& block) { return block.name == name; });
    };
    return std::any_of(options_.host_blocks.begin(), options_.host_blocks.end(), is_part) ||
           std::any_of(options_.splits.begin(), options_.splits.end(),
                       [&](const Split& wanted) { return is_part(wanted.block); });
  }

  /// What the command line asks for and the file settles otherwise is refused.
  Status agree(const std::vector<std::string>& host) const {
    const auto refused = [&](const std::string& option, const char* key) {
      return Error(ErrorCode::kInvalidInput,
                   option + ": " + options_.plan.string() + " has it otherwise; edit its '" + key + "'");
    };
    for (const Split& wanted : options_.splits)
      if (std::find(plan_.splits.begin(), plan_.splits.end(), wanted) == plan_.splits.end())
        return refused("--split " + wanted.block + "=" + std::to_string(wanted.parts), "splits");
    for (const auto& wanted : options_.host_blocks)
      if (std::find(host.begin(), host.end(), wanted) == host.end())
        return refused("--host " + wanted, "host");
    return {};
  }

  /// The problem as the file's splits and host blocks make it.
  Status state_as_followed() {
    MILLRACE_ASSIGN(host_blocks_, read_plan_changes(options_.plan, plan_));
    MILLRACE_TRY(state_problem());
    if (!plan_.candidates.without.empty())
      return Error(ErrorCode::kInvalidInput, options_.plan.string() + ": there is no hardware for " +
                                                 joined(plan_.candidates.without) +
                                                 "; name what has none under 'host'");
    MILLRACE_TRY(check_host(options_, plan_));
    return explore::is_predictable(plan_.problem) ? Status() : without_prediction();
  }

  Status follow() {
    const Plan unsplit = plan_;
    MILLRACE_ASSIGN(const auto host, read_plan_changes(options_.plan, plan_));
    MILLRACE_TRY(agree(host));
    restore(unsplit);
    MILLRACE_ASSIGN(const auto searched, unedited());
    MILLRACE_TRY(state_as_followed());
    plan_.followed = true;
    plan_.unedited = searched;
    MILLRACE_ASSIGN(const PlanFile file, read_plan_file(options_.plan, catalog_, plan_, !options_.weights));
    plan_.problem.cards = cards_;
    if (loads(file.choice)) MILLRACE_TRY(charge_loader());
    explore::Problem problem = plan_.problem;  // of one replica
    if (auto& target = problem.targets.frames_per_second)
      *target /= static_cast<double>(1 + file.copies.size());
    MILLRACE_ASSIGN(plan_.solution, explore::settle(problem, file.choice));
    plan_.solution.copies = file.copies;
    if (const auto wrong = explore::check_copies(plan_.problem, plan_.solution); !wrong.empty())
      return Error(ErrorCode::kInvalidInput, options_.plan.string() + ": replicas: " + wrong);
    if (options_.replicas && *options_.replicas != plan_.replicas())
      return Error(ErrorCode::kInvalidInput, "--replicas " + std::to_string(*options_.replicas) + ": " +
                                                 options_.plan.string() + " has " +
                                                 std::to_string(plan_.replicas()) + "; edit its 'replicas'");
    if (const auto wrong = explore::verify(plan_.problem, plan_.solution); !wrong.empty())
      return Error(ErrorCode::kInternal, "the plan just settled does not hold: " + wrong);
    MILLRACE_TRY(predict());
    if (const std::string wrong = overfull(plan_); !wrong.empty())
      return Error(ErrorCode::kDoesNotFit, options_.plan.string() + ": put together, it does not fit: " +
                                               wrong + "; edit the plan, or raise --max-utilisation");
    if (const std::string wrong = missed(plan_); !wrong.empty())
      return Error(ErrorCode::kDoesNotFit, options_.plan.string() + ": played clock by clock it gives " +
                                               wrong + "; edit the plan, or ask for less");
    return {};
  }

  Status predict() {
    MILLRACE_ASSIGN(played_interval_, compiler::predict(catalog_, plan_, steps_, options_.play));
    return {};
  }

  const PlanOptions& options_;
  Plan& plan_;
  Steps steps_;
  gen::Catalog catalog_;
  double played_interval_ = 0;        // seconds; of one replica's cards, whatever the host takes
  std::vector<explore::Card> cards_;  // of the problem, where nothing is loaded
  bool explains_ = true;              // why a search finds nothing
  bool streamed_ = false;             // candidates with weights from memory are among those chosen from
  std::vector<std::string> host_blocks_ = options_.host_blocks;
};

}  // namespace

kernels::Placement placement_of(const Plan& plan, std::uint32_t block) {
  const auto& way = plan.problem.operations[block].implementations[plan.solution.implementation[block]];
  const auto placement = plan.candidates.of_block[block][way.candidate].folding.weights;
  const bool read = way.amounts[explore::kMemoryBytes] > 0;
  return placement == kernels::Placement::kStreamed && !read ? kernels::Placement::kLoaded : placement;
}

Result<Plan> make_plan(const PlanOptions& options) {
  Plan plan;
  MILLRACE_TRY(check_options(options));
  MILLRACE_TRY(Planner(options, plan).run());
  if (!plan.analysis.places.empty()) explain(plan);
  return plan;
}

}  // namespace millrace::compiler
