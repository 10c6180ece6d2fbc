#include "compiler/generators/cost.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/generators/module.hpp"

namespace millrace::compiler::generators {
namespace {

/// Returns the fitted coefficient for a term of a module, or null if no measurement has the term. The coefficients of
/// tables are those of mr_table in all modules.
const double* measured(const Catalog& catalog, std::string_view module, Fit ModuleModel::*figure,
                       std::string_view term) {
  const auto model = catalog.modules.find(is_table_term(term) ? std::string_view("mr_table") : module);
  if (model == catalog.modules.end()) return nullptr;
  const auto& coefficients = (model->second.*figure).coefficients;
  const auto found = coefficients.find(term);
  return found == coefficients.end() ? nullptr : &found->second;
}

/// Returns the largest coefficient that any module has for a term, or 1 if no module was measured with it.
double extrapolated(const Catalog& catalog, Fit ModuleModel::*figure, std::string_view term) {
  std::optional<double> most;
  for (const auto& [module, model] : catalog.modules) {
    const auto& coefficients = (model.*figure).coefficients;
    const auto found = coefficients.find(term);
    if (found != coefficients.end()) most = std::max(most.value_or(0), found->second);
  }
  return most.value_or(1);
}

std::uint64_t evaluate(const Catalog& catalog, std::string_view module, Fit ModuleModel::*figure,
                       const std::vector<Term>& terms) {
  double sum = 0;
  for (const Term& term : terms) {
    const double* coefficient = measured(catalog, module, figure, term.name);
    sum += term.amount * (coefficient != nullptr ? *coefficient : extrapolated(catalog, figure, term.name));
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
  std::uint64_t units = kernels::multiply_accumulates(program, block);
  const bool product = units != 0 && std::holds_alternative<kernels::FloatOperator>(block.operation);
  const auto found = catalog.host.find(product ? "float_product" : kernels::operation_name(block.operation));
  if (found == catalog.host.end()) return 0;
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
  Cost result = made_of.exact;
  result.lut += evaluate(catalog, module, &ModuleModel::lut, made_of.lut);
  result.ff += evaluate(catalog, module, &ModuleModel::ff, made_of.ff);
  return result;
}

std::vector<Extrapolation> extrapolations(const Catalog& catalog, std::string_view module,
                                          const Parameters& parameters) {
  const auto made_of = features(module, parameters);
  std::vector<Extrapolation> out;
  if (!made_of.ok()) return out;
  for (const Term& term : made_of->lut)
    if (measured(catalog, module, &ModuleModel::lut, term.name) == nullptr)
      out.push_back({std::string(module), "lut", std::string(term.name)});
  for (const Term& term : made_of->ff)
    if (measured(catalog, module, &ModuleModel::ff, term.name) == nullptr)
      out.push_back({std::string(module), "ff", std::string(term.name)});
  return out;
}

}  // namespace millrace::compiler::generators
