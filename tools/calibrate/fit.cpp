#include "tools/calibrate/fit.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "compiler/generators/module.hpp"

namespace millrace::tools::calibrate {
namespace {

using namespace compiler::generators;

struct Row {
  std::map<std::string, double> terms;
  double measured = 0;
  double known = 0;  // cost of the row's tables, which are fitted separately
};

using Coefficients = std::map<std::string, double, std::less<>>;

double predict(const Coefficients& coefficients, const Row& row) {
  double sum = row.known;
  for (const auto& [name, amount] : row.terms) {
    const auto coefficient = coefficients.find(name);
    if (coefficient != coefficients.end()) sum += coefficient->second * amount;
  }
  return sum;
}

double relative_error(double predicted, double measured) {
  return std::abs(predicted - measured) / std::max(measured, kLeastCount);
}

/// Solves weighted non-negative least squares by coordinate descent on the normal equations, which are small. A small
/// penalty on the coefficients decides between terms that the rows cannot distinguish.
Coefficients solve(const std::vector<const Row*>& rows) {
  std::vector<std::string> names;
  for (const Row* row : rows) {
    for (const auto& [name, unused] : row->terms) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const std::size_t n = names.size();
  std::vector<std::vector<double>> a(n, std::vector<double>(n, 0.0));
  std::vector<double> b(n, 0.0);
  for (const Row* row : rows) {
    const double scale = std::max(row->measured, kLeastCount), weight = 1 / (scale * scale);
    std::vector<double> x(n, 0.0);
    for (std::size_t i = 0; i < n; ++i) {
      const auto term = row->terms.find(names[i]);
      if (term != row->terms.end()) x[i] = term->second;
    }
    for (std::size_t i = 0; i < n; ++i) {
      if (x[i] == 0) continue;
      b[i] += weight * x[i] * (row->measured - row->known);
      for (std::size_t j = 0; j < n; ++j) a[i][j] += weight * x[i] * x[j];
    }
  }
  std::vector<double> c(n, 0.0);
  for (std::size_t i = 0; i < n; ++i) a[i][i] *= 1 + 1e-6;
  for (int pass = 0; pass < 20000; ++pass) {
    double moved = 0;
    for (std::size_t i = 0; i < n; ++i) {
      double rest = b[i];
      for (std::size_t j = 0; j < n; ++j) rest -= j == i ? 0.0 : a[i][j] * c[j];
      const double next = std::max(0.0, rest / a[i][i]);
      moved = std::max(moved, std::abs(next - c[i]) / (1e-3 + std::abs(c[i])));
      c[i] = next;
    }
    if (moved < 1e-9) break;
  }
  Coefficients result;
  for (std::size_t i = 0; i < n; ++i) result.emplace(names[i], c[i]);
  return result;
}

constexpr std::size_t kFolds = 10;
constexpr const char* kTable = "mr_table";
constexpr const char* kDeep = "table_deep";

Fit fit_rows(const std::vector<Row>& rows) {
  std::vector<const Row*> all;
  for (const Row& row : rows) all.push_back(&row);
  Fit result;
  result.coefficients = solve(all);
  result.held_out.rows = rows.size();
  double sum = 0;
  for (std::size_t fold = 0; fold < std::min(kFolds, rows.size()); ++fold) {
    std::vector<const Row*> others;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (i % kFolds != fold) others.push_back(&rows[i]);
    }
    const Coefficients coefficients = solve(others);
    for (std::size_t i = fold; i < rows.size(); i += kFolds) {
      const double error = relative_error(predict(coefficients, rows[i]), rows[i].measured);
      sum += error;
      result.held_out.worst = std::max(result.held_out.worst, error);
    }
  }
  result.held_out.mean = rows.empty() ? 0 : sum / static_cast<double>(rows.size());
  return result;
}

/// Fits the additional cost of deep tables in logic. The coefficients of other tables stay unchanged: designs have few
/// deep tables, while the fits of all modules depend on the coefficients of ordinary tables.
void fit_deep_rows(Fit& fit, std::vector<Row> rows) {
  if (rows.empty()) return;
  for (Row& row : rows) {
    const auto deep = row.terms.extract(kDeep);
    row.known += predict(fit.coefficients, row);
    row.terms.clear();
    if (!deep.empty()) row.terms[kDeep] = deep.mapped();
  }
  const Fit beyond = fit_rows(rows);
  FitError& error = fit.held_out;
  const auto before = static_cast<double>(error.rows), more = static_cast<double>(rows.size());
  error.mean = (error.mean * before + beyond.held_out.mean * more) / (before + more);
  error.worst = std::max(error.worst, beyond.held_out.worst);
  error.rows += rows.size();
  fit.coefficients.insert(beyond.coefficients.begin(), beyond.coefficients.end());
}

bool same_exactly(const Cost& a, const Cost& b) {
  return a.dsp == b.dsp && a.ramb18 == b.ramb18 && a.ramb36 == b.ramb36 && a.uram == b.uram &&
         a.lutram == b.lutram;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", value);
  return text;
}

std::string print_error(const FitError& error) {
  return "{mean: " + number(error.mean) + ", worst: " + number(error.worst) +
         ", rows: " + std::to_string(error.rows) + "}";
}

std::string print_fit(const Fit& fit) {
  std::string text = "{terms: {";
  for (const auto& [term, coefficient] : fit.coefficients) {
    if (text.back() != '{') text += ", ";
    text += term + ": " + number(coefficient);
  }
  return text + "}, held_out: " + print_error(fit.held_out) + "}";
}

}  // namespace

Result<Fitted> fit(const Measurements& measurements) {
  struct Rows {
    std::vector<Row> lut, ff, deep_lut, deep_ff;
  };
  std::map<std::string, Rows> modules;
  Fitted result;
  result.catalog.tool = measurements.tool;
  const auto row_of = [&](const Measurement& m, const std::vector<Term>& terms, Fit ModuleModel::*figure) {
    Row row;
    const auto tables = result.catalog.modules.find(kTable);
    for (const Term& term : terms) {
      if (m.module != kTable && is_table_term(term.name) && tables != result.catalog.modules.end()) {
        const auto& known = (tables->second.*figure).coefficients;
        const auto at = known.find(term.name);
        row.known += at == known.end() ? 0 : at->second * term.amount;
      } else {
        row.terms[std::string(term.name)] = term.amount;
      }
    }
    return row;
  };
  const auto add = [&](const Measurement& m) -> Status {
    auto made_of = features(m.module, m.parameters);
    if (!made_of.ok()) {
      return made_of.error().within("measurement " + m.module + " " + print_parameters(m.parameters));
    }
    if (!same_exactly(made_of->exact, m.cost)) result.inexact.push_back({m, made_of->exact});
    Row lut = row_of(m, made_of->lut, &ModuleModel::lut), ff = row_of(m, made_of->ff, &ModuleModel::ff);
    lut.measured = static_cast<double>(m.cost.lut - m.cost.lutram);
    ff.measured = static_cast<double>(m.cost.ff);
    Rows& rows = modules[m.module];
    const bool deep = lut.terms.contains(kDeep);
    (deep ? rows.deep_lut : rows.lut).push_back(std::move(lut));
    (deep ? rows.deep_ff : rows.ff).push_back(std::move(ff));
    return {};
  };
  for (const bool tables : {true, false}) {
    for (const Measurement& m : measurements.rows) {
      if ((m.module == kTable) == tables) MILLRACE_TRY(add(m));
    }
    for (const auto& [name, rows] : modules) {
      if ((name == kTable) != tables) continue;
      ModuleModel& model = result.catalog.modules[name];
      model = {fit_rows(rows.lut), fit_rows(rows.ff), std::nullopt};
      fit_deep_rows(model.lut, rows.deep_lut);
      fit_deep_rows(model.ff, rows.deep_ff);
    }
  }
  return result;
}

std::string print_catalog(const Catalog& catalog) {
  std::string text =
      "# Coefficients of compiler/generators/module.hpp, fitted to Yosys's resource counts of kernels/rtl.\n"
      "# Written by tools/calibrate from kernels/catalog.csv; see kernels/README.md. Not to be edited.\n"
      "# held_out: relative errors of measurements that a fit left out (ten fits, each without a tenth).\n"
      "# cycles: relative error of compiler/generators/timing.hpp on kernels/cycles.csv (not fitted).\n"
      "schema: 1\ntool: \"" +
      catalog.tool + "\"\nmodules:\n";
  for (const auto& [name, model] : catalog.modules) {
    text += "  " + name + ":\n    lut: " + print_fit(model.lut) + "\n    ff: " + print_fit(model.ff) + "\n";
    if (model.cycles)
      text += "    cycles: {latency: " + print_error(model.cycles->latency) +
              ", interval: " + print_error(model.cycles->interval) + "}\n";
  }
  if (catalog.host.empty()) return text;
  text +=
      "# Measured by 'millrace-calibrate host' with kernels/fast on one thread.\n"
      "host:\n  machine: \"" +
      catalog.host_machine + "\"\n  operations:\n";
  for (const auto& [operation, time] : catalog.host)
    text += "    " + operation + ": {block_ns: " + number(time.block_ns) +
            ", unit_ns: " + number(time.unit_ns) + "}\n";
  return text;
}

}  // namespace millrace::tools::calibrate
