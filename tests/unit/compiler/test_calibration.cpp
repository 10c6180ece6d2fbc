// Tests how tools/calibrate reads and writes measurements and fits the cost model. Also compares the committed
// catalogue with the committed measurements.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "compiler/generators/catalog.hpp"
#include "compiler/generators/module.hpp"
#include "compiler/generators/unrolled.hpp"
#include "runtime/base/file.hpp"
#include "tests/paths/paths.hpp"
#include "tools/calibrate/cycles.hpp"
#include "tools/calibrate/digests.hpp"
#include "tools/calibrate/fit.hpp"
#include "tools/calibrate/measurements.hpp"
#include "tools/calibrate/sample.hpp"

namespace millrace::tools::calibrate::test_calibration {
namespace {

using namespace compiler::generators;

std::string committed(const char* name) {
  return *read_text_file(std::string(tests::source_dir()) + "/kernels/" + name);
}

TEST(Calibration, CatalogueEqualsTheFitOfTheCommittedMeasurements) {
  const auto measurements = parse_measurements(committed("catalog.csv"), "catalog.csv");
  ASSERT_TRUE(measurements.ok()) << measurements.error().message();
  const auto fitted = fit(*measurements);
  ASSERT_TRUE(fitted.ok()) << fitted.error().message();
  const auto catalog = parse_catalog(committed("catalog.yaml"), "catalog.yaml");
  ASSERT_TRUE(catalog.ok()) << catalog.error().message();
  for (const auto& [name, model] : fitted->catalog.modules) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(catalog->modules.contains(name));
    for (Fit ModuleModel::*figure : {&ModuleModel::lut, &ModuleModel::ff}) {
      const Fit &made = model.*figure, &kept = catalog->modules.at(name).*figure;
      ASSERT_EQ(made.coefficients.size(), kept.coefficients.size());
      for (const auto& [term, coefficient] : made.coefficients) {
        EXPECT_NEAR(kept.coefficients.at(term), coefficient, 1e-3 * (1 + std::abs(coefficient))) << term;
      }
    }
  }
}

TEST(Calibration, PredictedDspAndMemoryCountsEqualEveryMeasurement) {
  const auto measurements = parse_measurements(committed("catalog.csv"), "catalog.csv");
  ASSERT_TRUE(measurements.ok());
  const auto fitted = fit(*measurements);
  ASSERT_TRUE(fitted.ok());
  for (const Inexact& i : fitted->inexact) {
    ADD_FAILURE() << i.measurement.module << " " << print_parameters(i.measurement.parameters);
  }
  EXPECT_GT(measurements->rows.size(), 200U);
}

TEST(Calibration, CostOfWeightLoadersIsWithinTenPercentOfTheMeasurements) {
  const auto measurements = parse_measurements(committed("catalog.csv"), "catalog.csv");
  const auto catalog = parse_catalog(committed("catalog.yaml"), "catalog.yaml");
  ASSERT_TRUE(measurements.ok() && catalog.ok());
  int rows = 0;
  for (const Measurement& m : measurements->rows) {
    if (m.module != "mr_parameters") continue;
    ++rows;
    const auto predicted = cost(*catalog, m.module, m.parameters);
    ASSERT_TRUE(predicted.ok()) << predicted.error().message();
    const auto lut = static_cast<double>(m.cost.lut), ff = static_cast<double>(m.cost.ff);
    EXPECT_NEAR(static_cast<double>(predicted->lut), lut, 0.1 * lut) << print_parameters(m.parameters);
    EXPECT_NEAR(static_cast<double>(predicted->ff), ff, 0.01 * ff) << print_parameters(m.parameters);
  }
  EXPECT_GE(rows, 10);
}

/// Tests ports whose stream words are whole words of the memory or of a cable. They need only wires or shift registers.
TEST(Calibration, CostOfWidePortsIsWithinTwelvePercentOfTheMeasurements) {
  const auto measurements = parse_measurements(committed("catalog.csv"), "catalog.csv");
  const auto catalog = parse_catalog(committed("catalog.yaml"), "catalog.yaml");
  ASSERT_TRUE(measurements.ok() && catalog.ok());
  std::map<std::string, int> rows;
  for (const Measurement& m : measurements->rows) {
    std::map<std::string, std::int64_t> value(m.parameters.begin(), m.parameters.end());
    const bool host = m.module == "mr_ingress" || m.module == "mr_egress";
    if (!host && m.module != "mr_link_send" && m.module != "mr_link_receive") continue;
    const bool whole = host ? value["LANES"] * value["EBYTES"] % value["DATA_BYTES"] == 0
                            : value["LANES"] * value["ABITS"] % (8 * value["BYTES"]) == 0;
    if (!whole) continue;
    ++rows[m.module];
    const auto predicted = cost(*catalog, m.module, m.parameters);
    ASSERT_TRUE(predicted.ok()) << predicted.error().message();
    const auto lut = static_cast<double>(m.cost.lut), ff = static_cast<double>(m.cost.ff);
    EXPECT_NEAR(static_cast<double>(predicted->lut), lut, 0.12 * lut) << print_parameters(m.parameters);
    EXPECT_NEAR(static_cast<double>(predicted->ff), ff, 0.02 * ff) << print_parameters(m.parameters);
  }
  for (const char* module : {"mr_ingress", "mr_egress", "mr_link_send", "mr_link_receive"})
    EXPECT_GE(rows[module], 5) << module;
}

TEST(Calibration, ReadmeListsEveryModuleWithALargeCrossValidationError) {
  const auto catalog = parse_catalog(committed("catalog.yaml"), "catalog.yaml");
  ASSERT_TRUE(catalog.ok()) << catalog.error().message();
  const auto percent = [](double error) { return " | " + std::to_string(std::lround(100 * error)); };
  std::string table = "| --- | --- | --- | --- | --- | --- |\n";
  for (const auto& [name, model] : catalog->modules) {
    const FitError &lut = model.lut.held_out, &ff = model.ff.held_out;
    if (lut.worst < 0.2 && ff.worst < 0.2) continue;
    table += "| " + name + " | " + std::to_string(lut.rows) + percent(lut.mean) + percent(lut.worst) +
             percent(ff.mean) + percent(ff.worst) + " |\n";
  }
  const auto readme = read_text_file(std::string(tests::source_dir()) + "/tools/calibrate/README.md");
  ASSERT_TRUE(readme.ok()) << readme.error().message();
  EXPECT_NE(readme->find(table + "\n"), std::string::npos) << "tools/calibrate/README.md wants\n" << table;
}

TEST(Calibration, TimingModelEqualsTheMeasuredCyclesOfEveryModule) {
  const auto rows = parse_cycles(committed("cycles.csv"), "cycles.csv");
  ASSERT_TRUE(rows.ok()) << rows.error().message();
  std::set<std::string> modules;
  for (const CycleMeasurement& row : *rows) {
    SCOPED_TRACE(row.module + " " + row.row);
    const auto predicted = predict_cycles(row);
    ASSERT_TRUE(predicted.ok()) << predicted.error().message();
    EXPECT_EQ(predicted->interval, row.interval);
    EXPECT_EQ(predicted->latency, row.latency);
    modules.insert(row.module);
  }
  EXPECT_GE(rows->size(), 170U);
  EXPECT_GE(modules.size(), 19U);
  const std::string page = "tools/calibrate/README.md";
  const std::string said =
      "all " + std::to_string(rows->size()) + " rows of " + std::to_string(modules.size()) + " modules";
  auto text = read_text_file(std::string(tests::source_dir()) + "/" + page);
  ASSERT_TRUE(text.ok()) << text.error().message();
  std::replace(text->begin(), text->end(), '\n', ' ');
  EXPECT_NE(text->find(said), std::string::npos) << page << " wants \"" << said << '"';
  const auto catalog = parse_catalog(committed("catalog.yaml"), "catalog.yaml");
  ASSERT_TRUE(catalog.ok()) << catalog.error().message();
  const auto errors = compare_cycles(*rows);
  ASSERT_TRUE(errors.ok());
  for (const std::string& module : modules) {
    ASSERT_TRUE(catalog->modules.contains(module)) << module;
    EXPECT_EQ(catalog->modules.at(module).cycles, errors->at(module)) << module;
  }
}

const std::filesystem::path kKernels = std::filesystem::path(tests::source_dir()) / "kernels";

/// Returns the sources of the library, and of the modules that the test benches assemble from it.
const compiler::synth::Sources& modules() {
  static const compiler::synth::Sources all = [] {
    auto sources = library();
    for (const auto& file : std::filesystem::directory_iterator(kKernels / "tb/assemblies"))
      if (file.path().extension() == ".sv") sources[file.path().filename()] = *read_text_file(file.path());
    return sources;
  }();
  return all;
}

/// Returns the digest of a module's current source, or an empty string if there is no such module.
std::string digest_now(const std::string& module) {
  const auto digest = digest_of(module, modules());
  return digest.ok() ? *digest : "";
}

std::string listed(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += " " + name;
  return text;
}

TEST(Calibration, SourceDigestIgnoresComments) {
  EXPECT_EQ(digest_of("a;\n  b;\n"), digest_of("/// c\n\na;  // d\n  b;"));
  EXPECT_NE(digest_of("a;\nb;\n"), digest_of("a;\nc;\n"));
  compiler::synth::Sources sources = {
      {"mr_a.sv", "mr_b b ();  // as mr_c\n"}, {"mr_b.sv", "x"}, {"mr_c.sv", "y"}};
  const auto before = digest_of("mr_a", sources);
  ASSERT_TRUE(before.ok());
  sources["mr_c.sv"] = "z";
  EXPECT_EQ(*digest_of("mr_a", sources), *before) << "a comment needs nothing";
  sources["mr_b.sv"] = "z";
  EXPECT_NE(*digest_of("mr_a", sources), *before);
  EXPECT_EQ(digest_of("mr_d", sources).error().code(), ErrorCode::kInvalidInput);
}

TEST(Calibration, PrintedCatalogueParsesToTheSameCatalogue) {
  const auto catalog = load_catalog();
  ASSERT_TRUE(catalog.ok()) << catalog.error().message();
  const auto again = parse_catalog(print_catalog(*catalog), "printed");
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ(*again, *catalog);
}

TEST(Calibration, MeasurementsWereTakenOnTheCurrentSystemVerilog) {
  const auto measurements = parse_measurements(committed("catalog.csv"), "catalog.csv");
  ASSERT_TRUE(measurements.ok());
  std::map<std::string, std::string> unrolled;  // digests by parameters
  for (const Sample& sample : unrolled_sample())
    unrolled[print_parameters(sample.parameters)] = digest_of(sample.source);
  std::set<std::string> stale, rows;
  for (const Measurement& m : measurements->rows) {
    const std::string parameters = print_parameters(m.parameters);
    EXPECT_TRUE(rows.insert(m.module + " " + parameters).second) << m.module << " " << parameters << " twice";
    const auto matrix = unrolled.extract(m.module == kUnrolledModule ? parameters : "");
    if (m.sources != (matrix.empty() ? digest_now(m.module) : matrix.mapped())) stale.insert(m.module);
  }
  EXPECT_TRUE(unrolled.empty()) << "a matrix that is not measured";
  EXPECT_TRUE(stale.empty())
      << "kernels/catalog.csv has rows of other SystemVerilog; renew it: millrace-calibrate sweep"
      << listed(stale) << " && millrace-calibrate fit";
}

/// Reads the table kernels/rtl/*/<module>.rows: returns the parameters of each row by the row's name.
std::map<std::string, std::string> table_of(const std::string& module) {
  std::map<std::string, std::string> rows;
  for (const char* folder : {"stream/", "nn/", "shell/"}) {
    const auto text =
        read_text_file(std::string(tests::source_dir()) + "/kernels/rtl/" + folder + module + ".rows");
    if (!text.ok()) continue;
    std::istringstream lines(*text);
    std::vector<std::string> names;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string name, quick;
      if (!(words >> name >> quick)) continue;
      if (name == "#") {
        if (quick == "row" && names.empty()) {
          for (std::string word; words >> word;) names.push_back(word);
        }
        continue;
      }
      std::string& parameters = rows[name];
      std::string value;
      for (std::size_t i = 1; i < names.size() && words >> value; ++i)
        parameters += (i > 1 ? " " : "") + names[i] + "=" + value;
    }
  }
  return rows;
}

