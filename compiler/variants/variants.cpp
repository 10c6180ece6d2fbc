#include "compiler/variants/variants.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <tuple>

#include "compiler/front/steps.hpp"
#include "runtime/base/file.hpp"
#include "runtime/base/log.hpp"
#include "runtime/plan/variants.hpp"

namespace millrace::compiler::variants {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using explore::operator+=;

constexpr std::uint32_t kMostCards = 9;         // numbers of cards that are varied
constexpr double kLess[] = {0.5, 0.25, 0.125};  // of the utilisation allowed

/// What is tried, in a fixed order: as asked for; each number of cards for throughput and for latency; the
/// first with less of each card.
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

/// Options that have a plan, the given ones first, and what it comes to.
struct Tried {
  std::vector<PlanOptions> options;
  std::vector<Figures> figures;
};

Result<Tried> try_all(const PlanOptions& given) {
  Tried out;
  PlanOptions quiet = given;
  quiet.dump_after.clear();  // graphs are printed where they are built
  MILLRACE_ASSIGN(const Plan own, make_plan(quiet));
  if (!own.unpredicted().empty())
    return Error(ErrorCode::kUnsupported,
                 "--variants: nothing can be predicted of this model: " + own.unpredicted());
  out.options.push_back(given);
  out.figures.push_back(figures_of(own, given.shares));
  const auto all = tries(quiet, own);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto plan = make_plan(all[i]);
    if (!plan.ok() && plan.error().code() != ErrorCode::kDoesNotFit) return plan.error();
    log::debug("compile", "variant " + std::to_string(i + 1) + " of " + std::to_string(all.size()) +
                              (plan.ok() ? "" : ": " + plan.error().message()));
    if (!plan.ok()) continue;
    out.options.push_back(all[i]);
    out.figures.push_back(figures_of(*plan, all[i].shares));
  }
  return out;
}

/// Builds the images of all variants with the vendor's tools; empty where there is nothing to build.
std::string makefile(const std::vector<std::string>& with_vitis) {
  if (with_vitis.empty()) return "";
  std::string names;
  for (const auto& name : with_vitis) names += " " + name;
  return "# Builds the images of all variants side by side: make -j4. Never run with the vendor's tools.\n"
         "VARIANTS :=" +
         names + "\n\n.PHONY: all $(VARIANTS)\nall: $(VARIANTS)\n$(VARIANTS):\n\t$(MAKE) -C $@/vitis\n";
}

class Writer {
 public:
  Writer(const CompileOptions& options, const Tried& tried, const std::vector<std::size_t>& chosen,
         VariantsReport& report)
      : options_(options), tried_(tried), chosen_(chosen), report_(report) {}

  Status run(const fs::path& directory) {
    std::vector<std::string> with_vitis;
    for (const auto i : chosen_) {
      Variant variant;
      variant.directory = "variant" + std::to_string(report_.variants.size() + 1);
      variant.own = i == 0;
      variant.objective = tried_.options[i].targets.objective;
      variant.shares = tried_.options[i].shares;
      variant.figures = tried_.figures[i];
      log::info("compile", variant.directory + " of " + std::to_string(chosen_.size()));
      MILLRACE_TRY(build_one(tried_.options[i], directory, variant));
      if (fs::exists(directory / variant.directory / "vitis")) with_vitis.push_back(variant.directory);
      report_.variants.push_back(std::move(variant));
    }
    if (const std::string text = makefile(with_vitis); !text.empty())
      MILLRACE_TRY(write_new_file(directory / "Makefile", text));
    return write_new_file(directory / runtime::plan::kVariantsFile, index(report_));
  }

 private:
  Status build_one(const PlanOptions& planned, const fs::path& directory, Variant& variant) {
    CompileOptions options = options_;
    static_cast<PlanOptions&>(options) = planned;
    MILLRACE_ASSIGN(Plan plan, make_plan(options));
    report_.model = plan.model.info.name;
    report_.cluster = plan.cluster().name;
    for (const auto& place : plan.analysis.places)
      for (const auto& region : place.regions) variant.used += region.used;
    MILLRACE_ASSIGN(const Built built, build(std::move(plan), options));
    variant.digest = built.artifacts.plan.digest;
    return emit::write(built.artifacts, directory / variant.directory);
  }

  const CompileOptions& options_;
  const Tried& tried_;
  const std::vector<std::size_t>& chosen_;
  VariantsReport& report_;
};

}  // namespace

Result<VariantsReport> compile_variants(const CompileOptions& options, std::size_t count) {
  MILLRACE_TRY(check_options(options));
  MILLRACE_TRY(runtime::plan::check_variants_replaceable(options.output, {options.model, options.cluster}));
  if (!options.plan.empty())
    return Error(ErrorCode::kInvalidInput, "--variants and --plan: a plan file leaves nothing to vary");
  VariantsReport report;
  Steps steps(report.steps);
  PlanOptions planned = options;
  planned.play = Play::kAll;  // they are chosen by the figures they are built with
  MILLRACE_ASSIGN(const Tried tried, steps.run("explore", [&] { return try_all(planned); }));
  auto chosen = choose(tried.figures, count);
  std::stable_sort(chosen.begin(), chosen.end(), [&](std::size_t a, std::size_t b) {
    const Figures &x = tried.figures[a], &y = tried.figures[b];
    return std::tie(x.cards, x.interval_seconds, x.latency_seconds) <
           std::tie(y.cards, y.interval_seconds, y.latency_seconds);
  });
  const auto written = steps.run("build", [&] {
    return write_directory_atomically(options.output, [&](const fs::path& temporary) {
      return Writer(options, tried, chosen, report).run(temporary);
    });
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
      shares[kNames[k]] = v.shares[k];
      used[kNames[k]] = v.used[k];
    }
    variants.push_back(
        json::object{{"directory", v.directory},
                     {"own", v.own},
                     {"cards", static_cast<std::uint64_t>(v.figures.cards)},
                     {"objective", explore::objective_name(v.objective)},
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
