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

namespace millrace::compiler::generators {
namespace {

struct Sums {
  Cost measured, predicted;
  std::size_t instances = 0;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::map<std::string, Sums> read_designs(const Catalog& catalog) {
  std::ifstream file(std::string(MILLRACE_SOURCE_DIR) + "/tests/golden/synthesis.csv");
  std::map<std::string, Sums> designs;
  std::string line;
  std::getline(file, line);
  std::getline(file, line);
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = split(line, ',');
    if (fields.size() != 11) throw std::runtime_error("synthesis.csv: " + line);
    Parameters parameters;
    for (const std::string& pair : split(fields[3], ' ')) {
      const std::size_t equals = pair.find('=');
      parameters.emplace_back(pair.substr(0, equals), std::stoll(pair.substr(equals + 1)));
    }
    Sums& sums = designs[fields[0]];
    const auto count = [&](std::size_t field) {
      return static_cast<std::uint64_t>(std::stoull(fields[field]));
    };
    sums.measured += {count(4), count(5), count(6), count(7), count(8), count(9), count(10)};
    const Result<Cost> predicted = cost(catalog, fields[2], parameters);
    if (!predicted.ok()) throw std::runtime_error(fields[1] + ": " + predicted.error().message());
    sums.predicted += *predicted;
    ++sums.instances;
  }
  return designs;
}

double error(std::uint64_t predicted, std::uint64_t measured) {
  return (static_cast<double>(predicted) - static_cast<double>(measured)) / static_cast<double>(measured);
}

TEST(Prediction, IsWithinTenPercentInLogicAndExactInSlicesAndMemoryOnDesignsItWasNotFittedTo) {
  const Result<Catalog> catalog = load_catalog();
  ASSERT_TRUE(catalog.ok()) << catalog.error().message();
  const auto designs = read_designs(*catalog);
  std::set<std::string> nets;
  for (const auto& [name, sums] : designs) {
    SCOPED_TRACE(name);
    nets.insert(name.substr(0, name.find('_')));
    const Cost &measured = sums.measured, &predicted = sums.predicted;
    std::printf("%-12s %5llu LUT %+5.1f %%  %6llu FF %+5.1f %%  %3llu DSP  %3llu RAMB18 %3llu RAMB36\n",
                name.c_str(), static_cast<unsigned long long>(measured.lut),
                100 * error(predicted.lut, measured.lut), static_cast<unsigned long long>(measured.ff),
                100 * error(predicted.ff, measured.ff), static_cast<unsigned long long>(measured.dsp),
                static_cast<unsigned long long>(measured.ramb18),
                static_cast<unsigned long long>(measured.ramb36));
    EXPECT_LE(std::abs(error(predicted.lut, measured.lut)), 0.10);
    EXPECT_LE(std::abs(error(predicted.ff, measured.ff)), 0.10);
    EXPECT_EQ(predicted.dsp, measured.dsp);
    EXPECT_EQ(predicted.ramb18, measured.ramb18);
    EXPECT_EQ(predicted.ramb36, measured.ramb36);
    EXPECT_EQ(predicted.resources().bram36, measured.resources().bram36);
    EXPECT_GT(sums.instances, 10U);
  }
  EXPECT_EQ(nets, (std::set<std::string>{"lenet5", "mpcnn", "ptt", "tfc"}));
  for (const std::string& net : nets) {
    EXPECT_GE(std::count_if(designs.begin(), designs.end(),
                            [&](const auto& d) { return d.first.starts_with(net + "_"); }),
              3)
        << net;
  }
}

}  // namespace
}  // namespace millrace::compiler::generators