TEST(Calibration, CycleCountsWereMeasuredOnTheCurrentSystemVerilogAndParameters) {
  const auto rows = parse_cycles(committed("cycles.csv"), "cycles.csv");
  ASSERT_TRUE(rows.ok()) << rows.error().message();
  std::set<std::string> stale;
  std::map<std::string, std::map<std::string, std::string>> tables;
  for (const CycleMeasurement& row : *rows) {
    if (row.sources != digest_now(row.module)) stale.insert(row.module);
    tables[row.module][row.row] = print_parameters(row.parameters);
  }
  for (const auto& [module, table] : tables)
    if (table != table_of(module)) stale.insert(module);
  EXPECT_TRUE(stale.empty())
      << "kernels/cycles.csv has rows of other SystemVerilog or another table; renew it: "
         "tools/calibrate/cycles.py"
      << listed(stale) << " && millrace-calibrate fit";
}

/// full_sweep.txt must have a line "FOLDER/MODULE: ok, N rows; …; sources DIGEST" for every table, with the current
/// digest.
TEST(Calibration, FullRtlSweepWasRunOnTheCurrentSystemVerilog) {
  namespace fs = std::filesystem;
  const auto said = read_text_file(std::string(tests::source_dir()) + "/kernels/tb/full_sweep.txt");
  ASSERT_TRUE(said.ok()) << said.error().message();
  std::set<std::string> stale;
  int tables = 0;
  for (const char* folder : {"rtl/stream", "rtl/nn", "rtl/shell", "rtl/link", "tb/assemblies"})
    for (const auto& file : fs::directory_iterator(kKernels / folder)) {
      if (file.path().extension() != ".rows") continue;
      ++tables;
      const std::string module = file.path().stem().string();
      const std::string begin = "\n" + fs::path(folder).filename().string() + "/" + module + ": ok, ";
      const auto at = said->find(begin);
      const std::string line =
          at == std::string::npos ? "" : said->substr(at + 1, said->find('\n', at + 1) - at - 1);
      if (!line.ends_with("; sources " + digest_now(module))) stale.insert(module);
    }
  EXPECT_GE(tables, 28);
  EXPECT_TRUE(stale.empty()) << "kernels/tb/full_sweep.txt is of other SystemVerilog; renew it: "
                                "tools/rtl-sweep --keep kernels/tb/full_sweep.txt"
                             << listed(stale);
}

