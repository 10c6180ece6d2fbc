// The cost model against Yosys on whole designs: nets at three foldings each, as synthesis.csv has them
// (written by tools/calibrate/designs.py; nothing of it was used to fit the model).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <vector>

#include "compiler/generators/cost.hpp"
#include "compiler/synth/sources.hpp"

namespace millrace::compiler::generators {
namespace {

struct Sums {
  Cost measured, predicted;
  std::size_t instances = 0;
};

struct Design {
  Sums dataflow, shell;  // the shell with the links; none where it was not kept
  std::set<std::string> modules;
  std::set<std::string> stale;  // modules that were other SystemVerilog when they were measured
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::map<std::string, Design> read_designs(const Catalog& catalog) {
  std::ifstream file(std::string(MILLRACE_SOURCE_DIR) + "/tests/golden/synthesis.csv");
  std::map<std::string, Design> designs;
  std::string line;
  std::getline(file, line);
  std::getline(file, line);
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = split(line, ',');
    if (fields.size() != 13 || (fields[1] != "dataflow" && fields[1] != "shell"))
      throw std::runtime_error("synthesis.csv: " + line);
    Parameters parameters;
    for (const std::string& pair : split(fields[4], ' ')) {
      const std::size_t equals = pair.find('=');
      parameters.emplace_back(pair.substr(0, equals), std::stoll(pair.substr(equals + 1)));
    }
    Design& design = designs[fields[0]];
    Sums& sums = fields[1] == "shell" ? design.shell : design.dataflow;
    design.modules.insert(fields[3]);
    // "-": written for this design alone.
    const auto now = synth::digest_of(fields[3], synth::library());
    if (fields[5] != (now.ok() ? *now : "-")) design.stale.insert(fields[3]);
    const auto count = [&](std::size_t field) {
      return static_cast<std::uint64_t>(std::stoull(fields[field]));
    };
    sums.measured += {count(6), count(7), count(8), count(9), count(10), count(11), count(12)};
    const Result<Cost> predicted = cost(catalog, fields[3], parameters);
    if (!predicted.ok()) throw std::runtime_error(fields[2] + ": " + predicted.error().message());
    sums.predicted += *predicted;
    ++sums.instances;
  }
  return designs;
}

double error(std::uint64_t predicted, std::uint64_t measured) {
  return (static_cast<double>(predicted) - static_cast<double>(measured)) / static_cast<double>(measured);
}

void expect_close(const Sums& sums) {
  const Cost &measured = sums.measured, &predicted = sums.predicted;
  EXPECT_LE(std::abs(error(predicted.lut, measured.lut)), 0.10) << predicted.lut << " for " << measured.lut;
  EXPECT_LE(std::abs(error(predicted.ff, measured.ff)), 0.10) << predicted.ff << " for " << measured.ff;
  EXPECT_EQ(predicted.dsp, measured.dsp);
  EXPECT_EQ(predicted.ramb18, measured.ramb18);
  EXPECT_EQ(predicted.ramb36, measured.ramb36);
  EXPECT_EQ(predicted.lutram, measured.lutram);
  EXPECT_EQ(predicted.resources().bram36, measured.resources().bram36);
}

/// Renewing takes up to an hour: figures of other SystemVerilog are told, and the rest is held all the same.
TEST(Synthesis, TellsWhichFiguresAreOfOtherSystemVerilog) {
  const Result<Catalog> catalog = load_catalog();
  ASSERT_TRUE(catalog.ok()) << catalog.error().message();
  std::string renew;
  for (const auto& [name, design] : read_designs(*catalog)) {
    if (design.stale.empty()) continue;
    renew += (renew.empty() ? "" : ",") + name;
    for (const std::string& module : design.stale)
      std::printf("STALE: %s was measured with another %s\n", name.c_str(), module.c_str());
  }
  if (!renew.empty()) std::printf("renew them: tools/calibrate/designs.py --only %s\n", renew.c_str());
}

TEST(Prediction, HoldsForShellAndLinksAndForWholePartitions) {
  const Result<Catalog> catalog = load_catalog();
  ASSERT_TRUE(catalog.ok()) << catalog.error().message();
  std::set<std::string> modules;
  std::size_t compared = 0;
  for (auto& [name, design] : read_designs(*catalog)) {
    if (design.shell.instances == 0) continue;
    SCOPED_TRACE(name);
    Sums whole = design.dataflow;
    whole.measured += design.shell.measured;
    whole.predicted += design.shell.predicted;
    std::printf(
        "%-12s shell %5llu LUT %+5.1f %%  %5llu FF %+5.1f %%; whole %6llu LUT %+5.1f %%  %6llu FF %+5.1f "
        "%%\n",
        name.c_str(), static_cast<unsigned long long>(design.shell.measured.lut),
        100 * error(design.shell.predicted.lut, design.shell.measured.lut),
        static_cast<unsigned long long>(design.shell.measured.ff),
        100 * error(design.shell.predicted.ff, design.shell.measured.ff),
        static_cast<unsigned long long>(whole.measured.lut),
        100 * error(whole.predicted.lut, whole.measured.lut),
        static_cast<unsigned long long>(whole.measured.ff),
        100 * error(whole.predicted.ff, whole.measured.ff));
    expect_close(design.shell);
    expect_close(whole);
    modules.insert(design.modules.begin(), design.modules.end());
    ++compared;
  }
  EXPECT_GE(compared, 3U);
  for (const char* module : {"mr_control", "mr_supervisor", "mr_ingress", "mr_egress", "mr_link_hub",
                             "mr_link_send", "mr_link_receive"})
    EXPECT_TRUE(modules.contains(module)) << module;
}

/// As `millrace compile` makes them where it is told nothing; tests/rtl/nets.json has them simulated.
TEST(Prediction, HoldsForWhatIsChosenForANet) {
  const Result<Catalog> catalog = load_catalog();
  ASSERT_TRUE(catalog.ok()) << catalog.error().message();
  const auto designs = read_designs(*catalog);
  for (const char* name : {"jet_1", "tfc_32", "lenet5_392", "mpcnn_1033", "ptt_512"}) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(designs.contains(name));
    Sums whole = designs.at(name).dataflow;
    EXPECT_GT(designs.at(name).shell.instances, 0U);
    whole.measured += designs.at(name).shell.measured;
    whole.predicted += designs.at(name).shell.predicted;
    expect_close(whole);
  }
}

TEST(Synthesis, PttdnnFitsOneKu060RoleAtBothItsPaces) {
  const Result<Catalog> catalog = load_catalog();
  ASSERT_TRUE(catalog.ok()) << catalog.error().message();
  const auto designs = read_designs(*catalog);
  for (const char* name : {"ptt_512", "ptt_1046"}) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(designs.contains(name));
    Cost taken = designs.at(name).dataflow.measured;
    taken += designs.at(name).shell.measured;
    const auto resources = taken.resources();
    EXPECT_LE(resources.lut, 111360U);
    EXPECT_LE(resources.ff, 222720U);
    EXPECT_LE(resources.bram36, 360U);
    EXPECT_LE(resources.dsp, 1080U);
  }
}

