// Several deployments of one model and cluster side by side: fewer cards or more frames, less latency or
// emptier cards. The directory is described in README.md.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "compiler/compile.hpp"

namespace millrace::compiler::variants {

/// What a variant is judged by; less is better.
struct Figures {
  double cards = 0, interval_seconds = 0, latency_seconds = 0;
  double fullest = 0;  // share of the fullest region that it takes, of what the shell leaves
  bool operator==(const Figures&) const = default;
};

/// Whether a is at least as good as b in everything, and better in something.
bool dominates(const Figures& a, const Figures& b);

/// The variants worth building, at most `count`, ascending. The first is always among them. Then, of those that
/// none dominates and that do not repeat an earlier one, always the one farthest from those taken so far.
std::vector<std::size_t> choose(const std::vector<Figures>& all, std::size_t count);

struct Variant {
  std::string directory;  // below the output: "variant1"
  bool own = false;       // what compile() alone would build
  PlanOptions options;
  Figures figures;
  explore::Amounts used{};  // of all regions
  std::string digest;       // the deployment's
};

struct VariantsReport {
  std::string model, cluster;
  std::vector<Variant> variants;  // by cards, interval, latency
  std::vector<StepTime> steps;
};

/// Builds at most `count` deployments below options.output, fewer if no more are worth it, and writes the
/// directory whole or not at all. The same input gives the same bytes. Errors as compile(); kUnsupported if
/// nothing is predicted; kInvalidInput with a plan file, which leaves nothing to vary.
Result<VariantsReport> compile_variants(const CompileOptions& options, std::size_t count);

/// variants.json: README.md.
std::string index(const VariantsReport& report);

}  // namespace millrace::compiler::variants
