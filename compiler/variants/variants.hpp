// Several deployments of one model and cluster side by side: fewer cards or more frames, less latency or
// emptier cards. The directory is described in README.md.
#pragma once

#include <string>
#include <vector>

#include "compiler/compile.hpp"
#include "compiler/variants/choose.hpp"

namespace millrace::compiler::variants {

struct Variant {
  std::string directory;  // below the output: "variant1"
  bool own = false;       // what compile() alone would build
  explore::Objective objective = explore::Objective::kCards;
  explore::Shares shares = explore::kDefaultShares;
  Figures figures;
  explore::Amounts used{};  // of all regions
  std::string digest;       // the deployment's
};

struct VariantsReport {
  std::string model, cluster;
  std::vector<Variant> variants;  // by cards, interval, latency
  std::vector<StepTime> steps;
};

/// Builds at most `count` deployments below options.output, fewer where no more are worth it, and writes the
/// directory whole or not at all. The same input gives the same bytes. Errors as compile(); kUnsupported
/// where nothing is predicted; kInvalidInput with a plan file, which leaves nothing to vary.
Result<VariantsReport> compile_variants(const CompileOptions& options, std::size_t count);

/// variants.json: README.md.
std::string index(const VariantsReport& report);

}  // namespace millrace::compiler::variants