TEST(Prediction, IsWithinTenPercentInLogicAndExactInSlicesAndMemoryOnDesignsItWasNotFittedTo) {
  const Result<Catalog> catalog = load_catalog();
  ASSERT_TRUE(catalog.ok()) << catalog.error().message();
  const auto designs = read_designs(*catalog);
  std::set<std::string> nets;
  for (const auto& [name, design] : designs) {
    const Sums& sums = design.dataflow;
    SCOPED_TRACE(name);
    nets.insert(name.substr(0, name.find('_')));
    const Cost &measured = sums.measured, &predicted = sums.predicted;
    std::printf("%-12s %5llu LUT %+5.1f %%  %6llu FF %+5.1f %%  %3llu DSP  %3llu RAMB18 %3llu RAMB36\n",
                name.c_str(), static_cast<unsigned long long>(measured.lut),
                100 * error(predicted.lut, measured.lut), static_cast<unsigned long long>(measured.ff),
                100 * error(predicted.ff, measured.ff), static_cast<unsigned long long>(measured.dsp),
                static_cast<unsigned long long>(measured.ramb18),
                static_cast<unsigned long long>(measured.ramb36));
    expect_close(sums);
    EXPECT_GT(sums.instances, 10U);
  }
  EXPECT_EQ(nets, (std::set<std::string>{"jet", "lenet5", "mpcnn", "ptt", "tfc"}));
  for (const char* net : {"lenet5", "mpcnn", "ptt", "tfc"}) {
    EXPECT_GE(std::count_if(designs.begin(), designs.end(),
                            [&](const auto& d) { return d.first.starts_with(std::string(net) + "_"); }),
              3)
        << net;
  }
}

}  // namespace
}  // namespace millrace::compiler::generators
