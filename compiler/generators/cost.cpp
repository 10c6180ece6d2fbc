#include "compiler/generators/cost.hpp"

#include <algorithm>
#include <cmath>

#include "compiler/generators/features.hpp"

namespace millrace::compiler::generators {
namespace {

/// The coefficient of a term: tables are alike in all modules, so theirs stand with mr_table.
Result<double> coefficient(const Catalog& catalog, const Fit& fit, Fit ModuleModel::*figure, const Term& term,
                           std::string_view module) {
  const Fit* from = &fit;
  if (is_table_term(term.name)) {
    const auto table = catalog.modules.find("mr_table");
    if (table != catalog.modules.end()) from = &(table->second.*figure);
  }
  const auto found = from->coefficients.find(term.name);
  if (found != from->coefficients.end()) return found->second;
  return Error(ErrorCode::kInvalidInput, "the catalogue's " +
                                             std::string(figure == &ModuleModel::lut ? "lut" : "ff") +
                                             " of " + std::string(module) + " lacks the term '" +
                                             std::string(term.name) + "'; run tools/calibrate again");
}

Result<std::uint64_t> evaluate(const Catalog& catalog, const ModuleModel& model, Fit ModuleModel::*figure,
                               const std::vector<Term>& terms, std::string_view module) {
  double sum = 0;
  for (const Term& term : terms) {
    MILLRACE_ASSIGN(const double each, coefficient(catalog, model.*figure, figure, term, module));
    sum += each * term.amount;
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

double host_seconds(const Catalog& catalog, const kernels::Program& program, const kernels::Block& block) {
  const auto found = catalog.host.find(kernels::operation_name(block.operation));
  if (found == catalog.host.end()) return 0;
  std::uint64_t units = kernels::multiply_accumulates(program, block);
  if (units == 0) {
    std::uint64_t in = 0, out = 0;
    for (const auto t : block.inputs) in += program.tensors[t].elements();
    for (const auto t : block.outputs) out += program.tensors[t].elements();
    units = std::max(in, out);
  }
  return (found->second.block_ns + found->second.unit_ns * static_cast<double>(units)) * 1e-9;
}

Result<Cost> cost(const Catalog& catalog, std::string_view module, const Parameters& parameters) {
  MILLRACE_ASSIGN(const Features made_of, features(module, parameters));
  if (made_of.lut.empty() && made_of.ff.empty()) return made_of.exact;
  const auto model = catalog.modules.find(module);
  if (model == catalog.modules.end()) {
    return Error(ErrorCode::kNotFound, "the catalogue has no module '" + std::string(module) + "'");
  }
  Cost result = made_of.exact;
  const ModuleModel& fits = model->second;
  MILLRACE_ASSIGN(const std::uint64_t lut, evaluate(catalog, fits, &ModuleModel::lut, made_of.lut, module));
  MILLRACE_ASSIGN(const std::uint64_t ff, evaluate(catalog, fits, &ModuleModel::ff, made_of.ff, module));
  result.lut += lut;
  result.ff += ff;
  return result;
}

}  // namespace millrace::compiler::generators
