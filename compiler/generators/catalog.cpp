#include "compiler/generators/catalog.hpp"

#include "runtime/base/file.hpp"
#include "runtime/plan/yaml.hpp"

namespace millrace::compiler::generators {

extern const std::string_view kEmbeddedCatalog;  // kernels/catalog.yaml, in a file that CMake writes

namespace {

namespace yaml = runtime::plan::yaml;

constexpr std::uint64_t kSchema = 1;
constexpr std::uint64_t kMaxFileBytes = 1U << 20U;

Result<std::map<std::string, double, std::less<>>> read_terms(const yaml::Node* node, const std::string& name,
                                                              const yaml::Mapping& fit) {
  if (node == nullptr || node->kind != yaml::Node::Kind::kMapping) {
    return fit.error("terms", "give a mapping from each term of the cost formula to the term's coefficient");
  }
  std::map<std::string, double, std::less<>> terms;
  for (const yaml::Node::Entry& entry : node->entries) {
    yaml::Node alone;  // terms are read one by one, because a yaml::Mapping must know its keys
    alone.kind = node->kind;
    alone.line = node->line;
    alone.entries = {entry};
    MILLRACE_ASSIGN(const yaml::Mapping one,
                    yaml::Mapping::of(alone, name, "terms", {std::string_view(entry.key)}));
    MILLRACE_ASSIGN(const double coefficient, one.number(entry.key));
    terms.emplace(entry.key, coefficient);
  }
  return terms;
}

Result<FitError> read_error(const yaml::Node& node, const std::string& name, const std::string& what) {
  FitError error;
  MILLRACE_ASSIGN(const yaml::Mapping mapping,
                  yaml::Mapping::of(node, name, what, {"mean", "worst", "rows"}));
  MILLRACE_ASSIGN(error.mean, mapping.number("mean"));
  MILLRACE_ASSIGN(error.worst, mapping.number("worst"));
  MILLRACE_ASSIGN(error.rows, mapping.integer("rows"));
  return error;
}

Result<std::optional<CycleErrors>> read_cycles(const yaml::Node* node, const std::string& name) {
  if (node == nullptr) return std::optional<CycleErrors>();
  MILLRACE_ASSIGN(const yaml::Mapping mapping,
                  yaml::Mapping::of(*node, name, "cycles", {"latency", "interval"}));
  CycleErrors errors;
  for (const auto& [key, field] :
       {std::pair("latency", &CycleErrors::latency), {"interval", &CycleErrors::interval}}) {
    const yaml::Node* one = mapping.find(key);
    if (one == nullptr) return mapping.error(std::string(key) + " is missing");
    MILLRACE_ASSIGN(errors.*field, read_error(*one, name, key));
  }
  return std::optional(errors);
}

Result<Fit> read_fit(const yaml::Node* node, const std::string& name, const yaml::Mapping& module,
                     std::string_view figure) {
  if (node == nullptr) return module.error(std::string(figure) + " is missing");
  MILLRACE_ASSIGN(const yaml::Mapping mapping,
                  yaml::Mapping::of(*node, name, std::string(figure), {"terms", "held_out"}));
  Fit fit;
  MILLRACE_ASSIGN(fit.coefficients, read_terms(mapping.find("terms"), name, mapping));
  if (const yaml::Node* held_out = mapping.find("held_out")) {
    MILLRACE_ASSIGN(fit.held_out, read_error(*held_out, name, "held_out"));
  }
  return fit;
}

Status read_host(const yaml::Node& node, const std::string& name, Catalog& catalog) {
  MILLRACE_ASSIGN(const yaml::Mapping host, yaml::Mapping::of(node, name, "host", {"machine", "operations"}));
  MILLRACE_ASSIGN(catalog.host_machine, host.text("machine"));
  const yaml::Node* operations = host.find("operations");
  if (operations == nullptr || operations->kind != yaml::Node::Kind::kMapping)
    return host.error("operations", "a mapping of operations is needed");
  for (const yaml::Node::Entry& entry : operations->entries) {
    MILLRACE_ASSIGN(const yaml::Mapping one,
                    yaml::Mapping::of(entry.value, name, entry.key, {"block_ns", "unit_ns"}));
    HostTime time;
    MILLRACE_ASSIGN(time.block_ns, one.number("block_ns"));
    MILLRACE_ASSIGN(time.unit_ns, one.number("unit_ns"));
    if (!(time.block_ns >= 0) || !(time.unit_ns >= 0)) return one.error(entry.key, "times are not negative");
    catalog.host.emplace(entry.key, time);
  }
  return {};
}

}  // namespace

Result<Catalog> parse_catalog(const std::string& text, const std::string& name) {
  MILLRACE_ASSIGN(const yaml::Node root, yaml::parse(text, name));
  MILLRACE_ASSIGN(const yaml::Mapping top,
                  yaml::Mapping::of(root, name, "catalogue", {"schema", "tool", "modules", "host"}));
  MILLRACE_ASSIGN(const std::uint64_t schema, top.integer("schema"));
  if (schema != kSchema) {
    return top.error("schema",
                     "is " + std::to_string(schema) + "; this version reads " + std::to_string(kSchema));
  }
  Catalog catalog;
  MILLRACE_ASSIGN(catalog.tool, top.text("tool"));
  const yaml::Node* modules = top.find("modules");
  if (modules == nullptr || modules->kind != yaml::Node::Kind::kMapping) {
    return top.error("modules", "a mapping of modules is needed");
  }
  for (const yaml::Node::Entry& entry : modules->entries) {
    MILLRACE_ASSIGN(const yaml::Mapping module,
                    yaml::Mapping::of(entry.value, name, entry.key, {"lut", "ff", "cycles"}));
    ModuleModel model;
    MILLRACE_ASSIGN(model.lut, read_fit(module.find("lut"), name, module, "lut"));
    MILLRACE_ASSIGN(model.ff, read_fit(module.find("ff"), name, module, "ff"));
    MILLRACE_ASSIGN(model.cycles, read_cycles(module.find("cycles"), name));
    catalog.modules.emplace(entry.key, std::move(model));
  }
  if (const yaml::Node* host = top.find("host")) MILLRACE_TRY(read_host(*host, name, catalog));
  return catalog;
}

Result<Catalog> load_catalog(const std::filesystem::path& file) {
  if (file.empty()) return parse_catalog(std::string(kEmbeddedCatalog), "kernels/catalog.yaml (embedded)");
  MILLRACE_ASSIGN(const std::string text, read_text_file(file, kMaxFileBytes));
  return parse_catalog(text, file.string());
}

}  // namespace millrace::compiler::generators
