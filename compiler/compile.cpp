#include "compiler/compile.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include "compiler/front/steps.hpp"
#include "compiler/generators/design.hpp"
#include "compiler/planning/alternatives.hpp"
#include "compiler/planning/host_ports.hpp"
#include "kernels/program/parameters.hpp"
#include "runtime/base/log.hpp"

namespace millrace::compiler {
namespace {

constexpr std::uint64_t kUtilisationPercent = 80;

/// What a partition's network may take of the region: what the shell, with `loader`, leaves, not filled to
/// the brim.
runtime::plan::Resources budget(const runtime::plan::Device& device, const runtime::plan::Resources& loader,
                                std::uint64_t partitions) {
  using runtime::plan::Resources;
  Resources left = device.regions.front().resources;
  for (const auto kind : {&Resources::lut, &Resources::lutram, &Resources::ff, &Resources::dsp,
                          &Resources::bram36, &Resources::uram}) {
    const std::uint64_t shell = device.shell.*kind + partitions * loader.*kind;
    left.*kind = (left.*kind > shell ? left.*kind - shell : 0) * kUtilisationPercent / 100 / partitions;
  }
  return left;
}

/// Hardware for each partition on a card, as the plan has it. Where nothing was predicted, as fast as its
/// card allows; a partition with a block that has none goes without, says why, and runs at functional
/// fidelity.
Result<Designs> design(const Plan& plan) {
  MILLRACE_ASSIGN(const auto catalog, generators::load_catalog());
  const auto programs = partition_programs(plan.placed_program, plan.placed);
  Designs designs;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const auto& part = plan.placed.parts[i];
    if (part.host) continue;
    Result<std::vector<generators::Folding>> foldings = std::vector<generators::Folding>{};
    if (plan.unpredicted.empty()) {
      foldings = plan.foldings[i];
    } else {
      const auto beside =
          std::count_if(plan.placed.parts.begin(), plan.placed.parts.end(),
                        [&](const auto& other) { return !other.host && other.place == part.place; });
      generators::ChooseOptions options;
      MILLRACE_ASSIGN(const auto loader, kernels::has_parameters(programs[i])
                                             ? generators::largest_loader_cost(catalog)
                                             : generators::Cost{});
      options.budget = budget(plan.cluster.device_of(plan.cluster.cards[plan.placed.card[part.place]]),
                              loader.resources(), static_cast<std::uint64_t>(beside));
      foldings = generators::choose(catalog, programs[i], options);
    }
    auto made = foldings.ok() ? generators::assemble(catalog, programs[i], *foldings,
                                                     {true, plan.plugin.get(), regions_of(plan.placed, part)})
                              : Result<generators::Design>(foldings.error());
    if (made.ok()) {
      MILLRACE_ASSIGN(made->shell,
                      shell_of(catalog, programs, plan.placed, i, *made,
                               plan.cluster.device_of(plan.cluster.cards[plan.placed.card[part.place]])));
      designs.emplace(programs[i].name, std::move(*made));
    } else if (made.error().code() == ErrorCode::kUnsupported ||
               made.error().code() == ErrorCode::kDoesNotFit) {
      log::warning("compile", programs[i].name + " gets no hardware: " + made.error().message());
    } else {
      return made.error().within("hardware of " + programs[i].name);
    }
  }
  return designs;
}

Status check_buildable(const Plan& plan) {
  for (const auto card : plan.placed.card) {
    const auto& device = plan.cluster.device_of(plan.cluster.cards[card]);
    if (!device.plan_only.empty())
      return Error(ErrorCode::kUnsupported,
                   "device '" + device.name + "' is for plans only: " + device.plan_only);
  }
  return {};
}

/// That what is built is what the plan was played with: its figures and what keeps the targets.
Status check_figures(const Plan& plan, const Designs& designs) {
  if (!plan.unpredicted.empty()) return {};
  if (!plan.played) return Error(ErrorCode::kInternal, "a plan is built that was not played");
  for (const auto& [name, design] : designs) {
    const auto played = plan.designs.find(name);
    if (played == plan.designs.end() || played->second.interval_cycles != design.interval_cycles ||
        played->second.latency_cycles != design.latency_cycles || played->second.cost != design.cost ||
        played->second.shell != design.shell)
      return Error(ErrorCode::kInternal, "the hardware of " + name + " is not what was planned");
  }
  return {};
}

}  // namespace

Status check_options(const CompileOptions& options) {
  if (options.output.empty()) return Error(ErrorCode::kInvalidInput, "no output directory: give one with -o");
  if (!options.assume.empty())
    return Error(ErrorCode::kInvalidInput,
                 "--assume is for plans only: a float model has no numbers that hardware could compute with");
  return {};
}

Result<Built> build(Plan plan, const CompileOptions& options) {
  Built built;
  CompileReport& report = built.report;
  report.design = std::move(plan);
  MILLRACE_TRY(check_buildable(report.design));
  report.steps = report.design.steps;
  Steps steps(report.steps);
  MILLRACE_ASSIGN(const auto designs, steps.run("design", [&] { return design(report.design); }));
  MILLRACE_TRY(check_figures(report.design, designs));
  std::optional<double> rate;
  if (report.design.unpredicted.empty()) rate = 1 / report.design.interval_seconds;
  MILLRACE_ASSIGN(built.artifacts, steps.run("emit", [&] {
    return emit::build_deployment(report.design.placed_program, report.design.placed, report.design.cluster,
                                  report.design.model, designs, rate);
  }));
  if (options.report)
    steps.run("report", [&] {
      if (report.design.unpredicted.empty()) add_alternatives(report.design);
      const std::string page = options.report(report.design);
      const auto bytes = std::as_bytes(std::span(page.data(), page.size()));
      built.artifacts.files["report.html"].assign(bytes.begin(), bytes.end());
      return true;
    });
  return built;
}

Result<CompileReport> compile(const CompileOptions& options) {
  MILLRACE_TRY(check_options(options));
  MILLRACE_TRY(runtime::plan::check_replaceable(options.output, {options.model, options.cluster}));
  log::info("compile", options.model.string() + " for " + options.cluster.string());
  CompileOptions played = options;
  played.play = Play::kAll;
  MILLRACE_ASSIGN(Plan plan, make_plan(played));
  MILLRACE_ASSIGN(Built built, build(std::move(plan), played));
  CompileReport& report = built.report;
  Steps steps(report.steps);
  if (const auto written = steps.run("write", [&] { return emit::write(built.artifacts, options.output); });
      !written.ok())
    return written.error().within("nothing was written to " + options.output.string());
  log::info("compile", "wrote " + options.output.string());
  report.plan = std::move(built.artifacts.plan);
  return std::move(report);
}

}  // namespace millrace::compiler
