// Prints a coverage as JSON.
#include <boost/json.hpp>
#include <cmath>

#include "compiler/coverage/coverage.hpp"

namespace millrace::compiler::coverage {
namespace {

namespace json = boost::json;

json::array strings(const std::vector<std::string>& texts) {
  json::array list;
  for (const std::string& text : texts) list.emplace_back(text);
  return list;
}

json::value or_null(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}

json::object describe(const NodeCoverage& node) {
  json::array generators;
  const Generators& g = node.generators;
  for (const auto& [has, name] : {std::pair(g.folded, "folded"), std::pair(g.unrolled, "unrolled"),
                                  std::pair(g.streamed, "streamed"), std::pair(g.plugin, "plugin")})
    if (has) generators.emplace_back(name);
  return {{"name", node.name},
          {"domain", node.domain},
          {"operator", node.type},
          {"place", to_string(node.place)},
          {"generators", std::move(generators)},
          {"partly_host", node.partly_host},
          {"blocks", strings(node.blocks)},
          {"fused_with", strings(node.fused_with)},
          {"multiply_accumulates", node.multiply_accumulates},
          {"weights", node.weights},
          {"missing", or_null(node.missing)},
          {"rewrite", or_null(node.rewrite)}};
}

}  // namespace

std::string json(const Coverage& coverage) {
  json::array nodes, rows;
  Share total{"total", coverage.nodes.size(), 0, 0};
  for (const NodeCoverage& node : coverage.nodes) {
    nodes.push_back(describe(node));
    total.multiply_accumulates += node.multiply_accumulates;
    total.weights += node.weights;
  }
  const auto fraction = [](std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? json::value(nullptr)
                      : json::value(static_cast<double>(part) / static_cast<double>(whole));
  };
  for (const Share& row : shares(coverage))
    rows.push_back(json::object{
        {"by", row.by},
        {"nodes", row.nodes},
        {"multiply_accumulates", row.multiply_accumulates},
        {"weights", row.weights},
        {"fraction_of_nodes", fraction(row.nodes, total.nodes)},
        {"fraction_of_multiply_accumulates", fraction(row.multiply_accumulates, total.multiply_accumulates)},
        {"fraction_of_weights", fraction(row.weights, total.weights)}});
  return json::serialize(json::object{{"schema", 1},
                                      {"kind", "coverage"},
                                      {"model", coverage.model},
                                      {"assumed", or_null(coverage.assumed)},
                                      {"nodes", std::move(nodes)},
                                      {"constants", coverage.constants},
                                      {"multiply_accumulates", total.multiply_accumulates},
                                      {"weights", total.weights},
                                      {"shares", std::move(rows)},
                                      {"problems", strings(coverage.problems)},
                                      {"missing", coverage.missing()},
                                      {"milliseconds", coverage.milliseconds}});
}

}  // namespace millrace::compiler::coverage