TEST(Calibration, RefusesMalformedCycleCountsByLineAndField) {
  const std::string head = "# t\nmodule,row,parameters,sources,latency,interval\n";
  const auto message = [&](const std::string& text) {
    const auto read = parse_cycles(text, "c.csv");
    return read.ok() ? std::string("accepted") : read.error().message();
  };
  EXPECT_EQ(message("module\n"), "c.csv:1: '# <tool>' is missing");
  EXPECT_NE(message("# t\nlut\n").find("c.csv:2"), std::string::npos);
  EXPECT_EQ(message(head), "c.csv:1: there are no rows");
  EXPECT_EQ(message(head + "mr_skid,a,WIDTH=1,0,1\n"), "c.csv:3: has 5 fields instead of 6");
  EXPECT_EQ(message(head + "mr_skid,a,WIDTH,0,1,1\n"), "c.csv:3: 'WIDTH' is no NAME=value");
  EXPECT_EQ(message(head + "mr_skid,a,WIDTH=1,0,x,1\n"), "c.csv:3: 'x' is no number");
  EXPECT_EQ(message(head + "mr_skid,a,WIDTH=1,0,1,0\n"), "c.csv:3: '0' is no number of cycles");
  EXPECT_EQ(predict_cycles({"mr_argmax", "a", {}, "", 1, 1}).error().code(), ErrorCode::kUnsupported);
}

