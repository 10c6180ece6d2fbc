#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>

#include "compiler/generators/cost.hpp"
#include "compiler/generators/mapping.hpp"
#include "compiler/generators/module.hpp"
#include "runtime/base/file.hpp"
#include "tests/paths/paths.hpp"

namespace millrace::compiler::generators::test_cost {
namespace {

const std::filesystem::path kRtl = std::filesystem::path(tests::source_dir()) / "kernels/rtl";

std::filesystem::path source_of(std::string_view module, const std::string& suffix) {
  for (const char* folder : {"stream", "nn", "shell", "link"}) {
    const auto path = kRtl / folder / (std::string(module) + suffix);
    if (std::filesystem::exists(path)) return path;
  }
  return {};
}

Catalog embedded() {
  return std::move(load_catalog()).value();
}

/// Reads the rows of the table <module>.rows.
std::vector<Parameters> rows_of(std::string_view module) {
  std::vector<Parameters> rows;
  std::ifstream file(source_of(module, ".rows"));
  std::vector<std::string> columns;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
    if (fields.empty()) continue;
    if (fields[0] == "#") {
      if (columns.empty()) columns.assign(fields.begin() + 3, fields.end());
      continue;
    }
    Parameters row;
    for (std::size_t i = 0; i < columns.size(); ++i) row.emplace_back(columns[i], std::stoll(fields[i + 2]));
    rows.push_back(std::move(row));
  }
  return rows;
}

TEST(Cost, ModuleParametersEqualThoseOfTheSystemVerilog) {
  const std::regex declaration(R"(^  parameter (?:integer|signed \[63:0\])\s+(\w+)\s*=\s*(-?\d+))");
  int compared = 0;
  for (const Module& module : all_modules()) {
    std::ifstream file(source_of(module.name, ".sv"));
    if (!file) continue;
    std::vector<std::pair<std::string_view, std::int64_t>> declared;
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    for (const std::string& line : lines)
      if (std::smatch match; std::regex_search(line, match, declaration))
        declared.emplace_back(std::string_view(line).substr(static_cast<std::size_t>(match.position(1)),
                                                            static_cast<std::size_t>(match.length(1))),
                              std::stoll(match[2]));
    EXPECT_EQ(module.parameters, declared) << module.name;
    for (const std::string_view name : module.any_value)
      EXPECT_TRUE(
          std::any_of(declared.begin(), declared.end(), [&](const auto& d) { return d.first == name; }))
          << module.name << '.' << name;
    ++compared;
  }
  EXPECT_GE(compared, 31);
}

TEST(Cost, IsKnownForEveryParameterSetOfEveryModule) {
  const Catalog catalog = embedded();
  std::size_t rows = 0;
  for (const Module& module : all_modules()) {
    for (const Parameters& row : rows_of(module.name)) {
      const Result<Cost> found = cost(catalog, module.name, row);
      ASSERT_TRUE(found.ok()) << module.name << ": " << found.error().message();
      EXPECT_LE(found->lutram, found->lut);
      ++rows;
    }
  }
  EXPECT_GT(rows, 100U);
}

TEST(Cost, TableWithAutomaticMemoryStyleIsPutIntoLogicOrBlockRamAsByYosys) {
  const auto in_logic = [](std::int64_t width, std::int64_t depth) {
    return constant_table(width, depth, MemoryStyle::kAuto) == Cost{};
  };
  struct Edge {
    std::int64_t width, in_logic, in_block;  // the largest depth in logic, the smallest in block RAM
  };
  // Measured with Yosys 0.23 on mr_table with STYLE 0: up to which depth a table is built in logic, and from which
  // depth in block RAM.
  for (const Edge& edge : {Edge{2, 4223, 4224},
                           {4, 2111, 2112},
                           {5, 1689, 1690},
                           {6, 1407, 1408},
                           {9, 938, 939},
                           {13, 1279, 1280},
                           {36, 234, 235},
                           {72, 231, 232},
                           {144, 229, 230}}) {
    EXPECT_TRUE(in_logic(edge.width, edge.in_logic)) << edge.width << " by " << edge.in_logic;
    EXPECT_FALSE(in_logic(edge.width, edge.in_block)) << edge.width << " by " << edge.in_block;
  }
}

TEST(Cost, IsKnownForATableOfAnyDepth) {
  const Catalog catalog = embedded();
  for (const std::int64_t width : {1, 2, 3, 4, 5, 6, 7, 8, 13, 40})
    for (std::int64_t depth = 2; depth < 40000; depth += 1 + depth / 7) {
      const Result<Cost> found =
          cost(catalog, "mr_table", {{"WIDTH", width}, {"DEPTH", depth}, {"STYLE", 0}, {"LOADED", 0}});
      ASSERT_TRUE(found.ok()) << width << " by " << depth << ": " << found.error().message();
    }
}

TEST(Cost, RefusesImpossibleModuleParameters) {
  const Catalog catalog = embedded();
  EXPECT_EQ(cost(catalog, "mr_nothing", {}).error().code(), ErrorCode::kNotFound);
  const auto message = [&](const char* module, const Parameters& parameters) {
    const Result<Cost> found = cost(catalog, module, parameters);
    return found.ok() ? std::string("accepted") : found.error().message();
  };
  EXPECT_EQ(message("mr_mvu", {{"PEE", 3}}), "mr_mvu: has no parameter 'PEE'");
  EXPECT_EQ(message("mr_mvu", {{"MH", 4}, {"PE", 3}}), "mr_mvu: PE = 3 does not divide MH = 4");
  EXPECT_EQ(message("mr_mvu", {{"PE", 0}}), "mr_mvu: PE = 0 is outside 1..16777216");
  EXPECT_EQ(message("mr_fifo", {{"DEPTH", std::int64_t{1} << 40}}),
            "mr_fifo: DEPTH = 1099511627776 is outside 1..16777216");
}

TEST(Cost, TwoRamb18CountAsOneBlockRam) {
  Cost cost;
  cost.ramb18 = 3;
  cost.ramb36 = 2;
  EXPECT_EQ(cost.resources().bram36, 4U);
  EXPECT_EQ((cost + cost).resources().bram36, 7U);
}

TEST(Cost, PredictedDspSlicesOfAMatrixUnitAreExact) {
  const Catalog catalog = embedded();
  const auto slices = [&](std::int64_t pe, std::int64_t simd, std::int64_t mul) {
    return cost(catalog, "mr_mvu",
                {{"MH", 12}, {"MW", 64}, {"PE", pe}, {"SIMD", simd}, {"IBUF", 64}, {"MUL", mul}})
        ->dsp;
  };
  EXPECT_EQ(slices(6, 8, 1), 48U);
  EXPECT_EQ(slices(6, 8, 2), 24U);
  EXPECT_EQ(slices(3, 8, 2), 16U);  // two outputs share slices, the third does not
  EXPECT_EQ(slices(6, 8, 0), 0U);
}

TEST(Catalog, RefusesAMalformedCatalogByFileLineAndKey) {
  const auto message = [](const std::string& text) {
    const Result<Catalog> catalog = parse_catalog(text, "c.yaml");
    return catalog.ok() ? std::string("accepted") : catalog.error().message();
  };
  EXPECT_NE(message("").find("c.yaml"), std::string::npos);
  EXPECT_EQ(message("schema: 2\ntool: x\nmodules: {}\n"),
            "c.yaml:1: catalogue: schema: is 2; this version reads 1");
  EXPECT_NE(message("schema: 1\ntool: x\nmodules: {mr_mvu: {lut: {terms: {one: much}}}}\n").find("c.yaml:3"),
            std::string::npos);
  EXPECT_NE(message("schema: 1\ntool: x\nmodules: {mr_mvu: {lut: {terms: {}}}}\n").find("ff is missing"),
            std::string::npos);
  EXPECT_NE(message("schema: 1\ntool: x\nmodules: {mr_mvu: 3}\n").find("c.yaml:3"), std::string::npos);
  EXPECT_EQ(load_catalog("/nowhere/catalog.yaml").error().code(), ErrorCode::kNotFound);
}

TEST(Cost, ACostTermMissingForAModuleUsesTheHighestCoefficientOfAllModules) {
  Catalog catalog = embedded();
  const Parameters narrowing = {{"LANES", 32}};  // a stream word is half a memory word
  auto& ingress = catalog.modules.at("mr_ingress").lut.coefficients;
  ingress.erase("shift");
  catalog.modules.at("mr_egress").lut.coefficients["shift"] = 5000;
  const auto extrapolated = cost(catalog, "mr_ingress", narrowing);
  ASSERT_TRUE(extrapolated.ok()) << extrapolated.error().message();
  ingress["shift"] = 5000;
  EXPECT_EQ(*extrapolated, *cost(catalog, "mr_ingress", narrowing));
}

TEST(Cost, ACostTermWithoutAnyMeasurementHasTheCoefficientOne) {
  Catalog catalog = embedded();
  auto& matrix = catalog.modules.at("mr_mvu").lut.coefficients;
  catalog.modules.at("mr_mvu_streamed").lut.coefficients.erase("booth_row");
  catalog.modules.at("mr_vvu").lut.coefficients.erase("booth_row");
  matrix["booth_row"] = 1;
  const auto wanted = cost(catalog, "mr_mvu", {{"MUL", 0}});
  matrix.erase("booth_row");
  const auto found = cost(catalog, "mr_mvu", {{"MUL", 0}});
  ASSERT_TRUE(found.ok() && wanted.ok());
  EXPECT_EQ(*found, *wanted);
}

TEST(Cost, IsKnownEvenIfTheCatalogLacksTheModule) {
  const Catalog whole = embedded();
  for (const Module& module : all_modules()) {
    Catalog catalog = whole;
    catalog.modules.erase(std::string(module.name));
    for (const Parameters& row : rows_of(module.name))
      EXPECT_TRUE(cost(catalog, module.name, row).ok()) << module.name;
  }
}

TEST(Cost, ListsTheExtrapolatedCostTerms) {
  Catalog catalog = embedded();
  EXPECT_EQ(extrapolations(catalog, "mr_mvu", {}), std::vector<Extrapolation>{});
  catalog.modules.at("mr_mvu").lut.coefficients.erase("tree");
  catalog.modules.at("mr_mvu").ff.coefficients.erase("one");
  EXPECT_EQ(extrapolations(catalog, "mr_mvu", {}),
            (std::vector<Extrapolation>{{"mr_mvu", "lut", "tree"}, {"mr_mvu", "ff", "one"}}));
}

}  // namespace
}  // namespace millrace::compiler::generators::test_cost
