#include "compiler/compile.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include "compiler/front/steps.hpp"
#include "compiler/generators/design.hpp"
#include "compiler/planning/split_channels.hpp"
#include "runtime/base/log.hpp"

namespace millrace::compiler {
namespace {

Status check_buildable(const Plan& plan) {
  for (std::uint32_t place = 0; place < plan.solution.card.size(); ++place) {
    const auto& device = device_at(plan, place);
    if (!device.plan_only.empty())
      return Error(ErrorCode::kUnsupported,
                   "device '" + device.name + "' can only be used for plans: " + device.plan_only);
  }
  return {};
}

/// Returns why a partition on a card has no hardware.
std::string no_hardware(const Plan& plan, const kernels::Program& partition) {
  for (const auto& one : plan.lowered->candidates.without)
    if (find_block(partition, one.block) < partition.blocks.size()) return one.reason;
  return "the hardware of all blocks does not fit on the cards";
}

/// Returns the planned designs, with the contents of their memories. If a plugin does not build what it offered, the
/// partition gets no design and is emulated at fidelity `functional`, which computes values but models no clock cycles.
Result<Designs> design(const Plan& plan) {
  MILLRACE_ASSIGN(const auto catalog, generators::load_catalog());
  const Placed& placed = plan.placed;
  Designs designs;
  for (std::size_t p = 0; p < placed.programs.size(); ++p) {
    const auto& name = placed.programs[p].name;
    const auto planned = placed.designs.find(name);
    if (placed.solution.parts[p].host) continue;
    if (planned == placed.designs.end()) {
      log::warning("compile", name + " gets no hardware: " + no_hardware(plan, placed.programs[p]));
      continue;
    }
    auto made = generators::assemble(catalog, placed.programs[p], placed.foldings[p],
                                     {true, plan.lowered->candidates.plugins.get(),
                                      regions_of(placed.solution, placed.solution.parts[p])});
    if (made.ok()) {
      made->shell = planned->second.shell;
      designs.emplace(name, std::move(*made));
    } else if (made.error().code() == ErrorCode::kUnsupported) {
      log::warning("compile", name + " gets no hardware: " + made.error().message());
    } else {
      return made.error().within("hardware of " + name);
    }
  }
  return designs;
}

/// Checks that the designs have the interval, latency and cost of the plan. The check is needed because only the plan's
/// figures were compared with the targets.
Status check_figures(const Plan& plan, const Designs& designs) {
  if (!plan.placed.played)
    return Error(ErrorCode::kInternal, "the plan must be simulated before its hardware is built");
  for (const auto& [name, design] : designs) {
    const auto& played = plan.placed.designs.at(name);
    if (played.interval_cycles != design.interval_cycles || played.latency_cycles != design.latency_cycles ||
        played.cost != design.cost)
      return Error(ErrorCode::kInternal, "the hardware of " + name + " is not what was planned");
  }
  return {};
}

}  // namespace

Status check_options(const CompileOptions& options) {
  if (options.output.empty()) return Error(ErrorCode::kInvalidInput, "no output directory: give one with -o");
  if (!options.assume.empty())
    return Error(ErrorCode::kInvalidInput,
                 "--assume is only valid for plan: a float model has no integer weights to compile");
  return {};
}

Result<Built> build(Plan plan, const CompileOptions& options) {
  MILLRACE_TRY(check_buildable(plan));
  Built built;
  built.report.steps = plan.times.steps;
  Steps steps(built.report.steps);
  MILLRACE_ASSIGN(const Designs designs, steps.run("design", [&] { return design(plan); }));
  MILLRACE_TRY(check_figures(plan, designs));
  std::optional<double> rate;
  if (plan.unpredicted().empty()) rate = 1 / plan.interval_seconds;
  MILLRACE_ASSIGN(built.artifacts, steps.run("emit", [&] {
    return emit::build_deployment(plan.placed.program, plan.placed.solution, plan.cluster(), plan.model.info,
                                  designs, rate);
  }));
  if (plan.lowered->candidates.plugins != nullptr) {
    MILLRACE_ASSIGN(auto libraries, plan.lowered->candidates.plugins->libraries_of(plan.placed.program));
    for (auto& [sha256, bytes] : libraries)
      built.artifacts.files["plugins/" + sha256 + ".so"] = std::move(bytes);
  }
  if (options.report)
    steps.run("report", [&] {
      const std::string page = options.report(plan);
      const auto bytes = std::as_bytes(std::span(page.data(), page.size()));
      built.artifacts.files["report.html"].assign(bytes.begin(), bytes.end());
      return true;
    });
  if (options.quantised != nullptr) built.artifacts.files["quantised.onnx"] = *options.quantised;
  built.report.design = std::move(plan);
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
