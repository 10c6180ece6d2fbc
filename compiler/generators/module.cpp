#include "compiler/generators/module.hpp"

#include <algorithm>
#include <cassert>
#include <charconv>

#include "kernels/rtl/library.hpp"

namespace millrace::compiler::generators {

namespace modules {
std::vector<Module> list();  // defined in modules.cpp, which CMake writes
}

namespace {

Error wrong(const Module& module, const std::string& message) {
  return Error(ErrorCode::kInvalidInput, std::string(module.name) + ": " + message);
}

/// Reads the integer parameters that a module's source declares, in lines such as "  parameter integer PE = 2," or "
/// parameter signed [63:0] SHIFT = -1,".
std::vector<std::pair<std::string_view, std::int64_t>> declared_parameters(std::string_view module) {
  std::vector<std::pair<std::string_view, std::int64_t>> found;
  std::string_view text;
  for (const auto& file : kernels::rtl::library())
    if (file.path.ends_with("/" + std::string(module) + ".sv")) text = file.text;
  assert(!text.empty() && "a module without SystemVerilog");
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.starts_with("  parameter integer ") && !line.starts_with("  parameter signed [63:0] "))
      continue;
    std::string_view name = line.substr(0, line.find('=')), value = line.substr(line.find('=') + 2);
    name.remove_suffix(name.size() - 1 - name.find_last_not_of(' '));
    name.remove_prefix(name.rfind(' ') + 1);
    found.emplace_back(name, 0);
    std::from_chars(value.data(), value.data() + value.size(), found.back().second);
  }
  return found;
}

constexpr std::int64_t kLargestSize = std::int64_t{1} << 24;

Status check(const Values& v) {
  const Module& module = v.module();
  for (std::size_t i = 0; i < module.parameters.size(); ++i) {
    const auto& name = module.parameters[i].first;
    if ((v.at(i) >= 1 && v.at(i) <= kLargestSize) ||
        std::find(module.any_value.begin(), module.any_value.end(), name) != module.any_value.end())
      continue;
    return wrong(module, std::string(name) + " = " + std::to_string(v.at(i)) + " is outside 1.." +
                             std::to_string(kLargestSize));
  }
  for (const auto& [whole, part] : module.divides)
    if (v[whole] % v[part] != 0)
      return wrong(module, std::string(part) + " = " + std::to_string(v[part]) + " does not divide " +
                               std::string(whole) + " = " + std::to_string(v[whole]));
  return {};
}

}  // namespace

const std::vector<Module>& all_modules() {
  static const std::vector<Module> all = [] {
    std::vector<Module> made = modules::list();
    for (Module& module : made)
      if (module.parameters.empty()) module.parameters = declared_parameters(module.name);
    return made;
  }();
  return all;
}

const Module* find_module(std::string_view name) {
  const auto at =
      std::lower_bound(all_modules().begin(), all_modules().end(), name,
                       [](const Module& module, std::string_view wanted) { return module.name < wanted; });
  return at != all_modules().end() && at->name == name ? &*at : nullptr;
}

Result<Values> Values::of(const Module& module, const Parameters& parameters) {
  const auto& declared = module.parameters;
  assert(declared.size() <= kMostParameters);
  Values values(module);
  for (std::size_t i = 0; i < declared.size(); ++i) values.values_[i] = declared[i].second;
  auto at = declared.begin();  // most parameters come in the order of the declaration
  for (const auto& [name, value] : parameters) {
    const auto named = [&wanted = name](const auto& d) { return d.first == wanted; };
    const auto from = at;
    at = std::find_if(from, declared.end(), named);
    if (at == declared.end()) at = std::find_if(declared.begin(), from, named);
    if (at == declared.end() || !named(*at)) return wrong(module, "has no parameter '" + name + "'");
    values.values_[static_cast<std::size_t>(at - declared.begin())] = value;
  }
  return values;
}

std::int64_t Values::operator[](std::string_view name) const {
  const auto& declared = module_->parameters;
  for (std::size_t i = 0; i < declared.size(); ++i) {
    const std::string_view here = declared[i].first;
    // Compare the lengths and the first characters of two names before the names. Few names agree in both, so
    // this is faster.
    if (here.size() == name.size() && here.front() == name.front() && here == name) return values_[i];
  }
  assert(false && "the module does not have this parameter");
  return 0;
}

void Features::add(std::vector<Term>& terms, std::string_view name, double amount) {
  if (amount == 0) return;
  const auto known =
      std::find_if(terms.begin(), terms.end(), [&](const Term& term) { return term.name == name; });
  if (known != terms.end())
    known->amount += amount;
  else
    terms.push_back({name, amount});
}

Result<Features> features(std::string_view module, const Parameters& parameters) {
  const Module* known = find_module(module);
  if (known == nullptr)
    return Error(ErrorCode::kNotFound, "no cost model for a module '" + std::string(module) + "'");
  MILLRACE_ASSIGN(const Values values, Values::of(*known, parameters));
  MILLRACE_TRY(check(values));
  Features made;
  known->cost(values, made);
  return made;
}

}  // namespace millrace::compiler::generators
