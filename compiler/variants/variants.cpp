#include "compiler/variants/variants.hpp"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <limits>
#include <tuple>

#include "compiler/front/steps.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/log.hpp"
#include "runtime/plan/deployment.hpp"

namespace millrace::compiler::variants {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using explore::operator+=;

constexpr std::uint32_t kMostCards = 9;         // the largest number of cards that is tried
constexpr double kLess[] = {0.5, 0.25, 0.125};  // shares of the allowed utilisation to try

/// Returns the options to try, the unchanged ones first. Then each number of cards is tried for throughput and for
/// latency. Last, the first plan's number of cards is tried with a lower utilisation of each card.
std::vector<PlanOptions> tries(const PlanOptions& options, const Plan& own) {
  std::vector<PlanOptions> out;
  const auto cards = static_cast<std::uint32_t>(own.cluster().cards.size());
  for (std::uint32_t n = 1; n <= std::min(cards, kMostCards); ++n) {
    if (options.partitions && *options.partitions != n) continue;
    for (const auto objective : {explore::Objective::kThroughput, explore::Objective::kLatency}) {
      out.push_back(options);
      out.back().partitions = n;
      out.back().targets.objective = objective;
    }
  }
  for (const double less : kLess) {
    out.push_back(options);
    out.back().partitions = static_cast<std::uint32_t>(own.solution.card.size());
    if (own.replicas() > 1) out.back().replicas = static_cast<std::uint32_t>(own.replicas());
    for (auto& share : out.back().shares) share *= less;
  }
  return out;
}

/// Returns the figures of a predicted plan. `shares` are the fractions of the cards' resources that the plan was
/// allowed to use.
Figures figures_of(const Plan& plan, const explore::Shares& shares) {
  Figures out;
  out.cards = static_cast<double>(plan.cards());
  out.interval_seconds = plan.interval_seconds / static_cast<double>(plan.replicas());
  out.latency_seconds = plan.latency_seconds;
  for (const auto& place : plan.analysis.places)
    for (const auto& region : place.regions)
      for (std::size_t k = 0; k < explore::kMemoryBytes; ++k)
        if (region.available[k] > 0)
          out.fullest = std::max(out.fullest, static_cast<double>(region.used[k]) /
                                                  static_cast<double>(region.available[k]) * shares[k]);
  return out;
}

/// Returns the options that have a plan, the user's own options first.
Result<std::vector<Variant>> try_all(const PlanOptions& given) {
  PlanOptions quiet = given;
  quiet.dump_after.clear();  // graphs are printed only when a variant is built
  MILLRACE_ASSIGN(const Plan own, make_plan(quiet));
  if (!own.unpredicted().empty())
    return Error(ErrorCode::kUnsupported,
                 "--variants: nothing can be predicted for this model: " + own.unpredicted());
  std::vector<Variant> out{{{}, true, given, figures_of(own, given.shares), {}, {}}};
  const auto all = tries(quiet, own);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto plan = make_plan(all[i]);
    if (!plan.ok() && plan.error().code() != ErrorCode::kDoesNotFit) return plan.error();
    log::debug("compile", "variant " + std::to_string(i + 1) + " of " + std::to_string(all.size()) +
                              (plan.ok() ? "" : ": " + plan.error().message()));
    if (plan.ok()) out.push_back({{}, false, all[i], figures_of(*plan, all[i].shares), {}, {}});
  }
  return out;
}

/// Returns the variants worth building, ordered by cards, interval and latency.
std::vector<Variant> chosen(const std::vector<Variant>& tried, std::size_t count) {
  std::vector<Figures> figures;
  for (const auto& one : tried) figures.push_back(one.figures);
  std::vector<Variant> out;
  for (const auto i : choose(figures, count)) out.push_back(tried[i]);
  std::stable_sort(out.begin(), out.end(), [](const Variant& a, const Variant& b) {
    const Figures &x = a.figures, &y = b.figures;
    return std::tie(x.cards, x.interval_seconds, x.latency_seconds) <
           std::tie(y.cards, y.interval_seconds, y.latency_seconds);
  });
  for (std::size_t i = 0; i < out.size(); ++i) out[i].directory = "variant" + std::to_string(i + 1);
  return out;
}

/// Returns a makefile that builds the FPGA images of all variants with the vendor's tools, or an empty text if no
/// variant has any.
std::string makefile(const std::vector<std::string>& with_vitis) {
  if (with_vitis.empty()) return "";
  std::string names;
  for (const auto& name : with_vitis) names += " " + name;
  return "# Builds the images of all variants in parallel: make -j4.\n"
         "# This file was never run with the vendor's tools.\n"
         "VARIANTS :=" +
         names + "\n\n.PHONY: all $(VARIANTS)\nall: $(VARIANTS)\n$(VARIANTS):\n\t$(MAKE) -C $@/vitis\n";
}

Status build_one(CompileOptions options, const fs::path& directory, VariantsReport& report,
                 Variant& variant) {
  static_cast<PlanOptions&>(options) = variant.options;
  MILLRACE_ASSIGN(Plan plan, make_plan(options));
  report.model = plan.model.info.name;
  report.cluster = plan.cluster().name;
  for (const auto& place : plan.analysis.places)
    for (const auto& region : place.regions) variant.used += region.used;
  MILLRACE_ASSIGN(const Built built, build(std::move(plan), options));
  variant.digest = built.artifacts.plan.digest;
  return emit::write(built.artifacts, directory / variant.directory);
}

