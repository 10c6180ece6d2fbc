// Builds several deployments of one model for one cluster, so that a user can choose: fewer cards, more frames, less
// latency or emptier cards. README.md describes the directory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compiler/compile.hpp"

namespace millrace::compiler::variants {

/// The figures by which variants are compared. Smaller values are better.
struct Figures {
  double cards = 0, interval_seconds = 0, latency_seconds = 0;
  double fullest = 0;  // largest used share of a region, of what the shell leaves
  bool operator==(const Figures&) const = default;
};

/// Whether `a` is at least as good as `b` in every figure, and better in at least one.
bool dominates(const Figures& a, const Figures& b);

/// Returns the positions of the variants worth building, at most `count`, ascending. The first variant is always
/// chosen. Each further choice is the variant farthest from all chosen variants, among those that no other variant
/// dominates and that differ from each chosen variant.
std::vector<std::size_t> choose(const std::vector<Figures>& all, std::size_t count);

struct Variant {
  std::string directory;  // name below the output: "variant1"
  bool own = false;       // whether compile() alone would build this variant
  PlanOptions options;
  Figures figures;
  explore::Amounts used{};  // resources used in all regions together
  std::string digest;       // digest of the deployment
};

struct VariantsReport {
  std::string model, cluster;
  std::vector<Variant> variants;  // ordered by cards, then interval, then latency
  std::vector<StepTime> steps;
};

/// Builds at most `count` deployments below options.output, fewer if no more are worth building, and writes the
/// directory completely or not at all. Equal inputs give equal bytes. Returns the errors of compile(), kUnsupported if
/// nothing is predicted, and kInvalidInput for a plan file, because it leaves nothing to vary.
Result<VariantsReport> compile_variants(const CompileOptions& options, std::size_t count);

/// Returns the text of variants.json (README.md).
std::string index(const VariantsReport& report);

}  // namespace millrace::compiler::variants