TEST(Calibration, FitRecoversTheCoefficientsOfSyntheticMeasurements) {
  Measurements rows;
  for (const std::int64_t width : {1, 5, 20, 80, 300, 7, 900, 64, 33, 12, 150}) {
    Measurement m{"mr_skid", {{"WIDTH", width}}, "0", {}};
    m.cost.lut = static_cast<std::uint64_t>(4 + 3 * width);
    m.cost.ff = static_cast<std::uint64_t>(2 + 2 * width);
    rows.rows.push_back(m);
  }
  const auto fitted = fit(rows);
  ASSERT_TRUE(fitted.ok());
  const ModuleModel& skid = fitted->catalog.modules.at("mr_skid");
  EXPECT_NEAR(skid.lut.coefficients.at("width"), 3, 0.01);
  EXPECT_NEAR(skid.lut.coefficients.at("one"), 4, 0.1);
  EXPECT_LT(skid.ff.held_out.worst, 0.01);
  rows.rows[3].cost.dsp = 1;
  EXPECT_EQ(fit(rows)->inexact.size(), 1U);
}

TEST(Calibration, MeasurementsOfDeepLookupTablesInLogicChangeNoOtherCoefficient) {
  const auto all = parse_measurements(committed("catalog.csv"), "catalog.csv");
  ASSERT_TRUE(all.ok());
  const auto is_deep_table = [](const Measurement& m) {
    const auto deep = [](const auto& p) { return p.first == "DEPTH" && p.second > 1024; };
    return m.module == "mr_table" && std::any_of(m.parameters.begin(), m.parameters.end(), deep);
  };
  Measurements shallow = *all;
  std::erase_if(shallow.rows, is_deep_table);
  ASSERT_LE(shallow.rows.size() + 5, all->rows.size());
  const auto with = fit(*all), without = fit(shallow);
  ASSERT_TRUE(with.ok() && without.ok());
  for (const auto& [name, model] : without->catalog.modules) {
    const ModuleModel& other = with->catalog.modules.at(name);
    auto lut = other.lut.coefficients;
    EXPECT_EQ(lut.erase("table_deep"), name == "mr_table" ? 1U : 0U) << name;
    EXPECT_EQ(lut, model.lut.coefficients) << name;
    EXPECT_EQ(other.ff.coefficients, model.ff.coefficients) << name;
  }
  for (const Measurement& m : all->rows) {
    if (!is_deep_table(m) || m.cost.ramb18 + m.cost.ramb36 > 0) continue;
    const auto predicted = cost(with->catalog, m.module, m.parameters);
    ASSERT_TRUE(predicted.ok()) << predicted.error().message();
    const auto lut = static_cast<double>(m.cost.lut);
    EXPECT_NEAR(static_cast<double>(predicted->lut), lut, 0.1 * lut) << print_parameters(m.parameters);
  }
}