Status write(const CompileOptions& options, const fs::path& directory, VariantsReport& report) {
  std::vector<std::string> with_vitis;
  for (auto& variant : report.variants) {
    log::info("compile", variant.directory + " of " + std::to_string(report.variants.size()));
    MILLRACE_TRY(build_one(options, directory, report, variant));
    if (fs::exists(directory / variant.directory / "vitis")) with_vitis.push_back(variant.directory);
  }
  if (const std::string text = makefile(with_vitis); !text.empty())
    MILLRACE_TRY(write_new_file(directory / "Makefile", text));
  return write_new_file(directory / runtime::plan::kVariantsFile, index(report));
}

using Coordinates = std::array<double, 4>;

/// Returns the coordinates of the judged variants, with each axis scaled from 0 to 1. Cards count linearly, the other
/// figures by ratio.
std::vector<Coordinates> coordinates(const std::vector<Figures>& all,
                                     const std::vector<std::size_t>& judged) {
  std::vector<Coordinates> out(all.size());
  for (const auto i : judged)
    out[i] = {all[i].cards, std::log(all[i].interval_seconds), std::log(all[i].latency_seconds),
              std::log(std::max(1e-6, all[i].fullest))};
  for (std::size_t axis = 0; axis < 4; ++axis) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (const auto i : judged) {
      low = std::min(low, out[i][axis]);
      high = std::max(high, out[i][axis]);
    }
    for (const auto i : judged) out[i][axis] = high > low ? (out[i][axis] - low) / (high - low) : 0;
  }
  return out;
}

double distance(const Coordinates& a, const Coordinates& b) {
  double sum = 0;
  for (std::size_t axis = 0; axis < 4; ++axis) sum += (a[axis] - b[axis]) * (a[axis] - b[axis]);
  return sum;
}

}  // namespace

bool dominates(const Figures& a, const Figures& b) {
  return a.cards <= b.cards && a.interval_seconds <= b.interval_seconds &&
         a.latency_seconds <= b.latency_seconds && a.fullest <= b.fullest && a != b;
}

std::vector<std::size_t> choose(const std::vector<Figures>& all, std::size_t count) {
  std::vector<std::size_t> left, taken;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool worse =
        std::any_of(all.begin(), all.end(), [&](const auto& f) { return dominates(f, all[i]); });
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(i);
    if (i == 0 || (!worse && std::find(all.begin(), end, all[i]) == end)) left.push_back(i);
  }
  const auto at = coordinates(all, left);
  while (!left.empty() && taken.size() < count) {
    auto best = left.begin();
    double farthest = -1;
    for (auto i = left.begin(); i != left.end() && !taken.empty(); ++i) {
      double nearest = std::numeric_limits<double>::infinity();
      for (const auto j : taken) nearest = std::min(nearest, distance(at[*i], at[j]));
      if (nearest <= farthest) continue;
      farthest = nearest;
      best = i;
    }
    taken.push_back(*best);
    left.erase(best);
  }
  std::sort(taken.begin(), taken.end());
  return taken;
}

Result<VariantsReport> compile_variants(const CompileOptions& options, std::size_t count) {
  MILLRACE_TRY(check_options(options));
  MILLRACE_TRY(runtime::plan::check_replaceable(options.output, {options.model, options.cluster}, true));
  if (!options.plan.empty())
    return Error(ErrorCode::kInvalidInput,
                 "--variants and --plan exclude each other, because a plan file leaves nothing to vary; "
                 "leave one out");
  VariantsReport report;
  Steps steps(report.steps);
  PlanOptions planned = options;
  planned.play = Play::kAll;  // variants are chosen by simulated figures, as deployments have them
  MILLRACE_ASSIGN(const auto tried, steps.run("explore", [&] { return try_all(planned); }));
  report.variants = chosen(tried, count);
  const auto written = steps.run("build", [&] {
    return write_directory_atomically(
        options.output, [&](const fs::path& temporary) { return write(options, temporary, report); });
  });
  if (!written.ok()) return written.error().within("nothing was written to " + options.output.string());
  return report;
}

std::string index(const VariantsReport& report) {
  json::array variants;
  for (const auto& v : report.variants) {
    json::object shares, used;
    constexpr const char* kNames[] = {"lut", "lutram", "ff", "dsp", "bram18", "uram"};
    for (std::size_t k = 0; k < explore::kMemoryBytes; ++k) {
      shares[kNames[k]] = v.options.shares[k];
      used[kNames[k]] = v.used[k];
    }
    variants.push_back(
        json::object{{"directory", v.directory},
                     {"own", v.own},
                     {"cards", static_cast<std::uint64_t>(v.figures.cards)},
                     {"objective", explore::objective_name(v.options.targets.objective)},
                     {"max_utilisation", std::move(shares)},
                     {"predicted", json::object{{"frames_per_second", 1 / v.figures.interval_seconds},
                                                {"latency_us", v.figures.latency_seconds * 1e6}}},
                     {"resources", std::move(used)},
                     {"fullest", v.figures.fullest},
                     {"digest", v.digest}});
  }
  return json::serialize(json::object{{"schema", 1},
                                      {"kind", "variants"},
                                      {"model", report.model},
                                      {"cluster", report.cluster},
                                      {"variants", std::move(variants)}}) +
         "\n";
}

}  // namespace millrace::compiler::variants
