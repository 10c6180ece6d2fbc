#include "compiler/generators/cost.hpp"

#include <algorithm>
#include <cmath>

#include "compiler/generators/features.hpp"

namespace millrace::compiler::generators {
namespace {

Result<std::uint64_t> evaluate(const Fit& fit, const std::vector<Term>& terms, std::string_view module,
                               std::string_view figure) {
  double sum = 0;
  for (const Term& term : terms) {
    const auto coefficient = fit.coefficients.find(term.name);
    if (coefficient == fit.coefficients.end()) {
      return Error(ErrorCode::kInvalidInput, "the catalogue's " + std::string(figure) + " of " +
                                                 std::string(module) + " lacks the term '" +
                                                 std::string(term.name) + "'; run tools/calibrate again");
    }
    sum += coefficient->second * term.amount;
  }
  return static_cast<std::uint64_t>(std::llround(std::clamp(sum, 0.0, 1e15)));
}

}  // namespace

Cost& Cost::operator+=(const Cost& other) {
  lut += other.lut;
  lutram += other.lutram;
  ff += other.ff;
  dsp += other.dsp;
  ramb18 += other.ramb18;
  ramb36 += other.ramb36;
  uram += other.uram;
  return *this;
}

runtime::plan::Resources Cost::resources() const {
  return {lut, lutram, ff, dsp, ramb36 + (ramb18 + 1) / 2, uram};
}

Result<Cost> cost(const Catalog& catalog, std::string_view module, const Parameters& parameters) {
  MILLRACE_ASSIGN(const Features made_of, features(module, parameters));
  const auto model = catalog.modules.find(module);
  if (model == catalog.modules.end()) {
    return Error(ErrorCode::kNotFound, "the catalogue has no module '" + std::string(module) + "'");
  }
  Cost result = made_of.exact;
  MILLRACE_ASSIGN(const std::uint64_t lut, evaluate(model->second.lut, made_of.lut, module, "lut"));
  MILLRACE_ASSIGN(const std::uint64_t ff, evaluate(model->second.ff, made_of.ff, module, "ff"));
  result.lut += lut;
  result.ff += ff;
  return result;
}

}  // namespace millrace::compiler::generators