TEST(Calibration, PrintedMeasurementsParseToTheSameMeasurements) {
  Measurements rows;
  rows.tool = "a tool";
  rows.rows.push_back({"mr_requant", {{"PE", 2}, {"LOWEST", -128}}, "0badcafe", {7, 1, 2, 3, 4, 5, 6}});
  const auto again = parse_measurements(print_measurements(rows), "csv");
  ASSERT_TRUE(again.ok()) << again.error().message();
  EXPECT_EQ(print_measurements(*again), print_measurements(rows));
  EXPECT_EQ(again->rows[0].cost, rows.rows[0].cost);
}

TEST(Calibration, RefusesMalformedMeasurementsByLineAndField) {
  const std::string head = "# t\nmodule,parameters,sources,lut,lutram,ff,dsp,ramb18,ramb36,uram\n";
  const auto message = [&](const std::string& text) {
    const auto read = parse_measurements(text, "m.csv");
    return read.ok() ? std::string("accepted") : read.error().message();
  };
  EXPECT_EQ(message(""), "m.csv:1: '# <tool>' is missing");
  EXPECT_NE(message("# t\nlut\n").find("m.csv:2"), std::string::npos);
  EXPECT_EQ(message(head + "mr_skid,WIDTH=1,0,1,2\n"), "m.csv:3: has 5 fields instead of 10");
  EXPECT_EQ(message(head + "mr_skid,WIDTH,0,1,0,2,0,0,0,0\n"), "m.csv:3: 'WIDTH' is no NAME=value");
  EXPECT_EQ(message(head + "mr_skid,WIDTH=1,0,x,0,2,0,0,0,0\n"), "m.csv:3: 'x' is no count");
  EXPECT_EQ(message(head + "mr_skid,WIDTH=1,0,-1,0,2,0,0,0,0\n"), "m.csv:3: '-1' is no count");
}

TEST(Calibration, MemoryFilesExistForEveryMeasuredModuleInstance) {
  const auto measurements = parse_measurements(committed("catalog.csv"), "catalog.csv");
  ASSERT_TRUE(measurements.ok());
  for (const Measurement& m : measurements->rows) {
    SCOPED_TRACE(m.module + " " + print_parameters(m.parameters));
    const auto memories = memories_of(m.module, m.parameters), again = memories_of(m.module, m.parameters);
    ASSERT_TRUE(memories.ok() && again.ok());
    EXPECT_EQ(again->files, memories->files);
    for (const auto& [parameter, name] : memories->names) {
      const auto at = memories->files.lower_bound(name);
      ASSERT_TRUE(at != memories->files.end() && at->first.starts_with(name)) << name;
    }
  }
}

}  // namespace
}  // namespace millrace::tools::calibrate::test_calibration
